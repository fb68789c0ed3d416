"""Control flow and thread-level code on a GPU: the kernels of test/python, run on the simulator there."""

import sys
from pathlib import Path

import numpy as np
import pytest
import tilelang

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
import test_control as control  # noqa: E402
import test_threads as threads  # noqa: E402
import test_warp as warp  # noqa: E402


def run(function, *arrays):
    """The arrays as the kernel leaves them."""
    tensors = [torch.from_numpy(np.array(a)).cuda() if isinstance(a, np.ndarray) else a for a in arrays]
    tilelang.compile(function, target="cuda")(*tensors)
    torch.cuda.synchronize()
    return [t.cpu().numpy() if isinstance(t, torch.Tensor) else t for t in tensors]


def close(found, expected, bound=1e-5):
    return np.linalg.norm(found - expected) <= bound * np.linalg.norm(expected)


# ── control flow ──────────────────────────────────────────────────────────────────────────────────────
def test_while():
    a = np.arange(1, 200, dtype=np.int32)
    _, steps = run(control.collatz(199), a, np.full(199, -1, np.int32))
    assert steps.tolist() == [control.collatz_steps(int(x)) for x in a]


def test_break_and_continue():
    a = np.random.default_rng(0).integers(0, 9, (370, 21)).astype(np.int32)
    a[np.arange(0, 370, 2), np.random.default_rng(1).integers(0, 21, 185)] = -3
    _, found, total = run(control.search(370, 21), a, np.full(370, -9, np.int32), np.full(370, -9, np.int32))
    assert (found.tolist(), total.tolist()) == control.search_expected(a)


def test_nested():
    a, b = run(control.nested(40), np.arange(40, dtype=np.int32), np.full(40, -1, np.int32))
    assert b.tolist() == [control.nested_expected(int(x)) for x in a]


def test_while_in_parallel():
    x = np.random.default_rng(0).uniform(0, 0.6, (119, 245)).astype(np.float32)
    function = control.mandelbrot(119, 245, 20)
    simulated = np.full(x.shape, -1, np.int32)
    tilelang.compile(function, target="sim:sm_80")(x, simulated)
    found = run(function, x, np.full(x.shape, -1, np.int32))[1]
    assert (found != simulated).mean() < 1e-3  # z * z + x may be fused


def test_return_of_blocks():
    a = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    _, b, _ = run(control.early(1000, 64), a, np.full(1000, 9, np.float32), 200)
    expected = np.where(np.arange(1000) < 256, 2 * a, 9).astype(np.float32)
    expected[-1] = -5
    assert np.array_equal(b, expected)


# ── threads and barriers ──────────────────────────────────────────────────────────────────────────────
def test_indices():
    mine = np.zeros((2, 3, 240, 10), np.int32)
    tilelang.compile(threads.indices(), target="sim:sm_80")(mine)
    assert np.array_equal(run(threads.indices(), np.zeros_like(mine))[0], mine)


def test_thread_binding():
    a = np.random.default_rng(0).standard_normal((4, 80)).astype(np.float32)
    mine = np.full((4, 80), 7, np.float32)
    tilelang.compile(threads.bound(80), target="sim:sm_80")(a, mine)
    assert np.array_equal(run(threads.bound(80), a, np.full((4, 80), 7, np.float32))[1], mine)


def test_named_barriers():
    a = np.random.default_rng(0).standard_normal((50, 64)).astype(np.float32)
    assert np.array_equal(run(threads.producer_consumer(50), a, np.full_like(a, np.nan))[1], a[:, ::-1])
    a = np.arange(128, dtype=np.float32)
    found = run(threads.half_blocks(), a, np.full_like(a, np.nan))[1]
    assert np.array_equal(found, a.reshape(2, 64)[:, ::-1].reshape(-1))


def test_votes_of_block():
    a = np.random.default_rng(0).integers(0, 8, (3, 96)).astype(np.int32)
    a[1], a[2] = 5, 2
    yes = a > 3
    found = run(threads.votes_of_block(), a, np.full((3, 3), -1, np.int32))[1]
    assert np.array_equal(found, np.stack([yes.sum(1), yes.all(1), yes.any(1)], 1))


@pytest.mark.parametrize("blocks", [1, 7, 64])
def test_sync_grid(blocks):
    a = np.random.default_rng(0).uniform(0.5, 1.5, (blocks, 64)).astype(np.float32)
    function = threads.grid_sum(blocks)
    for _ in range(3):  # the counter begins at 0 each time
        assert close(run(function, a, np.full_like(a, np.nan))[1], threads.grid_sum_expected(a))


def test_too_many_blocks_for_a_grid_barrier():
    blocks = 100_000
    kernel = tilelang.compile(threads.grid_sum(blocks), target="cuda")
    a = torch.ones(blocks, 64, device="cuda")
    with pytest.raises(RuntimeError, match="must run at once"):
        kernel(a, a.clone())


@pytest.mark.parametrize("domain, wave, group", threads.CASES)
def test_persistent(domain, wave, group):
    function = threads.persistent(domain, wave, group)
    count, _ = run(function, np.zeros(domain, np.int32), np.full(domain, -1, np.int32))
    assert (count == 1).all()


def test_persistent_gemm():
    M, N, K = 500, 700, 300
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((M, K), (K, N)))
    c = run(threads.persistent_gemm(M, N, K, 60), a, b, np.full((M, N), np.nan, np.float16))[2]
    assert close(c, a.astype(np.float64) @ b.astype(np.float64), 2e-3)


@pytest.mark.parametrize("dynamic", [False, True])
def test_workspace(dynamic):
    for n in (300, 177, 64) if dynamic else (300,):
        a = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        b = run(threads.two_steps(dynamic), a, np.full(n, np.nan, np.float32))[1]
        assert np.array_equal(b, a[::-1] * np.float32(3) + np.float32(1))


# ── warps ─────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("width", [32, 16, 8, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "float64", "int8"])
def test_shuffles(dtype, width):
    a = (np.random.default_rng(0).standard_normal(64) * 50).astype(dtype)
    found = run(warp.shuffles(dtype, width), a, np.zeros((5, 64), dtype))[1]
    assert np.array_equal(found, warp.shuffles_expected(a, width))


def test_masked_shuffle():
    a, b = run(warp.masked(), np.arange(64, dtype=np.int32), np.zeros(64, np.int32))
    expected = np.full((2, 32), 100)
    expected[:, :16] = a.reshape(2, 32)[:, 15::-1]
    assert np.array_equal(b.reshape(2, 32), expected)


def test_votes():
    a = warp.votes_input()
    words = np.zeros((5, 96), np.uint32)
    _, i, u = run(warp.votes(), a, np.full((2, 96), -1, np.int32), words)
    expected = warp.votes_expected(a)
    assert np.array_equal(i, expected[0]) and np.array_equal(u.view(np.uint32), expected[1])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "float64"])
def test_warp_reductions(dtype):
    a = (np.random.default_rng(0).standard_normal(64) * 9).astype(dtype)
    b = run(warp.reductions(dtype), a, np.zeros((3, 64), dtype))[1].astype(np.float64)
    rows = a.reshape(2, 32).astype(np.float64)
    for row, expected in zip(b, (rows.sum(1), rows.max(1), rows.min(1)), strict=True):
        assert np.linalg.norm(row - np.repeat(expected, 32)) <= 4e-3 * np.linalg.norm(expected) + 1e-9


@pytest.mark.parametrize("shape, width, rows", warp.CASES)
def test_thread_allreduce(shape, width, rows):
    N, K = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((K,), (N, K)))
    c = run(warp.gemv(N, K, width, rows), a, b, np.full(N, np.nan, np.float16))[2]
    assert close(c, b.astype(np.float64) @ a.astype(np.float64), 1e-3)


def test_own_tiles():
    a = np.random.default_rng(0).standard_normal((64, 4)).astype(np.float32)
    n = np.arange(64, dtype=np.float32)[:, None]
    b = run(threads.own_tiles(), a, np.full_like(a, np.nan))[1]
    assert np.array_equal(b, np.where(n % 3 == 0, a + n, 0))
