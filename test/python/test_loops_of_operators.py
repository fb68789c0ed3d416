"""T.Parallel around tile operators alone, and T.Pipelined in one: serial loops, as explain() says."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

SIM = "sim:sm_90a"
IN_ORDER = "its iterations run one after another: all threads carry out a tile operator together"


def random(*shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def blank(*shape):
    return np.full(shape, np.nan, np.float32)


def near(found, exact):
    assert np.linalg.norm(found - exact) <= 1e-3 * np.linalg.norm(exact)


def notes(kernel):
    return [note.text for note in kernel.report.notes]


def test_copies(target):
    @T.prim_func
    def main(A: T.Tensor((3, 8, 16), "float32"), B: T.Tensor((3, 8, 16), "float32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((8, 16), "float32")
            for b in T.Parallel(3):
                for i in T.Parallel(8):
                    T.copy(A[b, i, :], s[i, :])
                row = b * 2 - b
                T.copy(s, B[row, :, :])

    a, b = random(3, 8, 16), blank(3, 8, 16)
    kernel = tilelang.compile(main, target=target)
    kernel(a, b)
    assert np.array_equal(a, b)
    if target != "reference":
        assert notes(kernel).count(IN_ORDER) == 2


def test_products_in_a_pipeline(target):
    """The pipeline in it stays one."""

    @T.prim_func
    def main(
        A: T.Tensor((2, 64, 256), "float16"),
        B: T.Tensor((2, 256, 64), "float16"),
        C: T.Tensor((2, 64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            for n in T.Parallel(2):
                T.clear(c)
                for k in T.Pipelined(4, num_stages=2):
                    T.copy(A[n, :, k * 64 : k * 64 + 64], a)
                    T.copy(B[n, k * 64 : k * 64 + 64, :], b)
                    T.gemm(a, b, c)
                T.copy(c, C[n, :, :])

    a, b, c = random(2, 64, 256, dtype=np.float16), random(2, 256, 64, dtype=np.float16), blank(2, 64, 64)
    kernel = tilelang.compile(main, target=target)
    kernel(a, b, c)
    near(c, a.astype(np.float64) @ b.astype(np.float64))
    if target == SIM:
        assert any("slots by TMA" in text for text in notes(kernel))


@pytest.mark.parametrize("parallel", [True, False], ids=["T.Parallel", "T.serial"])
def test_reductions_and_a_users_operator(parallel, target):
    @T.tile_op
    def twice(x: T.update):
        for i in T.Parallel(x.shape[0]):
            x[i] = x[i] * 2

    @T.prim_func
    def main(A: T.Tensor((8, 16), "float32"), O: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=64):
            s, r = T.alloc_shared((8, 16), "float32"), T.alloc_shared((8,), "float32")
            T.copy(A, s)
            for i in T.Parallel(8) if parallel else T.serial(8):
                T.reduce_sum(s[i, :], r[i : i + 1])
                if i % 2 == 0:
                    twice(r[i : i + 1])
            T.copy(r, O)

    a, o = random(8, 16), blank(8)
    tilelang.compile(main, target=target)(a, o)
    near(o, a.astype(np.float64).sum(1) * np.where(np.arange(8) % 2, 1, 2))


def test_a_pipelined_loop_of_one_thread(target):
    @T.prim_func
    def main(A: T.Tensor((32, 20), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                total = T.alloc_var("float32", 0.0)
                for k in T.Pipelined(20, num_stages=3):
                    total = total + A[i, k] * A[i, k]
                B[i] = total

    a, b = random(32, 20), blank(32)
    kernel = tilelang.compile(main, target=target)
    kernel(a, b)
    near(b, (a.astype(np.float64) ** 2).sum(1))
    if target != "reference":
        assert "runs as a serial loop of one thread, which has no copies to overlap" in notes(kernel)


def test_text_hears_the_same():
    text = """\
func main(A: f32[4, 8], B: f32[4, 8]):
  kernel main grid(b: 1) threads(32):
    s = shared f32[8]
    for i in parallel(4):
      copy(A[i, 0 : +8], s)
      copy(s, B[i, 0 : +8])
"""
    assert "for i in serial(4):" in tilelang._core.parse(text).text()


@pytest.mark.parametrize("target", ["reference", "cpu", "sim:sm_80", SIM])
def test_parallel_loops_inside_one_another_are_one(target):
    """Directly: a nest of as many indices; in the order of either."""

    @T.prim_func
    def main(A: T.Tensor((6, 8, 4), "float32"), B: T.Tensor((6, 8, 4), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((6, 8, 4), "float32")
            for i in T.Parallel(6):
                for j, k in T.Parallel(8, 4):
                    tile[i, j, k] = A[i, j, k] * 2
            for k in T.Parallel(4):
                for j in T.Parallel(8):
                    for i in T.Parallel(6):
                        B[i, j, k] = tile[i, j, k] + i

    a, b = random(6, 8, 4), blank(6, 8, 4)
    tilelang.compile(main, target=target)(a, b)
    near(b, a * 2 + np.arange(6)[:, None, None])


@pytest.mark.parametrize("target", ["reference", "cpu", "sim:sm_80"])
def test_loops_that_run_backwards(target):
    @T.prim_func
    def main(B: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            at = T.alloc_var("int32", init=0)
            for i in reversed(range(n)):
                B[at] = i
                at += 1
            for i in reversed(range(3, 3 + n * 2, 2)):
                B[at] = i
                at += 1
            for i in reversed(T.serial(n, -2, -3)):
                B[at] = i
                at += 1

    kernel = tilelang.compile(main, target=target)
    for n in (0, 1, 4, 7, -3):
        b = np.full(64, -1, np.int32)
        kernel(b, n)
        wanted = [*reversed(range(n)), *reversed(range(3, 3 + n * 2, 2)), *reversed(range(n, -2, -3))]
        np.testing.assert_array_equal(b, wanted + [-1] * (64 - len(wanted)), err_msg=str(n))
