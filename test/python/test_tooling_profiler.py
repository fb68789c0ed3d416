"""The profiler in its published forms."""

import numpy
import pytest
import tilelang
import tilelang.language as T
from tilelang.profiler.bench import do_bench


def add_one(n=64):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] + 1.0

    return tilelang.compile(main, out_idx=-1, target="cpu")


def test_calling_a_profiler_runs_the_kernel():
    kernel = add_one()
    profiler = kernel.get_profiler(tilelang.TensorSupplyType.Zero)
    x = numpy.arange(64, dtype="float32")
    numpy.testing.assert_array_equal(profiler(x), x + 1)
    assert profiler.func is profiler.adapter is kernel and profiler.params is kernel.params
    assert profiler.result_idx == [1] and profiler.supply_type is tilelang.TensorSupplyType.Zero
    assert (profiler.run_once() == 1).all()
    assert len(profiler.run_once(lambda *inputs: inputs)) == 1


def test_made_by_hand():
    kernel = add_one()
    profiler = tilelang.Profiler(kernel.params, [-1], tilelang.TensorSupplyType.One)
    with pytest.raises(ValueError, match="has no kernel yet"):
        profiler.run_once()
    assert profiler.with_default_adapter(kernel) is profiler
    assert (profiler.run_once() == 2).all()
    profiler.assert_allclose(lambda a: a + 1)
    if not tilelang.resolve_target().startswith("cuda"):  # else inputs of an adapter are made on the GPU
        plain = tilelang.Profiler(kernel.params, -1, tilelang.TensorSupplyType.One, lambda a: kernel(a))
        assert plain.do_bench(n_warmup=1, n_repeat=2, backend="wall") > 0


def test_every_published_keyword():
    times = do_bench(
        lambda: None,
        warmup=1,
        rep=1,
        _n_warmup=1,
        _n_repeat=3,
        quantiles=[0.2, 0.8],
        fast_flush=True,
        backend="wall",
        return_mode="median",
        device=None,
        cache_size=1,
        early_stop_baseline=None,
    )
    assert len(times) == 2
    kernel = add_one()
    assert kernel.get_profiler().do_bench(None, 1, 1, 1, 1, None, "wall", None, "max", None, None, None) > 0
