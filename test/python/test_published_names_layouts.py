"""Published members of layouts and fragments, maps of matrix instructions, CuTe's names."""

import itertools

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang import CompileError
from tilelang.cuda.intrinsics.layout import mma_layout, utils
from tilelang.cuda.intrinsics.layout.utils import get_ldmatrix_offset, get_mma_micro_size, mma_store_index_map
from tilelang.cuda.intrinsics.macro.mma_macro_generator import (
    TensorCoreIntrinEmitter,
    TensorCoreIntrinEmitterWithLadderTransform,
)
from tilelang.layout import SwizzleMode, cute, make_linear_layout, make_matrix_fragment
from tilelang.layout.cute import ComposedLayout, Layout, Swizzle
from tilelang.layout.fragment import Fragment
from tilelang.layout.layout import Layout as Map
from tilelang.layout.swizzle import make_swizzled_layout
from tilelang.rocm.intrinsics import mfma_layout

# ── members ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_layout_in_expressions():
    layout = Map((4, 8), lambda i, j: (j, i * 2))
    i, j = layout.get_forward_vars()
    assert [str(x) for x in layout.get_forward_index()] == [str(j), f"{i}*2"]
    assert [str(x) for x in layout.index] == [str(x) for x in layout.forward_index]
    assert str(layout.get_linearized_forward_index()) == f"{j}*7 + {i}*2"
    assert layout.input_size == [4, 8]
    assert layout.get_input_shape() == [4, 8] and layout.get_output_shape() == [8, 7]
    assert layout.map_forward_index([1, 2]) == layout.map_forward_index(indices=(1, 2)) == [2, 2]
    (first, second) = layout.map_region_bounds([(0, 2), slice(2, 5)])
    assert (first.min, first.extent, second.min, second.extent) == (2, 3, 0, 3)
    assert [tuple(b) for b in layout.map_region_bounds([3, T.Range(1, 4)])] == [(1, 4), (6, 7)]


def test_a_layout_for_other_elements():
    rows = Map((4, 8), lambda i, j: i * 8 + j)
    assert rows.reshape((4, 16), 16, 8).points() == make_linear_layout((4, 16)).points()
    assert rows.reshape((8, 2), 8, 16).points() == make_linear_layout((8, 2)).points()
    assert rows.reshape((32,), 16, 16)(9) == 9
    swizzled = make_swizzled_layout((8, 64), dtype="float16")
    narrow = swizzled.reshape((8, 128), 16, 8)
    for i, j, b in itertools.product(range(8), range(64), (0, 1)):
        assert narrow(i, 2 * j + b) == 2 * swizzled(i, j) + b
    assert narrow.reshape((8, 64), 8, 16).is_equal(swizzled)
    with pytest.raises(CompileError, match="2 neighbours along the last index do not lie together"):
        Map((4, 8), lambda i, j: j * 4 + i).reshape((4, 4), 8, 16)
    with pytest.raises(CompileError, match=r"has 32 elements, and \[4, 8\] 32, which is not 2/1 of them"):
        rows.reshape((4, 8), 2)
    with pytest.raises(CompileError, match="rescale_num 3 and rescale_den 2 must be positive"):
        rows.reshape((4, 12), 3, 2)


def test_a_fragment_in_expressions():
    fragment = Fragment((8, 8), lambda i, j: (i * 4 + j // 2, j % 2))
    i, j = fragment.get_forward_vars()
    assert str(fragment.thread) == str(fragment.forward_thread) == f"{i}*4 + {j}//2"
    assert [str(x) for x in fragment.index] == [f"{j}%2"] == [str(x) for x in fragment.forward_index]
    assert str(fragment.get_linearized_forward_index()) == f"{j}%2" == str(fragment.get_forward_index()[0])
    assert tuple(fragment.thread_range) == (0, 32) and fragment.replicate_size == 1
    assert fragment.get_input_shape() == [8, 8] == fragment.input_size and fragment.get_output_shape() == [2]
    assert fragment.map_forward_thread([1, 2]) == 5 and fragment.map_forward_index([1, 3]) == [1]
    assert fragment.inverse()(5, 1)[:2] == (1, 3)
    assert fragment.expand([3])(2, 1, 5) == (6, 5) and fragment.expand(3).is_equal(fragment.expand([3]))
    assert fragment.reshape((64,))(13) == fragment(1, 5)
    assert fragment.reshape((8, 16), 16, 8)(1, 5) == (5, 1)
    assert fragment.reshape((8, 4), 8, 16)(1, 3) == (7, 0)
    assert [tuple(b) for b in fragment.map_region_bounds([(0, 1), (0, 2)])] == [(0, 2)]
    copies = fragment.replicate(2)
    assert len(copies.get_forward_vars()) == 3
    assert copies.map_forward_thread([1, 2, 1]) == copies(1, 2, rep=1)[0]
    assert copies.reshape((64,)).replicate_size == 2
    assert copies.expand([2]).is_equal(fragment.expand([2]).replicate(2))
    with pytest.raises(CompileError, match="4 neighbours along the last index are not neighbours"):
        fragment.reshape((8, 2), 8, 32)


def test_modes_of_swizzles():
    assert SwizzleMode.SWIZZLE_128B is SwizzleMode.FULL is SwizzleMode.from_ordinal(3)
    for mode, size in zip(SwizzleMode, (16, 32, 64, 128), strict=True):
        assert mode.swizzle_byte_size() == size and mode.smem_alignment() == 8 * size
        assert mode.swizzle_atom_size() * 16 == size
        told = [mode.is_none(), mode.is_swizzle_32b(), mode.is_swizzle_64b(), mode.is_swizzle_128b()]
        assert told == [n == size for n in (16, 32, 64, 128)]


# ── maps of instructions ──────────────────────────────────────────────────────────────────────────────

OPERANDS = [("16x16", "32x8", 16, 16, 16), ("16x32", "32x16", 8, 16, 32), ("16x8", "32x4", 32, 16, 8),
            ("16x64", "32x32", 4, 16, 64)]  # fmt: skip


@pytest.mark.parametrize("shape,held,bits,rows,k", OPERANDS)
@pytest.mark.parametrize("operand", "ab")
def test_the_spellings_of_an_operand_agree(shape, held, bits, rows, k, operand):
    turned = "x".join(shape.split("x")[::-1]) if bits in (4, 8) else shape
    if (bits, operand) == (4, "b"):
        rows, shape, turned, held = 8, "8x64", "64x8", "32x16"
    place = getattr(mma_layout, f"shared_{shape}_to_mma_{held}_layout_sr_{operand}")
    same = getattr(mma_layout, f"shared_{shape}_to_mma_{operand}_{held}_layout")
    back = getattr(mma_layout, f"mma_load_{operand}_{held}_to_shared_{shape}_layout")
    across = [
        getattr(mma_layout, f"shared_{shape}_to_mma_{held}_layout_rs_{operand}"),
        getattr(mma_layout, f"shared_{turned}_to_mma_{operand}_{held}_layout_trans"),
    ]
    for i, j in itertools.product(range(rows), range(k)):
        assert place(i, j) == same(i, j) and back(*place(i, j)) == (i, j)
        assert all(f(j, i) == place(i, j) for f in across)
    places = {place(i, j) for i, j in itertools.product(range(rows), range(k))}
    assert places == set(itertools.product(range(32), range(rows * k // 32)))


@pytest.mark.parametrize(
    "row,held,k",
    [
        ("mma_m16n8k16_f16_f32", "16x16_to_mma_{}_32x8", 16),
        ("mma_m16n8k32_s8_s32", "16x32_to_mma_{}_32x16", 32),
        ("mma_m16n8k8_tf32_f32", "16x8_to_mma_{}_32x4", 8),
    ],
)
def test_they_are_those_of_the_instructions(row, held, k):
    a, b = (make_matrix_fragment(row, x) for x in "ab")
    of_a, of_b = (getattr(mma_layout, f"shared_{held.format(x)}_layout") for x in "ab")
    for i, j in itertools.product(range(16), range(k)):
        assert of_a(i, j) == tuple(a(i, j))
        assert i >= 8 or of_b(i, j) == tuple(b(j, i))


def test_maps_of_sums_and_smooth_ones():
    c = make_matrix_fragment("mma_m16n8k16_f16_f32", "c")
    for t, r in itertools.product(range(32), range(4)):
        i, j = mma_layout.mma_32x8_to_shared_16x16_layout(thread_id=t, local_id=r)
        assert tuple(c(i, j)) == (t, r) and mma_store_index_map(t, r) == (i, j)
    doubles = [utils.mma_store_index_map_fp64(t, r) for t in range(32) for r in range(2)]
    assert doubles == list(itertools.product(range(8), range(8)))
    assert mma_layout.mma_store_32x2_to_shared_8x8_layout_fp64(5, 1) == (1, 3)
    for name, rows, columns, held in (
        ("16x16_to_mma_32x8", 16, 16, 8),
        ("16x32_to_mma_32x16", 16, 32, 16),
        ("32x16_to_mma_32x16", 32, 16, 16),
    ):
        smooth = getattr(mma_layout, f"shared_{name}_smoothlayout")
        assert [smooth(i, j) for i in range(rows) for j in range(columns)] == list(
            itertools.product(range(32), range(held))
        )
    assert get_mma_micro_size("int8") == (16, 16, 32)


# Thread 8 b + r gives ldmatrix the address of row r of block b; block b goes into the registers from
# b·32/bits on.
LDMATRIX = [("32x8_to_shared_16x16_layout", "a", 16), ("16x32_to_shared_16x32_layout_a", "a", 8),
            ("32x16_to_shared_16x32_layout_a", "a", 8), ("32x4_to_shared_16x8_layout_a", "a", 32),
            ("16x32_to_shared_16x32_layout_b", "b", 8), ("32x16_to_shared_16x32_layout_b", "b", 8),
            ("32x4_to_shared_16x8_layout_b", "b", 32), ("32x32_to_shared_16x64_layout_a", "a", 4),
            ("32x16_to_shared_8x64_layout_b", "b", 4)]  # fmt: skip


@pytest.mark.parametrize("name,operand,bits", LDMATRIX)
def test_rows_of_ldmatrix(name, operand, bits):
    """The element of a thread after the load is the one that the instruction takes there."""
    begins, per, blocks = getattr(mma_layout, f"ldmatrix_{name}"), 32 // bits, 2 if "8x64" in name else 4
    for thread, block, e in itertools.product(range(32), range(blocks), range(per)):
        giver = 8 * block + thread // 4
        row, column = begins(giver) if bits == 4 else begins(giver, 0)
        taken = mma_layout.operand_element(bits, thread, block * per + e, operand == "b")
        assert (row, column + per * (thread % 4) + e) == taken
    if bits != 4:
        assert begins(3, 2) == (begins(3, 0)[0], begins(3, 0)[1] + 2)


@pytest.mark.parametrize("matrix,transposed", list(itertools.product("AB", (False, True))))
def test_offsets_for_ldmatrix(matrix, transposed):
    k_first = transposed == (matrix == "A")
    for thread, block, e in itertools.product(range(32), range(4), range(2)):
        giver = 8 * block + (2 * (thread % 4) + e if k_first else thread // 4)
        offset = get_ldmatrix_offset(matrix, giver, 0, 100, "float16", transposed)
        outer, k = mma_layout.operand_element(16, thread, 2 * block + e, matrix == "B")
        within = thread // 4 if k_first else 2 * (thread % 4) + e
        assert divmod(offset + within, 100) == ((k, outer) if k_first else (outer, k))
    with pytest.raises(CompileError, match="not float32 of a tile of A whose rows go across k"):
        get_ldmatrix_offset("A", 0, 0, 100, "float32", True)
    with pytest.raises(CompileError, match="matrix is 'A' or 'B', not 'C'"):
        T.get_ldmatrix_offset("C", 0, 0, 100)
    assert mma_layout.ldmatrix_trans_32x8_to_shared_16x16_layout(9, 0) == (1, 8)
    assert mma_layout.ldmatrix_32x32_to_shared_16x64_layout_b(9) == (1, 32)


def test_swizzles_of_a_width():
    for i, j in itertools.product(range(8), range(64)):
        assert T.get_swizzle_layout(i, j, 64, "float16") == T.get_swizzle_layout(i, j, 64, "float16", 128)
    assert T.get_swizzle_layout(1, 0, 64, "float16", swizzle_bytes=16) == (1, 0)
    half = [T.get_swizzle_layout(i, j, 64, "float16", swizzle_bytes=64) for i in range(8) for j in range(64)]
    assert sorted(half) == list(itertools.product(range(8), range(64)))
    assert T.get_swizzle_layout(2, 40, 64, "float16", swizzle_bytes=64) == (2, 32)
    with pytest.raises(CompileError, match="swizzle_bytes=48 must be 16, 32, 64 or 128 bytes"):
        T.get_swizzle_layout(0, 0, 64, "float16", swizzle_bytes=48)
    assert T.mma_store_index_map(thread_id=5, local_id=3) == (9, 3)
    assert T.get_mma_micro_size("float16") == (16, 16, 16)
    assert T.make_mma_swizzle_layout is mma_layout.make_mma_swizzle_layout


# What the hardware's manual says: of A lane l has row l % m, and k = held·(l / m) + e; of B column l % n; of
# the sums column l % n, and row 4·(l / 16) + r of 16×16, 8·(r / 4) + 4·(l / 32) + r % 4 of 32×32.
@pytest.mark.parametrize("m,k", [(16, 4), (16, 16), (16, 32), (16, 64), (32, 32)])
def test_operands_of_amd(m, k):
    held = m * k // 64
    b_shape = f"{k}x{m}" if k == 4 else f"{m}x{k}"
    a, a_back = (
        getattr(mfma_layout, name)
        for name in (
            f"shared_{m}x{k}_to_local_64x{held}_layout_A",
            f"thread_id_shared_access_64x{held}_to_{m}x{k}_layout_A",
        )
    )
    b, b_back = (
        getattr(mfma_layout, name)
        for name in (
            f"shared_{b_shape}_to_local_64x{held}_layout_B",
            f"thread_id_shared_access_64x{held}_to_{b_shape}_layout_B",
        )
    )
    for lane, e in itertools.product(range(64), range(held)):
        row, column = lane % m, held * (lane // m) + e
        assert a_back(lane, e) == (row, column) and a(row, column) == (lane, e)
        assert b_back(lane, e) == (column, row) and b(column, row) == (lane, e)


@pytest.mark.parametrize("size,held", [(16, 4), (32, 16)])
def test_sums_of_amd(size, held):
    stored = mfma_layout.mfma_store_index_map if size == 16 else mfma_layout.mfma_store_index_map_32x32
    place = getattr(mfma_layout, f"shared_{size}x{size}_to_local_64x{held}_layout_C")
    m_n, n_m = (
        getattr(mfma_layout, f"thread_id_shared_access_64x{held}_to_{size}x{size}_layout_C_{x}")
        for x in ("m_n", "n_m")
    )
    for lane, r in itertools.product(range(64), range(held)):
        row = 4 * (lane // 16) + r if size == 16 else 8 * (r // 4) + 4 * (lane // 32) + r % 4
        assert stored(lane, r) == m_n(lane, r) == (row, lane % size) and n_m(lane, r) == (lane % size, row)
        assert place(row, lane % size) == (lane, r)


def test_other_names_of_amd():
    for i, j in itertools.product(range(16), range(16)):
        assert (
            mfma_layout.shared_16x16_to_local_64x4_layout_m_n(i, j)
            == mfma_layout.shared_16x16_to_local_64x4_layout_n_m(j, i)
            == mfma_layout.shared_16x16_to_local_64x4_layout_C(i, j)
        )
        assert (
            mfma_layout.shared_16x16_to_local_64x4_layout_n_k(i, j)
            == mfma_layout.shared_16x16_to_local_64x4_layout_k_n(j, i)
            == (i + 16 * (j // 4), j % 4)
        )
    assert mfma_layout.shared_16x16_to_ldmatrix_64x4_layout([17, 2]) == (1, 6)
    from tilelang.rocm.intrinsics.utils import get_mma_micro_size as micro_size

    assert [micro_size(t)[2] for t in ("float16", "int8", "float32")] == [16, 32, 4]
    swizzled = mfma_layout.make_mfma_swizzle_layout(((64, 64), "float16"))
    assert swizzled.is_equal(make_swizzled_layout(((64, 64), "float16")))


# ── the emitter ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [TensorCoreIntrinEmitter, TensorCoreIntrinEmitterWithLadderTransform])
def test_single_tiles_of_the_emitter(kind):
    e = kind("float16", "float16", "float32", False, True, 1, 1, 32, 32, 32)
    assert (e.mma_num_inst_m, e.mma_num_inst_n, e.n_dim, e.is_m_first) == (2, 2, 16, False)
    assert kind.n_dim == 16
    assert kind.dtype_abbrv["bfloat16"] == "bf16" and (kind.warp_rows, kind.warp_cols) == (1, 1)

    @T.prim_func
    def main(
        A: T.Tensor((32, 32), "float16"), B: T.Tensor((32, 32), "float16"), C: T.Tensor((32, 32), "float32")
    ):
        with T.Kernel(1, threads=32):
            As, Bs = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            a = T.alloc_local((e.warp_rows * e.local_size_a,), "float16")
            b = T.alloc_local((e.warp_cols * e.local_size_b,), "float16")
            c = T.alloc_local((e.warp_rows * e.warp_cols * e.local_size_out,), "float32")
            T.copy(A, As)
            T.copy(B, Bs)
            T.clear(c)
            for ki in T.serial(2):
                e.ldmatrix_a(a, As, ki)
                e.ldmatrix_b(b, Bs, ki)
                for i, j in T.grid(e.mma_num_inst_m, e.mma_num_inst_n):
                    e.mma_atom(a, b, c, i, j)
            e.stmatrix(c, C, pid_m=0, pid_n=0)

    rng = np.random.default_rng(3)
    x, y = (rng.integers(-4, 5, (32, 32)).astype(np.float16) for _ in range(2))
    out = np.zeros((32, 32), np.float32)
    assert not tilelang.compile(main, target="sim:sm_80").simulate(x, y, out).findings
    assert (out == x.astype(np.float32) @ y.T.astype(np.float32)).all()


def test_what_the_emitters_refuse():
    with pytest.raises(CompileError, match="transform_kind_b is 2; tiles laid out beforehand"):
        TensorCoreIntrinEmitterWithLadderTransform("float16", "float16", "float32", transform_kind_b=2)
    with pytest.raises(CompileError, match="warp_row_tiles is 8; it must be a multiple of 16"):
        T.TensorCoreIntrinEmitter()


# ── CuTe ──────────────────────────────────────────────────────────────────────────────────────────────


def test_tuples():
    t = cute.from_python((4, (2, 3)))
    assert isinstance(t, cute.IntTupleTuple) and t.fields[0].value == 4 and cute.to_python(t) == (4, (2, 3))
    assert isinstance(t, cute.IntTuple)
    assert isinstance(3, cute.IntTuple) and not isinstance("3", cute.IntTuple)
    assert cute.IntTuple(4, (2, 3)) == cute.IntTuple.parse("(4, (2, 3))") == t and cute.IntTuple(3) == 3
    assert cute.flatten_to_tuple(t) == (4, 2, 3) and cute.flatten(Layout((4, (2, 3)))).shape == (4, 2, 3)
    assert cute.congruent((4, (2, 3)), (1, (1, 1))) and not cute.congruent((4, 2), 8)
    assert cute.compatible(8, (4, 2))
    assert cute.compatible((8, 3), ((4, 2), 3)) and not cute.compatible((4, 2), 8)
    assert cute.IntTuplePrimExpr("n").value == "n"
    assert cute.to_python((cute.IntTuplePrimExpr("n"), 2)) == ("n", 2)


def test_layouts_of_coordinates():
    assert cute.E(1) == cute.ScaledBasis(1, 1) and 3 * cute.E(1) == cute.IntTupleScaledBasis(3, cute.E(1))
    assert (cute.ScaledBasis(2, 0).value, cute.ScaledBasis(2, (0, 1)).mode) == (2, (0, 1))
    identity = cute.make_identity_layout((4, (2, 3)))
    for i, j, k in itertools.product(range(4), range(2), range(3)):
        assert identity((i, (j, k))) == (i, (j, k))
    assert cute.coshape(identity) == (4, (2, 3)) and cute.coshape(Layout((4, 2), (1, 8))) == 12
    assert cute.make_identity_layout(5)(3) == (3,) and cute.make_identity_layout((4, 6))(1, 5) == (1, 5)


def test_makers():
    assert cute.make_layout((4, 2)) == cute.make_column_major_layout((4, 2)) == Layout((4, 2), (1, 4))
    assert cute.make_row_major_layout((4, (2, 3))) == Layout((4, (2, 3)), (6, (3, 1)))
    assert Layout.parse("(4,(2,3)):(1,(12,4))") == Layout((4, (2, 3)), (1, (12, 4)))
    assert Layout((8, 2), (2, 1)).with_shape((4, 4))(1, 2) == Layout((8, 2), (2, 1))(9)
    assert cute.filter(Layout((4, 2, 3), (1, 0, 4))) == Layout(12, 1)
    assert cute.coalesce(Layout((4, 2, 3)), max_extent=8) == Layout((8, 3), (1, 8))


def test_products():
    block, tiler = Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3))
    tiled = cute.tiled_product(block, tiler)
    assert tiled.shape == ((2, 5), 3, 4) and tiled((1, 4), 2, 3) == 9 + 10 * 11
    blocked = cute.blocked_product(block, tiler)
    assert (blocked[0].size(), blocked[1].size()) == (6, 20)
    for i, j in itertools.product(range(6), range(20)):
        assert blocked(i, j) == block(i % 2, j % 5) + 10 * tiler(i // 2, j // 5)


def test_parts():
    layout = Layout((4, (2, 3)), (1, (12, 4)))
    part = cute.restrict(layout, [(1, 2), (2, 4)])
    for i, j in itertools.product(range(2), range(4)):
        assert part(i, j) == layout(1 + i, 2 + j) - layout(1, 2)
    with pytest.raises(ValueError, match="no layout has the values"):
        cute.restrict(layout, [(0, 1), (1, 3)])


def test_from_and_to_layouts_of_the_language():
    of_language = Map((4, 6), lambda i, j: i + j % 2 * 12 + j // 2 * 4)
    made = Layout.from_tilelang(of_language)
    assert made == Layout.from_tilelang_hierarchical(of_language) == Layout((4, (2, 3)), (1, (12, 4)))
    assert made.to_tilelang().is_equal(of_language)
    with pytest.raises(ValueError, match="not a layout"):
        Layout.from_tilelang(Map((4, 4), lambda i, j: i * 4 + (j ^ i)))
    swizzled = make_swizzled_layout((8, 64), dtype="float16")
    composed = ComposedLayout.from_tilelang(swizzled)
    assert composed.swizzle == Swizzle(3, 3, 3) == Swizzle.parse("Sw<3,3,3>") and composed.offset == 0
    assert composed.layout == Layout((8, 64), (64, 1))
    assert all(composed((i, j)) == swizzled(i, j) for i in range(8) for j in range(64))
    bytes_of_it = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 8), (1, 64))).recast(16, 8)
    assert bytes_of_it.swizzle.to_swizzle_mode() is SwizzleMode.SWIZZLE_128B
    assert bytes_of_it.layout.shape == (128, 8)
    assert bytes_of_it.recast(8, 16).layout == Layout((64, 8), (1, 64))
    assert Swizzle(0, 4, 3).to_swizzle_mode() is SwizzleMode.NONE and not Swizzle(0, 4, 3).is_swizzled
    assert (Swizzle(2, 4, 3).b_bits, Swizzle(2, 4, 3).m_base, Swizzle(2, 4, 3).s_shift) == (2, 4, 3)
    with pytest.raises(ValueError, match="none of the modes"):
        Swizzle(3, 3, 3).to_swizzle_mode()
