"""while, break, continue and return in kernels, on every executor, against plain Python."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import compiles_for_gpus, failure, kernel, run


# ── while ─────────────────────────────────────────────────────────────────────────────────────────────
def collatz(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), Steps: T.Tensor((n,), "int32")):
        with T.Kernel(n, threads=32) as b:
            x = T.alloc_var("int32", A[b])
            steps = T.alloc_var("int32", 0)
            while x != 1:
                steps += 1
                if x % 2 == 1:
                    x = 3 * x + 1
                    continue
                x = x // 2
            Steps[b] = steps

    return main


def collatz_steps(x):
    steps = 0
    while x != 1:
        x, steps = (x // 2 if x % 2 == 0 else 3 * x + 1), steps + 1
    return steps


def test_while(target):
    a = np.arange(1, 41, dtype=np.int32)
    steps = np.full(40, -1, np.int32)
    run(collatz(40), target, a, steps)
    assert steps.tolist() == [collatz_steps(int(x)) for x in a]


def test_while_compiles():
    compiles_for_gpus(collatz(40))


def search(n, m):
    """Per row: the place of the first negative element, skipping what is 7; and a sum on the way."""

    @T.prim_func
    def main(A: T.Tensor((n, m), "int32"), Found: T.Tensor((n,), "int32"), Sum: T.Tensor((n,), "int32")):
        with T.Kernel(n, threads=32) as b:
            found = T.alloc_var("int32", -1)
            total = T.alloc_var("int32", 0)
            for i in T.serial(m):
                if A[b, i] == 7:
                    continue
                if A[b, i] < 0:
                    found = i
                    break
                total += A[b, i]
            Found[b] = found
            Sum[b] = total

    return main


def search_expected(a):
    found, sums = [], []
    for row in a:
        place, total = -1, 0
        for i, x in enumerate(row):
            if x == 7:
                continue
            if x < 0:
                place = i
                break
            total += x
        found.append(place)
        sums.append(total)
    return found, sums


def test_break_and_continue(target):
    a = np.random.default_rng(0).integers(0, 9, (37, 21)).astype(np.int32)
    a[np.arange(0, 37, 2), np.random.default_rng(1).integers(0, 21, 19)] = -3
    found, total = np.full(37, -9, np.int32), np.full(37, -9, np.int32)
    run(search(37, 21), target, a, found, total)
    assert (found.tolist(), total.tolist()) == search_expected(a)
    compiles_for_gpus(search(37, 21))


def nested(n):
    """Jumps of inner and outer loops, `while True`, a loop that Python runs, T.loop_break."""

    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32")):
        with T.Kernel(n, threads=32) as b:
            count = T.alloc_var("int32", 0)
            i = T.alloc_var("int32", 0)
            while True:
                i += 1
                if i > A[b]:
                    break
                for j in T.unroll(6):
                    if j == i:
                        continue
                    if j > i + 2:
                        T.loop_break()
                    for k in [1, 10]:
                        if k == 10:
                            continue
                        count += k
                if i % 3 == 0:
                    continue
                count += 100
            B[b] = count

    return main


def nested_expected(n):
    count = i = 0
    while True:
        i += 1
        if i > n:
            return count
        for j in range(6):
            if j == i:
                continue
            if j > i + 2:
                break
            count += 1
        if i % 3:
            count += 100


def test_nested(target):
    a, b = np.arange(12, dtype=np.int32), np.full(12, -1, np.int32)
    run(nested(12), target, a, b)
    assert b.tolist() == [nested_expected(int(x)) for x in a]
    compiles_for_gpus(nested(12))


def mandelbrot(h, w, limit):
    """A while loop in each iteration of a parallel one: threads leave it at different times."""

    @T.prim_func
    def main(X: T.Tensor((h, w), "float32"), N: T.Tensor((h, w), "int32")):
        with T.Kernel(T.ceildiv(w, 32), T.ceildiv(h, 8), threads=64) as (bx, by):
            for i, j in T.Parallel(8, 32):
                z = T.alloc_var("float32", 0.0)
                n = T.alloc_var("int32", 0)
                while n < limit:
                    z = z * z + X[by * 8 + i, bx * 32 + j]
                    if z > 4.0:
                        break
                    n += 1
                N[by * 8 + i, bx * 32 + j] = n

    return main


def test_while_in_parallel(target):
    h, w, limit = 19, 45, 20
    x = np.random.default_rng(0).uniform(0, 0.6, (h, w)).astype(np.float32)
    n = np.full((h, w), -1, np.int32)
    run(mandelbrot(h, w, limit), target, x, n)
    expected = np.zeros((h, w), np.int32)
    z, alive = np.zeros((h, w), np.float32), np.ones((h, w), bool)
    for _ in range(limit):
        z = np.where(alive, z * z + x, z).astype(np.float32)
        alive &= ~(z > 4)
        expected += alive
    assert np.array_equal(n, expected)
    compiles_for_gpus(mandelbrot(h, w, limit))


@pytest.mark.parametrize("factor", [None, 1, 4, 5, 12, 20])
def test_unroll_factor(target, factor):
    @T.prim_func
    def main(A: T.Tensor((12,), "float32"), B: T.Tensor((12,), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_var("float32", 0.0)
            for i in T.unroll(12, unroll_factor=factor):
                s = s * 0.5 + A[i]
                B[i] = s

    a, b = np.random.default_rng(0).standard_normal(12).astype(np.float32), np.full(12, np.nan, np.float32)
    run(main, target, a, b)
    expected, s = [], 0.0
    for x in a:
        s = s * 0.5 + float(x)
        expected.append(s)
    assert np.linalg.norm(b - expected) <= 1e-6 * np.linalg.norm(expected)
    text = tilelang.compile(main, target="cuda -arch=sm_80").get_kernel_source()
    assert (f"#pragma unroll {factor}\n" if factor else "#pragma unroll\n") in text


# ── return ────────────────────────────────────────────────────────────────────────────────────────────
def early(n, block):
    """Blocks beyond the run-time bound end before their tile operators."""

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), m: T.int32):
        with T.Kernel(T.ceildiv(n, block), threads=64) as b:
            if b * block >= m:
                return
            S = T.alloc_shared((block,), "float32")
            T.copy(A[b * block], S)
            for i in T.Parallel(block):
                S[i] = S[i] * 2
            T.copy(S, B[b * block])
        with T.Kernel(1, threads=32):
            B[n - 1] = -5.0

    return main


def test_return_of_blocks(target):
    a = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    b = np.full(1000, 9, np.float32)
    run(early(1000, 64), target, a, b, 200)
    expected = np.where(np.arange(1000) < 256, 2 * a, 9).astype(np.float32)
    expected[-1] = -5
    assert np.array_equal(b, expected)
    compiles_for_gpus(early(1000, 64))


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_uniform_break_between_tile_operators(target, trips):
    """A break that all threads take: the barriers that the last iteration missed stand after the loop."""

    @T.prim_func
    def main(A: T.Tensor((8, 96), "float32"), B: T.Tensor((96,), "float32"), n: T.int32):
        with T.Kernel(1, threads=96):
            S = T.alloc_shared((96,), "float32")
            R = T.alloc_fragment((96,), "float32")
            T.clear(R)
            T.clear(S)
            for k in T.serial(8):
                T.copy(A[k, 0:96], S)
                if k >= n:
                    break
                for i in T.Parallel(96):
                    R[i] += S[95 - i]
            for i in T.Parallel(96):
                B[i] = R[i] + 100 * S[(i + 17) % 96]

    a = np.random.default_rng(trips).standard_normal((8, 96)).astype(np.float32)
    b = np.full(96, np.nan, np.float32)
    run(main, target, a, b, trips)
    expected = a[:trips, ::-1].sum(0) + 100 * np.roll(a[trips], -17)
    assert np.linalg.norm(b - expected) <= 1e-5 * np.linalg.norm(expected)


def test_loop_of_no_iterations_keeps_its_barrier(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "float32")
            T.copy(A, S)
            R = T.alloc_fragment((64,), "float32")
            T.clear(R)
            for _ in T.serial(n):
                for i in T.Parallel(64):
                    R[i] += S[63 - i]
                for i in T.Parallel(64):
                    S[i] = R[i]
            for i in T.Parallel(64):
                B[i] = S[63 - i]

    a, b = np.arange(64, dtype=np.float32), np.full(64, np.nan, np.float32)
    run(main, target, a, b, 0)
    assert np.array_equal(b, a[::-1])
    if target.startswith("sim"):
        text = tilelang.compile(main, target="cuda -arch=sm_80").get_kernel_source()
        assert "__syncthreads" in text[text.rindex("for (") :] or "__syncthreads" in text.rsplit("}", 3)[-3]


# ── conditions read from tiles ────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_condition_on_a_fragment(target, scale):
    """All threads agree on an element of a tile: tile operators under it get their barriers."""

    @T.prim_func
    def main(A: T.Tensor((32, 64), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            X = T.alloc_fragment((32, 64), "float32")
            m = T.alloc_fragment((32,), "float32")
            top = T.alloc_fragment((1,), "float32")
            S = T.alloc_shared((64,), "float32")
            R = T.alloc_fragment((64,), "float32")
            T.copy(A, X)
            T.reduce_max(X, m, dim=1)
            T.reduce_max(m, top, dim=0)
            if top[0] > 1.0:
                T.copy(A[3, 0:64], S)
                for i in T.Parallel(64):
                    R[i] = S[63 - i]
            else:
                T.fill(R, -1.0)
            T.copy(R, B)

    a = (np.random.default_rng(0).uniform(-1, 1, (32, 64)) * scale).astype(np.float32)
    b = np.full(64, np.nan, np.float32)
    run(main, target, a, b)
    assert np.array_equal(b, a[3, ::-1] if a.max() > 1 else np.full(64, -1, np.float32))
    text = tilelang.compile(main, target="cuda -arch=sm_80").get_kernel_source()
    inside = text[text.index("if (") :]
    assert "__syncthreads" in inside[: inside.index("else")]


def test_while_on_a_fragment(target):
    """Halve a tile until its greatest element is below 1, skipping the copy in every other turn."""

    @T.prim_func
    def main(A: T.Tensor((32, 64), "float32"), B: T.Tensor((32, 64), "float32"), N: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=128):
            X = T.alloc_fragment((32, 64), "float32")
            m = T.alloc_fragment((32,), "float32")
            n = T.alloc_var("int32", 0)
            T.copy(A, X)
            T.reduce_absmax(X, m, dim=1)
            while X[7, 3] > 1.0 or m[2] > 1.0:
                for i, j in T.Parallel(32, 64):
                    X[i, j] = X[i, j] * 0.5
                T.reduce_absmax(X, m, dim=1)
                n += 1
                if n % 2 == 0:
                    continue
                T.copy(X, B)
            T.copy(X, B)
            N[0] = n

    a = (np.random.default_rng(0).standard_normal((32, 64)) * 20).astype(np.float32)
    a[7, 3] = 50
    b, n = np.full_like(a, np.nan), np.zeros(1, np.int32)
    run(main, target, a, b, n)
    steps = 0
    while a[7, 3] > 1 or np.abs(a[2]).max() > 1:
        a, steps = a / 2, steps + 1
    assert n[0] == steps and np.array_equal(b, a)
    compiles_for_gpus(main)


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────
REFUSED = {
    "break in parallel": ("for i in T.Parallel(8):\n    if A[0, i] > 0:\n        break", 3, "independent"),
    "continue in parallel": ("for i in T.Parallel(8):\n    continue", 2, "independent"),
    "break in pipelined": ("for i in T.Pipelined(8):\n    if n > i:\n        break", 3, "T.serial"),
    "return in parallel": ("for i in T.Parallel(8):\n    if A[0, i] > 0:\n        return", 3, "independent"),
    "break of Python's loop": ("for i in [1, 2]:\n    if n > i:\n        break", 3, "T.serial or T.unroll"),
    "loop_break outside": ("T.loop_break()", 1, "outside of a loop"),
    "carried": ("x = 0\nwhile x < n:\n    x = x + 1", 3, "T.alloc_var"),
    "else": ("while n > 0:\n    break\nelse:\n    pass", 4, "'else' after a loop"),
    "endless": ("x = 1\nwhile x > 0:\n    x = 1", 2, "has not ended"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path, case):
    body, line, text = REFUSED[case]
    error = failure(tmp_path, body)
    assert text in str(error), str(error)
    assert error.line == line + 4, (error.line, str(error))


def test_python_runs_what_python_knows(tmp_path):
    body = """
    k = 3
    while k > 0:
        A[0, k] = 1.0
        if k == 2:
            break
        k -= 1
    """
    assert kernel(tmp_path, body).script().count("= 1.0") == 2


# ── threads that part ─────────────────────────────────────────────────────────────────────────────────
TX = "tx = T.get_thread_binding()\nS = T.alloc_shared((8,), 'float32')\n"
APART = {
    "copy": (TX + "if tx < 16:\n    T.copy(A[0, 0:8], S)", 4, ["copy", "[0, 16)", "whole warps of 32"]),
    "parallel": (
        TX + "if tx < 16:\n    for i in T.Parallel(8):\n        A[0, i] = 1.0",
        4,
        ["parallel loop", "[0, 16)"],
    ),
    "through a variable": (
        TX + "v = T.alloc_var('int32', 0)\nv = T.get_lane_idx()\nwhile v < 3:\n"
        "    T.copy(A[0, 0:8], S)\n    v += 1",
        6,
        ["`while`", "thread's number"],
    ),
    "after a return": (
        TX + "if tx < 16:\n    return\nT.copy(A[0, 0:8], S)",
        5,
        ["return", "line 8", "threadIdx.x"],
    ),
    "after a break": (
        TX + "for i in T.serial(4):\n    T.copy(A[0, 0:8], S)\n    if tx == i:\n        break",
        4,
        ["break or continue"],
    ),
    "trip count": (TX + "for i in T.serial(tx):\n    T.clear(S)", 4, ["`for`", "threadIdx.x"]),
}


@pytest.mark.parametrize("case", APART)
def test_tile_operators_need_all_threads(tmp_path, case):
    body, line, words = APART[case]
    function = kernel(tmp_path, body)
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(function, target="sim:sm_80")
    assert caught.value.line == line + 4, str(caught.value)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_conditions_that_all_threads_meet(tmp_path):
    body = """
    tx = T.get_thread_binding()
    S = T.alloc_shared((8,), 'float32')
    if tx < 32:
        T.copy(A[0, 0:8], S)
    if T.syncthreads_or(A[0, tx] > 0):
        T.copy(S, A[1, 0:8])
    """
    for first in (0, 1):
        a = np.arange(64 * 8, dtype="float32").reshape(64, 8) * first
        a[1:], wanted = 9, a[0] if first else np.full(8, 9)
        run(kernel(tmp_path, body), "sim:sm_80", a, 0)
        assert np.array_equal(a[1], wanted)
