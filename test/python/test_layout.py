"""Layouts and fragments in Python, against enumerations that know nothing of the compiler."""

import itertools
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang.layout import (
    make_full_bank_swizzled_layout,
    make_fully_replicated_layout_fragment,
    make_gemm_fragment_8x8,
    make_gemm_fragment_8x8_transposed,
    make_half_bank_swizzled_layout,
    make_linear_layout,
    make_matrix_fragment,
    make_padded_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
    make_wgmma_swizzled_layout,
    make_xor_swizzled_layout,
    matrix_fragment_names,
)


def enumerated(shape, fn):
    """What `fn` of Python integers gives for every element, as an array of the shape (*shape, outputs)."""
    rows = [np.atleast_1d(fn(*index)) for index in itertools.product(*map(range, shape))]
    return np.array(rows).reshape(*shape, -1)


def points(layout):
    return np.array(layout.points()).reshape(*layout.shape, -1)


def error(call):
    with pytest.raises(tilelang.CompileError) as caught:
        call()
    assert caught.value.file == __file__  # at the user's line, which is this test's
    return caught.value.text


# ── the paper, figure 5 ───────────────────────────────────────────────────────────────────────────────


def test_figure_5b_two_dimensions_to_one():
    """A buffer of two dimensions in a memory of one, whose size follows."""

    def fn(i, j):
        return i * 32 + j

    layout = T.Layout((8, 32), fn)
    assert repr(layout) == "Layout((i, j) -> i*32 + j, shape=(8, 32), output_shape=(256,))"
    assert np.array_equal(points(layout), enumerated((8, 32), fn))
    assert layout.is_bijective()
    back = layout.inverse()
    assert back.shape == (256,) and back.output_shape == (8, 32)
    assert np.array_equal(points(back), enumerated((256,), lambda x: np.unravel_index(x, (8, 32))))
    assert back.compose(layout).points() == list(itertools.product(range(8), range(32)))


def test_figure_5c_padding_is_not_bijective():
    """Rows of 32 elements, 40 apart: 8 places after each row hold nothing."""

    def fn(i, j):
        return i * (32 + 8) + j

    layout = T.Layout((8, 32), fn)
    assert layout.output_shape == (7 * 40 + 32,)
    assert np.array_equal(points(layout), enumerated((8, 32), fn))
    assert layout.is_injective() and not layout.is_bijective()
    back = layout.inverse()
    for place in range(312):
        i, j = back(place)
        if place % 40 < 32:
            assert (i, j) == divmod(place, 40)
        else:
            assert i >= 8 or j >= 32  # padding is sent outside


# ── the paper, figure 6 ───────────────────────────────────────────────────────────────────────────────


def ldmatrix_16x16(i, j):
    """Lane and register of ldmatrix.x4, matrix by matrix: rows of 8 lanes of 4, two elements to a lane."""
    row, column, matrix = i % 8, j % 8, i // 8 + 2 * (j // 8)
    return row * 4 + column // 2, matrix * 2 + column % 2


def base_layout():
    return T.Fragment(
        (16, 16),
        forward_thread_fn=lambda i, j: 4 * (i % 8) + (j % 8) // 2,
        forward_index_fn=lambda i, j: j % 2 + i // 8 * 2 + j // 8 * 4,
    )


def places(fragment):
    """(thread, register) of each copy of each element."""
    shape = (*fragment.shape, fragment.replicas)
    return np.array(fragment.layout.points()).reshape(*shape, 2)


def covers_once(fragment):
    """Every register of every thread holds one element, counted here."""
    flat = places(fragment).reshape(-1, 2)
    slots = np.zeros((fragment.threads, fragment.registers), int)
    np.add.at(slots, (flat[:, 0], flat[:, 1]), 1)
    return (slots == 1).all() and fragment.cover_fault() is None


def test_figure_6_base_layout():
    base = base_layout()
    assert (base.threads, base.registers, base.replicas) == (32, 8, 1)
    assert np.array_equal(places(base)[:, :, 0], enumerated((16, 16), ldmatrix_16x16))
    assert covers_once(base)
    assert base.is_equal(make_matrix_fragment("mma_m16n8k16_f16_f32", "A"))


def test_figure_6_warp_layout_m32k16():
    warp = base_layout().repeat([2, 1])

    def expected(i, j):
        lane, register = ldmatrix_16x16(i % 16, j)
        return lane, register + 8 * (i // 16)

    assert warp.shape == (32, 16) and (warp.threads, warp.registers) == (32, 16)
    assert np.array_equal(places(warp)[:, :, 0], enumerated((32, 16), expected))
    assert covers_once(warp)


@pytest.mark.parametrize("columns", [1, 2])
def test_figure_6_block_layout_m128k16_over_four_warps(columns):
    """Four warps below each other; with two columns of warps each row's four are there twice."""
    warp = base_layout().repeat([2, 1])
    block = warp.repeat([4, 1], repeat_on_thread=True, lower_dim_first=False).replicate(columns)

    def expected(i, j):
        lane, register = ldmatrix_16x16(i % 16, j)
        first = [i // 32 * 32 + lane, register + 8 * (i % 32 // 16)]
        return [[first[0] + 128 * copy, first[1]] for copy in range(columns)]

    assert block.shape == (128, 16)
    assert (block.threads, block.registers, block.replicas) == (128 * columns, 16, columns)
    rows = [expected(i, j) for i in range(128) for j in range(16)]
    assert np.array_equal(places(block), np.array(rows).reshape(128, 16, columns, 2))
    assert covers_once(block)
    for i, j in ((0, 0), (17, 9), (127, 15)):
        assert block.holders(i, j) == sorted(map(tuple, expected(i, j)))
    copy = {1: "", 2: "k*128 + "}[columns]
    assert repr(block) == (
        f"Fragment((i, j, k) -> ({copy}i//32*32 + i%8*4 + j//2%4, i//16%2*8 + j//8*4 + i//8%2*2 + j%2), "
        f"shape=(128, 16), threads={128 * columns}, registers=16, replicas={columns})"
    )


def test_repeat_order_of_the_copies():
    for last_first in (True, False):
        f = base_layout().repeat([2, 3], lower_dim_first=last_first)
        copy = (lambda a, b: a * 3 + b) if last_first else (lambda a, b: a + b * 2)
        assert f(16, 32) == (0, copy(1, 2) * 8)
        assert f(0, 16) == (0, copy(0, 1) * 8)


# ── instructions ──────────────────────────────────────────────────────────────────────────────────────


def test_fragments_of_matrix_instructions():
    """The tables of the PTX manual: lane l = 4g + q, element e."""
    tables = {
        "mma_m16n8k8_tf32": (8, 4, lambda g, q, e: (g + 8 * (e % 2), q + 4 * (e // 2)),
                             2, lambda g, q, e: (q + 4 * e, g)),
        "mma_m16n8k32_s8": (32, 16, lambda g, q, e: (g + 8 * (e // 4 % 2), 4 * q + e % 4 + 16 * (e // 8)),
                            8, lambda g, q, e: (4 * q + e % 4 + 16 * (e // 4), g)),
        "mma_m16n8k16_f16_f32": (16, 8, lambda g, q, e: (g + 8 * (e // 2 % 2), 2 * q + e % 2 + 8 * (e // 4)),
                                 4, lambda g, q, e: (2 * q + e % 2 + 8 * (e // 2), g)),
    }  # fmt: skip
    tables["mma_m16n8k32_fp8"] = tables["mma_m16n8k32_s8"]
    tables["mma_m16n8k16_bf16_f32"] = tables["mma_m16n8k16_f16_f32"]
    assert set(tables) <= set(matrix_fragment_names())
    for name, (k, in_a, a, in_b, b) in tables.items():
        rows = (
            ("a", (16, k), in_a, a),
            ("b", (k, 8), in_b, b),
            ("c", (16, 8), 4, lambda g, q, e: (g + 8 * (e // 2), 2 * q + e % 2)),
        )
        for operand, shape, registers, element in rows:
            f = make_matrix_fragment(name, operand)
            assert f.shape == shape and (f.threads, f.registers) == (32, registers)
            assert covers_once(f)
            for lane in range(32):
                for e in range(registers):
                    assert f(*element(lane // 4, lane % 4, e)) == (lane, e)


def test_fragments_8x8():
    for f, element in (
        (make_gemm_fragment_8x8(), lambda r, c: (r, c)),
        (make_gemm_fragment_8x8_transposed(), lambda r, c: (c, r)),
    ):
        assert covers_once(f)
        for lane in range(32):
            for e in range(2):
                assert f(*element(lane // 4, 2 * (lane % 4) + e)) == (lane, e)


def test_fully_replicated():
    f = make_fully_replicated_layout_fragment(((3, 5), "float32"), 12)
    assert (f.threads, f.registers, f.replicas) == (12, 15, 12)
    assert f.holders(1, 2) == [(t, 7) for t in range(12)]
    assert covers_once(f)


# ── makers ────────────────────────────────────────────────────────────────────────────────────────────


def groups_of_eight_rows(layout, bits):
    """The most 16-byte bank groups that eight rows of one column of chunks share."""
    chunk = 128 // bits
    place = points(layout)[:, ::chunk, 0] * bits // 128 % 8
    worst = 0
    for rows in place.reshape(-1, 8, place.shape[1]):
        for column in rows.T:
            worst = max(worst, np.bincount(column).max())
    return worst


@pytest.mark.parametrize("dtype, bits", [("float16", 16), ("float32", 32), ("int8", 8)])
def test_swizzles(dtype, bits):
    for make, size in (
        (make_full_bank_swizzled_layout, 128),
        (make_half_bank_swizzled_layout, 64),
        (make_quarter_bank_swizzled_layout, 32),
    ):
        width = size * 8 // bits
        layout = make(((64, width), dtype))

        def xored(i, j, width=width, size=size):
            at = (i * width + j) * bits // 8  # of address bits: what the hardware does
            at ^= (at // 128 % (size // 16)) * 16
            return at * 8 // bits

        # the three patterns are the hardware's, which XORs bits of the address
        assert np.array_equal(points(layout), enumerated((64, width), xored))
        assert layout.is_bijective() and layout.has_digits
        assert groups_of_eight_rows(layout, bits) == 1
    assert groups_of_eight_rows(make_linear_layout(((64, 1024 // bits), dtype)), bits) == 8
    for chunks in range(1, 20):
        layout = make_swizzled_layout(((64, chunks * 128 // bits), dtype))
        assert layout.is_injective() and groups_of_eight_rows(layout, bits) == 1
    assert make_swizzled_layout(((64, 3 * 128 // bits), dtype), allow_pad=False).is_equal(
        make_linear_layout((64, 3 * 128 // bits))
    )
    assert make_padded_layout(((64, 1024 // bits), dtype)).output_shape == (63 * 1152 // bits + 1024 // bits,)


def test_xor_family():
    layout = make_xor_swizzled_layout((32, 64), 3, 3, 3)

    def fn(i, j):
        return (i * 64 + j) ^ ((i * 64 + j) >> 6 & 7) << 3

    assert np.array_equal(points(layout), enumerated((32, 64), fn))
    assert layout.is_equal(make_full_bank_swizzled_layout(((32, 64), "float16")))
    ragged = make_xor_swizzled_layout((5, 12), 2, 0, 2)  # no power of two: a table
    expected = enumerated((5, 12), lambda i, j: (i * 12 + j) ^ (i * 12 + j) >> 2 & 3)
    assert np.array_equal(points(ragged), expected)


def test_wgmma_panels():
    layout = make_wgmma_swizzled_layout(((64, 192), "float16"))

    def fn(i, j):
        panel, at = j // 64, i * 128 + j % 64 * 2
        return panel * 64 * 64 + (at ^ (at // 128 % 8) * 16) // 2

    assert np.array_equal(points(layout), enumerated((64, 192), fn))
    half = make_wgmma_swizzled_layout(((64, 192), "float16"), continuity=32)
    assert half(0, 32) == 64 * 32
    assert "do" in error(lambda: make_wgmma_swizzled_layout(((64, 192), "float16"), continuity=100))
    with pytest.raises(tilelang.CompileError, match=r"make_volta_swizzled_layout needs sm_70 \(Volta\)"):
        tilelang.layout.make_volta_swizzled_layout(None)


# ── the algebra ───────────────────────────────────────────────────────────────────────────────────────


def test_repeat_expand_reshape():
    layout = make_full_bank_swizzled_layout(((8, 64), "float16"))
    table = points(layout)[..., 0]
    repeated = layout.repeat(1, 3)
    assert np.array_equal(points(repeated), enumerated((8, 192), lambda i, j: (j // 64, table[i, j % 64])))
    assert np.array_equal(points(layout.repeat(-1, 3)), points(repeated))
    assert layout.repeat(0, 1).is_equal(layout)
    expected = enumerated((3, 8, 64), lambda b, i, j: (b, table[i, j]))
    assert np.array_equal(points(layout.expand([3])), expected)
    shaped = layout.reshape((2, 4, 8, 8))
    assert shaped.points() == layout.points() and shaped.has_digits
    assert layout.inverse().inverse().is_equal(layout)


def test_layout_of_an_atomic_tensor():
    """The tensor layout of a published FlashAttention backward."""

    def fn(b, l, h, d):
        return [b, l // 8, h, d // 8, (d % 2), 4 * (l % 8) + (d % 8) // 2]

    layout = T.Layout((2, 16, 3, 64), fn)
    assert layout.output_shape == (2, 2, 3, 8, 2, 32) and layout.has_digits and layout.is_bijective()
    assert np.array_equal(points(layout), enumerated((2, 16, 3, 64), fn))


def test_functions_without_digits():
    def fn(i, j):
        return (i * 7 + j * 5) % 36

    layout = T.Layout((6, 6), fn)
    assert np.array_equal(points(layout), enumerated((6, 6), fn))
    assert not layout.is_injective()
    diagonal = T.Layout((6, 7), lambda i, j: [(i + j) % 6, j])
    assert not diagonal.has_digits and diagonal.is_bijective()
    assert diagonal.inverse().compose(diagonal).points() == list(itertools.product(range(6), range(7)))
    conditional = T.Layout((4, 4), lambda i, j: T.if_then_else(i < 2, i * 4 + j, T.max(i, 2) * 4 + 3 - j))
    assert np.array_equal(
        points(conditional), enumerated((4, 4), lambda i, j: i * 4 + j if i < 2 else i * 4 + 3 - j)
    )


def test_fragment_without_registers_numbers_them():
    f = T.Fragment((4, 6), forward_thread_fn=lambda i, j: j % 3)
    assert (f.threads, f.registers) == (3, 8)
    count = dict.fromkeys(range(3), 0)
    for i, j in itertools.product(range(4), range(6)):
        assert f(i, j) == (j % 3, count[j % 3])
        count[j % 3] += 1
    g = T.Fragment((4,), lambda i, rep: (i % 2 + 2 * rep, i // 2), replicate=4)
    assert g.holders(3) == [(1 + 2 * r, 1) for r in range(4)]
    assert T.Fragment((4,), lambda i, rep: (i + rep // 2 * 4, 0), replicate=4).condense().replicas == 2


def test_questions_without_an_answer():
    layout = T.Layout((4, 6), lambda i, j: i * 4 + j)
    assert error(lambda: layout.inverse()) == (
        "the layout has no inverse: the elements (0, 4) and (1, 0) both go to (4,)"
    )
    assert "(4, 6) has 24 elements and cannot be reshaped to (5, 5), which has 25" in error(
        lambda: layout.reshape((5, 5))
    )
    assert "index 6 of dimension 1 in (0, 6) is outside the extents (4, 6)" in error(lambda: layout(0, 6))
    assert "has 2 inputs, of the extents (4, 6), but is given 1 indices" in error(lambda: layout(0))
    assert "an extent of a layout is 0 in (0, 4)" in error(lambda: T.Layout((0, 4), lambda i, j: i))
    assert "the factor is -2" in error(lambda: layout.repeat(0, -2))
    assert "sends the element (0, 1) to -1" in error(lambda: T.Layout((2, 2), lambda i, j: i - j))
    assert "divides by zero at the element (0,)" in error(lambda: T.Layout((2,), lambda i: 4 // i))
    assert "takes 1 argument, but there are 2 indices (i, j)" in error(lambda: T.Layout((2, 2), lambda i: i))
    assert "must be an integer, not 2.5" in error(lambda: T.Layout((2.5,), lambda i: i))
    fragment = base_layout()
    assert "1 factors, (2,), for a fragment of 2 dimensions, (16, 16)" in error(lambda: fragment.repeat([2]))
    assert "0 copies" in error(lambda: fragment.replicate(0))
    assert "index 16 of dimension 0" in error(lambda: fragment.holders(16, 0))
    assert "either forward_fn" in error(lambda: T.Fragment((4,)))
    assert "the thread and the register" in error(lambda: T.Fragment((4,), lambda i: i))
    assert "rows of a multiple" in error(lambda: make_full_bank_swizzled_layout(((8, 48), "float16")))
    assert "(8, 64) but the mapping (16, 16)" in error(
        lambda: tilelang.layout.bank_cycles(make_linear_layout((8, 64)), "float16", fragment)
    )


def test_costs():
    down = T.Fragment((32, 64), lambda i, j: (i, j))
    memory = make_full_bank_swizzled_layout(((32, 64), "float16"))
    assert tilelang.layout.bank_cycles(memory, "float16", down, 8) == (32, 32)
    assert tilelang.layout.bank_cycles(make_linear_layout((32, 64)), "float16", down, 8) == (256, 32)
    assert tilelang.layout.sectors(make_linear_layout((32, 64)), "float16", down, 8) == 256
    assert memory.vector_width() == 8


# ── pictures ──────────────────────────────────────────────────────────────────────────────────────────


def test_drawing(tmp_path):
    layout, fragment = T.Layout((2, 4), lambda i, j: j * 2 + i), make_gemm_fragment_8x8()
    assert str(layout) == ("(i, j) -> j*2 + i\n  | 0 1 2 3\n--+--------\n0 | 0 2 4 6\n1 | 1 3 5 7\n")
    assert "\n7 | 28:0 28:1 29:0" in str(fragment)
    files = tilelang.tools.plot_layout(fragment, tmp_path, "f", formats=["svg", "txt"])
    assert [f.rpartition(".")[2] for f in files] == ["svg", "txt"]
    svg = ET.parse(tmp_path / "f.svg")
    texts = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert [t for t in texts if t and ":" in t] == [
        f"{i * 4 + j // 2}:{j % 2}" for i in range(8) for j in range(8)
    ]
    assert (tmp_path / "f.txt").read_text() == str(fragment)
    assert "no format 'gif'" in error(lambda: tilelang.tools.plot_layout(layout, tmp_path, formats="gif"))


def test_drawing_png(tmp_path):
    pytest.importorskip("matplotlib")
    files = tilelang.tools.plot_layout(
        make_gemm_fragment_8x8(), tmp_path, "f", formats="png", dtype="float16"
    )
    assert Path(files[0]).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize(
    "extents, index, most",
    [
        ((16,), lambda i: 4 * ((i // 12 % 4) ^ (i // 4 % 4)) + i % 4, 12),
        ((24, 3), lambda i, j: 8 * ((i // 4 % 4) ^ (i // 12 % 2)) + 20 * ((j // 4 % 4) ^ (i // 2 % 2)), 37),
        ((8, 64), lambda i, j: i * 64 + ((j // 8 % 8) ^ (i % 8)) * 8 + j % 8, 512),
    ],
)
def test_the_range_of_what_is_xored_is_exact(extents, index, most):
    """Also where digits of the same index depend on each other."""
    assert list(T.Layout(extents, index).get_output_shape()) == [most]
