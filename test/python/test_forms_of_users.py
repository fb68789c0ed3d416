"""Forms of published scripts that a user found refused here, each as small as it can be."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T


def copy_of(n, block, threads):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=threads) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i]

    return main


def of_tuples(args, kwargs):
    (n,), threads = args, kwargs["threads"]
    return [{"block": min(n, threads * 2)}]


def of_nothing():
    return {"block": [64]}


def of_arguments(n, threads):
    return [{"block": n * threads // 32}]


def of_anything(*args, **kwargs):
    return of_arguments(*args, **kwargs)


@pytest.mark.parametrize("configs", [of_tuples, of_nothing, of_arguments, of_anything])
def test_a_function_of_configurations_is_called_as_its_parameters_say(configs):
    @tilelang.autotune(configs=configs, warmup=1, rep=1)
    @tilelang.jit(out_idx=[-1], target="cpu")
    def tuned(n, threads=32, block=None):
        return copy_of(n, block, threads)

    kernel = tuned(64, threads=32)
    assert kernel.config == {"block": 64}
    a = np.arange(64, dtype=np.float32)
    assert np.array_equal(kernel(a), a)


def test_two_tuples_where_the_kernel_has_three_arguments():
    @tilelang.autotune(configs=lambda a, k: [{"block": a[0] * a[1] // 32}], warmup=1, rep=1)
    @tilelang.jit(out_idx=[-1], target="cpu")
    def tuned(n, threads, unused, block=None):
        return copy_of(n, block, threads)

    assert tuned(64, 32, 0).config == {"block": 64}


def test_the_profilers_inputs_by_the_published_name():
    profiler = tilelang.compile(copy_of(64, 64, 32), out_idx=[1], target="cpu").get_profiler()
    assert [x.shape for x in profiler._get_inputs()] == [(64,)]
    assert len(profiler._get_inputs(with_output=True)) == 2
