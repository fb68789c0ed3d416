"""The Hadamard transform of the rows of a matrix, Y = X @ H / sqrt(N), by 32 lanes for each row.

    python examples/hadamard.py [--target auto|cuda|sim:CHIP] [--rows M] [--columns N]

N is a power of two, from 32 on.  In log2(N) steps, each element meets the one whose index differs in one
bit: they become their sum and their difference.  A thread holds N / 32 neighbours, so that the lower bits
are steps within it; the upper five bits are the lane's, where elements meet by shuffles.  A warp of 64 lanes
has two rows.  Code of single threads: for GPUs.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

LANES = 32  # of a row
SMALL = {"rows": 7, "columns": 128}


@tilelang.jit(out_idx=[-1])
def hadamard(M, N, threads=128, dtype="float32"):
    own, rows = N // LANES, threads // LANES  # elements of a thread; rows of a block

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
            x = T.alloc_local((own,), "float32")
            lane, row = T.get_lane_idx(LANES), bx * rows + T.get_warp_idx(LANES)
            for i in T.vectorized(own):  # rows beyond the last one take its elements, and store nothing
                x[i] = X[T.min(row, M - 1), lane * own + i]
            for bit in T.unroll(own.bit_length() - 1):
                for pair in T.unroll(own // 2):
                    low = (pair >> bit << bit + 1) | (pair & ((1 << bit) - 1))
                    a, b = x[low], x[low + (1 << bit)]
                    x[low] = a + b
                    x[low + (1 << bit)] = a - b
            for bit in T.unroll(5):
                for i in T.unroll(own):
                    other = T.shfl_xor(x[i], 1 << bit)
                    x[i] = T.if_then_else(lane >> bit & 1 == 0, x[i] + other, other - x[i])
            if row < M:
                for i in T.vectorized(own):
                    Y[row, lane * own + i] = x[i] * N**-0.5

    return main


def exact(x):
    """The same in float64, one bit of the index after another."""
    x, n = x.astype(np.float64), x.shape[1]
    for bit in range(n.bit_length() - 1):
        pairs = x.reshape(-1, n >> bit + 1, 2, 1 << bit)
        x = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2).reshape(-1, n)
    return x / n**0.5


def cases(kind, rows=1001, columns=1024):
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    yield harness.Case(
        name=f"{rows} x {columns}",
        kernel=hadamard.get_tir(rows, columns),
        arguments=[x, harness.blank(x.shape)],
        expected={1: exact(x)},
        bound=1e-6,
        thread_level=True,
    )


if __name__ == "__main__":
    harness.main(__doc__, cases)
