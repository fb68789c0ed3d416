"""The listings of the paper's appendix B, read from its text, with nothing but the damage of scanning mended.

The text is not part of this repository: TL_PAPER names it, else ../shared/paper.txt; the tests are skipped
where there is none.
"""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import tilelang.language as T
from helpers import load_text
from tilelang.quantize import _tir_packed_to_unsigned_convert

PAPER = Path(os.environ.get("TL_PAPER") or Path(__file__).parents[3] / "shared" / "paper.txt")
pytestmark = pytest.mark.skipif(not PAPER.is_file(), reason="the paper's text is not here")

MENDS = [  # what the scan made of a text -> the text
    (r"∅|∂", "0"),
    (r"\b0_shared\b", "O_shared"),
    (r"\bacc s\.", "acc_s,"),
    (r"(?m)^ {12}(?=\S)", " " * 13),  # a column lost at the left
]


def listing(heading):
    """The code under a heading of the appendix: without line numbers, mended."""
    text = PAPER.read_text()
    block = text[text.index(f"\n{heading}\n") :].split("```")[1]
    code = "\n".join(line for line in block.split("\n") if line.strip() and not line.strip().isdigit())
    for pattern, mended in MENDS:
        code = re.sub(pattern, mended, code)
    decorator, function = code.split("\n", 1)
    return decorator + "\n" + "\n".join(line[5:] for line in function.split("\n"))


def kernel(folder, heading, target, **names):
    """The listing as an eager kernel that sees `names`, for that target."""
    code = listing(heading).replace("@tilelang.jit", f"@tilelang.jit(target={target!r})", 1)
    lines = ["import tilelang", "import tilelang.language as T", "def make(" + ", ".join(names) + "):"]
    lines += ["    " + line for line in code.split("\n")]
    function = re.search(r"def (\w+)\(", code).group(1)
    return load_text(folder, "\n".join([*lines, f"    return {function}"])).make(**names)


def random(*shape, dtype="float16", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def error(got, wanted):
    return np.linalg.norm(got.astype("float64") - wanted) / np.linalg.norm(wanted)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_matmul(tmp_path, target, dtype):
    M, N, K = 64, 96, 64
    f = kernel(
        tmp_path,
        "B.1 Matrix Multiplication (Matmul)",
        target,
        M=M,
        N=N,
        K=K,
        block_M=32,
        block_N=32,
        block_K=32,
        threads=128,
    )
    if dtype == "int8":
        rng = np.random.default_rng(0)
        a, b = rng.integers(-9, 9, (M, K), np.int8), rng.integers(-9, 9, (K, N), np.int8)
        c = np.full((M, N), -1, np.int32)
    else:
        a, b = random(M, K, dtype=dtype), random(K, N, dtype=dtype, seed=1)
        c = np.full((M, N), np.nan, np.float32)
    assert f(a, b, c) is None
    assert error(c, a.astype("float64") @ b.astype("float64")) < 1e-5
    assert "int32" in f.get_tir(a, b, c).text or "i32" in f.get_tir(a, b, c).text or dtype != "int8"


def test_dequantized_matmul(tmp_path, target):
    M, N, K, block_M, block_N, block_K, num_bits, per_byte = 32, 64, 64, 32, 32, 32, 4, 2
    f = kernel(
        tmp_path,
        "B.2 Dequantized Matrix Multiplication",
        target,
        M=M,
        N=N,
        K=K,
        block_M=block_M,
        block_N=block_N,
        block_K=block_K,
        threads=128,
        num_stages=2,
        num_bits=num_bits,
        num_elems_per_byte=per_byte,
        in_dtype=T.float16,
        out_dtype=T.float16,
        accum_dtype=T.float32,
        storage_dtype=T.int8,
        A_shape=(M, K),
        B_shape=(N, K // per_byte),
        A_shared_shape=(block_M, block_K),
        B_shared_shape=(block_N, block_K // per_byte),
        B_dequantize_shared_shape=(block_N, block_K),
        _tir_packed_to_unsigned_convert=_tir_packed_to_unsigned_convert,
    )
    a = random(M, K)
    b = np.random.default_rng(1).integers(-128, 128, (N, K // per_byte)).astype(np.int8)
    ct = np.full((N, M), np.nan, np.float16)
    f(a, b, ct)
    codes = b.view(np.uint8)
    wide = np.stack([codes & 15, codes >> 4], -1).reshape(N, K).astype("float64")
    assert error(ct, wide @ a.astype("float64").T) < 1e-3


def test_flash_mla(tmp_path, target):
    batch, heads, kv_heads, length, dim, pe_dim = 2, 16, 1, 64, 64, 16
    group = heads // kv_heads
    block_H, block_N, scale = 16, 32, 0.25
    f = kernel(
        tmp_path,
        "B.3 FlashMLA Implementation",
        target,
        batch=batch,
        heads=heads,
        kv_head_num=kv_heads,
        seqlen_kv=length,
        dim=dim,
        pe_dim=pe_dim,
        block_H=block_H,
        block_N=block_N,
        kv_group_num=group,
        VALID_BLOCK_H=min(block_H, group),
        dtype=T.float16,
        accum_dtype=T.float32,
        scale=scale,
    )
    q, qp = random(batch, heads, dim), random(batch, heads, pe_dim, seed=1)
    kv, kp = random(batch, length, kv_heads, dim, seed=2), random(batch, length, kv_heads, pe_dim, seed=3)
    out = np.full((batch, heads, dim), np.nan, np.float16)
    f(q, qp, kv, kp, out)
    q, qp, k, kp = (x.astype("float64") for x in (q, qp, kv[:, :, 0], kp[:, :, 0]))
    scores = (np.einsum("bhd,bnd->bhn", q, k) + np.einsum("bhd,bnd->bhn", qp, kp)) * scale
    weights = np.exp2(scores - scores.max(-1, keepdims=True))
    wanted = np.einsum("bhn,bnd->bhd", weights / weights.sum(-1, keepdims=True), k)
    assert error(out, wanted) < 2e-3


def test_the_texts_compile_for_gpus(tmp_path):
    for chip in ("sm_80", "sm_90"):
        f = kernel(
            tmp_path,
            "B.1 Matrix Multiplication (Matmul)",
            f"cuda -arch={chip}",
            M=256,
            N=256,
            K=128,
            block_M=128,
            block_N=128,
            block_K=32,
            threads=128,
        )
        half = np.zeros((256, 128), np.float16)
        assert "mma" in f.get_kernel_source(half, half.T.copy(), np.zeros((256, 256), np.float16))
