"""Random convolutions as matrices, T.im2col along one to three dimensions: what NumPy gathers by indices."""

import math
import random

import numpy as np
import pytest
import tilelang
from helpers import load_text
from test_published_names_tiles import columns_of

PROGRAMS = 12


def constant(rng, n):
    """A number, as an expression of constants now and then."""
    forms = [str(n), str(n), f"two + {n - 2}", f"T.max(two - 2, {n})", f"T.int32({n + 3}) - 3"]
    return rng.choice(forms)


def program(rng, dims):
    kernels, strides, dilations = ([rng.randint(1, 3) for _ in range(dims)] for _ in range(3))
    pads = [rng.randint(0, 2) for _ in range(dims)]
    same = rng.random() < 0.3
    if same:
        kernels, strides, dilations, pads = ([x[0]] * dims for x in (kernels, strides, dilations, pads))
    each = (kernels, strides, dilations, pads)
    sizes = [
        max(1, d * (k - 1) + 1 - 2 * p) + rng.randint(0, 3)
        for k, d, p in zip(kernels, dilations, pads, strict=True)
    ]
    shape = (rng.randint(1, 2), *sizes, rng.randint(1, 4))
    said = [constant(rng, x[0]) if same else f"({', '.join(constant(rng, n) for n in x)},)" for x in each]
    outs = [(x + 2 * p - d * (k - 1) - 1) // s + 1 for x, k, s, d, p in zip(sizes, *each, strict=True)]
    size = (shape[0] * math.prod(outs), math.prod(kernels) * shape[-1])
    bm, bk = rng.choice([1, 4, 7, 16]), rng.choice([1, 5, 8, 16])
    memory = rng.choice(["alloc_shared", "alloc_fragment"])
    text = f"""
import tilelang.language as T

@T.prim_func
def main(img: T.Tensor({shape}, "float32"), out: T.Tensor({size}, "float64")):
    with T.Kernel(T.ceildiv({size[0]}, {bm}), T.ceildiv({size[1]}, {bk}), threads=32) as (bx, by):
        col = T.{memory}(({bm}, {bk}), "float32")
        two = T.int32(2)
        T.{rng.choice(["im2col", "c2d_im2col"])}(img, col, bx, by, {", ".join(said)})
        T.copy(col, out[bx * {bm}, by * {bk}])
"""
    return text, shape, size, each


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_the_matrix_of_a_convolution(tmp_path, seed):
    text, shape, size, each = program(random.Random(seed), seed % 3 + 1)
    img = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    wanted = columns_of(img.astype(np.float64), *each)
    for target in ("cpu", "sim:sm_80", "sim:sm_90a"):
        out = np.full(size, np.nan)
        tilelang.compile(load_text(tmp_path, text).main, target=target)(img, out)
        np.testing.assert_array_equal(out, wanted, err_msg=f"{target}, seed {seed}\n{text}")
