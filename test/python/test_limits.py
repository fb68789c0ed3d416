"""Programs that are large in one way compile as they are, or are refused with the limit at their line."""

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure, kernel
from tilelang import _core

N = 64


def run_apart(code):
    """In a process of its own, which a fault would end."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ── local arrays ──────────────────────────────────────────────────────────────────────────────────────
def with_local(length):
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), C: T.Tensor((N,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            big = T.alloc_local((length,), "int32")
            for k in T.serial(length):
                big[k] = A[k % N] + bx
            if bx == 3:
                for i in T.serial(N):
                    C[i] = big[length - 1 - i]

    return main


def test_a_local_array_larger_than_a_stack(tmp_path):
    out = run_apart(f"""
        import sys
        sys.path.insert(0, {str(__file__.rsplit("/", 1)[0])!r})
        import numpy as np, tilelang
        from test_limits import N, with_local
        kernel = tilelang.compile(with_local(4000000), target="cpu")
        a, c = np.arange(N, dtype=np.int32), np.zeros(N, np.int32)
        kernel(a, c)
        print((c == a[::-1] + 3).all())
    """)
    assert out.strip() == "True"


@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_90"])
def test_a_local_array_larger_than_what_a_thread_has(target):
    message = r"test_limits.py:\d+.*take 15625.0 KB with big, but sm_\d0 gives a thread 512 KB"
    with pytest.raises(tilelang.CompileError, match=message):
        tilelang.compile(with_local(4000000), target=target)
    tilelang.compile(with_local(131072), target=target)


# ── expressions ───────────────────────────────────────────────────────────────────────────────────────
def long_sum(A, i, terms):
    total = A[i]
    for k in range(1, terms):
        total = total + A[(i + k) % N]
    return total


def long_choice(A, i, terms):
    total = A[i]
    for k in range(1, terms):
        total = T.if_then_else(A[(i + k) % N] > k, k, total)
    return total


def of_terms(build, terms):
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), C: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(N):
                C[i] = build(A, i, terms)

    return main


def check_long(target):
    a, c = np.arange(N, dtype=np.int32), np.zeros(N, np.int32)
    tilelang.compile(of_terms(long_sum, 2000), target=target)(a, c)
    np.testing.assert_array_equal(c, sum(np.roll(a, -k) for k in range(2000)))


def check_long_of_a_variable(target):
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), C: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_var("int32")
            s = long_sum(A, 0, 2000)
            C[0] = s

    a, c = np.arange(N, dtype=np.int32), np.zeros(N, np.int32)
    tilelang.compile(main, target=target)(a, c)
    assert c[0] == sum(int(a[k % N]) for k in range(2000))


@pytest.mark.parametrize("target", ["cpu", "sim:sm_80"])
def test_an_expression_of_many_terms(target):
    check_long(target)


@pytest.mark.parametrize("check", [check_long, check_long_of_a_variable])
def test_an_expression_of_many_terms_on_a_small_stack(target, check):
    found = []

    def work():
        check(target)
        found.append("done")

    before = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert found == ["done"]


@pytest.mark.parametrize("build", [long_sum, long_choice])
def test_an_expression_of_too_many_terms_is_refused_at_its_line(build):
    message = r"test_limits.py:\d+:\d+: error: an expression of more than 2500 operations.*\n.*C\[i\] = build"
    with pytest.raises(tilelang.CompileError, match=message):
        tilelang.compile(of_terms(build, 20000), target="cpu")


# ── statements ────────────────────────────────────────────────────────────────────────────────────────
def updated(times):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_var("float32")
            s = A[0]
            for k in list(range(times)):
                s = s + A[k % N]
            C[0] = s

    return main


def test_a_variable_that_is_updated_many_times(target):
    a, c = np.ones(N, np.float32), np.zeros(N, np.float32)
    tilelang.compile(updated(5000), target=target)(a, c)
    assert c[0] == 5001


def least_of(A, i, terms):
    least = A[i]
    for k in range(1, terms):
        least = T.min(least, A[(i + k) % N])
    return least


def of_names(terms):
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), C: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(N):
                s = A[i]
                for k in list(range(terms)):
                    s = s + A[(i + k) % N]
                C[i] = s

    return main


def steps_of(work):
    before = _core.steps_so_far()
    work()
    return _core.steps_so_far() - before


@pytest.mark.parametrize("chain", [lambda n: of_terms(least_of, n), of_names], ids=["min", "names"])
def test_each_link_of_a_long_chain_is_visited_a_few_times(chain, monkeypatch):
    """A pass that looks at the whole chain again at each link would take four times as many steps."""
    monkeypatch.setattr(tilelang.env, "_cache_enabled", False)
    short, long = (steps_of(lambda n=n: tilelang.compile(chain(n), target="sim:sm_80")) for n in (1000, 2000))
    assert 1000 * 100 < short < long < 2.3 * short


def of_steps(step, n):
    """A value that each of n steps reads several times."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                v = T.alloc_var("int32", 0)
                x = A[i]
                for k in [*range(n)]:
                    if step == "branches":
                        if A[i] > k:
                            v += k
                        else:
                            v = v * 3
                    elif step == "index":
                        x = (x * 7 + i) % (k + 5) + x // (k + 3)
                    else:
                        x = T.if_then_else(x > 3, x * 2, x + 1)
                B[i] = A[x % 64] + v

    return main


@pytest.mark.parametrize("target", ["sim:sm_80", "cpu"])
@pytest.mark.parametrize("step", ["branches", "index", "choice"])
def test_what_each_step_reads_twice_is_not_written_out(step, target, monkeypatch):
    """Written out, 20 steps would be 2^20 times one."""
    monkeypatch.setattr(tilelang.env, "_cache_enabled", False)
    short, long = (steps_of(lambda n=n: tilelang.compile(of_steps(step, n), target=target)) for n in (20, 40))
    assert short < long < 3.5 * short


def doubled(e, n):
    for _ in range(n):
        e = e * e + 1
    return e


def last_doubled(e):
    return T.if_then_else(e > 3, e + 1, e - 1)


def of_parts(kind):
    @T.macro
    def step(e):
        return last_doubled(e)

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                if kind == "function":
                    B[i] = doubled(A[i], 40)
                else:
                    x = A[i]
                    for _ in [*range(40)]:
                        x = last_doubled(x) if kind == "names" else step(x)
                    B[i] = x

    return main


def of_indices(kind):
    def read(A, x, n):
        return A[read(A, x, n - 1)] if n else x

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                if kind == "function":
                    B[i] = read(A, A[i], 40)
                else:
                    x = A[i]
                    for _ in [*range(40)]:
                        x = A[x]
                    B[i] = x

    return main


def of_divisors(n):
    """Divisors that are odd or unknown, in indices that are in range whatever they divide."""

    def nested(A, x, n):
        return A[T.cast(nested(A, x, n - 1) // (A[n] | 1) % A[n + 1], "uint32") % 16] if n else x

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                B[i] = nested(A, A[i], n)

    return main


@pytest.mark.parametrize("target", ["sim:sm_80", "cpu"])
def test_indices_that_are_in_range_are_not_written_out_to_compare_them(target, monkeypatch):
    monkeypatch.setattr(tilelang.env, "_cache_enabled", False)
    short, long = (steps_of(lambda n=n: tilelang.compile(of_divisors(n), target=target)) for n in (10, 20))
    assert short < long < 5 * short
    perm = np.random.default_rng(0).permutation(64).astype(np.int32)
    b = np.zeros(64, np.int32)
    tilelang.compile(of_indices("names"), target=target)(perm, b)
    x = perm.copy()
    for _ in range(40):
        x = perm[x]
    np.testing.assert_array_equal(b, x)


def test_parts_that_an_expression_uses_several_times():
    """Written out, 40 steps are 2^40 operations: refused, but not where each step has a name."""
    with pytest.raises(tilelang.CompileError, match="more than 100000 operations.*names in the kernel"):
        of_parts("function")
    with pytest.raises(tilelang.CompileError, match="more than 20000 operations.*index that is read"):
        tilelang.compile(of_indices("function"), target="cpu")
    for kind in ("names", "macro"):
        for target in ("cpu", "sim:sm_80"):
            a, b = np.arange(64, dtype=np.int32) - 9, np.zeros(64, np.int32)
            tilelang.compile(of_parts(kind), target=target)(a, b)
            for _ in range(40):
                a = np.where(a > 3, a + 1, a - 1)
            np.testing.assert_array_equal(b, a)


# ── launches ──────────────────────────────────────────────────────────────────────────────────────────
def with_grid(*extents, threads=32):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(*extents, threads=threads):
            for i in T.Parallel(N):
                A[i] = 1.0

    return main


@pytest.mark.parametrize(
    "extents, threads, said",
    [
        (
            (1, 65536),
            32,
            "a grid of 65536 blocks along y, but sm_80 allows 65535; give the long dimension to x",
        ),
        ((1, 1, 70000), 32, "a grid of 70000 blocks along z, but sm_80 allows 65535"),
        (
            (1 << 31,),
            32,
            "a grid of 2147483648 blocks along x, but sm_80 allows 2147483647; let each block loop",
        ),
        ((1, 1 << 32), 32, "along y, but sm_80 allows 65535; let each block loop over several tiles"),
        ((1,), (1, 1, 65), "65 threads along z, but sm_80 allows 64; give the long dimension to x"),
        ((1,), (2048,), "2048 threads per block, but sm_80 allows 1024"),
    ],
)
@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "sim:sm_80"])
def test_a_launch_beyond_the_chip(target, extents, threads, said):
    with pytest.raises(tilelang.CompileError, match=said) as error:
        tilelang.compile(with_grid(*extents, threads=threads), target=target)
    assert error.value.line == with_grid.__code__.co_firstlineno + 3


def test_the_largest_launches_compile():
    for extents in ((1, 65535), (1, 1, 65535), ((1 << 31) - 1,)):
        (made,) = tilelang.compile(with_grid(*extents), target="sim:sm_80").explain().kernels
        assert made.threads == 32
    (made,) = tilelang.compile(with_grid(1, 1 << 20), target="cpu").explain().kernels
    assert made.name == "main_kernel"


def test_a_grid_that_only_the_call_tells():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), rows: T.int32):
        with T.Kernel(1, rows, threads=32) as (bx, by):
            A[T.get_thread_binding()] = 1.0

    kernel = tilelang.compile(main, target="sim:sm_80")
    ones = np.zeros(N, "float32")
    with pytest.raises(tilelang.CompileError, match="a grid of 65536 blocks along y, but sm_80 allows 65535"):
        kernel(ones, 65536)
    kernel(ones, 3)
    assert ones[:32].all()


# ── tiles that nothing holds ──────────────────────────────────────────────────────────────────────────
def with_tile(shape, scope, dtype="float16"):
    @T.prim_func
    def main(C: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=128):
            s = getattr(T, f"alloc_{scope}")(shape, dtype)
            T.clear(s)

    return main


TARGETS = ["reference", "cpu", "sim:sm_80", "cuda -arch=sm_90"]


@pytest.mark.parametrize("scope", ["shared", "fragment", "local"])
@pytest.mark.parametrize("shape", [(1 << 33, 1 << 33), (1 << 31, 1 << 31, 1 << 2), (1 << 60,)])
def test_a_tile_of_more_bits_than_64_bits_count(scope, shape):
    """It is refused where it is allocated, for every target: a wrapped size would be too small an array."""
    e = pytest.raises(tilelang.CompileError, with_tile, shape, scope).value
    assert e.text.startswith(
        f"s has the extents [{', '.join(map(str, shape))}] of float16: these are more bits"
    )
    assert e.line == with_tile.__code__.co_firstlineno + 4


def test_other_sizes_of_more_than_64_bits(tmp_path):
    text = "func f(A: f32[4294967296, 4294967296]):\n  kernel k grid(bx: 1) threads(32):\n"
    text += "    A[0, 0] = A[0, 1]\n"
    more = "more bits than 64-bit arithmetic counts"
    with pytest.raises(tilelang.CompileError, match=more):
        _core.compile(_core.parse(text), "sim:sm_80", {"cache": False})
    for body, said in {
        "V = T.view(A, (1 << 32, 1 << 32))": more,
        "for i, j in T.Parallel(1 << 33, 1 << 33):\n    A[0, 0] = 1": "more iterations than 64-bit",
    }.items():
        assert said in failure(tmp_path, body).text
    wide = "A: T.Tensor((1 << 40, 1 << 40), 'float32')"
    assert more in failure(tmp_path, "pass", signature=wide).text


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scope", ["shared", "fragment", "local"])
def test_a_tile_larger_than_all_memory(scope, target):
    """The message names what the tile takes and what there is."""
    said = {
        "reference": r"s takes 1073741824.0 MB, but this machine has [\d.]+ MB of memory",
        "cpu": r"the tiles need 1099511627776.0 KB of .* but the CPU gives a block 65536 KB",
        "shared": r"the tiles need 1099511627776.0 KB of shared memory \(s .*\), but sm_.0 gives a block",
        "fragment": r"s takes 1099511627776.0 KB in the registers of 128 threads, but sm_.0 gives a",
        "local": r"take 1099511627776.0 KB with s, but sm_.0 gives a thread 512 KB",
    }
    function = with_tile((1 << 25, 1 << 24), scope)
    with pytest.raises(tilelang.CompileError, match=said.get(target) or said[scope]) as caught:
        tilelang.compile(function, target=target)
    assert caught.value.line == with_tile.__code__.co_firstlineno + 4


@pytest.mark.parametrize("shape", [(4096, 4096), (8192, 4096)])
def test_a_shared_tile_of_a_whole_matrix(shape):
    """Its layout is not enumerated first: the larger one has more points than layouts may have."""

    @T.prim_func
    def main(A: T.Tensor(shape, "float16"), B: T.Tensor(shape, "float16")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared(shape, "float16")
            T.copy(A, s)
            T.copy(s, B)

    message = (
        rf"the tiles need {shape[0] * 8}.0 KB of shared memory \(s {shape[0] * 8}.0 KB\), but sm_80 gives"
    )
    with pytest.raises(tilelang.CompileError, match=message) as caught:
        tilelang.compile(main, target="sim:sm_80")
    assert "alloc_shared" in str(caught.value)


def test_a_tile_that_no_memory_holds(tmp_path):
    """The reference alone sets up what nothing uses."""
    main = kernel(tmp_path, "s = T.alloc_shared((10**15,), 'float32')\nA[0, 0] = 1")
    with pytest.raises(
        tilelang.CompileError, match="s takes 4000000000000000 bytes.*no such memory"
    ) as caught:
        tilelang.compile(main, target="reference")(np.zeros((64, 8), np.float32), 1)
    assert "alloc_shared" in str(caught.value)
