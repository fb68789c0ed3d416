"""Results of 8 and 16 bits as users write them: reinterpreted, shuffled, handed to foreign code, chosen.

In C++ they are computed as int; here they are what NumPy says, and NVRTC takes their text.
"""

import operator

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import TARGETS

CUDA = "cuda -arch=sm_90"
C_NAMES = {"int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short"}
TYPES = list(C_NAMES)
FORMS = {
    "x << 1": lambda x, y: x << type_of(x)(1),
    "x >> 1": lambda x, y: x >> type_of(x)(1),
    "x | (x & y)": lambda x, y: x | (x & y),
    "x ^ y": operator.xor,
    "x + y": operator.add,
    "x * y": operator.mul,
    "~x": lambda x, y: ~x,
    "-x": lambda x, y: -x,
}


def type_of(x):
    return x.dtype.type if isinstance(x, np.ndarray) else getattr(T, str(x.dtype))


def inputs(dtype, count=128):
    rng = np.random.default_rng(7)
    info = np.iinfo(dtype)
    return (rng.integers(info.min, info.max, count, dtype, endpoint=True) for _ in range(2))


def others(dtype):
    bits = np.iinfo(dtype).bits
    return [f"int{bits}", f"uint{bits}", *(["float16", "bfloat16"] if bits == 16 else [])]


def there_and_back(value, dtype, other):
    @T.prim_func
    def main(A: T.Tensor((128,), dtype), B: T.Tensor((128,), dtype), C: T.Tensor((128,), dtype)):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                C[i] = T.reinterpret(T.reinterpret(value(A[i], B[i]), other), dtype)

    return main


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", TYPES)
def test_the_bits_of_a_result(dtype, form):
    value = FORMS[form]
    for other in others(dtype):
        program = there_and_back(value, dtype, other)
        tilelang.compile(program, target=CUDA)
        if "float" in other:
            continue  # a NaN need not keep its bits
        x, y = inputs(dtype)
        for target in TARGETS:
            got = np.zeros(128, dtype)
            tilelang.compile(program, target=target)(x, y, got)
            assert np.array_equal(got, value(x, y)), target


def test_a_float_out_of_the_upper_byte():
    @T.prim_func
    def main(A: T.Tensor((128,), "uint16"), B: T.Tensor((128,), "float16")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                B[i] = T.reinterpret((A[i] << T.uint16(8)), T.float16)

    tilelang.compile(main, target=CUDA)
    x = np.arange(128, dtype=np.uint16) % 0x7C
    for target in TARGETS:
        got = np.zeros(128, np.float16)
        tilelang.compile(main, target=target)(x, got)
        assert np.array_equal(got, (x << np.uint16(8)).view(np.float16)), target


@pytest.mark.parametrize("dtype", TYPES)
def test_results_among_threads_and_in_foreign_code(dtype):
    only = f"""
        template <class T> __device__ int only(T) = delete;
        __device__ int only({C_NAMES[dtype]} x) {{ return x; }}
    """

    @T.prim_func
    def main(A: T.Tensor((32,), dtype), B: T.Tensor((32,), dtype), C: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32, prelude=only):
            tx = T.get_thread_binding()
            x, y = A[tx], B[tx]
            B[tx] = T.shfl_xor(x | (x & y), 1)
            B[tx] = T.if_then_else(x < y, x >> 1, y ^ x)
            C[tx] = T.call_extern("int32", "only", x << 1)
            T.atomic_add(C[tx], T.cast(x + y, "int32"))
            if dtype.endswith("16"):
                B[tx] = T.ptx("mov.b16 {out}, {0};", x * y, out=dtype)

    tilelang.compile(main, target=CUDA)
