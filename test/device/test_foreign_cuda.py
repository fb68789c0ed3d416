"""On a GPU: atomics, pointers and foreign code; the numbers against NumPy's, and against the simulator's."""

import sys
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))
import test_atomics as atomics  # noqa: E402
import test_foreign as foreign  # noqa: E402
import test_pointers as pointers  # noqa: E402

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def on_gpu(array):
    if array.dtype == atomics.numpy_type("bfloat16"):
        return torch.tensor(array.astype(np.float32)).to(torch.bfloat16).cuda()
    return torch.tensor(array).cuda()


def back(tensor):
    return tensor.double().cpu().numpy() if tensor.is_floating_point() else tensor.cpu().numpy()


def run(function, *arrays, scalars=()):
    tensors = [on_gpu(a) for a in arrays]
    tilelang.compile(function, target="cuda")(*tensors, *scalars)
    return [back(t) for t in tensors]


@pytest.mark.parametrize("N", [64, 100_003])
def test_histogram(N):
    x = np.random.default_rng(1).integers(0, 11, N).astype(np.int32)
    assert (run(atomics.histogram(N, 11), x, np.zeros(11, np.int32))[1] == np.bincount(x, minlength=11)).all()


@pytest.mark.parametrize("op", ["atomic_add", "atomic_max", "atomic_min"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "int64"])
def test_every_type(dtype, op):
    N, M = 777, 9
    index = np.random.default_rng(2).integers(-2, M + 2, N).astype(np.int32)
    x, d = atomics.numbers((N,), dtype), atomics.numbers((M,), dtype, 3)
    if op == "atomic_add" and dtype in ("float16", "bfloat16"):
        x = np.sign(x.astype(np.float32)).astype(x.dtype)  # sums stay exact
    expected = d.astype(np.float64)
    inside = (index >= 0) & (index < M)
    atomics.UFUNC[op].at(expected, index[inside], x[inside].astype(np.float64))
    assert (run(atomics.scatter(op, N, M, dtype), index, x, d)[2] == expected).all()


@pytest.mark.parametrize("via", ["fragment", "shared"])
@pytest.mark.parametrize("op", ["atomic_add", "atomic_max", "atomic_min"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_tiles(dtype, op, via):
    for shape in [(48, 96), (33, 50), (128, 512)]:
        a, c = atomics.numbers(shape, "float32"), atomics.numbers(shape, dtype, 5)
        expected = c.astype(np.float64)
        for _ in range(2):
            expected = atomics.UFUNC[op](expected, a)
        assert (run(atomics.tiles(op, *shape, dtype, via), a, c)[1] == expected).all()


@pytest.mark.parametrize("scope", ["global", "shared"])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float16", "bfloat16", "float64"])
def test_old_values(dtype, scope):
    x, c, o = (np.full(n, v, atomics.numpy_type(dtype)) for n, v in ((64, 1), (1, 5), (64, 0)))
    _, c, o = run(atomics.old_values(dtype, scope), x, c, o)
    assert sorted(o) == list(range(5, 69)) and c[0] == 69


@pytest.mark.parametrize("shape", [(16, 32), (33, 50)])
def test_pointers(shape):
    a, b = (torch.randn(shape, device="cuda") for _ in range(2))
    c = torch.full(shape, torch.nan, device="cuda")
    tilelang.compile(pointers.add(*shape, True), target="cuda")(a, b.data_ptr(), c, shape[0])
    assert torch.equal(c, a + b)


def test_tables_of_addresses():
    rows = [torch.randn(24, device="cuda") for _ in range(5)]
    p = torch.tensor([[0, r.data_ptr()] for r in rows], dtype=torch.int64, device="cuda")
    o = torch.full((5, 24), torch.nan, device="cuda")
    tilelang.compile(pointers.table(5, 24, "ptr"), target="cuda")(p, torch.zeros(5, 24, device="cuda"), o)
    assert torch.equal(o, 2 * torch.stack(rows))


def test_external_functions():
    a, b = (torch.randn(4, 32, device="cuda") for _ in range(2))
    o = torch.full((4, 32), torch.nan, device="cuda")
    tilelang.compile(foreign.external(False), target="cuda")(a, b, o)
    assert torch.equal(o, (a + b) * 3)


@pytest.mark.parametrize("dtype, template, meaning", [
    ("float16", "mul.f16 {out}, {0}, {0};", lambda x: x * x),
    ("int32", "popc.b32 {out}, {0};", lambda x: bin(x & 0xFFFFFFFF).count("1")),
    ("int64", "neg.s64 {out}, {0};", lambda x: -x),
    ("float64", "add.f64 {out}, {0}, {0};", lambda x: x + x),
])  # fmt: skip
def test_ptx(dtype, template, meaning):
    a = np.random.default_rng(0).integers(0, 8, 64).astype(dtype)
    o = run(foreign.exponential(dtype, template, None), a, np.zeros(64, dtype))[1]
    assert np.array_equal(o, [meaning(x.item()) for x in a])


def test_ptx_registers():
    @T.prim_func
    def main(O: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                O[i] = T.ptx("mov.u32 {out}, %laneid;", out="int32")

    assert (run(main, np.zeros(64, np.int32))[0] == np.arange(64) % 32).all()


def test_source_kernels():
    a, o = torch.randn(100, device="cuda"), torch.full((100,), torch.nan, device="cuda")
    tilelang.compile(foreign.raw(foreign.RAW % ""), target="cuda")(a, o, 2.5, 100)
    assert torch.equal(o, a * 2.5)


@pytest.mark.parametrize(
    "bits, shared", [(32, False), (64, False), (128, False), (256, False), (64, True), (128, True)]
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_wide_accesses(bits, shared, dtype):
    function, count = foreign.wide(bits, shared, dtype)
    a = np.random.default_rng(0).integers(-100, 100, 32 * count).astype(dtype)
    lane = np.arange(32 * count) // count
    expected = np.where(lane < 20, a if shared else np.where(lane > 2, a, 0), 7)
    assert np.array_equal(run(function, a, np.full(32 * count, 7, dtype), scalars=(20,))[1], expected)
