"""T.view of shared tiles that have layouts: an element of a view is where the bytes of its storage are.

The reference knows no layouts; what the simulator and the CPU compute must be its bytes.
"""

import itertools

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import in_turn

EXECUTORS = ["sim:sm_80", "cpu"]
RNG = np.random.default_rng(11)
INTEGERS = {8: "uint8", 16: "int16", 32: "int32", 64: "int64"}
OTHERS = {8: "int8", 16: "uint16", 32: "uint32", 64: "uint64"}
PAIRS = [
    (INTEGERS[a], INTEGERS[b] if a != b else OTHERS[b]) for a, b in itertools.product(INTEGERS, INTEGERS)
]
LAYOUTS = ["swizzled", "padded", "slightly padded", "transposed", "blocked"]
ROWS, BYTES = 16, 64  # of a tile


def size(dtype):
    return np.dtype(dtype).itemsize


def placed(name, shape, dtype):
    """A map of two indices to places, in elements."""
    m, n = shape
    chunk = 16 // size(dtype)
    return {
        "swizzled": lambda i, j: i * n + ((j // chunk) ^ (i % (n // chunk))) * chunk + j % chunk,
        "padded": lambda i, j: i * (n + chunk) + j,
        "slightly padded": lambda i, j: i * (n + 1) + j,
        "transposed": lambda i, j: j * m + i,
        "blocked": lambda i, j: i // 8 * 8 * n + j // chunk * 8 * chunk + i % 8 * chunk + j % chunk,
    }[name]


def fits(where, shape, dtype, other):
    """Do the elements that make up one of the other type lie together, from a multiple of its size?"""
    i, j = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    places = where(i, j).reshape(-1, max(1, size(other) // size(dtype)))
    first = places[:, :1]
    count = places.shape[1]
    return bool((places == first + np.arange(count)).all() and (first % count == 0).all())


def shapes_of(dtype, view, kind):
    """The shapes of a tile and of its view: the same rows, or others."""
    rows = ROWS if kind == "same rows" else ROWS // 4
    return (ROWS, BYTES // size(dtype)), (rows, ROWS // rows * BYTES // size(view))


def program(dtype, view, kind, layout, annotated):
    """Every use of a view; `annotated`: the storage, its view, or a view of its view."""
    (m, n), (p, q) = shapes_of(dtype, view, kind)
    small = "int8" if size(view) > 1 else "uint64"
    other_shape = (m * n * size(dtype) // size(small),)

    @T.prim_func
    def main(
        A: T.Tensor((m, n), dtype),
        B: T.Tensor((p, q), view),
        seen: T.Tensor((p, q), view),
        read: T.Tensor((p, q), view),
        most: T.Tensor((p,), view),
        turned: T.Tensor((q, p), view),
        stored: T.Tensor((m, n), dtype),
        given: T.Tensor((m, n), dtype),
        small_ones: T.Tensor(other_shape, small),
    ):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((m, n), dtype)
            V = T.view(T.view(S, other_shape, small) if annotated == "far view" else S, (p, q), view)
            W = T.view(V, other_shape, small)
            R = T.alloc_fragment((p, q), view)
            M = T.alloc_fragment((p,), view)
            U = T.alloc_shared((q, p), view)
            if annotated == "storage":
                T.annotate_layout({S: T.Layout((m, n), placed(layout, (m, n), dtype))})
            else:
                T.annotate_layout({V: T.Layout((p, q), placed(layout, (p, q), view))})
            T.copy(A, S)
            T.copy(V, seen)
            for i, j in T.Parallel(p, q):
                R[i, j] = V[p - 1 - i, j]
            T.copy(R, read)
            T.reduce_max(V, M, dim=1)
            T.copy(M, most)
            T.transpose(V, U)
            T.copy(U, turned)
            for i, j in T.Parallel(p, q):
                V[i, j] = V[i, j] + T.cast(i * 3 + j, view)
            V[1, 2] = T.cast(77, view)
            T.copy(S, stored)
            T.copy(B, V)
            T.copy(S, given)
            T.copy(W, small_ones)

    return main


def bits(shape, dtype):
    return RNG.integers(0, 256, (*shape[:-1], shape[-1] * size(dtype)), np.uint8).view(dtype)


def outcomes(func, target, args):
    mine = [a.copy() for a in args]
    tilelang.compile(func, target=target)(*mine)
    return mine


@pytest.mark.parametrize("kind", ["same rows", "other rows"])
@pytest.mark.parametrize("dtype,view", PAIRS)
def test_every_use_of_a_view(dtype, view, kind):
    shape, seen_as = shapes_of(dtype, view, kind)
    small = "int8" if size(view) > 1 else "uint64"
    args = [bits(shape, dtype), bits(seen_as, view)]
    args += [np.zeros(like, view) for like in (seen_as, seen_as, seen_as[:1], seen_as[::-1])]
    args += [np.zeros(shape, dtype), np.zeros(shape, dtype), np.zeros(ROWS * BYTES // size(small), small)]
    want = outcomes(program(dtype, view, kind, "padded", "storage"), "reference", args)
    assert np.array_equal(want[2], args[0].view(view).reshape(seen_as))
    assert np.array_equal(want[7], args[1].view(dtype).reshape(shape))
    turn = PAIRS.index((dtype, view)) + (kind == "same rows")
    for layout, annotated in itertools.product(LAYOUTS, ["storage", "view", "far view"]):
        turn += 1
        of, extents = (dtype, shape) if annotated == "storage" else (view, seen_as)
        where = placed(layout, extents, of)
        possible = all(fits(where, extents, of, other) for other in (dtype, view, small))
        func = program(dtype, view, kind, layout, annotated)
        for target in in_turn(EXECUTORS, turn):
            about = f"{dtype} as {view}, {layout}, of the {annotated}, on {target}"
            if not possible:
                with pytest.raises(tilelang.CompileError, match="neighbours that make up one"):
                    tilelang.compile(func, target=target)
                continue
            for one, other in zip(outcomes(func, target, args), want, strict=True):
                assert one.tobytes() == other.tobytes(), about


# ── operands of gemm ──────────────────────────────────────────────────────────────────────────────────


def multiplied(dtype, operand, layout, which):
    """C = A^T B + A B, where A is a view of a tile of `dtype` that has a layout, or gets one by the gemm."""
    n = 32
    shape = (n, n * size(operand) // size(dtype))
    acc = "float32" if operand == "float16" else "int32" if operand == "int8" else operand

    @T.prim_func
    def main(
        A: T.Tensor(shape, dtype),
        B: T.Tensor((n, n), operand),
        C: T.Tensor((n, n), acc),
        D: T.Tensor(shape, dtype),
    ):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared(shape, dtype)
            V = T.view(S, dtype=operand)
            P = T.alloc_shared((n, n), operand)
            R = T.alloc_fragment((n, n), acc)
            if which == "storage":
                T.annotate_layout({S: T.Layout(shape, placed(layout, shape, dtype))})
            if which == "view":
                T.annotate_layout({V: T.Layout((n, n), placed(layout, (n, n), operand))})
            T.copy(A, S)
            T.copy(B, P)
            T.gemm(V, P, R, transpose_A=True, clear_accum=True)
            T.gemm(V, P, R)
            T.copy(S, D)
            T.copy(R, C)

    return main, shape, acc


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64"])
@pytest.mark.parametrize("operand", ["float16", "int8", "float32"])
def test_a_view_is_multiplied(dtype, operand):
    a, b = (RNG.integers(-4, 5, (32, 32)).astype(operand) for _ in range(2))
    want = a.astype("float64").T @ b.astype("float64") + a.astype("float64") @ b.astype("float64")
    kept = [(None, None), *itertools.product(["swizzled", "padded", "blocked"], ["storage", "view"])]
    others = 2 * ["uint8", "uint16", "float32", "float64"].index(dtype)
    for turn, (layout, which) in enumerate(kept, others):
        func, shape, acc = multiplied(dtype, operand, layout, which)
        of, extents = (dtype, shape) if which == "storage" else (operand, (32, 32))
        assert layout is None or fits(placed(layout, extents, of), extents, of, operand)
        for target in in_turn(["reference", "sim:sm_90", *EXECUTORS], turn):
            c, d = np.zeros((32, 32), acc), np.zeros(shape, dtype)
            tilelang.compile(func, target=target)(a.view(dtype), b, c, d)
            assert np.array_equal(c, want), f"{layout} of the {which}, on {target}"
            assert np.array_equal(d.view("uint8"), a.view("uint8")), f"{layout} of the {which}, on {target}"


def layout_of(func, name):
    report = tilelang.compile(func, target="sim:sm_80").report
    return str(report.buffer(name).layout)


def test_an_operator_lays_out_what_has_views():
    """The gemm's swizzle reaches the storage through its view; what a view could not follow is row-major."""
    func, shape, _ = multiplied("uint8", "float16", None, None)
    assert "^" in layout_of(func, "V") and "^" in layout_of(func, "S")

    def turned(wide):
        @T.prim_func
        def main(
            A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32"), C: T.Tensor((32, 16), "int64")
        ):
            with T.Kernel(1, threads=64):
                S = T.alloc_shared((32, 32), "float32")
                U = T.alloc_shared((32, 32), "float32")
                T.copy(A, S)
                T.transpose(S, U)
                T.copy(U, B)
                if wide:
                    T.copy(T.view(U, dtype="int64"), C)

        return main

    report = tilelang.compile(turned(True), target="sim:sm_80").report
    assert "transpose wants (i, j) -> i*33 + j, which would separate the elements" in report.refusals[0].text
    assert layout_of(turned(False), "U").startswith("(i, j) -> i*33 + j\n")  # 8 bytes that begin anywhere
    a = RNG.standard_normal((32, 32)).astype("float32")
    for target in ["reference", *EXECUTORS]:
        b, c = np.zeros_like(a), np.zeros((32, 16), "int64")
        tilelang.compile(turned(True), target=target)(a, b, c)
        assert np.array_equal(b, a.T) and np.array_equal(c, np.ascontiguousarray(a.T).view("int64"))


# ── what does not go together ─────────────────────────────────────────────────────────────────────────


def test_both_are_annotated():
    def both(pad):
        @T.prim_func
        def main(A: T.Tensor((16, 8), "int32"), B: T.Tensor((16, 16), "int16")):
            with T.Kernel(1, threads=32):
                S = T.alloc_shared((16, 8), "int32")
                V = T.view(S, dtype="int16")  # here
                T.annotate_layout({S: T.Layout((16, 8), lambda i, j: i * 12 + j)})
                T.annotate_layout({V: T.Layout((16, 16), lambda i, j: i * pad + j)})
                T.copy(A, S)
                T.copy(V, B)

        return main

    a = RNG.integers(-9, 9, (16, 8)).astype("int32")
    for target in ["reference", *EXECUTORS]:
        b = np.zeros((16, 16), "int16")
        tilelang.compile(both(24), target=target)(a, b)
        assert np.array_equal(b, a.view("int16"))
    with pytest.raises(tilelang.CompileError) as error:
        both(20)
    assert (
        "S and V share one storage, but their layouts disagree: S[1, 0] begins at byte 48, and V[1, 0], "
        "which is the same byte, at byte 40; annotate one of the two, and the other follows"
    ) in str(error.value)
    assert "# here" in str(error.value)


def test_fragments_that_are_both_annotated():
    def both(per_thread):
        @T.prim_func
        def main(A: T.Tensor((128,), "int32"), B: T.Tensor((256,), "int16")):
            with T.Kernel(1, threads=32):
                S = T.alloc_fragment((128,), "int32")
                V = T.view(S, dtype="int16")
                T.annotate_layout({S: T.Fragment((128,), lambda i: (i // 4, i % 4))})
                T.annotate_layout({V: T.Fragment((256,), lambda i: (i // per_thread, i % per_thread))})
                T.copy(A, S)
                T.copy(V, B)

        return main

    a = RNG.integers(-9, 9, 128).astype("int32")
    for target in ["reference", *EXECUTORS]:
        b = np.zeros(256, "int16")
        tilelang.compile(both(8), target=target)(a, b)
        assert np.array_equal(b, a.view("int16"))
    with pytest.raises(
        tilelang.CompileError, match=r"S\[4\] begins at byte 0 of thread 1, and V\[8\].*byte 16 of thread 0"
    ):
        both(16)


@pytest.mark.parametrize("target", EXECUTORS)
def test_a_refusal_is_at_the_line_of_the_view(target):
    @T.prim_func
    def main(A: T.Tensor((16, 8), "int16"), B: T.Tensor((16, 4), "int32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((16, 8), "int16")
            T.annotate_layout({S: T.Layout((16, 8), lambda i, j: i * 9 + j)})
            T.copy(A, S)
            V = T.view(S, dtype="int32")  # here
            T.copy(V, B)

    with pytest.raises(tilelang.CompileError) as error:
        tilelang.compile(main, target=target)
    assert (
        "V cannot view S as int32: the layout of S in shared memory is (i, j) -> i*9 + j, where the 2 "
        "neighbours that make up one int32 are not together, in order, from a multiple of 2 elements; "
        "annotate a layout that keeps them together"
    ) in str(error.value)
    assert "# here" in str(error.value)


@pytest.mark.parametrize("of_view", [False, True])
def test_a_tensor_with_views_has_no_layout(of_view):
    with pytest.raises(tilelang.CompileError) as error:

        @T.prim_func
        def main(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8, 8), "int32")):
            with T.Kernel(1, threads=32):
                V = T.view(A, (8, 8), "int32")
                T.annotate_layout({V if of_view else A: T.Layout((8, 8), lambda i, j: j * 8 + i)})  # here
                T.copy(V, B)

    assert "cannot have a layout: V is a view of A in another shape or type" in str(error.value)
    assert "# here" in str(error.value)


# ── memory under two names ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("chunk", [None, 2, 16])
def test_bytes_as_pairs(target, chunk):
    @T.prim_func
    def main(A: T.Tensor((16, 32), "uint8"), B: T.Tensor((16, 64), "int8"), C: T.Tensor((16, 32), "uint8")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((16, 32), "uint8")
            V = T.view(S, dtype="uint4")
            F = T.alloc_fragment((16, 64), "uint4")
            if chunk:
                T.annotate_layout(
                    {S: T.Layout((16, 32), lambda i, j: i * 32 + (j // chunk ^ i % 2) * chunk + j % chunk)}
                )
            T.copy(A, S)
            T.copy(V, F)
            for i, j in T.Parallel(16, 64):
                B[i, j] = T.cast(F[i, j], "int8")
            if not chunk:
                T.copy(F, V)
            T.copy(S, C)

    a = RNG.integers(0, 256, (16, 32)).astype("uint8")
    b, c = np.zeros((16, 64), "int8"), np.zeros_like(a)
    tilelang.compile(main, target=target)(a, b, c)
    assert np.array_equal(b, np.stack([a & 15, a >> 4], -1).reshape(16, 64)) and np.array_equal(c, a)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_a_loop_changes_what_it_reads_under_another_type(target):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=1):
            S = T.alloc_shared((32,), "float32")
            V = T.view(S, (32,), "int32")
            F = T.alloc_fragment((32,), "float32")
            T.clear(F)
            T.copy(A, S)
            for _ in T.serial(8):
                V[3] = V[3] + 0x00800000  # twice the number
                for i in T.Parallel(32):
                    F[i] = F[i] + S[3]
            T.copy(F, B)

    a, b = np.ones(32, "float32"), np.zeros(32, "float32")
    tilelang.compile(main, target=target)(a, b)
    assert np.array_equal(b, np.full(32, sum(2.0**n for n in range(1, 9)), "float32"))
