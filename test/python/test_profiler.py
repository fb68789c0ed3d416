"""Profiler, comparison, testing helpers and autotune, on the CPU."""

import sys

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang.tools.compare import torch_assert_close


@tilelang.jit(target="cpu", out_idx=[-1])
def scaled(n, block, factor=2.0):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * factor

    return main


@tilelang.jit(target="cpu")
def in_place(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(n):
                B[i] = A[i] + 1

    return main


def test_assert_allclose():
    profiler = scaled(1000, 128).get_profiler()
    profiler.assert_allclose(lambda a: a * 2)
    with pytest.raises(AssertionError, match=r"of 1000 elements differ .* found .*expected"):
        profiler.assert_allclose(lambda a: a * 3)
    with pytest.raises(AssertionError, match="gives 1 tensors, the reference 2"):
        profiler.assert_allclose(lambda a: (a, a))


def test_assert_allclose_of_a_kernel_that_returns_nothing():
    profiler = in_place(77).get_profiler()
    profiler.assert_allclose(lambda a, b: a + 1)

    def reference(a, b):
        b[:] = a + 1

    profiler.assert_allclose(reference)
    with pytest.raises(AssertionError):
        profiler.assert_allclose(lambda a, b: a + 2)


def test_a_share_of_elements_may_differ():
    a = np.zeros(1000)
    b = a.copy()
    b[:5] = 1
    torch_assert_close(b, a, max_mismatched_ratio=0.005)
    with pytest.raises(AssertionError, match=r"5 of 1000 elements .*at \[0\]: LHS 1.0, RHS 0.0"):
        torch_assert_close(b, a, max_mismatched_ratio=0.004)
    with pytest.raises(AssertionError, match="shape"):
        torch_assert_close(b, a[:3])
    with pytest.raises(AssertionError):
        torch_assert_close(np.full(3, np.nan), np.zeros(3))


def test_manual_check_and_consistency():
    profiler = scaled(1000, 128).get_profiler()
    seen = []
    profiler.manual_assert_close(lambda a: a * 2, manual_check_prog=lambda x, y: seen.append((x[0], y[0])))
    assert np.array_equal(*seen[0])
    profiler.assert_consistent(3)
    assert profiler.run_once().shape == (1000,)


def test_do_bench():
    kernel = scaled(1000, 128)
    profiler = kernel.get_profiler(tilelang.TensorSupplyType.Uniform)
    assert profiler.do_bench(n_warmup=1, n_repeat=3) > 0
    low, high = profiler.do_bench(n_warmup=1, n_repeat=5, quantiles=[0.1, 0.9])
    assert 0 < low <= high
    calls = []
    tilelang.profiler.do_bench(lambda: calls.append(0), _n_warmup=2, _n_repeat=3, early_stop_baseline=1e-9)
    assert len(calls) == 6  # the estimate alone
    with pytest.raises(ValueError, match="backend must be one of"):
        tilelang.profiler.do_bench(lambda: None, backend="stopwatch")


def test_inputs_by_supply():
    kernel = scaled(64, 64)
    for kind, values in (("Zero", {0.0}), ("One", {1.0}), ("Integer", {-2.0, -1.0, 0.0, 1.0, 2.0})):
        made = kernel.get_profiler(tilelang.TensorSupplyType[kind]).inputs()
        assert len(made) == 1 and set(np.asarray(made[0]).tolist()) <= values


def test_inputs_with_extents_of_the_call():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 64)) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i]

    profiler = tilelang.compile(main, target="cpu", out_idx=-1).get_profiler()
    with pytest.raises(ValueError, match="dynamic_symbolic_constraints"):
        profiler.inputs()
    assert profiler.inputs({"n": 70})[0].shape == (70,)
    assert profiler.do_bench(n_repeat=2, dynamic_symbolic_constraints={"n": 70}) > 0


def test_torch_tensors_where_torch_is_imported():
    torch = pytest.importorskip("torch")
    assert "torch" in sys.modules
    profiler = scaled(100, 64).get_profiler()
    assert isinstance(profiler.inputs()[0], torch.Tensor)
    profiler.assert_allclose(lambda a: torch.add(a, a))


# ── autotune ──────────────────────────────────────────────────────────────────────────────────────────


def tuned(configs, **settings):
    made = []

    @tilelang.autotune(configs=configs, warmup=1, rep=1, **settings)
    @tilelang.jit(target="cpu", out_idx=[-1])
    def kernel(n, block=64):
        made.append(block)
        if block == 13:
            raise ValueError("unlucky")

        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, block)) as bx:
                for i in T.Parallel(block):
                    B[bx * block + i] = A[bx * block + i] * (3 if block == 17 else 2)

        return main

    return kernel, made


def test_autotune_chooses():
    kernel, made = tuned([{"block": 32}, {"block": 128}])
    best = kernel(1000)
    assert best.config in ({"block": 32}, {"block": 128}) and best.latency > 0 and best.ref_latency is None
    assert made == [32, 128]
    assert kernel(1000) is best and made == [32, 128]  # found once
    a = np.arange(1000, dtype=np.float32)
    assert np.array_equal(best(a), 2 * a)
    assert best.get_tuner_result()["config"] == best.config


def test_autotune_takes_combinations_and_functions():
    kernel, made = tuned({"block": [16, 64]})
    kernel(100)
    assert made == [16, 64]
    kernel, made = tuned(lambda n: [{"block": n}])
    assert kernel(40).config == {"block": 40}


def test_a_tunable_given_by_the_caller_is_not_tuned():
    kernel, made = tuned([{"block": 32}, {"block": 128}])
    assert kernel(1000, block=50).config is None
    assert made == [50]


def test_a_config_that_fails_is_left_out():
    kernel, _ = tuned([{"block": 13}, {"block": 64}])
    assert kernel(100).config == {"block": 64}
    kernel, _ = tuned([{"block": 13}])
    with pytest.raises(RuntimeError, match="(?s)none of the 1 configurations works.*unlucky"):
        kernel(100)


def test_a_config_that_is_wrong_is_left_out():
    kernel, _ = tuned([{"block": 17}, {"block": 64}], ref_prog=lambda a: a * 2)
    best = kernel(100)
    assert best.config == {"block": 64} and best.ref_latency > 0


def test_autotune_inputs():
    seen = []
    kernel, _ = tuned([{"block": 64}], ref_prog=lambda a: (seen.append(a), a * 2)[1])
    a = np.ones(100, np.float32)
    with tilelang.set_autotune_inputs(a):
        kernel(100)
    assert all(np.array_equal(np.asarray(x), a) for x in seen)


def test_autotuner_by_hand():
    def factory(block):
        return scaled.get_tir(256, block)

    tuner = tilelang.AutoTuner.from_kernel(factory, [{"block": 64}, {"block": 256}])
    tuner.set_compile_args(out_idx=[-1], target="cpu").set_profile_args(ref_prog=lambda a: a * 2)
    result = tuner.run(warmup=1, rep=1)
    assert result.latency > 0 and result.kernel.config == result.config
    with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
        tuner.set_profile_args(speed=3)


def test_autotune_goes_above_jit():
    with pytest.raises(TypeError, match="above @tilelang.jit"):
        tilelang.autotune(configs=[{}])(lambda: None)
