"""T.assume, the annotations of a kernel, pass_configs and compile flags."""

import logging
import random

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure, load_text
from helpers import kernel as kernel_of
from tilelang import PassConfigKey, tvm

EXECUTORS = ("reference", "sim:sm_80")
SCALE = "A: T.Tensor((m, n), 'float32'), B: T.Tensor((m, n), 'float32'), k: T.int32"


def scale(folder, first=""):
    body = (
        first
        + """
for i, j in T.Parallel(16, 64):
    B[bx * 16 + i, j] = A[bx * 16 + i, j] * k
"""
    )
    before = "import tilelang.language as T\nm, n = T.dynamic('m, n')\n"
    return kernel_of(folder, body, signature=SCALE, before=before)


def test_facts_of_parameters(tmp_path):
    """A condition over parameters becomes a fact, and bounds checks that it makes needless go."""
    plain, told = scale(tmp_path), scale(tmp_path, "T.assume(m == 64)\nT.assume(n >= 64 and k > 0)\n")
    assert "assume" not in plain.text
    assert told.text.count("assume") == 2 and "assume_true" not in told.text
    source = [tilelang.compile(f, target="cuda -arch=sm_80").get_kernel_source() for f in (plain, told)]
    assert source[0].count("if (") + source[0].count(" ? ") > source[1].count("if (") + source[1].count(" ? ")


@pytest.mark.parametrize("target", EXECUTORS)
def test_broken_fact(target, tmp_path):
    kernel = tilelang.compile(scale(tmp_path, "T.assume(k > 2)\n"), target=target)
    a = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    b = np.full_like(a, np.nan)
    kernel(a, b, 3)
    assert np.allclose(b, a * 3)
    with pytest.raises(tilelang.CompileError, match="does not hold") as caught:
        kernel(a, b, 2)
    assert "T.assume(k > 2)" in str(caught.value)


GATHER = "A: T.Tensor((64,), 'float32'), I: T.Tensor((32,), 'int32'), B: T.Tensor((32,), 'float32')"


def gather(folder, assume):
    return kernel_of(
        folder,
        f"""
        for i in T.Parallel(8):
            at = I[bx * 8 + i]
            {assume}
            B[bx * 8 + i] = A[at]
        """,
        signature=GATHER,
    )


def test_assumption_of_a_value(target, tmp_path):
    kernel = tilelang.compile(gather(tmp_path, "T.assume(at >= 0 and at < 64)"), target=target)
    rng = np.random.default_rng(0)
    a, index = rng.standard_normal(64).astype(np.float32), rng.integers(0, 64, 32).astype(np.int32)
    b = np.full(32, np.nan, np.float32)
    kernel(a, index, b)
    assert np.array_equal(b, a[index])
    if target != "cpu":
        index[9] = 64
        with pytest.raises(tilelang.CompileError, match="this does not hold") as caught:
            kernel(a, index, b)
        assert "T.assume(at >= 0" in str(caught.value)


def test_assumptions_spare_checks(tmp_path):
    told = gather(tmp_path, "T.assume(at >= 0 and at < 64)")
    text = [
        tilelang.compile(f, target="cuda -arch=sm_80").get_kernel_source()
        for f in (gather(tmp_path, "pass"), told)
    ]
    assert " < 64" in text[0] and " < 64 ?" not in text[1] and "__builtin_assume(" in text[1]
    from tilelang import _core

    assert _core.parse(told.text).text() == told.text


def test_refused_assumptions(tmp_path):
    assert "something that is false" in str(failure(tmp_path, "T.assume(1 > 2)"))
    assert "takes tensors" in str(failure(tmp_path, "T.annotate_restrict_buffers(3)"))
    assert "from 1 to 32" in str(failure(tmp_path, "T.annotate_min_blocks_per_sm(0)"))
    assert "lies in [0, 1]" in str(failure(tmp_path, "T.annotate_l2_hit_ratio({A: 2})"))


def test_launch_bounds(tmp_path):
    prim = kernel_of(tmp_path, "T.annotate_min_blocks_per_sm(3)\nA[bx, 0] = 1")
    source = tilelang.compile(prim, target="cuda -arch=sm_80").get_kernel_source()
    assert "__launch_bounds__(32, 3)" in source


def test_overlapping_tensors(tmp_path):
    body = "{}for i in T.Parallel(8):\n    A[bx + 1, i] = B[bx, i]"
    signature = "A: T.Tensor((64, 8), 'float32'), B: T.Tensor((64, 8), 'float32')"
    for target, word in (("cuda -arch=sm_80", "__restrict__"), ("cpu", "noalias")):
        counts = []
        for first in ("", "T.annotate_restrict_buffers(A, B)\n"):
            prim = kernel_of(tmp_path, body.format(first), signature=signature)
            source = tilelang.compile(prim, target=target).get_kernel_source()
            counts.append(source.count(word))
        assert counts[0] == counts[1] + 2


def doubled_and_moved(*said):
    """Two loops through a tile, of which the second writes one row behind where the first reads; said: which
    tensors may overlap, of the first kernel and of the second."""

    @T.prim_func
    def main(X: T.Tensor((64, 32), "float32"), Y: T.Tensor((64, 32), "float32")):
        for which in said:
            with T.Kernel(1, threads=32):
                if which:
                    T.annotate_restrict_buffers(*([X, Y] if which == "both" else [Y]))
                tile = T.alloc_shared((63, 32), "float32")
                for i, j in T.Parallel(63, 32):
                    tile[i, j] = X[i, j]
                for i, j in T.Parallel(63, 32):
                    Y[i + 1, j] = tile[i, j] * 2

    return main


@pytest.mark.parametrize("target", ["reference", "cpu", "sim:sm_80", "sim:sm_90a"])
def test_calls_with_overlapping_tensors(target):
    before = np.random.default_rng(0).standard_normal((64, 32)).astype("f4")
    for said in ("both", "one"):
        z = before.copy()
        tilelang.compile(doubled_and_moved(said), target=target)(z, z)
        assert np.array_equal(z[1:], before[:-1] * 2) and np.array_equal(z[0], before[0])
    for unsaid in (("",), ("both", "")):
        with pytest.raises(tilelang.ArgumentError, match="shares memory with argument 0 'X'"):
            tilelang.compile(doubled_and_moved(*unsaid), target=target)(z, z)


STEPS = 6


def through_overlaps(seed):
    """Loops that read or write one of two tensors, elements in any order: the text, and what they do."""
    rng = random.Random(seed)
    orders = ["i", "63 - i", "(i + 32) % 64", "i ^ 5", "(i * 5) % 64"]
    lines, steps = [], []
    for _ in range(STEPS):
        tensor, index, step = rng.choice("XY"), rng.choice(orders), rng.randint(1, 9)
        reads = rng.random() < 0.5
        place = f"{tensor}[{index}]"
        body = f"f[i] += {place}" if reads else f"{place} = f[i] + {step}"
        turns = rng.choice([1, 1, 2])
        lines += [f"for _ in T.serial({turns}):", "    for i in T.Parallel(64):", f"        {body}"]
        steps += [(tensor, index, step, reads)] * turns
    return lines, steps


@pytest.mark.parametrize("seed", range(24))
def test_loops_that_meet_in_overlapping_tensors(tmp_path, seed):
    lines, steps = through_overlaps(seed)
    before = "\n        ".join(lines)
    main = load_text(tmp_path, f"""
import tilelang.language as T

@T.prim_func
def main(X: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "int32"), Z: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=64):
        T.annotate_restrict_buffers({random.Random(seed).choice(["X, Y", "X", "Y"])})
        f = T.alloc_fragment((64,), "int32")
        for i in T.Parallel(64):
            f[i] = i
        {before}
        T.copy(f, Z)
""").main  # fmt: skip
    for target in ("reference", "cpu", "sim:sm_80", "sim:sm_90a"):
        for shift in (0, 8):
            memory = np.arange(1000, 1072, dtype=np.int32)
            wanted, f = memory.copy(), np.arange(64, dtype=np.int32)
            views = {"X": wanted[:64], "Y": wanted[shift : shift + 64]}
            at = np.arange(64)
            for tensor, index, step, reads in steps:
                place = eval(index, {}, {"i": at})
                if reads:
                    f += views[tensor][place]
                else:
                    views[tensor][place] = f + step
            z = np.zeros(64, np.int32)
            tilelang.compile(main, target=target)(memory[:64], memory[shift : shift + 64], z)
            np.testing.assert_array_equal(z, f, err_msg=f"{target}, {shift}: {lines}")
            np.testing.assert_array_equal(memory, wanted, err_msg=f"{target}, {shift}: {lines}")


def test_iterations_of_one_loop_need_no_barrier():
    @T.prim_func
    def main(X: T.Tensor((256,), "float32"), Y: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=64):
            T.annotate_restrict_buffers(X, Y)
            for i in T.Parallel(256):
                Y[(i * 5) % 256] = X[(i * 5) % 256] * 2
            for i in T.Parallel(256):
                Y[(i * 5) % 256] = X[(i * 5) % 256] + 1

    source = tilelang.compile(main, target="cuda -arch=sm_80").get_kernel_source()
    assert source.count("__syncthreads()") == 1
    x = np.arange(256, dtype="f4")
    tilelang.compile(main, target="sim:sm_80")(x, x)
    assert np.array_equal(x, np.arange(256) * 2 + 1)


def test_hit_ratio_is_noted(tmp_path):
    prim = kernel_of(tmp_path, "T.annotate_l2_hit_ratio({A: 0.8})\nA[bx, 0] = 1")
    assert "L2 hit ratio of 0.8" in str(tilelang.compile(prim, target="cpu").explain())


def test_configs_in_the_body(tmp_path):
    body = """
        T.annotate_pass_configs({"tl.enable_fast_math": True})
        T.annotate_compile_flags("-DX=1 -DY=2")
        A[bx, 0] = T.exp(A[bx, 1]) / A[bx, 2]
        """
    prim = kernel_of(tmp_path, body)
    assert prim.pass_configs == {"tl.enable_fast_math": True} and prim.compile_flags == ["-DX=1", "-DY=2"]
    assert "arcp" in tilelang.compile(prim, target="cpu").get_kernel_source()
    plain = tilelang.compile(prim, target="cpu", pass_configs={PassConfigKey.TL_ENABLE_FAST_MATH: False})
    assert "arcp" not in plain.get_kernel_source()
    tilelang.compile(prim, target="cuda -arch=sm_80")


def test_pass_configs(tmp_path, caplog, monkeypatch):
    body = """
        S = T.alloc_shared((64, 8), "float32")
        for i, j in T.Parallel(64, 8):
            S[i, j] = A[i, j]
        for i, j in T.Parallel(64, 8):
            A[i, j] = S[63 - i, j]
        """
    prim = kernel_of(tmp_path, body)

    def source(**configs):
        return tilelang.compile(prim, target="cuda -arch=sm_80", pass_configs=configs).get_kernel_source()

    assert "__syncthreads()" in source()
    assert "__syncthreads()" not in source(**{"tl.disable_thread_storage_sync": True})
    source(**{"tl.ptxas_register_usage_level": 5, "tl.enable_ptxas_verbose_output": True})
    with caplog.at_level(logging.DEBUG, logger="tilelang"):
        source(**{"tl.disable_shuffle_elect": True, "tir.disable_vectorize": False})
    assert caplog.text.count("has no meaning in this version") == 2
    monkeypatch.chdir(tmp_path)
    values = {
        PassConfigKey.TL_PTXAS_REGISTER_USAGE_LEVEL: 5,
        PassConfigKey.TL_DEVICE_COMPILE_FLAGS: "-lineinfo",
        PassConfigKey.TL_PASS_PROFILE_THRESHOLD_MS: 0.5,
        PassConfigKey.TL_DUMP_IR_DIR: "dump",
    }
    for key in PassConfigKey:
        value = values.get(key, True)
        tilelang.compile(prim, target="cuda -arch=sm_90", pass_configs={key: value})
    with pytest.raises(tilelang.CompileError, match="from 0 to 10"):
        source(**{"tl.ptxas_register_usage_level": 11})
    with pytest.raises(tilelang.CompileError, match="pass_configs is a dict"):
        tilelang.compile(prim, target="cpu", pass_configs=["tl.enable_fast_math"])


@pytest.mark.parametrize("key, near", [
    ("tl.disable_warp_specialised", "did you mean 'tl.disable_warp_specialized'? "),
    ("tl.DISABLE_TMA_LOWER", ""),
    ("disable_tma_lower", "did you mean 'tl.disable_tma_lower'? "),
    ("tir.Simplfy", "did you mean 'tirx.Simplify'? "),
    ("nonsense", ""),
])  # fmt: skip
def test_a_pass_config_that_does_not_exist(tmp_path, key, near):
    said = f"there is no pass config '{key}'; {near}PassConfigKey has them all"
    prim = kernel_of(tmp_path, "A[0, 0] = 1")
    ways = {
        "compile": lambda: tilelang.compile(prim, target="cpu", pass_configs={key: 1}),
        "jit": lambda: tilelang.jit(pass_configs={key: 1}),
        "context": lambda: tvm.transform.PassContext(config={key: 1}),
        "kernel": lambda: kernel_of(tmp_path, f"T.annotate_pass_configs({{{key!r}: 1}})"),
    }
    for name, way in ways.items():
        with pytest.raises(tilelang.CompileError) as caught:
            way()
        assert caught.value.text == said, name


def test_a_key_that_does_not_exist():
    with pytest.raises(AttributeError) as caught:
        PassConfigKey.TL_DISABLE_WARP_SPECIALISED  # noqa: B018
    assert str(caught.value) == (
        "PassConfigKey has no 'TL_DISABLE_WARP_SPECIALISED'; did you mean TL_DISABLE_WARP_SPECIALIZED?"
    )


def test_fast_math_on_the_cpu(tmp_path):
    """Quicker forms: close, and right at the ends that programs rely on."""
    body = """
        for i in T.Parallel(8):
            A[bx * 16, i] = T.exp(A[bx * 16, i])
            A[bx * 16 + 1, i] = T.exp2(A[bx * 16 + 1, i])
        """
    prim = kernel_of(tmp_path, body)
    kernel = tilelang.compile(prim, target="cpu", pass_configs={PassConfigKey.TL_ENABLE_FAST_MATH: True})
    a = np.random.default_rng(0).uniform(-30, 30, (64, 8)).astype(np.float32)
    a[0, :4] = a[1, :4] = (-np.inf, np.inf, -200, 0)
    want = a.astype(np.float64)
    with np.errstate(over="ignore"):
        want[0::16], want[1::16] = np.exp(want[0::16]), np.exp2(want[1::16])
    kernel(a, 0)
    assert np.allclose(a, want, rtol=1e-6, atol=1e-37) and a[0, 0] == 0 and np.isinf(a[0, 1])


def test_compile_time_limit(tmp_path, monkeypatch):
    """TILELANG_COMPILE_TIMEOUT_SECONDS and TILELANG_AUTO_TUNING_CPU_COUNTS, of several compilations."""
    import threading
    from concurrent.futures import TimeoutError as TooLong

    from tilelang.env import env
    from tilelang.jit.parallel import run_all

    monkeypatch.setenv("TILELANG_AUTO_TUNING_CPU_COUNTS", "2")
    assert env.get_compile_threads() == 2 and env.get_compile_timeout_seconds() is None
    assert run_all(lambda x: x * x, [1, 2, 3], None, False) == [1, 4, 9]
    monkeypatch.setenv("TILELANG_COMPILE_TIMEOUT_SECONDS", "1")
    ended = threading.Event()  # nobody sets it before both have been given up
    assert run_all(lambda x: ended.wait(600) if x else 7, [0, 1], None, True) == [7, None]
    with pytest.raises(TooLong):
        run_all(lambda x: ended.wait(600), [1], None, False)
    ended.set()
    monkeypatch.setenv("TILELANG_AUTO_TUNING_DISABLE_CACHE", "1")
    assert env.is_autotune_cache_disabled()


def test_attr(tmp_path):
    prim = kernel_of(tmp_path, "with T.attr(bx, 'pragma_unroll', 1):\n    A[bx, 0] = 1")
    a = np.zeros((64, 8), np.float32)
    tilelang.compile(prim, target="cpu")(a, 1)
    assert a[:4, 0].tolist() == [1] * 4


def reversed_rows(barrier):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "float32")
            t = T.get_thread_binding()
            tile[t] = A[t]
            if barrier:
                T.sync_threads()
            B[t] = tile[63 - t]

    return main


def test_own_barriers(tmp_path, monkeypatch):
    """With the pass config a program places its barriers itself; the simulator finds what it left out."""
    configs = {PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC: True}
    a = np.arange(64, dtype=np.float32)
    with pytest.raises(tilelang.SimulationError, match="race") as caught:
        tilelang.compile(reversed_rows(False), target="sim:sm_80", pass_configs=configs)(a, np.zeros_like(a))
    assert "tile[63 - t]" in str(caught.value) and "tile[t] = A[t]" in str(caught.value)
    for barrier, given in ((True, configs), (False, {}), (True, {})):
        b = np.zeros_like(a)
        kernel = tilelang.compile(reversed_rows(barrier), target="sim:sm_80", pass_configs=given)
        kernel(a, b)
        assert np.array_equal(b, a[::-1])
        assert ("no barriers are inserted between accesses" in str(kernel.report)) == bool(given)
        made = tilelang.compile(reversed_rows(barrier), target="cuda -arch=sm_80", pass_configs=given)
        assert made.get_kernel_source().count("__syncthreads()") == 1

    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tilelang.env, "_cache_enabled", True)
    for given in ({}, configs):
        made = tilelang.compile(reversed_rows(False), target="cuda -arch=sm_80", pass_configs=given)
        assert not made.from_cache and made.get_kernel_source().count("__syncthreads()") == (not given)


def test_what_changes_nothing_is_a_comment():
    thing = object()

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            T.annotate_consumer_reg_alloc(232)
            T.annotate_producer_reg_dealloc()
            T.annotate_l2_hit_ratio({A: 0.5})
            T.sblock_attr({"path": "a\\"})
            with T.attr(thing, "pragma", "two\nlines"):
                T.copy(A, B)

    lines = [
        "T.annotate_consumer_reg_alloc(232)",
        "T.annotate_producer_reg_dealloc(24)",
        "T.annotate_l2_hit_ratio({'A': 0.5})",
        "T.sblock_attr({'path': 'a\\\\'})",
        "T.attr(<object object>, 'pragma', 'two\\nlines')",
    ]
    text = main.function.text()
    assert tilelang._core.parse(text).text() == text and "T.annotate_consumer_reg_alloc(232)" in text
    for target, mark in (("cuda -arch=sm_80", "  // "), ("hip -mcpu=gfx942", "  // "), ("cpu", "; ")):
        source = tilelang.compile(main, target=target).get_kernel_source()
        assert "\n".join(mark + line for line in lines) in source


def test_a_comment_ends_with_its_line():
    text = 'func f(A: f32[8]):\n  kernel k grid(b: 1) {comments="x\\\\"}:\n    A[0] = 1.0\n'
    kernel = tilelang._core.compile(tilelang._core.parse(text), "cuda -arch=sm_80", {"cache": False})
    assert "  // x\\.\n" in kernel.source
