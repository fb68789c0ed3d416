"""Compiling and calling: factories, memo, out_idx, argument errors, options."""

import logging
import threading

import numpy as np
import pytest
import tilelang
import tilelang.language as T

SCALE = 1.0  # captured by the factory below


@tilelang.jit(out_idx=-1, target="reference")
def scale(N, block=16, dtype=T.float32, factor=2.0):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * factor * SCALE

    return main


def two_outputs(N=8):
    @T.prim_func
    def main(
        A: T.Tensor((N,), "float32"), S: T.Tensor((N,), "float32"), D: T.Tensor((N,), "int32"), k: T.int32 = 3
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                S[i] = A[i] + T.float32(k)
                D[i] = T.int32(A[i]) * k

    return main


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int8"])
def test_runs(target, dtype):
    dtype = getattr(T, dtype)
    kernel = tilelang.compile(scale.get_tir(37, dtype=dtype, factor=2), out_idx=[1], target=target)
    a = np.arange(37).astype(dtype.as_numpy())
    b = kernel(a)
    assert b.dtype == dtype.as_numpy() and b.shape == (37,)
    np.testing.assert_array_equal(b.astype("float64"), a.astype("float64") * 2)


def test_memo_goes_by_value():
    assert scale(32) is scale(32) is scale(N=32, block=16) is scale(32, 16, T.float32, factor=2.0)
    assert scale(32) is not scale(33)
    assert scale(32, factor=2.0) is not scale(32, factor=2)
    assert scale(32, dtype=T.float16) is scale(32, dtype=T.float16) is not scale(32)
    assert scale.compile(32) is scale(32)


def test_memo_sees_what_is_captured():
    global SCALE
    before = scale(24)
    SCALE = 3.0
    try:
        after = scale(24)
        assert after is not before
        assert after(np.ones(24, np.float32))[0] == 6
    finally:
        SCALE = 1.0
    assert scale(24) is before


def test_one_kernel_from_many_threads():
    kernels = []
    threads = [threading.Thread(target=lambda: kernels.append(scale(41))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kernels) == 8 and len({id(k) for k in kernels}) == 1


def test_par_compile():
    kernels = scale.par_compile([{"N": 8}, (9,), {"N": 10, "block": 4}], num_workers=2)
    assert [k.params[0].shape for k in kernels] == [(8,), (9,), (10,)]
    assert scale.par_compile([{"N": 8, "dtype": "no such"}], ignore_error=True) == [None]
    assert len(tilelang.par_compile([two_outputs(4), two_outputs(5)], target="reference")) == 2


def test_bare_decorator_and_source():
    @tilelang.jit
    def factory(N):
        return two_outputs(N)

    assert factory.get_tir(4).name == "main"
    assert factory(4).get_kernel_source() == factory.get_kernel_source(4)


def test_several_outputs_in_the_order_of_out_idx():
    a = np.arange(8, dtype=np.float32)
    kernel = tilelang.compile(two_outputs(), out_idx=[2, -3], target="reference")
    assert kernel.out_idx == [2, 1]
    d, s = kernel(a, 5)
    np.testing.assert_array_equal(d, a.astype(int) * 5)
    np.testing.assert_array_equal(s, a + 5)
    np.testing.assert_array_equal(kernel(a)[1], a + 3)  # the default of k
    np.testing.assert_array_equal(kernel(k=1, A=a)[1], a + 1)


def test_outputs_passed_in():
    a, s, d = np.arange(8, dtype=np.float32), np.zeros(8, np.float32), np.zeros(8, np.int32)
    kernel = tilelang.compile(two_outputs(), target="reference")
    assert kernel(a, s, d, 2) is None
    np.testing.assert_array_equal(d, a * 2)


@pytest.mark.parametrize("out_idx", [4, -5, [1, 1], 3, "C", 1.0])
def test_wrong_out_idx(out_idx):
    with pytest.raises(tilelang.CompileError, match="out_idx") as caught:
        tilelang.compile(two_outputs(), out_idx=out_idx, target="reference")
    assert caught.value.file == __file__


def test_wrong_number_of_arguments():
    kernel = scale(16)
    a = np.ones(16, np.float32)
    with pytest.raises(
        TypeError,
        match=r"main\(\) takes 1 positional argument but 2 were given; it takes \(A: float32\[16\]\); B is",
    ):
        kernel(a, a)
    with pytest.raises(TypeError, match="missing a required argument: 'A'"):
        kernel()
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'C'"):
        kernel(C=a)


WRONG = {
    "dtype": (np.ones(16), ("A", "float32|f32", "float64|f64")),
    "rank": (np.ones((4, 4), np.float32), ("A", "1", "2")),
    "shape": (np.ones(15, np.float32), ("A", "16", "15")),
    "strides": (np.ones(32, np.float32)[::2], ("A", "stride|contiguous")),
    "none": (None, ("A", "None")),
    "number": (3.0, ("A",)),
    "list": ([1.0] * 16, ("A", "list")),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(name):
    import re

    value, words = WRONG[name]
    kernel = tilelang.compile(scale.get_tir(16), target="reference")
    with pytest.raises((TypeError, ValueError)) as caught:
        kernel(value, np.empty(16, np.float32))
    for word in words:
        assert re.search(word, str(caught.value)), (word, str(caught.value))


def test_what_cannot_be_compiled():
    with pytest.raises(tilelang.CompileError, match="call the factory first"):
        tilelang.compile(two_outputs)
    with pytest.raises(tilelang.CompileError, match="not yet compiled"):
        two_outputs()(1)


def test_options(caplog, monkeypatch, tmp_path):
    from tilelang.jit.config import options_of, target_text

    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILELANG_DISABLE_CACHE", raising=False)
    monkeypatch.setattr(tilelang.env, "_cache_enabled", None)
    key = tilelang.PassConfigKey.TL_ENABLE_FAST_MATH
    with caplog.at_level(logging.DEBUG, "tilelang"):
        options = options_of({key: True, "tl.disable_shuffle_elect": True}, "-a -b", tmp_path / "dump")
    assert options == {
        "cache": True,
        "cache_dir": str(tmp_path),
        "fast_math": True,
        "flags": ["-a", "-b"],
        "dump_dir": str(tmp_path / "dump"),
    }
    assert options_of({"tl.enable_fast_math": True}, None, None)["fast_math"] is True
    assert [r.message for r in caplog.records] == [
        "pass config tl.disable_shuffle_elect has no meaning in this version; ignored"
    ]
    assert target_text({"kind": "cuda", "arch": "sm_80"}) == "cuda -arch=sm_80"
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "reference")
    assert target_text(None) == "reference"
    tilelang.disable_cache()
    assert not tilelang.is_cache_enabled() and options_of(None, None, None)["cache"] is False
    tilelang.enable_cache()
    assert tilelang.is_cache_enabled()


def test_disk_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tilelang.env, "_cache_enabled", True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "mine.txt").write_text("stays")
    first = tilelang.compile(two_outputs(6), target="cpu")
    second = tilelang.compile(two_outputs(6), target="cpu")
    assert (first.from_cache, second.from_cache) == (False, True)
    fast = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}
    assert not tilelang.compile(two_outputs(6), target="cpu", pass_configs=fast).from_cache
    assert tilelang.clear_cache() >= 1
    assert (tmp_path / "cache" / "mine.txt").exists()
    assert not tilelang.compile(two_outputs(6), target="cpu").from_cache


def test_what_a_kernel_tells(capsys):
    kernel = tilelang.compile(two_outputs(), out_idx=[1, 2], target="reference")
    assert kernel.target == "reference" and kernel.device_type == "cpu"
    assert str(kernel.prim_func) == str(two_outputs())
    assert [p.name for p in kernel.prim_func.params] == [p.name for p in kernel.params]
    assert [p.name for p in kernel.params] == ["A", "S", "D", "k"]
    report = kernel.explain()
    assert "as it is written" in str(report) and capsys.readouterr().out == f"{report}\n"
    kernel.show_source()
    assert capsys.readouterr().out == kernel.kernel_source + "\n"
    kernel.show_source("host")
    assert capsys.readouterr().out.startswith("call main on reference\n  tensor A: f32[8]")
    with pytest.raises(ValueError, match="which must be"):
        kernel.show_source("all")


def test_verbose_prints_to_stderr(capsys):
    tilelang.compile(two_outputs(), target="reference", verbose=True)
    said = capsys.readouterr()
    assert said.err.startswith("tilelang: main for reference") and not said.out


def test_profiler():
    kernel = tilelang.compile(two_outputs(), out_idx=[1, 2], target="reference")
    profiler = kernel.get_profiler()
    assert isinstance(profiler, tilelang.Profiler)
    assert profiler.do_bench(warmup=1, rep=2) > 0
    assert profiler.do_bench(lambda a, k: a, n_warmup=1, n_repeat=3, return_mode="min") >= 0
    assert len(profiler.do_bench(warmup=1, rep=2, quantiles=[0.1, 0.9])) == 2
    ones = tilelang.Profiler(kernel.params, kernel.out_idx, tilelang.TensorSupplyType.One).inputs()
    assert ones[0].tolist() == [1.0] * 8 and ones[1] == 1


def test_do_bench():
    from tilelang.profiler import do_bench

    calls = []
    assert do_bench(lambda: calls.append(1), _n_warmup=2, _n_repeat=4) >= 0
    assert len(calls) == 1 + 5 + 2 + 4
    with pytest.raises(ValueError, match="return_mode"):
        do_bench(lambda: None, return_mode="best")


def test_command_line(tmp_path, capsys):
    from tilelang.tools.command_line import main

    path = tmp_path / "kernels.py"
    path.write_text(
        "import tilelang.language as T\ndef fill(N, dtype='float32'):\n    @T.prim_func\n"
        "    def main(A: T.Tensor((N,), dtype)):\n        with T.Kernel(1, threads=32):\n"
        "            for i in T.Parallel(N):\n                A[i] = 1\n    return main\n"
    )
    assert main(["ir", f"{path}:fill", "N=8"]) == 0
    assert "main" in capsys.readouterr().out
    assert main(["source", f"{path}:fill", "8", "--target", "reference"]) == 0
    assert main(["explain", f"{path}:fill", "8", "float16", "--target", "reference"]) == 0
    page = tmp_path / "page.html"
    assert main(["explain", f"{path}:fill", "8", "--target", "reference", "--html", str(page)]) == 0
    assert "</html>" in page.read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["ir", f"{path}:fill", "8", "--html", str(page)])
    capsys.readouterr()
    assert main(["ir", f"{path}:fill", "N=8", "dtype=flot16"]) == 1
    assert "did you mean float16?" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="no 'full'"):
        main(["ir", f"{path}:full"])


# ── a jitted function for another target ────────────────────────────────────────────────────────────────
@tilelang.jit
def plus_one(X):
    n = T.const("n")
    X: T.Tensor((n,), "float32")
    Y = T.empty((n,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(n):
            Y[i] = X[i] + 1
    return Y


class Adder:
    def __init__(self, number):
        self.number = number

    @tilelang.jit
    def add(self, X):
        X: T.Tensor((32,), "float32")
        Y = T.empty((32,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                Y[i] = X[i] + self.number
        return Y


def test_jit_of_a_jitted_function():
    x = np.arange(32, dtype="f4")
    assert tilelang.jit(plus_one) is plus_one and tilelang.jit(scale) is scale
    simulated = tilelang.jit(plus_one, target="sim:sm_90")
    assert np.array_equal(simulated(x), x + 1) and np.array_equal(plus_one(x), x + 1)
    assert simulated.compile(x).target == "sim:sm_90" and plus_one.compile(x).target.startswith("cpu")
    method = tilelang.jit(Adder(2).add, target="sim:sm_90")
    assert np.array_equal(method(x), x + 2) and method.compile(x).target == "sim:sm_90"
    factory = tilelang.jit(scale, target="cpu")  # what was said the first time holds: out_idx=-1
    assert np.array_equal(factory(32)(x), 2 * x) and scale(32).target == "reference"


@pytest.mark.parametrize("call, words", [
    (lambda: tilelang.jit(plus_one, out_idx=[0]), "'plus_one' is an eager kernel"),
    (lambda: tilelang.jit(scale(32), target="cpu"), r"tilelang\.compile\(kernel\.prim_func, target"),
    (lambda: tilelang.compile(plus_one), r"tilelang\.jit\(plus_one, target=…\)"),
    (lambda: T.macro(plus_one), "not a @tilelang.jit function"),
    (lambda: T.prim_func(plus_one), "not a @tilelang.jit function"),
    (lambda: T.prim_func(T.macro(two_outputs)), "not a @T.macro"),
    (lambda: tilelang.jit(tilelang.autotune(configs=[{}])(scale)), "not a @tilelang.autotune function"),
    (lambda: tilelang.jit(3), "not an int"),
])  # fmt: skip
def test_a_function_of_another_kind(call, words):
    with pytest.raises(tilelang.CompileError, match=words) as caught:
        call()
    assert not any(name in str(caught.value) for name in ("EagerImpl", "JITImpl", "BoundJIT"))
