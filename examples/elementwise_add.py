"""C = A + B on tiles of a matrix whose size the tiles do not divide.

    python examples/elementwise_add.py [--target auto|cpu|cuda|sim:CHIP|reference]
"""

import argparse
import sys

import numpy as np
import tilelang
import tilelang.language as T

SHAPES = [(1, 1), (17, 1), (100, 130), (1000, 257)]


def add(M, N, block_M=32, block_N=64, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                y, x = by * block_M + i, bx * block_N + j
                C[y, x] = A[y, x] + B[y, x]

    return main


def on_device(kernel, *arrays):
    """The arrays where the kernel's tensors live."""
    if kernel.device_type == "cpu":
        return arrays
    import torch

    return [torch.from_numpy(x).cuda() for x in arrays]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", default="auto")
    target = parser.parse_args().target

    rng = np.random.default_rng(0)
    wrong = 0
    for shape in SHAPES:
        kernel = tilelang.compile(add(*shape), out_idx=[-1], target=target)
        a, b = (rng.standard_normal(shape, np.float32) for _ in range(2))
        c = kernel(*on_device(kernel, a, b))
        c = c.cpu().numpy() if kernel.device_type == "cuda" else c
        right = np.array_equal(c, a + b)
        print(f"{kernel.target}: {shape[0]} x {shape[1]}: {'right' if right else 'WRONG'}")
        wrong += not right
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
