"""A GEMM of float16 with weights of 4 bits, C = A @ (codes * scales), unpacked where they are multiplied.

    python examples/gemm_w4a16.py [--target auto|cpu|cuda|sim:CHIP|reference] [--m M] [--n N] [--k K]
                                  [--group G]

The weights lie in memory as the tensor core takes them (`pack`): of every 16 x 16 part each of a warp's 32
lanes has one word, the eight codes that it multiplies.  `and` and `or` make two float16 of a word's codes at
once: 0x6400 is 1024.0, whose last four bits are the code.  A scale belongs to `group` neighbours along K.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

# block_M, block_N, block_K (of which `group` is a multiple), stages, threads
TILES = {
    "cpu": (128, 128, 64, 1, 1),
    "gpu": (128, 256, 64, 3, 256),
    "small_gpu": (128, 128, 32, 2, 256),
    "reference": (64, 64, 64, 1, 1),
}
SMALL = {"m": 100, "n": 96, "k": 256, "group": 64}


def pack(codes):
    """Codes (K, N) from 0 to 15 as words (K // 16, 2 * N): a word for each lane of a part of 16 x 16.

    Lane 4 * a + b has the columns a and a + 8, of each the rows 2b and 2b + 1, and those 8 below.
    """
    k, n = codes.shape
    parts = codes.astype(np.uint32).reshape(k // 16, 2, 4, 2, n // 16, 2, 8)
    shifts = np.arange(2)[:, None, None, None, None, None] * 4  # the rows below
    shifts = shifts + np.arange(2)[:, None, None, None] * 16 + np.arange(2)[:, None] * 8
    words = (parts << shifts.astype(np.uint32)).sum((1, 3, 5), dtype=np.uint32)  # K // 16, b, N // 16, a
    return np.ascontiguousarray(words.transpose(0, 2, 3, 1)).reshape(k // 16, 2 * n)


@tilelang.jit(out_idx=[-1])
def gemm_w4a16(M, N, K, group, block_M, block_N, block_K, stages, threads):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        W: T.Tensor((K // 16, 2 * N), "uint32"),
        scales: T.Tensor((K // group, N), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            W_shared = T.alloc_shared((block_K // 16, 2 * block_N), "uint32")
            scale = T.alloc_shared((1, block_N), "float16")
            W_local = T.alloc_fragment((block_N, block_K), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.use_swizzle(8)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[k * block_K // 16, bx * block_N * 2], W_shared)
                T.copy(scales[k * block_K // group, bx * block_N], scale)
                for n, p in T.Parallel(block_N, block_K // 2):  # two neighbours along k at once
                    word = W_shared[p // 8, n // 16 * 32 + n % 8 * 4 + p % 4]
                    codes = word >> T.uint32(p // 4 % 2 * 4 + n // 8 % 2 * 8) & T.uint32(0x000F000F)
                    values = T.add2(
                        T.reinterpret(codes | T.uint32(0x64006400), "float16x2"), T.float16(-1032)
                    )
                    W_local[n, 2 * p : 2 * p + 2] = T.mul2(values, scale[0, n])
                T.gemm(A_shared, W_local, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def cases(kind, m=500, n=384, k=512, group=128):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k)).astype(np.float16)
    codes = rng.integers(0, 16, (k, n))
    scales = rng.uniform(0.5, 1.5, (k // group, n)).astype(np.float16)
    weights = ((codes - 8) * np.repeat(scales, group, 0)).astype(np.float16)
    kernel = gemm_w4a16.get_tir(m, n, k, group, *TILES[kind])
    arguments = [a, pack(codes), scales, harness.blank((m, n), "float16")]
    expected = a.astype(np.float64) @ weights.astype(np.float64)
    yield harness.Case(f"{m} x {n} x {k}", kernel, arguments, {3: expected}, 1e-3)


if __name__ == "__main__":
    harness.main(__doc__, cases, TILES)
