"""The cross entropy of logits and labels, loss = log(sum(exp(x))) - x[label], in one pass over each row.

    python examples/cross_entropy.py [--target auto|cpu|cuda|sim:CHIP|reference] [--rows M] [--columns N]

A row (the logits of a vocabulary) is too long for registers, so a block walks along it.  It keeps the
greatest element so far and the sum of the exponentials; when a greater one turns up, the sum is scaled down.
A row whose label is negative has no loss.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

TILES = {"cpu": (4, 1024, 1), "gpu": (4, 1024, 128), "reference": (64, 1024, 1)}
SMALL = {"rows": 7, "columns": 2100}


@tilelang.jit(out_idx=[-1])
def cross_entropy(M, N, block_M, block_N, threads, dtype="float16"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), labels: T.Tensor((M,), "int32"), loss: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            x = T.alloc_fragment((block_M, block_N), "float32")
            largest = T.alloc_fragment((block_M,), "float32")
            before = T.alloc_fragment((block_M,), "float32")
            part = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.fill(largest, -T.infinity("float32"))
            T.clear(total)
            for k in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(block_M, block_N):
                    at = k * block_N + j
                    logit = T.float32(X[bx * block_M + i, at])
                    x[i, j] = T.if_then_else(at < N, logit, -T.infinity("float32"))
                T.copy(largest, before)
                T.reduce_max(x, largest, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = T.exp(x[i, j] - largest[i])
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * T.exp(before[i] - largest[i]) + part[i]
            for i in T.Parallel(block_M):
                row = bx * block_M + i
                if row < M:
                    right = T.float32(X[row, T.max(labels[row], 0)])
                    loss[row] = T.if_then_else(labels[row] < 0, 0, T.log(total[i]) + largest[i] - right)

    return main


def cases(kind, rows=100, columns=32003):
    rng = np.random.default_rng(0)
    x = (5 * rng.standard_normal((rows, columns))).astype(np.float16)
    labels = rng.integers(0, columns, rows).astype(np.int32)
    labels[::5] = -100  # as PyTorch marks what is to be left out
    wide = x.astype(np.float64)
    largest = wide.max(1)
    loss = np.log(np.exp(wide - largest[:, None]).sum(1)) + largest - wide[np.arange(rows), labels % columns]
    yield harness.Case(
        name=f"{rows} x {columns}",
        kernel=cross_entropy.get_tir(rows, columns, *TILES[kind]),
        arguments=[x, labels, harness.blank(rows)],
        expected={2: np.where(labels < 0, 0, loss)},
        bound=1e-6,
    )


if __name__ == "__main__":
    harness.main(__doc__, cases)
