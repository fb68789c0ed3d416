"""Teams of threads: T.ws and conditions on ranges of threads around tile operators."""

import re
import textwrap

import numpy as np
import pytest
import tilelang
import tilelang.language as T

F32 = "float32"
GPUS = ["sim:sm_80", "sim:sm_90"]


def run(function, target, *shapes, seed=1):
    """The inputs, of all shapes but the last, and what the kernel makes of them."""
    random = np.random.default_rng(seed)
    inputs = [random.standard_normal(s).astype("float32") for s in shapes[:-1]]
    output = np.full(shapes[-1], np.nan, "float32")
    tilelang.compile(function, target=target)(*inputs, output)
    return *inputs, output


@pytest.mark.parametrize("target", [*GPUS, "cpu", "reference"])
@pytest.mark.parametrize("rows", [64, 100])
def test_one_after_the_other(rows, target):
    """What a team above has written is there for the one below, which signals nothing."""

    @T.prim_func
    def main(A: T.Tensor((rows, 64), "float32"), B: T.Tensor((rows, 64), "float32")):
        with T.Kernel(1, threads=256):
            X = T.alloc_shared((rows, 64), "float32")
            F = T.alloc_fragment((rows, 64), "float32")
            with T.ws(0):
                T.copy(A, X)
            with T.ws(1):
                T.copy(X, F)
                for i, j in T.Parallel(rows, 64):
                    F[i, j] = F[i, j] * 2 + 1
                T.copy(F, B)

    a, b = run(main, target, (rows, 64), (rows, 64))
    assert np.array_equal(b, a * 2 + 1)


@pytest.mark.parametrize("target", GPUS)
def test_a_condition_is_a_team(target):
    """Operators of several kinds on 96 of 160 threads; a range within a range."""

    @T.prim_func
    def main(A: T.Tensor((96, 32), F32), B: T.Tensor((32, 48), F32), C: T.Tensor((96, 48), F32)):
        with T.Kernel(1, threads=160):
            tx = T.get_thread_binding()
            X, Y = T.alloc_shared((96, 32), "float32"), T.alloc_shared((32, 48), "float32")
            sums = T.alloc_shared((96,), "float32")
            C_local = T.alloc_fragment((96, 48), "float32")
            row = T.alloc_fragment((96,), "float32")
            if tx < 96:
                T.copy(A, X)
                T.copy(B, Y)
                T.clear(C_local)
                T.gemm(X, Y, C_local)
                T.reduce_sum(C_local, row, dim=1)
                T.copy(row, sums)
                for i, j in T.Parallel(96, 48):
                    C_local[i, j] = C_local[i, j] + sums[i]
                if tx >= 32:
                    T.fill(sums, 0.0)
                T.copy(C_local, C)

    a, b, c = run(main, target, (96, 32), (32, 48), (96, 48))
    product = a.astype("float64") @ b
    expected = product + product.sum(1, keepdims=True)
    assert np.linalg.norm(c - expected) <= 1e-5 * np.linalg.norm(expected)


def test_a_tile_between_two_teams():
    """One team fills, the other empties, in order by named barriers, in many schedules."""
    count = 5

    @T.prim_func
    def main(A: T.Tensor((count * 32, 64), "float32"), B: T.Tensor((count * 32, 64), "float32")):
        with T.Kernel(1, threads=192):
            tx = T.get_thread_binding()
            X = T.alloc_shared((32, 64), "float32")
            if tx < 64:
                for k in T.serial(count):
                    if k > 0:
                        T.sync_threads(9, 192)
                    T.copy(A[k * 32, 0], X)
                    T.named_barrier_arrive(8, 192)
            else:
                for k in T.serial(count):
                    T.sync_threads(8, 192)
                    T.copy(X, B[k * 32, 0])
                    if k + 1 < count:
                        T.named_barrier_arrive(9, 192)

    kernel = tilelang.compile(main, target="sim:sm_90")
    a = np.random.default_rng(0).standard_normal((count * 32, 64)).astype("float32")
    b = np.full_like(a, np.nan)
    kernel.simulate(a, b, schedules=50)
    assert np.array_equal(a, b)


def test_names():
    assert T.WarpSpecialize is T.ws


def test_no_bytes_are_shared_between_teams():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            X, Y = T.alloc_shared((64, 64), "float32"), T.alloc_shared((64, 64), "float32")
            with T.ws(0):
                T.copy(A, X)
                T.sync_threads(3)
                T.copy(X, B)
            with T.ws(1):
                T.copy(A, Y)
                T.sync_threads(4)

    text = tilelang.compile(main, target="cuda -arch=sm_90").get_kernel_source()
    places = re.findall(r"const [XY] = \(float\*\)\(tl_shared \+ (\d+)\)", text)
    assert sorted(places) == ["0", "16384"]
    assert "tl_bar_sync<3>(128)" in text and "tl_bar_sync<4>(128)" in text


SYNC = "with T.ws(0):\n    T.sync_threads()\n"
COPY = "    T.copy(A[0:64, 0:64], X)"
ERRORS = {
    "with T.ws(0, 2):  # here\n" + COPY: "T.ws(0, 2): a team is one range of threads",
    "with T.ws(3):  # here\n" + COPY: "the threads [384, 512) are not in this kernel's block of 384",
    "with T.ws():  # here\n" + COPY: "numbers of warp groups are expected, 0 for the first, not none",
    "with T.ws(0, -1):  # here\n" + COPY: "numbers of warp groups are expected, 0 for the first, not 0, -1",
    "for g in range(2):\n    with T.ws(1 + g):  # here\n    " + COPY: (
        "T.ws: which threads form a team is known while the kernel is built, but this number of a warp group "
        "is a value of the kernel: loop over a tuple, `for c in (1, 2): with T.ws(c): …`, which Python runs, "
        "once for each team, where a loop over range is the device's"
    ),
    "if tx < 100:\n" + COPY + "  # here": "the threads [0, 100), which are not whole warps of 32",
    "if tx % 2 == 0:  # here\n" + COPY: "do not form one range",
    "if A[tx, 0] > 0:\n" + COPY + "  # here": "needs all threads of the block",
    SYNC.replace(":", ":  # here", 1): "but only 128 of them reach it here",
    SYNC + "with T.ws(1, 2):  # here\n    for i in T.serial(2):\n        T.sync_threads()": (
        "the threads [128, 384) reach it 2 times and the threads [0, 128) once"
    ),
    "T.clear(F)\nwith T.ws(0):\n    T.copy(A[0:64, 0:64], F)  # here": "the fragment F is used by two groups",
    "with T.ws(0):\n    with T.ws(1):  # here\n    " + COPY: "the threads [128, 256) are not among those",
}


@pytest.mark.parametrize("body", ERRORS)
def test_errors(body, tmp_path):
    head = """
        import tilelang.language as T

        @T.prim_func
        def main(A: T.Tensor((384, 64), "float32")):
            with T.Kernel(1, threads=384):
                tx = T.get_thread_binding()
                X = T.alloc_shared((64, 64), "float32")
                F = T.alloc_fragment((64, 64), "float32")
        """
    text = textwrap.dedent(head) + textwrap.indent(body, " " * 8)
    (tmp_path / "wrong.py").write_text(text)
    with pytest.raises(tilelang.CompileError, match=re.escape(ERRORS[body])) as error:
        scope = {}
        exec(compile(text, tmp_path / "wrong.py", "exec"), scope)
        tilelang.compile(scope["main"], target="sim:sm_90")
    line = text[: text.index("# here")].count("\n") + 1
    assert f"wrong.py:{line}:" in str(error.value)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_teams_that_signal_need_threads(target):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            X = T.alloc_shared((64, 64), "float32")
            with T.ws(0):
                T.copy(A, X)
                T.sync_threads(3, 128)

    with pytest.raises(tilelang.CompileError, match="thread-level code"):
        tilelang.compile(main, target=target)


@pytest.mark.parametrize("target", ["reference", "sim:sm_80", "sim:sm_90a"])
@pytest.mark.parametrize("threads, team", [(160, 0), (192, 0), (320, 0), (320, 1)])
def test_a_warpgroup_of_a_block_that_is_not_made_of_them(threads, team, target):
    """Its 128 threads are whole, though the block's last ones are no warpgroup."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=threads):
            X = T.alloc_shared((64, 64), "float16")
            T.copy(A, X)
            with T.ws(team):
                C_local = T.alloc_fragment((64, 64), "float32")
                T.gemm(X, X, C_local, clear_accum=True)
                T.copy(C_local, C)

    if target == "sim:sm_90a":
        assert "wgmma" in tilelang.compile(main, target="cuda -arch=sm_90a").get_kernel_source()
    a, c = run(main, target, (64, 64), (64, 64))
    half = a.astype("float16").astype("float32")
    assert np.allclose(c, half @ half, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", GPUS)
def test_a_team_comes_again(target):
    """Teams of which threads are in both run one after the other, and the block meets between them."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            X, Y = T.alloc_shared((64, 64), "float32"), T.alloc_shared((64, 64), "float32")
            with T.ws(0):
                T.copy(A, X)
                T.sync_threads()
            with T.ws(1):
                T.sync_threads()
                for i, j in T.Parallel(64, 64):
                    Y[i, j] = X[63 - i, j] + 1
            with T.ws(0):
                for i, j in T.Parallel(64, 64):
                    B[i, j] = Y[63 - i, j]

    a, b = run(main, target, (64, 64), (64, 64))
    assert np.array_equal(b, a + 1)


@pytest.mark.parametrize("consumers", [1, 2])
def test_the_loop_stands_around_the_groups(consumers, recwarn):
    """Sums that a group clears, adds up in the loop and stores: on sm_90a by products of warpgroups."""
    M, N, K, bK, last = 64 * consumers, 64, 256, 64, consumers

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128 * (consumers + 1)):
            As, Bs = T.alloc_shared((M, bK), "float16"), T.alloc_shared((bK, N), "float16")
            sums = [T.alloc_fragment((64, N), "float32") for _ in range(consumers)]
            full, empty = T.alloc_barrier(128), T.alloc_barrier(128 * consumers)
            with T.ws(0):
                T.fill(sums[0], 1)
            if consumers == 2:
                with T.ws(1):
                    T.fill(sums[1], 1)
            for k in T.serial(K // bK):
                with T.ws(last):
                    T.barrier_wait(empty, (k + 1) % 2)
                    T.copy(A[0, k * bK], As)
                    T.copy(B[k * bK, 0], Bs)
                    T.barrier_arrive(full)
                with T.ws(0):
                    T.barrier_wait(full, k % 2)
                    T.gemm(As[0:64, :], Bs, sums[0])
                    T.barrier_arrive(empty)
                if consumers == 2:
                    with T.ws(1):
                        T.barrier_wait(full, k % 2)
                        T.gemm(As[64:128, :], Bs, sums[1])
                        T.barrier_arrive(empty)
            with T.ws(0):
                T.copy(sums[0], C[0:64, :])
            if consumers == 2:
                with T.ws(1):
                    T.copy(sums[1], C[64:128, :])

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((M, K), (K, N)))
    for target in ("sim:sm_80", "sim:sm_90a"):
        c = np.full((M, N), np.nan, np.float32)
        report = tilelang.compile(main, target=target).simulate(a, b, c, schedules=3)
        assert not report.findings
        np.testing.assert_allclose(c, a.astype(float) @ b.astype(float) + 1, atol=1e-3)
    assert "wgmma" in tilelang.compile(main, target="cuda -arch=sm_90a").get_kernel_source()
    assert not recwarn.list
