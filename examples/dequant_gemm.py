"""A GEMM with weights of 4 bits, C = A @ dequantised(W).T: int4, nf4 or e2m1, two to a byte, with scales.

    python examples/dequant_gemm.py [--target auto|cpu|cuda|sim:CHIP|reference] [--m M] [--n N] [--k K]
                                    [--group G]

A scale belongs to `group` neighbours along K.  Only packed bytes travel from global memory; a block unpacks
them into a tile of float16 in shared memory.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

TILES = {"cpu": (128, 128, 256, 1), "gpu": (128, 128, 64, 256), "reference": (64, 64, 64, 1)}
SMALL = {"m": 100, "n": 70, "k": 160}
NF4 = [-1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.091050036, 0.0, 0.0795803,
       0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0]  # fmt: skip
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
VALUES = {"int4": np.arange(16) - 8.0, "nf4": np.array(NF4), "e2m1": np.array(E2M1)}


@tilelang.jit(out_idx=[-1])
def dequant_gemm(M, N, K, kind, group, block_M, block_N, block_K, threads, dtype="float16"):
    @T.macro
    def value(byte, j, table):
        code = T.unpack_uint(4, byte, j % 2, "int32")
        if kind == "nf4":
            return table[code]
        if kind == "e2m1":
            return T.unpack_e2m1(byte, j % 2, "float32")
        return T.float32(code - 8)

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K // 2), "uint8"),
        scales: T.Tensor((N, K // group), dtype),
        table: T.Tensor((16,), "float32"),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            packed = T.alloc_shared((block_N, block_K // 2), "uint8")
            W_shared = T.alloc_shared((block_N, block_K), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * block_K // 2], packed)
                for i, j in T.Parallel(block_N, block_K):
                    scale = T.float32(scales[bx * block_N + i, (k * block_K + j) // group])
                    W_shared[i, j] = value(packed[i, j // 2], j, table) * scale
                T.gemm(A_shared, W_shared, acc, transpose_B=True)
            T.copy(acc, C[by * block_M, bx * block_N])

    return main


def cases(kind, m=500, n=390, k=512, group=32):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k)).astype(np.float16)
    codes = rng.integers(0, 16, (n, k), dtype=np.uint8)
    packed = codes[:, ::2] | codes[:, 1::2] << 4
    scales = rng.uniform(0.5, 1.5, (n, k // group)).astype(np.float16)
    c = harness.blank((m, n), "float16")
    for code, values in VALUES.items():
        kernel = dequant_gemm.get_tir(m, n, k, code, group, *TILES[kind])
        weights = values[codes] * np.repeat(scales.astype(np.float64), group, 1)
        arguments = [a, packed, scales, values.astype(np.float32), c]
        expected = a.astype(np.float64) @ weights.T
        yield harness.Case(f"{code} {m} x {n} x {k}", kernel, arguments, {4: expected}, 1e-3)


if __name__ == "__main__":
    harness.main(__doc__, cases)
