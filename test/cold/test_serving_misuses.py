"""Mistakes of somebody who writes kernels for servers in CUDA C++ or Triton, and what is said about them."""

import re
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from everywhere import refused_here

START = """
import math
import numpy as np
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads=128):
"""

# What is wrong: its statements, the guilty one marked, and words that the message must have.
MISTAKES = {
    "the mask of a shuffle comes first": (
        """
        tx = T.get_thread_binding()
        B[tx] = T.shfl_xor(0xFFFFFFFF, A[tx], 1)  # here
        """,
        ["mask comes last", "4294967295"],
    ),
    "a tile is reduced to a value": (
        """
        x = T.alloc_fragment((128,), "float32")
        T.copy(A, x)
        y = T.reduce_sum(x, dim=0)  # here
        T.copy(y, B)
        """,
        ["reduce_sum", "'out'"],
    ),
    "a reducer is read before its threads have met": (
        """
        r = T.alloc_reducer((1,), "float32")
        T.clear(r)
        for i in T.Parallel(128):
            r[0] += A[i]
        for i in T.Parallel(128):
            B[i] = r[0]  # here
        """,
        ["T.finalize_reducer"],
    ),
    "a reducer without a beginning": (
        """
        r = T.alloc_reducer((1,), "float32")
        for i in T.Parallel(128):
            r[0] += A[i]  # here
        T.finalize_reducer(r)
        """,
        ["T.clear"],
    ),
    "a maximum to which a sum contributes": (
        """
        r = T.alloc_reducer((1,), "float32", op="max")
        T.fill(r, 0)
        for i in T.Parallel(128):
            r[0] += A[i]  # here
        T.finalize_reducer(r)
        """,
        [r"T\.max"],
    ),
    "a running sum in a parallel loop": (
        """
        total = T.alloc_var("float32", 0.0)
        for i in T.Parallel(128):
            total += A[i]  # here
            B[i] = total
        """,
        ["T.Parallel", "T.serial|T.reduce_sum"],
    ),
    "compare and swap": (
        """
        old = T.atomic_cas(A[0], 0, 1)  # here
        """,
        ["atomic_cas", "T.atomic_add"],
    ),
    "a range of lanes as in Triton": (
        """
        lanes = T.arange(0, 128)  # here
        B[0] = A[lanes]
        """,
        ["T.arange", "T.Parallel"],
    ),
    "a barrier within iterations": (
        """
        s = T.alloc_shared((128,), "float32")
        for i in T.Parallel(128):
            s[i] = A[i]
            T.sync_threads()  # here
            B[i] = s[127 - i]
        """,
        ["sync_threads", "T.Parallel", "end the loop"],
    ),
    "a fast exponential of Python": (
        """
        for i in T.Parallel(128):
            B[i] = math.exp(A[i])  # here
        """,
        ["math.exp", "T.exp"],
    ),
    "a row from beyond the end": (
        """
        B[0] = A[-1000]  # here
        """,
        ["outside", "counts from the end of"],
    ),
    "the names of a grid of two dimensions": (
        """
        for i, j in T.Parallel(128):  # here
            B[i] = A[i]
        """,
        ["1 index"],
    ),
    "a list that a loop of the device adds to": (
        """
        sums = [0.0] * 4
        for i in T.serial(32):
            for j in T.serial(4):
                sums[j] += A[i * 4 + j]  # here
        """,
        ["list", "tensor parameter"],
    ),
    "a scheduler that was not set to a block": (
        """
        s = T.PersistentTileScheduler(4, 4)
        while s.valid():  # here
            B[s.m_idx] = A[0]
            s.next_tile()
        """,
        ["nothing has been assigned"],
    ),
    "arguments of a cast in the other order": (
        """
        for i in T.Parallel(128):
            B[i] = T.cast("float16", A[i])  # here
        """,
        [r"\(value, dtype\)"],
    ),
    "a scan into a tensor": (
        """
        x = T.alloc_fragment((128,), "float32")
        T.copy(A, x)
        T.cumsum(x, B)  # here
        """,
        ["global memory", "copy"],
    ),
    "a copy by half a warp": (
        """
        s = T.alloc_shared((128,), "float32")
        if T.get_thread_binding() < 16:
            T.copy(A, s)  # here
        """,
        ["whole warps of 32"],
    ),
    "vectors of shared memory from a tensor": (
        """
        tx = T.get_thread_binding()
        if tx < 32:
            T.stg128(B[tx * 4], T.lds128(A[tx * 4]))  # here
        """,
        ["lds128", "shared tile"],
    ),
    "the mask of a vote comes first": (
        """
        tx = T.get_thread_binding()
        m = T.ballot_sync(0xFFFFFFFF, A[tx] > 3)  # here
        """,
        [r"predicate, mask\)", "mask comes last", "4294967295"],
    ),
    "the mask of another vote comes first": (
        """
        tx = T.get_thread_binding()
        B[tx] = T.any_sync(0xFFFFFFFF, A[tx] > 3)  # here
        """,
        ["mask comes last"],
    ),
    "the mask of a vote is a variable, and comes first": (
        """
        tx = T.get_thread_binding()
        m = T.activemask()
        B[tx] = T.all_sync(m, A[tx] > 3)  # here
        """,
        ["the mask is a bool", "mask comes last"],
    ),
    "the mask of a comparison among lanes comes first": (
        """
        tx = T.get_thread_binding()
        m = T.match_any_sync(0xFFFFFFFF, T.cast(A[tx], "int32"))  # here
        """,
        [r"value, mask\)", "mask comes last"],
    ),
    "the old value of an atomic begins a variable": (
        """
        x = T.alloc_var("float32", T.atomic_add(B[0], 1.0))  # here
        """,
        ["return_prev=True"],
    ),
    "the old value of an atomic": (
        """
        x = T.alloc_var("float32", 0.0)
        x = T.atomic_max(B[0], 1.0)  # here
        """,
        ["T.atomic_max", "return_prev=True"],
    ),
    "a copy begins a variable": (
        """
        s = T.alloc_shared((128,), "float32")
        x = T.alloc_var("float32", T.copy(A, s))  # here
        """,
        ["init is None", "no value"],
    ),
    "a float is an index": (
        """
        for i in T.Parallel(128):
            B[i] = A[B[i]]  # here
        """,
        [r"B\[…\] is a float32", r"T\.cast\(B"],
    ),
    "arithmetic on an address": (
        """
        p = A.data + 4  # here
        """,
        [r"A\[4:8\]", "T.access_ptr"],
    ),
    "a scheduler's tile by a short name": (
        """
        s = T.PersistentTileScheduler(4, 4)
        s.init(0)
        B[s.m] = A[0]  # here
        """,
        ["m_idx", "n_idx", "current_iter"],
    ),
    "a component of float4": (
        """
        w = T.ldg64(A[0])
        B[0] = w.z  # here
        """,
        ["a vector of 2 lanes has no lane 'z'", r"v\[0\] to v\[1\]"],
    ),
    "an element of float4": (
        """
        w = T.ldg128(A[0])
        B[0] = w[4]  # here
        """,
        ["lanes 0 to 3", "not 4"],
    ),
    "float4 goes to a float": (
        """
        w = T.ldg128(A[0])
        B[0] = w  # here
        """,
        ["4 values", "one element of B", "slice of 4 elements"],
    ),
    "a nibble beyond the last": (
        """
        for i in T.Parallel(128):
            B[i] = T.unpack_uint(4, T.cast(A[i], "int32"), 8, "float32")  # here
        """,
        ["position is 8", "4-bit", "0 to 7"],
    ),
    "a tensor is no address": (
        """
        P = T.make_tensor(A, (64,), "float32")  # here
        """,
        [r"T\.view\(A", r"T\.ptr"],
    ),
    "a fold that compares instead of choosing": (
        """
        s, o = T.alloc_fragment((128,), "float32"), T.alloc_fragment((1,), "float32")
        T.copy(A, s)
        T.reduce(s, o, 0, combine=lambda a, b: a > b, identity=0)  # here
        """,
        ["combine", "bool", "float32", "T.if_then_else"],
    ),
    "a layout that puts two elements in one place": (
        """
        s = T.alloc_shared((8, 8), "float32")
        T.annotate_layout({s: T.Layout((8, 8), lambda i, j: i * 4 + j)})  # here
        T.clear(s)
        """,
        [r"\(0, 4\) and \(1, 0\)"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name, tmp_path):
    body, words = MISTAKES[name]
    refused_here(tmp_path, START + body.strip("\n").rstrip() + "\n", words)


TILES = """
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((16, 32), "{a}"), B: T.Tensor((16, 32), "{b}"), C: T.Tensor((16, 16), "{c}")):
    with T.Kernel(1, threads=32):
        a, b = T.alloc_shared((16, 32), "{a}"), T.alloc_shared((16, 32), "{b}")
        c = T.alloc_fragment((16, 16), "{c}")
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c, clear_accum=True{more})  # here
        T.copy(c, C)
"""


def test_products_of_wrong_tiles(tmp_path):
    text = TILES.format(a="float16", b="float16", c="float32", more="")
    refused_here(tmp_path, text, ["inner extents", "transpose_B=True"])
    text = TILES.format(a="int8", b="int8", c="float32", more=", transpose_B=True")
    refused_here(tmp_path, text, ["int8", "integer type"])


FOLDS = """
import tilelang.language as T

{fold}

@T.prim_func
def main(A: T.Tensor((128,), "float32"), B: T.Tensor((1,), "float32")):
    with T.Kernel(1, threads=32):
        s, o = T.alloc_fragment((128,), "float32"), T.alloc_fragment((1,), "float32")
        T.copy(A, s)
        T.reduce(s, o, 0, combine=larger, identity=0)
        T.copy(o, B)
"""


@pytest.mark.parametrize("fold, words", [
    ("def larger(a, b):\n    take = a > b or a == 0  # here\n    return T.if_then_else(take, a, b)",
     ["&", r"\|", "T.macro"]),
    ("def larger(a, b):\n    return a if a > b else b  # here", ["T.if_then_else", "T.macro"]),
    ("@T.macro\ndef larger(a, b):\n    x = T.alloc_var('float32', a)  # here\n    return x",
     ["combine", "T.alloc_var"]),
    ("@T.macro\ndef larger(a, b):\n    if a > b:  # here\n        T.print(a)\n    return b",
     ["combine", "branches", "T.if_then_else"]),
    ("@T.macro\ndef larger(a, b):\n    T.sync_threads()  # here\n    return b", ["combine", "barriers"]),
])  # fmt: skip
def test_folds_that_are_no_expressions(fold, words, tmp_path):
    refused_here(tmp_path, FOLDS.format(fold=fold), words)


def test_a_ticket_without_an_order():
    @T.prim_func
    def main(
        A: T.Tensor((4, 64), "float32"),
        W: T.Tensor((4, 64), "float32"),
        lock: T.Tensor((1,), "int32"),
        C: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(4, threads=64) as z:
            tx = T.get_thread_binding()
            last = T.alloc_shared((1,), "int32")
            W[z, tx] = A[z, tx]
            T.sync_threads()
            if tx == 0:
                last[0] = T.atomic_add(lock[0], 1, return_prev=True)  # relaxed
            T.sync_threads()
            if last[0] == 3:
                t = T.alloc_var("float32", 0.0)
                for s in T.serial(4):
                    t += W[s, tx]
                C[tx] = t

    x = np.ones((4, 64), "f4")
    with pytest.raises(tilelang.SimulationError) as caught:
        tilelang.compile(main, target="sim:sm_90")(x, x.copy(), np.zeros(1, "i4"), np.zeros(64, "f4"))
    lines = Path(__file__).read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.endswith("# relaxed"))
    assert re.search(f"race on W.*line {line} signals.*relaxed.*acq_rel.*sync_threads", str(caught.value))


def test_arguments_of_a_call():
    n = T.dynamic("n")

    @T.prim_func
    def main(slots: T.Tensor((n,), "int64"), K: T.Tensor((n, 64), "int4"), steps: T.int32):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
            for i in T.Parallel(32):
                slots[b * 32 + i] = steps

    kernel, slots, packed = tilelang.compile(main, target="cpu"), np.zeros(5, "i8"), np.zeros((5, 32), "i1")
    kernel(slots, packed, 3)
    wrong = [
        ((slots.astype("i4"), packed, 3), r"slots.*int32\[5\].*int64.*make the array itself int64"),
        ((slots, np.zeros((5, 64), "i1"), 3), r"K.*int8\[5, 64\].*32\]"),
        ((slots, packed[:4], 3), r"K.*4.*n=5"),
        ((slots, packed, 3.5), "steps.*3.5.*int32"),
        ((slots, packed, 1 << 40), "steps.*int32 cannot hold"),
        (([0, 1], packed, 3), "slots.*list"),
        ((slots, packed), "missing a required argument: 'steps'"),
    ]
    for arguments, words in wrong:
        with pytest.raises((TypeError, ValueError)) as caught:
            kernel(*arguments)
        assert re.search(words, str(caught.value)), str(caught.value)


def test_a_cache_that_is_its_own_source():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = A[63 - i]

    x = np.ones(64, "f4")
    with pytest.raises(Exception, match="'B' is written, but shares memory with argument 0 'A'"):
        tilelang.compile(main, target="cpu")(x, x)
