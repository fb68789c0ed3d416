"""Dynamic shapes on a GPU: both variants at random sizes, views, and a tensor of more than 2^31 elements."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU answers", allow_module_level=True)

import tilelang  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))
import test_dynamic as cases  # noqa: E402
import test_strides as strides  # noqa: E402


def sizes(count, dims, most, seed):
    return [s for _, s in cases.sizes(count, dims, most, seed)]


def test_gemm():
    kernel = tilelang.compile(cases.gemm("float16", (64, 64, 32), 128), target="cuda")
    for m, n, k in sizes(1000, 3, 300, 1):
        a = torch.randn(m, k, device="cuda", dtype=torch.float16)
        b = torch.randn(k, n, device="cuda", dtype=torch.float16)
        c = torch.full((m, n), float("nan"), device="cuda")
        kernel(a, b, c)
        exact = a.double() @ b.double()
        assert (c.double() - exact).norm() <= 1e-3 * max(float(exact.norm()), 1e-30), (m, n, k)
    assert cases.variants(kernel) == ["specialized variant", "generic variant"]


def test_elementwise_reduction_and_copy():
    functions = (cases.axpy(), cases.row_sums(), cases.copy())
    axpy, sums, copy = (tilelang.compile(f, target="cuda") for f in functions)
    for (n,) in sizes(1000, 1, 5000, 2):
        store = torch.randn(n + 1, device="cuda")
        for x in (store[:-1], store[1:]):
            z = torch.full((n,), float("nan"), device="cuda")
            axpy(x, store[:-1], z)
            assert torch.equal(z, x * 2 + store[:-1]), n
    for m, n in sizes(1000, 2, 300, 3):
        x, s = torch.randn(m, n, device="cuda"), torch.full((m,), float("nan"), device="cuda")
        sums(x, s)
        assert torch.allclose(s, x.double().sum(1).float(), rtol=1e-4, atol=1e-4), (m, n)
        half = x.half()
        y = torch.full_like(half, float("nan"))
        copy(half, y)
        assert torch.equal(half, y), (m, n)


def test_views():
    kernel = tilelang.compile(strides.strided_add(), target="cuda")
    for m, n in [(1, 1), (0, 5), (16, 64), (13, 41), (100, 96)]:
        wide, tall = torch.randn(m, n + 16, device="cuda"), torch.randn(2 * n, 3 * m, device="cuda")
        for x in (wide[:, :n], wide[:, 3 : n + 3], wide[:1, :n].expand(m, n)):
            for y in (wide[:, 8 : n + 8], tall[::2, ::3].T, torch.ones(1, 1, device="cuda").expand(m, n)):
                z = torch.full((m, n), float("nan"), device="cuda")
                kernel(x, y, z)
                assert torch.equal(z, x + y), (m, n, x.stride(), y.stride())


def test_more_than_2_to_31_elements():
    if torch.cuda.mem_get_info()[0] < 12 << 30:
        pytest.skip("12 GB of GPU memory are not free")
    kernel = tilelang.compile(cases.copy(), target="cuda")
    x = torch.zeros((2**16 + 8, 2**15 + 64), device="cuda", dtype=torch.float16)
    x[-100:] = torch.randn(100, x.shape[1], device="cuda", dtype=torch.float16)
    y = torch.full_like(x, float("nan"))
    kernel(x, y)
    assert torch.equal(x[-200:], y[-200:]) and torch.equal(x[:100], y[:100])
    assert cases.variants(kernel) == ["specialized variant", "generic variant"]
