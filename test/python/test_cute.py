"""The algebra of CuTe's layouts, by what the functions do at every point."""

import itertools

import pytest
import tilelang
import tilelang.language as T
from tilelang.intrinsics import get_swizzle_layout
from tilelang.layout import SwizzleMode, cute
from tilelang.layout.cute import (
    ComposedLayout,
    Layout,
    Swizzle,
    coalesce,
    complement,
    composition,
    left_inverse,
    logical_divide,
    logical_product,
    right_inverse,
)

SOME = [Layout(8), Layout((4, 2)), Layout((4, 2), (2, 1)), Layout((2, 3), (1, 4)),
        Layout((4, (2, 3)), (1, (12, 4))),
        Layout((2, 2, 2), (4, 1, 2)), Layout((3, 1, 4), (4, 7, 1)), Layout(1, 0)]  # fmt: skip


def values(layout):
    return [layout(i) for i in range(layout.size())]


@pytest.mark.parametrize("a", SOME, ids=str)
def test_one_layout(a):
    assert values(coalesce(a)) == values(a)
    assert len(coalesce(a).modes()) <= len(a.modes())
    assert a.cosize() == max(values(a)) + 1
    r = right_inverse(a)
    assert [a(r(i)) for i in range(r.size())] == list(range(r.size()))
    back = left_inverse(a)
    assert [back(v) for v in values(a)] == list(range(a.size()))


@pytest.mark.parametrize("a", SOME, ids=str)
def test_complement_reaches_the_rest(a):
    limit = a.cosize() * 2
    rest = complement(a, limit)
    reached = sorted(x + y for x, y in itertools.product(values(a), values(rest)))
    assert len(set(reached)) == len(reached) and set(range(limit)) <= set(reached)


@pytest.mark.parametrize(
    "a,b",
    [
        (Layout((8, 4), (4, 1)), Layout((4, 2), (2, 8))),
        (Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))),
        (Layout(20, 2), Layout((5, 4), (4, 1))),
        (Layout((4, (2, 3)), (1, (12, 4))), Layout(12, 2)),
    ],
)
def test_composition(a, b):
    c = composition(a, b)
    assert values(c) == [a(b(i)) for i in range(b.size())]
    assert cute.rank(c) >= cute.rank(b)


def test_known_results():
    assert composition(Layout((10, 2), (16, 4)), Layout((5, 4), (1, 5))) == Layout((5, (2, 2)), (16, (80, 4)))
    assert coalesce(Layout((2, (1, 6)), (1, (6, 2)))) == Layout(12, 1)
    assert complement(Layout((2, 4), (1, 6)), 24) == Layout(3, 2)
    divided = logical_divide(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2))
    assert divided == Layout(((2, 2), (2, 3)), ((4, 1), (2, 8)))
    product = logical_product(Layout((2, 2), (4, 1)), Layout(6, 1))
    assert (
        values(product)[:4] == values(Layout((2, 2), (4, 1)))
        and len(set(values(product))) == product.size() == 24
    )
    by_mode = logical_divide(Layout((4, 6), (1, 4)), (2, 3))
    assert sorted(values(by_mode)) == list(range(24)) and by_mode.shape == ((2, 2), (3, 2))
    with pytest.raises(ValueError, match="is not a layout"):
        composition(Layout((6, 4), (1, 10)), Layout(8, 4))
    with pytest.raises(ValueError, match="twice"):
        complement(Layout((4, 2), (1, 2)))


def test_swizzles():
    swizzle = Swizzle(3, 3, 3)
    tile = ComposedLayout(swizzle, 0, Layout((8, 64), (64, 1)))
    found = [tile(i, j) for i in range(8) for j in range(64)]
    assert sorted(found) == list(range(512))
    assert (
        found[64] == 64 ^ (1 << 3)
        and SwizzleMode.FULL.swizzle_byte_size() == 128
        and SwizzleMode.NONE.is_none()
    )
    with pytest.raises(ValueError, match="overlap"):
        Swizzle(3, 0, 2)


@pytest.mark.parametrize("dtype,row", [("float16", 64), ("float16", 32), ("int8", 64), ("float32", 4)])
def test_get_swizzle_layout(dtype, row):
    places = [get_swizzle_layout(i, j, row, dtype) for i in range(16) for j in range(row)]
    assert len(set(places)) == len(places)
    layout = T.Layout((16, row), lambda i, j: list(get_swizzle_layout(i, j, row, dtype)))
    assert layout.is_equal(layout)
    with pytest.raises(tilelang.CompileError, match="must be 16, 32, 64 or 128 bytes"):
        get_swizzle_layout(0, 0, 24, "float16")


def test_swizzles_of_many_bits_and_behind_offsets():
    """of up to as many bits as the offsets have, at any distance, and where the tile does not begin at 0"""
    cases = {  # (rows, columns), the swizzle, the offset
        (16, 64): (Swizzle(4, 2, 4), 0),
        (32, 64): (Swizzle(5, 1, 5), 0),
        (8, 64): (Swizzle(3, 3, 3), 128),
        (4, 32): (Swizzle(2, 3, 3), 32 * 3 + 8),
        (2, 8): (Swizzle(0, 0, 3), 5),
    }
    for (rows, columns), (swizzle, offset) in cases.items():
        given = T.Layout((rows, columns), lambda i, j, s=swizzle, o=offset, n=columns: s(o + i * n + j))
        made = ComposedLayout.from_tilelang(given)
        assert made == ComposedLayout(swizzle, offset, Layout((rows, columns), (columns, 1)))
        assert hash(made) == hash(ComposedLayout(swizzle, offset, made.layout)) and made != given
        assert [made((i, j)) for i in range(rows) for j in range(columns)] == [p for (p,) in given.points()]
    with pytest.raises(ValueError, match="is not a swizzle after an offset and a layout"):
        ComposedLayout.from_tilelang(T.Layout((8, 64), lambda i, j: i * 64 + j * j % 64))


def test_layouts_of_the_language_are_equal_and_read_alike():
    def swizzled():
        return T.Layout((8, 64), lambda i, j: i * 64 + (j ^ (i * 8)))

    def spread(registers=2):
        return T.Fragment((8, 8), lambda i, j: (i * 4 + j // 2, j % registers))

    for make, other in ((swizzled, T.Layout((8, 64), lambda i, j: i * 64 + j)), (spread, spread(1))):
        a, b = make(), make()
        assert a == b and hash(a) == hash(b) and a is not b and a != other and a != "a layout"
        assert a.index == a.forward_index == a.get_forward_index() and a.shape is a.shape
        assert a.get_forward_vars() == a.get_forward_vars()
        assert {a: 1}[b] == 1
    assert swizzled() != T.Layout((4, 64), lambda i, j: i * 64 + j)
    fragment = spread()
    assert fragment.layout is fragment.layout and fragment.thread is fragment.forward_thread
    assert fragment((3, 5)) == fragment(3, 5) == (14, 1) and fragment.holders((3, 5)) == [(14, 1)]
    assert fragment.map_forward_index((3, 5)) == [1] and fragment.map_forward_thread((3, 5)) == 14
    assert swizzled()((1, 8)) == swizzled()([1, 8]) == swizzled().map((1, 8)) == 64
