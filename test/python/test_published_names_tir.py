"""The names of TVM's tensor IR that the language has."""

import logging

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import kernel
from tilelang import CompileError

N = 32


def run(body, n=N, dtype="float32", target="reference", threads=32):
    """out[i] = body(i, x[i]) for every i."""

    @T.prim_func
    def main(x: T.Tensor((n,), dtype), out: T.Tensor((n,), dtype)):
        with T.Kernel(1, threads=threads):
            for i in T.Parallel(n):
                out[i] = body(i, x[i])

    x = (np.arange(n) - 7).astype(dtype)
    out = np.zeros(n, dtype)
    tilelang.compile(main, target=target)(x, out)
    return x, out


X = np.arange(N, dtype=np.float32) - 7

NODES = {
    "Add": (lambda i, x: T.Add(x, 2.0), X + 2), "Sub": (lambda i, x: T.Sub(x, 2.0), X - 2),
    "Mul": (lambda i, x: T.Mul(2.0, x), X * 2), "Div": (lambda i, x: T.Div(x, 2.0), X / 2),
    "Min": (lambda i, x: T.Min(x, 3.0), np.minimum(X, 3)),
    "Max": (lambda i, x: T.Max(x, 3.0), np.maximum(X, 3)),
    "Div of integers": (lambda i, x: T.cast(T.Div(i - 7, 2), "float32"), np.trunc(X / 2)),
    "Mod": (lambda i, x: T.cast(T.Mod(i - 7, 3), "float32"), np.fmod(X, 3)),
    "FloorDiv": (lambda i, x: T.cast(T.FloorDiv(i - 7, 2), "float32"), X // 2),
    "FloorMod": (lambda i, x: T.cast(T.FloorMod(i - 7, 3), "float32"), X % 3),
    "EQ": (lambda i, x: T.if_then_else(T.EQ(x, 3.0), 1.0, 0.0), X == 3),
    "NE": (lambda i, x: T.if_then_else(T.NE(x, 3.0), 1.0, 0.0), X != 3),
    "LT": (lambda i, x: T.if_then_else(T.LT(x, 3.0), 1.0, 0.0), X < 3),
    "LE": (lambda i, x: T.if_then_else(T.LE(x, 3.0), 1.0, 0.0), X <= 3),
    "GT": (lambda i, x: T.if_then_else(T.GT(x, 3.0), 1.0, 0.0), X > 3),
    "GE": (lambda i, x: T.if_then_else(T.GE(x, 3.0), 1.0, 0.0), X >= 3),
    "And": (lambda i, x: T.if_then_else(T.And(x > 0, x < 3), 1.0, 0.0), (X > 0) & (X < 3)),
    "Or": (lambda i, x: T.if_then_else(T.Or(x < 0, x > 3), 1.0, 0.0), (X < 0) | (X > 3)),
    "Not": (lambda i, x: T.if_then_else(T.Not(x < 3), 1.0, 0.0), X >= 3),
    "constants": (lambda i, x: T.Add(T.FloatImm("float32", 1), T.cast(T.IntImm("int32", 2), "float32")),
                  X * 0 + 3),
    "Call": (lambda i, x: T.Call("float32", "tirx.abs", [x]), np.abs(X)),
    "Broadcast": (lambda i, x: T.Broadcast(x, 1) + T.broadcast(x, 1), X * 2),
    "cdiv": (lambda i, x: T.cast(T.cdiv(i, 3), "float32"), -(-(X + 7) // 3)),
    "fabs": (lambda i, x: T.fabs(x), np.abs(X)), "fmul": (lambda i, x: T.fmul(x, x), X * X),
    "boolean": (lambda i, x: T.if_then_else(T.boolean(x), 1.0, 0.0), X != 0),
    "hints": (lambda i, x: T.meta_var(T.if_then_else(T.ignore_loop_partition(x > 0), x, 0.0)),
              np.maximum(X, 0)),
    "another": (lambda i, x: T.if_then_else(T.tvm_thread_invariant(x > 0), x, 0.0), np.maximum(X, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", NODES)
def test_a_node_builds_its_value(name):
    body, wanted = NODES[name]
    assert (run(body)[1] == wanted).all()


def test_of_two_python_numbers():
    assert (run(lambda i, x: x + T.cast(T.Add(1, 2), "float32") + T.Mul(0.5, 4.0))[1] == X + 5).all()


def test_isinstance_tells_nodes_apart():
    seen = {}

    def note(i, x):
        values = {
            "Add": x + 1.0, "Sub": x - 1.0, "Mul": x * 2.0, "Div": x / 2.0, "Min": T.min(x, 1.0),
            "Max": T.max(x, 1.0), "FloorDiv": i // 2, "FloorMod": i % 2, "EQ": i == 1, "NE": i != 1,
            "LT": i < 1, "LE": i <= 1, "GT": i > 1, "GE": i >= 1,
            "And": T.And(i > 1, i < 3), "Or": T.Or(i > 1, i < 3),
            "Not": T.Not(i < 3), "Var": i, "BufferLoad": x, "Call": T.exp(x), "IntImm": T.int32(3),
            "FloatImm": T.float32(3), "Mod": T.truncmod(i, 3),
        }  # fmt: skip
        for name, value in values.items():
            seen[name] = [n for n in values if isinstance(value, getattr(T, n))]
            assert isinstance(value, T.PrimExpr)
        assert isinstance(T.truncdiv(i, 2), T.Div) and isinstance(i, T.SizeVar)
        assert not isinstance(T.cast(i, "float32"), T.Call)
        return x

    run(note)
    assert seen == {name: [name] for name in seen}
    assert not isinstance(3, T.IntImm) and isinstance("a", T.StringImm) and T.StringImm("a") == "a"
    assert not isinstance(3, T.PrimExpr) and isinstance(T.dynamic("n"), T.Var)


def test_extents_that_the_call_knows():
    n, m = T.Var("n", "int32"), T.SizeVar("m", "int32")
    k = T.var("int32", "k")

    @T.prim_func
    def main(A: T.Tensor((n, m), "float32"), B: T.Tensor((k,), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(n, m):
                A[i, j] = A[i, j] + B[j]

    a, b = np.ones((3, 5), np.float32), np.arange(5, dtype=np.float32)
    tilelang.compile(main, target="reference")(a, b)
    assert (a == 1 + np.arange(5)).all()
    assert isinstance(main, T.PrimFunc)


def test_statements(target, caplog):
    caplog.set_level(logging.DEBUG, "tilelang")

    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            T.annotate_consumer_reg_alloc(240)
            T.annotate_producer_reg_dealloc()
            T.reads(A[0:8])
            T.writes(B[0:8])
            T.sblock_attr({"k": 1})
            count = T.alloc_var("int32", 0)
            with T.While(count < 8):
                with T.Assert(count >= 0, "the count is negative"):
                    T.buffer_store(B, A[count] * 2, [count], predicate=A[count] != 3)
                count += 1
            for i in T.serial(8):
                if T.BufferLoad(A, [i]) == 5:
                    T.continue_loop()
                if i == 7:
                    T.break_loop()
                B[i] = B[i] + 1

    a, b = np.arange(8, dtype=np.int32), np.full(8, 100, np.int32)
    tilelang.compile(main, target=target)(a, b)
    assert b.tolist() == [1, 3, 5, 101, 9, 10, 13, 14]
    said = "\n".join(caplog.messages)
    for name in (
        "annotate_consumer_reg_alloc",
        "annotate_producer_reg_dealloc",
        "reads",
        "writes",
        "sblock_attr",
    ):
        assert f"T.{name}" in said


def test_an_assertion_that_fails(tmp_path):
    main = kernel(tmp_path, "T.Assert(A[0, 0] > 0, 'A begins with {}')\nA[0, 0] = 1.0")
    with pytest.raises(CompileError, match="A begins with"):
        tilelang.compile(main, target="reference")(np.zeros((64, 8), np.float32), 1)


def test_addresses():
    @T.prim_func
    def main(p: T.int64, out: T.Tensor((4,), "float32")):
        q = T.make_tensor(T.handle_add_byte_offset(p, 16), (4,), "float32")
        with T.Kernel(1, threads=1):
            for i in T.serial(4):
                out[i] = T.if_then_else(T.isnullptr(p), -1.0, q[i])

    a, out = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    tilelang.compile(main, target="cpu")(a.ctypes.data, out)
    assert out.tolist() == [4, 5, 6, 7]


def test_access_pointers(tmp_path):
    main = kernel(tmp_path, """\
        L = T.alloc_local((4,), "float32")
        L[0] = A[0, 0]
        A[0, 0] = T.call_extern("float32", "first", T.tvm_access_ptr("float32", L.data, 0, 4, 1),
                                eval=lambda p: p[0] + 1)
        """)  # fmt: skip
    a = np.full((64, 8), 5, np.float32)
    tilelang.compile(main, target="reference")(a, 1)
    assert a[0, 0] > 5


def test_buffers():
    @T.prim_func
    def main(a: T.handle, B: T.Tensor((4, 4), "float32")):
        A = T.match_buffer(a, (16,), "float32")
        with T.Kernel(1, threads=16):
            S = T.decl_buffer((4, 4), "float32", scope="shared")
            L = T.sblock_alloc_buffer((2,), "float32", scope="local")
            seen = T.buffer((16,), "float32", data=S.data)
            more = T.buffer_decl((16,), "float32", scope="local.fragment")
            T.copy(A, more)
            for i in T.Parallel(16):
                seen[i] = more[i] * 2
            for i in T.serial(2):
                L[i] = 1
            T.copy(S, B)

    a, b = np.arange(16, dtype=np.float32), np.zeros((4, 4), np.float32)
    tilelang.compile(main, target="reference")(a, b)
    assert (b.ravel() == 2 * a).all()


def test_active_lanes():
    _, out = run(lambda i, x: T.cast(T.tvm_warp_activemask(), "int64"), dtype="int64", target="sim:sm_80")
    assert (out == 2**32 - 1).all()


def test_fixed_point():
    values = [(7, 3, 1, 1), (-7, 3, 1, 1), (2**30, 2**30, 31, 3), (5, 1 << 30, 31, 0), (-5, 1 << 30, 31, 0)]

    @T.prim_func
    def main(x: T.Tensor((5, 4), "int32"), out: T.Tensor((5, 2), "int32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(5):
                out[i, 0] = T.q_multiply_shift(x[i, 0], x[i, 1], x[i, 2], x[i, 3])
                out[i, 1] = T.q_multiply_shift_per_axis(x[i, 0], x[i, 1], 1, x[i, 3], x[i, 2], True, True)

    x, out = np.array(values, np.int32), np.zeros((5, 2), np.int32)
    tilelang.compile(main, target="reference")(x, out)
    for (a, b, q, s), (plain, shifted) in zip(values, out.tolist(), strict=True):
        assert plain == (a * b * 2 + 2 ** (q + s)) // 2 ** (q + s + 1)
        assert shifted == (2 * a * b * 2 + 2 ** (q + s)) // 2 ** (q + s + 1)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_ldexp_and_nextafter(dtype, target):
    info = np.finfo(dtype)
    least = info.smallest_subnormal
    rows = [  # T.ldexp(x, n) and T.nextafter(x, y)
        (1.5, 2.0, 3),
        (-1.5, -2.0, -3),
        (0.0, 1.0, 5),
        (-0.0, -1.0, 7),
        (info.max, np.inf, -1),
        (info.smallest_normal, 0.0, -5),
        (least, 0.0, 20),
        (1.0, 1.0, 1023),
        (3.0, np.nan, -1074),
        (-least, 0.0, 2100),
        (np.inf, 0.0, 4),
        (np.nan, 1.0, 5),
        (1 + info.eps, -5.0, int(np.log2(least))),
        (7 * least, 9.0, -1),
        (2.0, 3.0, -5000),
        (1.0, -np.inf, 5000),
    ]
    columns = zip(*rows, strict=True)
    x, y, n = (np.array(column, kind) for column, kind in zip(columns, (dtype, dtype, "int32"), strict=True))

    @T.prim_func
    def main(
        X: T.Tensor((16,), dtype),
        Y: T.Tensor((16,), dtype),
        N: T.Tensor((16,), "int32"),
        A: T.Tensor((16,), dtype),
        B: T.Tensor((16,), dtype),
    ):
        with T.Kernel(1, threads=16):
            for i in T.Parallel(16):
                A[i] = T.ldexp(X[i], N[i])
                B[i] = T.nextafter(X[i], Y[i])

    a, b = np.zeros(16, dtype), np.zeros(16, dtype)
    tilelang.compile(main, target=target)(x, y, n, a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            a, np.ldexp(x.astype(np.float64), n).astype(dtype) if dtype != "float64" else np.ldexp(x, n)
        )
        np.testing.assert_array_equal(b, np.nextafter(x, y))


def test_plain_python():
    numbers = T.Range(2, 10)
    assert (numbers.min, numbers.extent) == (2, 8)
    assert T.index_map(lambda i, j: (j, i)).map_indices([1, 2]) == [2, 1]
    assert T.get_tvm_dtype("half") == "float16"
    assert T.is_float4("float4_e2m1fn") and T.is_float4_e2m1fn("float4_e2m1fn") and not T.is_float4("float16")
    assert not T.is_float4_e2m1_unpacked("float4_e2m1fn")
    assert T.is_f8f6f4_family("float8_e5m2") and not T.is_f8f6f4_family("float16")
    assert T.target("cuda -arch=sm_90").arch == "sm_90"
    T.validate_gemm_ab_dtypes("float16", "float16")
    T.validate_gemm_ab_dtypes("float8_e4m3fn", "float8_e5m2")
    T.validate_gemm_ab_dtypes("float8_e4m3fn", "float4_e2m1fn", allow_f8f6f4_mixed=True)
    with pytest.raises(CompileError, match="A is float16 and B is bfloat16"):
        T.validate_gemm_ab_dtypes("float16", "bfloat16")


@pytest.mark.parametrize("line,text", [
    ("T.While(True)", r"T\.While: the condition is True, known while"),
    ("T.Add(A[0, 0])", r"T\.Add: missing a required argument: 'b'"),
    ("T.isnullptr(p)", "T.isnullptr: p is a T.ptr, which cannot be used in arithmetic"),
    ("T.ldexp(T.int32(3), 2)", "ldexp takes a float, not int32"),
    ("T.nextafter(T.int32(3), 2)", "nextafter takes a float, not int32"),
    ("T.PrimFunc([], None)", r"T\.PrimFunc is for isinstance"),
    ("T.decl_buffer((4,), strides=(2,))", "leave strides and elem_offset out"),
    ("T.PrimExpr('int32')", r"T\.PrimExpr is for isinstance"),
    ("T.Call('float32', 'tirx.nothing', [])", "the language has no function nothing"),
])  # fmt: skip
def test_what_is_refused(tmp_path, line, text):
    with pytest.raises(CompileError, match=text):
        kernel(tmp_path, line, "A: T.Tensor((64, 8), 'float32'), p: T.ptr")
