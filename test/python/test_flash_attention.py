"""The attention of examples/flash_attention.py: all widths, ragged lengths and odd tiles, against float64."""

from pathlib import Path

import numpy as np
import pytest
import tilelang
from helpers import load

example = load(Path(__file__).resolve().parents[2] / "examples" / "flash_attention.py")
BOUND = {"float16": 1e-3, "float32": 1e-5}


def check(queries, keys, dim, causal, target, tile=(32, 48, 1), dtype="float16", heads=2, magnitude=1.0):
    kernel = tilelang.compile(
        example.attention.get_tir(1, heads, queries, keys, dim, causal, *tile, dtype), target=target
    )
    rng = np.random.default_rng(queries + keys)
    q, k, v = (
        (magnitude * rng.standard_normal((1, heads, n, dim))).astype(dtype) for n in (queries, keys, keys)
    )
    out = np.full_like(q, np.nan)
    kernel(q, k, v, out)
    want = example.exact(q, k, v, causal)
    assert np.linalg.norm(out - want) <= BOUND[dtype] * np.linalg.norm(want)


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("queries, keys", [(64, 96), (1, 1), (1, 100), (33, 70), (100, 101)])
def test_lengths(queries, keys, dim, causal, target):
    check(queries, keys, dim, causal, target)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("tile", [(64, 64, 1), (16, 16, 1), (17, 23, 1), (1, 1, 1), (128, 256, 1)], ids=str)
def test_tiles(tile, causal):
    check(70, 90, 40, causal, "cpu", tile, "float32", heads=1)


def test_more_queries_than_keys():
    check(90, 40, 64, False, "cpu")


@pytest.mark.parametrize("target", ["cpu", "reference", "cpu -mcpu=x86-64"])
def test_large_scores_do_not_overflow(target):
    check(40, 60, 64, True, target, dtype="float32", magnitude=8.0)
