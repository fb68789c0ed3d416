"""Forms of the published language around a kernel: targets, launches without extents, symbols without a name,
JIT objects, inputs that tools make, the kinds of errors; and what is said of a slip of the pen."""

import sys

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang.tools.supply import TensorSupplyType, make_input

TARGETS = ["reference", "cpu", "sim:sm_80", "sim:sm_90a"]


# ── targets ───────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("target", [
    "c", "llvm", "c -keys=cpu -constants-byte-alignment=16",
    "llvm -keys=cpu -mtriple=x86_64-linux-gnu -num-cores 8",
    {"kind": "c", "keys": ["cpu"], "tag": ""}, '{"kind": "llvm", "keys": ["cpu"], "vector-width": 16}',
])  # fmt: skip
def test_published_targets_of_cpus(target):
    assert tilelang.resolve_target(target) == tilelang.resolve_target("cpu")


def test_a_processor_that_a_published_target_names():
    assert (
        tilelang.resolve_target({"kind": "llvm", "mcpu": "haswell", "keys": ["cpu"]}) == "cpu -mcpu=haswell"
    )
    for target in ("llvm -keys=cpu -mcpu=haswel", "c -mcpu=haswel"):
        with pytest.raises(tilelang.CompileError, match=r"no chip 'haswel'; .*did you mean `haswell`\?"):
            tilelang.resolve_target(target)
    with pytest.raises(tilelang.CompileError, match="'nonsense' is not understood"):
        tilelang.resolve_target("llvm nonsense")
    with pytest.raises(
        tilelang.CompileError, match="kernels for NVIDIA's GPUs are CUDA text here, not CuTe DSL"
    ):
        tilelang.resolve_target("cutedsl")


# ── launches ──────────────────────────────────────────────────────────────────────────────────────────
def filled(**launch):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(**launch):
            for i in T.Parallel(8):
                A[i] = i

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("launch", [{"threads": 32}, {"is_cpu": True}], ids=str)
def test_a_launch_without_extents_is_one_block(launch, target):
    a = np.full(8, np.nan, "f4")
    tilelang.compile(filled(**launch), target=target)(a)
    assert np.array_equal(a, np.arange(8))


def test_launches_that_are_refused():
    for launch, said in (
        ({}, "T.Kernel takes one to three block extents, not 0; T.Kernel(threads=…) is one block"),
        (
            {"is_cpu": True, "threads": 32},
            "T.Kernel: is_cpu=True is one thread a block; leave threads= out, or is_cpu",
        ),
    ):
        with pytest.raises(tilelang.CompileError) as caught:
            filled(**launch)
        assert caught.value.text == said


@pytest.mark.parametrize("target", TARGETS)
def test_a_grid_of_no_blocks_launches_nothing(target):
    with pytest.warns(tilelang.TilelangWarning, match="block extent 1 of T.Kernel is 0: no block will run"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(3, 0, threads=32) as (bx, by):
                A[bx] = by

    a = np.full(8, 7, "f4")
    tilelang.compile(main, target=target)(a)
    assert (a == 7).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(4, 8), (0, 8), (4, 0), (0, 0)], ids=str)
def test_eager_kernels_of_empty_tensors(shape, target):
    @tilelang.jit(target=target)
    def added(X):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float32)
        Z = T.empty((M, N), T.float32)
        with T.Kernel(M, threads=64) as b:
            for j in T.Parallel(N):
                Z[b, j] = X[b, j] + 1
        return Z

    x = np.arange(shape[0] * shape[1], dtype="f4").reshape(shape)
    assert np.array_equal(added(x), x + 1)


# ── parameters and symbols ────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("target", TARGETS)
def test_symbols_without_a_name_and_variables_of_floats(target):
    n, m, s = T.int32(), T.int64(), T.Var("s", "float32")

    @T.prim_func
    def main(A: T.Tensor((n, m), "float32"), x: s, y: T.Var("y", "float64")):
        with T.Kernel(n, threads=32) as i:
            for j in T.serial(m):
                A[i, j] = x + y

    a = np.full((3, 5), np.nan, "f4")
    tilelang.compile(main, target=target)(a, 2.5, 0.25)
    assert (a == 2.75).all()


@tilelang.jit(target="cpu")
def scaled(X, Y, factor=2):
    M = T.const("M")
    X: T.Tensor((M,), T.float32)
    Y: T.Tensor((M,), T.float32)
    with T.Kernel(1, threads=64):
        for j in T.Parallel(M):
            Y[j] = X[j] * factor


def test_arguments_are_parsed():
    x, y = np.ones(4, "f4"), np.zeros(4, "f4")
    key, passed = scaled.parse_args(x, Y=y)
    assert list(passed) == ["X", "Y"] and passed["X"] is x and passed["Y"] is y
    assert key == scaled.parse_args(x, y, 2)[0] != scaled.parse_args(x, y, 3)[0]
    with pytest.raises(TypeError, match="missing a required argument: 'Y'"):
        scaled.parse_args(x)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'Z'"):
        scaled.parse_args(x, y, Z=3)


@pytest.mark.parametrize("given, kind", [("x", "a str"), (None, "None"), (3.0, "a float"), (3, "an int")])
def test_what_is_no_tensor(given, kind):
    with pytest.raises(TypeError) as caught:
        scaled(np.ones(4, "f4"), given)
    assert str(caught.value) in (
        f"scaled: argument 1 'Y' is {kind}; a tensor was expected",
        f"scaled: argument 1 'Y' is a {type(given).__name__}; a tensor was expected",
    )


# ── the text ──────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "cuda -arch=sm_90a"])
def test_lines_of_the_kernel_in_its_text(target):
    first = sys._getframe().f_lineno

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "float32")
            T.copy(A, tile)
            for i in T.Parallel(64):
                B[i] = tile[63 - i]

    configs = {tilelang.PassConfigKey.TL_EMIT_LINE_DIRECTIVES: True}
    source = tilelang.compile(main, target=target, pass_configs=configs).get_kernel_source()
    said = [line for line in source.splitlines() if line.startswith("#line")]
    assert {f'#line {first + n} "{__file__}"' for n in (6, 8)} <= set(said)
    assert said == [line for i, line in enumerate(said) if i == 0 or line != said[i - 1]]
    assert "#line" not in tilelang.compile(main, target=target).get_kernel_source()


# ── errors ────────────────────────────────────────────────────────────────────────────────────────────
def test_errors_are_those_that_scripts_catch():
    assert issubclass(tilelang.CompileError, ValueError)
    with pytest.raises(ValueError, match="unknown dtype"):
        T.Tensor((3,), "flaot16")
    with pytest.raises(TypeError, match="did you mean num_stages?"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                for _ in T.Pipelined(4, num_stage=2):
                    pass

    with pytest.raises(TypeError, match="missing 1 required positional argument"):

        @T.prim_func
        def other(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                T.copy(A)


@pytest.mark.parametrize("name, call", {
    "compile": lambda: tilelang.compile(None, targt="cpu"),
    "jit": lambda: tilelang.jit(targt="cpu"),
    "par_compile": lambda: tilelang.par_compile([], targt="cpu"),
    "lower": lambda: tilelang.lower(None, targt="cpu"),
}.items())  # fmt: skip
def test_a_keyword_that_does_not_exist(name, call):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).startswith(
        f"{name} got an unexpected keyword argument 'targt'; did you mean target? It takes ("
    )


def test_keywords_of_tools():
    for call, near in (
        (lambda: tilelang.autotune(config=[]), "configs"),
        (lambda: tilelang.do_bench(lambda: 0, quantile=[1]), "quantiles"),
    ):
        with pytest.raises(TypeError, match=f"did you mean {near}\\?"):
            call()


def test_what_a_cpu_does_not_do_is_said_of_a_cpu():
    @T.prim_func
    def main(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            A[T.get_thread_binding()] = 1

    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(main, target="cpu")
    assert "but the CPU runs one thread per block" in caught.value.text


# ── inputs that tools make ────────────────────────────────────────────────────────────────────────────
class Param:
    is_tensor, shape = True, [4096]

    def __init__(self, dtype):
        self.dtype = T.dtype(dtype)


def drawn(kind, dtype):
    return np.asarray(make_input(TensorSupplyType[kind], Param(dtype), "cpu")).astype("f8")


@pytest.mark.parametrize("kind, dtype, values", [
    ("Auto", "int8", range(-2, 3)), ("Auto", "int32", range(-2, 3)), ("Auto", "uint8", range(3)),
    ("Auto", "bool", range(2)), ("Integer", "int8", range(-2, 3)), ("Integer", "float16", range(-2, 3)),
    ("Integer", "uint32", range(3)), ("Uniform", "int8", [1]), ("Normal", "int8", [1]),
    ("Zero", "float32", [0]), ("One", "bfloat16", [1]),
])  # fmt: skip
def test_whole_inputs(kind, dtype, values):
    assert set(drawn(kind, dtype)) == set(values)


@pytest.mark.parametrize("kind, mean, deviation", [
    ("Auto", 0, 3**-0.5), ("Uniform", 0, 3**-0.5), ("Normal", -1, 1), ("Randn", 0, 1),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_inputs_of_floats(kind, mean, deviation, dtype):
    made = drawn(kind, dtype)
    assert abs(made.mean() - mean) < 0.1 and abs(made.std() - deviation) < 0.1
    if kind in ("Auto", "Uniform"):
        assert made.min() >= -1 and made.max() <= 1


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_inputs_of_narrow_floats(dtype):
    made = drawn("Auto", dtype)
    assert made.min() < -100 and made.max() > 100 and (made == np.round(made)).all()


def test_inputs_of_a_gpu_bring_pytorch(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)  # as where it is not installed
    with pytest.raises(RuntimeError, match="install PyTorch, or pass input_tensors"):
        make_input(TensorSupplyType.Auto, Param("float32"), "cuda")
