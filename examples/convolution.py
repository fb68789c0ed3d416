"""A convolution of images by GEMMs of their pixels, padded with zeros, so that Y is as large as X.

    python examples/convolution.py [--target auto|cpu|cuda|sim:CHIP|reference] [--batch B] [--height H]
                                   [--width W] [--channels C] [--filters F] [--tall U] [--wide V]

    Y[b, y, x, f] = sum over u, v, c of X[b, y + u - tall // 2, x + v - wide // 2, c] * W[u, v, c, f]

A block makes some neighbouring pixels of one row.  Each offset (u, v) of the filter is a GEMM of the pixels
that it meets with its own weights; copies read 0 outside of the image, which is the padding.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

TILES = {"cpu": (64, 64, 64, 1), "gpu": (64, 128, 64, 128), "reference": (32, 64, 64, 1)}
SMALL = {"batch": 1, "height": 2, "width": 70, "channels": 200, "filters": 36, "tall": 1, "wide": 3}


@tilelang.jit(out_idx=[-1])
def convolution(
    batch, height, width, channels, filters, tall, wide, block_X, block_F, block_C, threads, dtype="float16"
):
    @T.prim_func
    def main(
        X: T.Tensor((batch, height, width, channels), dtype),
        W: T.Tensor((tall, wide, channels, filters), dtype),
        Y: T.Tensor((batch, height, width, filters), dtype),
    ):
        grid = T.ceildiv(filters, block_F), T.ceildiv(width, block_X), batch * height
        with T.Kernel(*grid, threads=threads) as (bx, by, bz):
            pixels = T.alloc_shared((block_X, block_C), dtype)
            weights = T.alloc_shared((block_C, block_F), dtype)
            sums = T.alloc_fragment((block_X, block_F), "float32")
            b, y, x, f = bz // height, bz % height, by * block_X, bx * block_F
            T.clear(sums)
            for u, v in T.grid(tall, wide):
                for c in T.Pipelined(T.ceildiv(channels, block_C), num_stages=3):
                    T.copy(X[b, y + u - tall // 2, x + v - wide // 2, c * block_C], pixels)
                    T.copy(W[u, v, c * block_C, f], weights)
                    T.gemm(pixels, weights, sums)
            T.copy(sums, Y[b, y, x, f])

    return main


def exact(x, w):
    """The same in float64, one offset after another."""
    (_, height, width, _), (tall, wide) = x.shape, w.shape[:2]
    padded = np.pad(x.astype(np.float64), [(0, 0), (tall // 2, tall // 2), (wide // 2, wide // 2), (0, 0)])
    shifted = lambda u, v: padded[:, u : u + height, v : v + width]
    return sum(shifted(u, v) @ w[u, v].astype(np.float64) for u in range(tall) for v in range(wide))


def cases(kind, batch=2, height=30, width=41, channels=50, filters=70, tall=3, wide=3):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, height, width, channels)).astype(np.float16)
    w = rng.standard_normal((tall, wide, channels, filters)).astype(np.float16)
    expected = exact(x, w)
    yield harness.Case(
        name=f"{batch} x {height} x {width} x {channels}, {filters} filters of {tall} x {wide}",
        kernel=convolution.get_tir(batch, height, width, channels, filters, tall, wide, *TILES[kind]),
        arguments=[x, w, harness.blank(expected.shape, "float16")],
        expected={2: expected},
        bound=5e-4,
    )


if __name__ == "__main__":
    harness.main(__doc__, cases)
