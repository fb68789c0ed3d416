"""T.__ffs, T.__fns, T.__ldg, T.sync_global: CUDA's own names, and what they are where CUDA is not."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure

N = 256


def nth(mask, base, offset):
    """As the PTX manual defines fns.b32."""
    places = range(base, 32) if offset >= 0 else range(base, -1, -1)
    ones = [place for place in places if mask >> place & 1]
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    return ones[abs(offset) - 1] if abs(offset) <= len(ones) else 0xFFFFFFFF


def lowest(x):
    return (int(x) & -int(x)).bit_length()


def masks(seed):
    rng = np.random.default_rng(seed)
    made = rng.integers(0, 2**32, N, dtype=np.uint32) & rng.integers(0, 2**32, N, dtype=np.uint32)
    made[::7] = 0
    made[1:4] = 2**32 - 1, 2**31, 1
    return made, rng.integers(0, 32, N).astype(np.int32), rng.integers(-12, 13, N).astype(np.int32)


@pytest.mark.parametrize("direct", [True, False], ids=["T", "call_extern"])
def test_places_of_ones(direct, target):
    @T.prim_func
    def main(
        M: T.Tensor((N,), "uint32"),
        L: T.Tensor((N,), "int64"),
        B: T.Tensor((N,), "int32"),
        F: T.Tensor((N,), "int32"),
        nths: T.Tensor((N,), "uint32"),
        firsts: T.Tensor((N,), "int32"),
        firsts_of_long: T.Tensor((N,), "int32"),
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                if direct:
                    nths[i] = T.__fns(T.__ldg(M[i]), T.__ldg(B, i), F[i])
                    firsts[i] = T.__ffs(M[i])
                    firsts_of_long[i] = T.__ffs(L[i])
                else:
                    nths[i] = T.call_extern("uint32", "__fns", M[i], B[i], F[i])
                    firsts[i] = T.call_extern("int32", "__ffs", M[i])
                    firsts_of_long[i] = T.call_extern("int32", "__ffsll", L[i])

    m, b, f = masks(0)
    long = np.random.default_rng(1).integers(-(2**63), 2**63, N)
    long[::5], long[1] = 0, -(2**63)
    long[::3] <<= 20
    out = [np.full(N, -7, kind) for kind in (np.int32, np.int32, np.int32)]
    out[0] = out[0].view(np.uint32)
    tilelang.compile(main, target=target)(m, long, b, f, *out)
    assert list(out[0]) == [nth(int(x), int(y), int(z)) for x, y, z in zip(m, b, f, strict=True)]
    assert list(out[1]) == list(map(lowest, m)) and list(out[2]) == list(map(lowest, long))


def test_numbers_of_python(target):
    @T.prim_func
    def main(O: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            O[0] = T.__ffs(0)
            O[1] = T.__ffs(40)
            O[2] = T.cast(T.__fns(0b10110, 0, 3), "int32")
            O[3] = T.cast(T.__fns(0b10110, 3, -2), "int32")

    out = np.full(4, -1, np.int32)
    tilelang.compile(main, target=target)(out)
    assert list(out) == [0, 4, 4, 1]


def test_a_barrier_of_the_grid():
    assert T.sync_global is T.sync_grid


def test_errors(tmp_path):
    assert failure(tmp_path, "A[0, 0] = T.__ffs(A[1, 1])").text == (
        "T.__ffs takes an integer of 32 or 64 bits, not float32"
    )
    assert failure(tmp_path, "s = T.alloc_shared((4,), 'float32')\nA[0, 0] = T.__ldg(s[0])").text == (
        "T.__ldg takes an element of a tensor, T.__ldg(A[i]), or the tensor and an index"
    )
    assert failure(tmp_path, "T.prefetch(A[0, 0])").text == (
        "T.prefetch is a hint that fetches a line of the cache early, which no statement here stands for; "
        "write T.Pipelined(n, num_stages=…) or T.async_copy, which load tiles ahead"
    )
