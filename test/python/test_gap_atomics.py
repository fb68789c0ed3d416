"""Atomic updates of two and four neighbours, by slices, tiles, values; memory orders by all their names."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure, source
from test_atomics import EVERYWHERE, numbers

ADDS = {2: T.atomic_addx2, 4: T.atomic_addx4}
FORMS = ["element", "slice", "slice and element", "computed slice", "values", "number", "tile"]


def program(form, count, dtype, shared):
    add = ADDS[count]

    @T.prim_func
    def main(A: T.Tensor((8, 32), dtype), B: T.Tensor((32,), dtype), O: T.Tensor((8, 32), dtype)):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((32,), dtype)
            if shared:
                T.copy(B, S)
            D = S if shared else B
            for r, i in T.Parallel(8, 32 // count):
                at = i * count
                if form == "element":
                    add(D[at], A[r, at])
                elif form == "slice":
                    add(D[at : at + count], A[r, at : at + count])
                elif form == "slice and element":
                    add(D[at : at + count], A[r, at])
                elif form == "computed slice":
                    add(D[at : at + count], A[r, at : at + count] * 2)
                elif form == "values":
                    add(D[at : at + count], tuple([A[r, at + n] + n for n in range(count)]))
                elif form == "number":
                    add(D[at : at + count], 3)
                else:
                    part = T.alloc_local((count,), dtype)
                    for n in T.serial(count):
                        part[n] = A[r, at + n]
                    add(D[at : at + count], part)
            if shared:
                T.copy(S, B)

    return main


def wanted(form, count, a, b):
    a = a.astype(np.float64)
    if form == "computed slice":
        a = a * 2
    elif form == "values":
        a = a + np.arange(32) % count
    elif form == "number":
        a = np.full_like(a, 3)
    return b.astype(np.float64) + a.sum(0)


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("shared", [False, True], ids=["tensor", "shared"])
@pytest.mark.parametrize("form", FORMS)
def test_forms(form, shared, target):
    """Of bfloat16 on sm_80 too, where each element is compared and swapped."""
    for count, dtype in ((2, "float16"), (2, "bfloat16"), (2, "float32"), (4, "float32")):
        a, b = numbers((8, 32), dtype), numbers((32,), dtype, 9)
        want = wanted(form, count, a, b)
        tilelang.compile(program(form, count, dtype, shared), target=target)(a, b, np.zeros_like(a))
        assert np.array_equal(b.astype(np.float64), want), (count, dtype)


@pytest.mark.parametrize("form", FORMS)
def test_text(form):
    for count, dtype, chip in ((2, "float16", "sm_80"), (2, "bfloat16", "sm_90"), (4, "float32", "sm_90a")):
        text = source(program(form, count, dtype, False), f"cuda -arch={chip}")
        assert "16x2" in text if count == 2 else ".v4.f32" in text, (form, dtype)
    text = source(program(form, 2, "bfloat16", True), "cuda -arch=sm_80")
    assert "atom" in text and "cas" in text.lower()


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("count", [2, 4])
def test_old_values_of_slices(count, target):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32"), O: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((32,), "float32")
            T.copy(B, S)
            for i in T.Parallel(32 // count):
                at = i * count
                O[at : at + count] = ADDS[count](S[at : at + count], A[at : at + count], return_prev=True)
            T.copy(S, B)

    a, b, o = numbers((32,), "float32"), numbers((32,), "float32", 9), np.full(32, np.nan, "float32")
    before = b.copy()
    tilelang.compile(main, target=target)(a, b, o)
    assert np.array_equal(o, before) and np.array_equal(b, before + a)


SPELLINGS = [None, "relaxed", "cuda::memory_order_relaxed", "__ATOMIC_RELAXED", 0, 1, "consume", "acquire",
             "std::memory_order_acquire", 2, "release", "memory_order_release", 3, "acq_rel",
             "__ATOMIC_ACQ_REL", 4, "seq_cst", "cuda::memory_order_seq_cst", 5]  # fmt: skip
ORDERS = ["relaxed"] * 5 + ["acquire"] * 5 + ["release"] * 3 + ["acq_rel"] * 3 + ["seq_cst"] * 3


@pytest.mark.parametrize("given, order", [*zip(SPELLINGS, ORDERS, strict=True)], ids=map(str, SPELLINGS))
def test_orders(given, order):
    def made(memory_order):
        @T.prim_func
        def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    T.atomic_add(B[i], A[i], memory_order=memory_order)
                    T.atomic_max(B[i], A[i], memory_order=memory_order, return_prev=True)

        return main

    program = made(given)
    assert f'"{order}"' in program.text and program.text == made(order).text
    a, b = numbers((32,), "float32"), numbers((32,), "float32", 1)
    want = np.maximum(a + b, a)
    tilelang.compile(program, target="sim:sm_90a")(a, b)
    assert np.array_equal(b, want)


REFUSED = {
    "T.atomic_add(A, n, 1)": "T.atomic_add(A, value, 1): the third argument is the memory order, and dst is "
    "all of A: an element is A[i]; where all are meant, say memory_order='acquire'",
    "T.atomic_addx2(A[0, 0:4], 1.0)": "T.atomic_addx2: dst takes 2 neighbours along the last dimension, "
    "A[…, i : i + 2]; these have extents (1, 4)",
    "T.atomic_addx4(A[0:4, 0], 1.0)": "these have extents (4, 1)",
    "T.atomic_addx4(A[0, 0:4], (1.0, 2.0))": "T.atomic_addx4: dst has 4 elements, but value has 2",
    "T.atomic_add(A[0, 0], 1.0, memory_order=7)": "or its number in CUDA, 0 to 5, not 7",
    "T.atomic_add(A[0, 0], 1.0, memory_order='cuda::relaxed_order')": "relaxed_order",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_refused(tmp_path, statement):
    error = failure(tmp_path, statement)
    assert REFUSED[statement] in str(error) and error.line == 5
