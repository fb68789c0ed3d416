"""Mistakes with integers, tiles and reducers, each an error at the line marked with its words."""

import re
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from everywhere import run

HERE = Path(__file__)


# What is refused, at the user's line.
def refused(mark, words, action, exception=tilelang.CompileError):
    with pytest.raises(exception) as caught:
        action()
    text = str(caught.value)
    line = next(i for i, s in enumerate(HERE.read_text().splitlines(), 1) if s.endswith(f"# {mark}"))
    assert re.search(rf"{HERE.name}:{line}:", text), text
    for word in words:
        assert re.search(word, text), (word, text)


Ints = T.Tensor((32,), "int32")


Bytes = T.Tensor((32,), "uint8")


def test_shift_by_the_width():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    Y[i] = X[i] << 32  # whole width

    refused("whole width", [r"\[0, 32\)", "wider type"], build)


def test_a_number_that_a_byte_does_not_hold():
    def build():
        @T.prim_func
        def main(X: Bytes, Y: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    Y[i] = X[i] * 256 + X[i]  # a byte

    refused("a byte", ["256", "uint8"], build)


def test_division_of_integers():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    Y[i] = X[i] / 2  # slash

    refused("slash", ["//", "float"], build)


def test_counts_in_bytes():
    def build():
        @T.prim_func
        def main(X: Bytes, H: T.Tensor((256,), "uint8")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    T.atomic_add(H[X[i]], 1)  # count

    refused("count", ["uint8", "int32"], build)


def test_barrier_in_a_parallel_loop():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                s = T.alloc_shared((32,), "int32")
                for i in T.Parallel(32):
                    s[i] = X[i]
                    T.sync_threads()  # in parallel
                    Y[i] = s[31 - i]

    refused("in parallel", ["T.Parallel", "end the loop"], build)


def test_a_python_number_that_changes():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                crc = 0
                for i in range(32):
                    crc = crc ^ X[i]  # python number
                Y[0] = crc

    refused("python number", ["crc", "alloc_var"], build)


def test_a_reducer_that_is_not_finalised():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                h = T.alloc_reducer((4,), "int32", op="sum")
                T.clear(h)
                for i in T.Parallel(32):
                    h[X[i] & 3] += 1
                T.copy(h, Y[0:4])  # open

    refused("open", ["finalize_reducer"], build)


def test_a_table_of_python():
    table = np.array([1, 2, 3, 4])

    def build():
        @T.prim_func
        def main(Y: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    Y[i] = table[i]  # table

    refused("table", ["tensor parameter"], build)


def test_every_second_element():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                T.copy(X[::2], Y[0:16])  # step

    refused("step", ["step", "T.Parallel"], build)


def test_before_the_first_element():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    Y[i] = X[-33]  # last

    refused("last", ["outside", "from the end of 32 elements"], build)


def test_value_or_default():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    Y[i] = X[i] or 7  # default

    refused("default", ["if_then_else"], build)


def test_a_power_that_memory_tells():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    Y[i] = 2 ** X[i]  # power

    refused("power", ["constant exponent", "1 << y"], build)


def test_uneven_view():
    def build():
        @T.prim_func
        def main(X: Bytes, Y: T.Tensor((2,), "uint32")):
            with T.Kernel(1, threads=32):
                s = T.alloc_shared((6,), "uint8")
                T.copy(X[0:6], s)
                T.copy(T.view(s, dtype="uint32"), Y)  # view

    refused("view", ["6 elements of 8 bits", "new shape"], build)


def test_count_of_a_warp_in_a_branch():
    @T.prim_func
    def main(X: Ints, Y: Ints):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            if X[tx] % 3 == 0:
                Y[tx] = T.int32(T.ballot(X[tx] > 5))  # branch

    x = np.arange(32, dtype="i4")
    refused(
        "branch",
        ["ballot_sync", "move the call out"],
        lambda: run(main, "sim:sm_90", x, x.copy()),
        tilelang.SimulationError,
    )
