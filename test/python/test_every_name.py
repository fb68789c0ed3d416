"""Every public name has a test: those that no other file touches have theirs here."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T

SIM = "sim:sm_80"


def used(text):
    """What Python text uses: its attributes, what it has imported from tilelang, and its strings, which may
    be kernels.  Comments and docstrings use nothing."""
    tree = ast.parse(text)
    bodies = [
        node.body[0] for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list) and node.body
    ]
    left_out = {first.value for first in bodies if isinstance(first, ast.Expr)}
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and "tilelang" in (n.module or "")]
    imported = {alias.asname or alias.name for n in imports for alias in n.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            left_out.update(node.values)
            yield "".join(part.value if isinstance(part, ast.Constant) else "{" for part in node.values)
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name) and node.id in imported:
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in left_out:
            yield node.value


TEXT = "\n".join(part for path in Path(__file__).parent.glob("test_*.py") for part in used(path.read_text()))
WORDS = set(re.findall(r"\w+", TEXT))


def is_tested(name):
    """By its name, or as one of a family that a test goes through, such as f"ldg{bits}"."""
    stem, _, last = name.rpartition("_")
    return (name in WORDS or re.sub(r"\d+$", "{", name) in TEXT
            or f"{stem}_{{" in TEXT and last in WORDS)  # fmt: skip


def test_every_name_of_the_language_is_tested():
    assert [name for name in T.__all__ if not is_tested(name)] == []


def test_every_name_of_the_package_is_tested():
    assert [name for name in tilelang.__all__ if not is_tested(name)] == []


def test_a_name_without_a_test_is_found():
    assert not is_tested("never" + "_heard_of") and not is_tested("ldq" + "64") and is_tested("ldg64")
    text = """'A docstring'\nfrom tilelang import c\n# a comment\nd = T.a("s") + f"b{c}" + c\n"""
    assert set(used(text)) == {"a", "b{", "c", "s"}


def test_select_and_unpack(target):
    """T.Select is T.if_then_else; packed numbers are counted from the lowest bits."""

    @T.prim_func
    def main(A: T.Tensor((64,), "uint32"), B: T.Tensor((2, 64, 8), "int32"), C: T.Tensor((64,), "uint32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(64, 8):
                B[0, i, j] = T.unpack_uint(4, A[i], j, "int32")
                B[1, i, j] = T.unpack_int(4, A[i], j, "int32")
            for i in T.Parallel(64):
                C[i] = T.Select(i % 2 == 0, A[i], T.uint32(7))

    a = np.random.default_rng(0).integers(0, 1 << 32, 64, dtype=np.uint32)
    b, c = np.full((2, 64, 8), 99, np.int32), np.zeros(64, np.uint32)
    tilelang.compile(main, target=target)(a, b, c)
    nibbles = (a[:, None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15).astype(np.int32)
    assert np.array_equal(b, [nibbles, (nibbles ^ 8) - 8])
    assert np.array_equal(c, np.where(np.arange(64) % 2 == 0, a, 7))


REDUCTIONS = {
    "reduce_abssum": lambda x: np.abs(x).sum(1),
    "reduce_all": lambda x: (x != 0).all(1),
    "reduce_any": lambda x: (x != 0).any(1),
    "reduce_bitand": lambda x: np.bitwise_and.reduce(x, 1),
    "reduce_bitor": lambda x: np.bitwise_or.reduce(x, 1),
    "reduce_bitxor": lambda x: np.bitwise_xor.reduce(x, 1),
    "reduce_prod": lambda x: x.prod(1),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_by_their_own_names(name, target):
    reduce = getattr(T, name)

    @T.prim_func
    def main(A: T.Tensor((9, 5), "int32"), B: T.Tensor((9,), "int32")):
        with T.Kernel(1, threads=64):
            x, y = T.alloc_fragment((9, 5), "int32"), T.alloc_fragment((9,), "int32")
            T.copy(A, x)
            reduce(x, y, dim=1)
            T.copy(y, B)

    a = np.random.default_rng(0).integers(-3, 4, (9, 5)).astype(np.int32)
    a[0], a[1] = 0, 5
    b = np.full(9, 99, np.int32)
    tilelang.compile(main, target=target)(a, b)
    assert np.array_equal(b, REDUCTIONS[name](a))


def test_vectorized(target):
    """A loop whose iterations are the lanes of one access."""

    @T.prim_func
    def main(A: T.Tensor((64, 4), "float32"), B: T.Tensor((64, 4), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                for j in T.vectorized(4):
                    B[i, j] = A[i, j] + 1

    a, b = np.random.default_rng(0).random((64, 4), np.float32), np.full((64, 4), np.nan, np.float32)
    kernel = tilelang.compile(main, target=target)
    kernel(a, b)
    assert np.array_equal(b, a + 1)
    assert target != SIM or "vec<float, 4>" in kernel.get_kernel_source()


def test_older_names_of_loops_and_annotations(target):
    """T.Unroll and T.Vectorized are T.unroll and T.vectorized; T.FragmentTensor is T.FragmentBuffer."""
    assert T.Unroll is T.unroll and T.Vectorized is T.vectorized

    @T.macro
    def double(x: T.FragmentTensor((64, 4), "float32")):
        for i in T.Parallel(64):
            for j in T.Vectorized(4):
                x[i, j] = x[i, j] * 2

    @T.prim_func
    def main(A: T.Tensor((64, 4), "float32"), B: T.Tensor((64, 4), "float32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((64, 4), "float32")
            T.copy(A, x)
            for _ in T.Unroll(2):
                double(x)
            T.copy(x, B)

    a, b = np.random.default_rng(0).random((64, 4), np.float32), np.full((64, 4), np.nan, np.float32)
    tilelang.compile(main, target=target)(a, b)
    assert np.array_equal(b, a * 4)


def test_symbolic(target):
    """T.symbolic is T.dynamic."""
    n = T.symbolic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i] * 2

    kernel = tilelang.compile(main, target=target)
    for length in (1, 32, 77):
        a = np.arange(length, dtype=np.float32)
        b = np.full_like(a, np.nan)
        kernel(a, b)
        assert np.array_equal(b, 2 * a)


def test_places_and_sizes_of_the_grid(target):
    @T.prim_func
    def main(B: T.Tensor((3, 2, 4), "int32")):
        with T.Kernel(4, 2, 3, threads=32):
            x, y, z = T.get_block_bindings()
            gx, gy, gz = T.get_block_extents()
            for i in T.Parallel(1):
                B[z, y, x + i] = (z * gy + y) * gx + x + gz * 100

    b = np.zeros((3, 2, 4), np.int32)
    tilelang.compile(main, target=target)(b)
    assert np.array_equal(b.ravel(), np.arange(24) + 300)


def test_older_shuffles_and_returning_threads():
    """tvm_warp_shuffle_up and _down are shfl_up and shfl_down; T.thread_return ends a thread."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((3, 64), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            B[0, tx] = T.tvm_warp_shuffle_up(0xFFFFFFFF, A[tx], 3)
            B[1, tx] = T.tvm_warp_shuffle_down(0xFFFFFFFF, A[tx], 3)
            if tx % 3 == 0:
                T.thread_return()
            B[2, tx] = T.get_warp_idx_sync()

    a, b = np.arange(64, dtype=np.int32) * 7, np.full((3, 64), -1, np.int32)
    tilelang.compile(main, target=SIM)(a, b)
    lane, own = np.arange(64) % 32, np.arange(64)
    assert np.array_equal(b[0], a[np.where(lane >= 3, own - 3, own)])
    assert np.array_equal(b[1], a[np.where(lane < 29, own + 3, own)])
    assert np.array_equal(b[2], np.where(own % 3 == 0, -1, own // 32))


@pytest.mark.parametrize("target", [SIM])
def test_a_local_buffer_in_a_macro(target):
    @T.macro
    def reverse(x: T.LocalBuffer((4,), "float32")):
        for i in T.unroll(2):
            kept = T.alloc_var("float32", init=x[i])
            x[i] = x[3 - i]
            x[3 - i] = kept

    @T.prim_func
    def main(A: T.Tensor((32, 4), "float32"), B: T.Tensor((32, 4), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            x = T.alloc_local((4,), "float32")
            for i in T.serial(4):
                x[i] = A[tx, i]
            reverse(x)
            for i in T.serial(4):
                B[tx, i] = x[i]

    a, b = np.random.default_rng(0).random((32, 4), np.float32), np.full((32, 4), np.nan, np.float32)
    tilelang.compile(main, target=target)(a, b)
    assert np.array_equal(b, a[:, ::-1])


def test_the_log_level():
    import logging

    logger = logging.getLogger("tilelang")
    before = logger.level
    try:
        tilelang.set_log_level("debug")
        assert logger.level == logging.DEBUG
        tilelang.set_log_level(logging.ERROR)
        assert logger.level == logging.ERROR
    finally:
        logger.setLevel(before)


def test_what_compile_returns():
    import gemm_relu

    kernel = tilelang.compile(gemm_relu.gemm_relu.get_tir(16, 16, 16), target="reference")
    assert isinstance(kernel, tilelang.JITKernel)


def test_inputs_for_tuning():
    assert tilelang.get_autotune_inputs() is None
    with tilelang.set_autotune_inputs(1, 2):
        assert list(tilelang.get_autotune_inputs()) == [1, 2]
    assert tilelang.get_autotune_inputs() is None
