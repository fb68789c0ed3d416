"""The GEMM listing of the published article runs; only its lost indentation is restored here, by rules.

The text is not ours and is not kept in this repository; without it the test is skipped.
"""

import os
from pathlib import Path

import numpy as np
import pytest
import tilelang
from helpers import load

ROOT = Path(__file__).resolve().parents[2]
ARTICLE = Path(os.environ.get("TILELANG_ARTICLE", ROOT.parent / "shared" / "article.txt"))


def listing():
    if not ARTICLE.exists():
        pytest.skip(f"{ARTICLE} is not here (TILELANG_ARTICLE names another place)")
    lines = ARTICLE.read_text().split("\n")
    first = lines.index("import tilelang")
    last = next(i for i in range(first, len(lines)) if lines[i].startswith("return main"))
    return [*lines[first:last], "return main"]


def indented(lines):
    """A line that ends in a colon opens a block; what closes one is known of this listing."""
    depth, brackets, text, out = 0, 0, False, []
    for line in lines:
        if line.startswith("return "):
            depth = 1
        elif line.startswith("T.copy(C_local"):
            depth -= 1  # after the loop over k
        elif line.startswith("@") or line.startswith("import") or line.startswith("from"):
            depth = min(depth, 1)
        out.append("    " * depth + line)
        if line.count('"""') == 1:
            text = not text
        brackets += line.count("(") - line.count(")")
        if not text and brackets == 0 and line.endswith(":"):
            depth += 1
    return "\n".join(out) + "\n"


@pytest.fixture
def matmul(tmp_path):
    path = tmp_path / "article.py"
    path.write_text(indented(listing()))
    return load(path).matmul


def test_the_listing_runs(matmul, target):
    M, N, K = 100, 130, 70
    kernel = tilelang.compile(matmul(M, N, K, 64, 64, 32), out_idx=[-1], target=target)
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((M, K), (K, N)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = np.linalg.norm(kernel(a, b) - exact) / np.linalg.norm(exact)
    assert error <= 5e-4


def test_the_listing_compiles_for_gpus(matmul):
    source = tilelang.compile(
        matmul(1024, 1024, 1024, 128, 128, 32), target="cuda -arch=sm_80"
    ).get_kernel_source()
    assert "__global__" in source
