"""The examples at the shapes of the paper's appendix A, against float64 on samples of the output."""

import math
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import chunk_scan  # noqa: E402
import chunk_state  # noqa: E402
import dequant_gemm  # noqa: E402
import flash_attention  # noqa: E402
import mla_decode  # noqa: E402
import tilelang  # noqa: E402


def close(found, expected, bound=1e-3):
    assert found.shape == expected.shape
    assert float((found.double() - expected).norm() / expected.norm()) <= bound


def randn(*shape, dtype=torch.float16):
    return torch.randn(shape, device="cuda", dtype=dtype)


ATTENTION = [(512, True), (512, False), (1024, True), (1024, False), (4096, True)]


@pytest.mark.parametrize("length, causal", ATTENTION)
def test_flash_attention(length, causal):  # FA0 to FA4
    func = flash_attention.attention.get_tir(1, 32, length, length, 128, causal, 128, 64, 128)
    q, k, v = (randn(1, 32, length, 128) for _ in range(3))
    out = torch.full_like(q, float("nan"))
    tilelang.compile(func, target="cuda")(q, k, v, out)
    attend = torch.nn.functional.scaled_dot_product_attention
    close(out, attend(q.double(), k.double(), v.double(), is_causal=causal))


# m, n, k of V0 to V7 and M0 to M7
VECTORS = [(16384, 16384), (43008, 14336), (14336, 14336), (57344, 14336), (14336, 57344), (9216, 9216),
           (36864, 9216), (9216, 36864)]  # fmt: skip
MATRICES = [(1024, 8192), (8192, 8192), (28672, 8192), (8192, 28672)]
SHAPES = [(1, n, k) for n, k in VECTORS] + [(m, n, k) for m in (4096, 8192) for n, k in MATRICES]


@pytest.mark.parametrize("kind", ["int4", "nf4", "e2m1"])
@pytest.mark.parametrize("m, n, k", SHAPES)
def test_dequant_gemm(m, n, k, kind):
    block_M = 16 if m == 1 else 128
    func = dequant_gemm.dequant_gemm.get_tir(m, n, k, kind, 128, block_M, 128, 64, 128 if m == 1 else 256)
    kernel = tilelang.compile(func, target="cuda")
    a, packed = randn(m, k), torch.randint(0, 256, (n, k // 2), device="cuda", dtype=torch.uint8)
    scales = torch.rand(n, k // 128, device="cuda").half() + 0.5
    table = torch.tensor(dequant_gemm.VALUES[kind], device="cuda", dtype=torch.float32)
    out = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)
    kernel(a, packed, scales, table, out)
    assert bool(torch.isfinite(out).all())
    rows, columns = torch.arange(0, m, 97, device="cuda"), torch.arange(0, n, 61, device="cuda")
    codes = torch.stack([packed[columns] & 15, packed[columns] >> 4], -1).reshape(len(columns), k)
    weights = table.double()[codes.long()] * scales[columns].double().repeat_interleave(128, 1)
    close(out[rows][:, columns], a[rows].double() @ weights.T)


CHUNKED = [(batch, length) for batch in (1, 64) for length in (1024, 2048, 8192)]
HEADS, DIM, STATE, CHUNK = 64, 64, 128, 256


def chunk_inputs(batch, length):
    chunks = length // CHUNK
    x, BC = randn(batch, length, HEADS, DIM), randn(batch, length, 1, STATE)
    dt = (torch.rand(batch, HEADS, chunks, CHUNK, device="cuda") * 0.09 + 0.01).half()
    a = (-dt.float().cumsum(-1) * (torch.rand(HEADS, 1, 1, device="cuda") * 1.5 + 0.5)).half()
    return x, BC, dt, a, chunks


@pytest.mark.parametrize("batch, length", CHUNKED)
def test_chunk_state(batch, length):  # CT0 to CT5
    x, B, dt, a, chunks = chunk_inputs(batch, length)
    func = chunk_state.chunk_state.get_tir(batch, length, 1, HEADS, CHUNK, DIM, STATE, 64, 128, 64, 128)
    S = torch.full((batch, chunks, HEADS, DIM, STATE), float("nan"), device="cuda", dtype=torch.float16)
    tilelang.compile(func, target="cuda")(B, x, dt, a, S)
    for b, c, head in ((0, 0, 0), (batch - 1, chunks - 1, 63), (batch // 2, chunks // 2, 17)):
        at = slice(c * CHUNK, (c + 1) * CHUNK)
        weight = torch.exp(a[b, head, c, -1].double() - a[b, head, c].double()) * dt[b, head, c]
        close(S[b, c, head], (x[b, at, head].double() * weight[:, None]).T @ B[b, at, 0].double())


@pytest.mark.parametrize("batch, length", CHUNKED)
def test_chunk_scan(batch, length):  # CC0 to CC5
    x, C, dt, a, chunks = chunk_inputs(batch, length)
    CB, S, D = randn(batch, chunks, 1, CHUNK, CHUNK), randn(batch, chunks, HEADS, DIM, STATE), randn(HEADS)
    func = chunk_scan.chunk_scan.get_tir(batch, length, 1, HEADS, CHUNK, DIM, STATE, 64, 64, 64, 128)
    Y = torch.full_like(x, float("nan"))
    tilelang.compile(func, target="cuda")(CB, x, dt, a, C, S, D, Y)
    for b, c, head in ((0, 0, 0), (batch - 1, chunks - 1, 63), (batch // 2, chunks // 2, 17)):
        at, run = slice(c * CHUNK, (c + 1) * CHUNK), a[b, head, c].double()
        decay = torch.tril(torch.exp((run[:, None] - run).clamp(max=0)))
        weights = CB[b, c, 0].double() * decay * dt[b, head, c].double()
        past = C[b, at, 0].double() @ S[b, c, head].double().T * torch.exp(run)[:, None]
        mine = x[b, at, head].double()
        close(Y[b, at, head], past + weights @ mine + D[head].double() * mine)


@pytest.mark.parametrize("batch, keys", [(1, 1000), (64, 8192), (128, 4096)])
def test_mla_decode(batch, keys):
    func = mla_decode.mla_decode.get_tir(batch, 128, keys, 512, 64, 64, 32, 256)
    q, q_rope = randn(batch, 128, 512), randn(batch, 128, 64)
    kv, k_rope = randn(batch, keys, 512), randn(batch, keys, 64)
    out = torch.full_like(q, float("nan"))
    tilelang.compile(func, target="cuda")(q, q_rope, kv, k_rope, out)
    for b in {0, batch // 2, batch - 1}:
        scores = q[b].double() @ kv[b].double().T + q_rope[b].double() @ k_rope[b].double().T
        close(out[b], torch.softmax(scores / math.sqrt(576), -1) @ kv[b].double())
