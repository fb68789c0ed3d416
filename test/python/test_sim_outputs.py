"""What a run leaves unwritten of the tensors that the call makes: NaN, a gap in the report, a warning."""

import warnings

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang.front.errors import TilelangWarning


def rows(M, N, first=0, dtype="float32", foreign=False):
    """Y[i, j] = X[i, j] for the rows from `first` on; Z is X."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype), Z: T.Tensor((M, N), dtype)):
        with T.Kernel(M, threads=32) as row:
            for j in T.Parallel(N):
                if row >= first:
                    Y[row, j] = X[row, j]
                Z[row, j] = X[row, j]
            if foreign:
                T.call_extern("void", "touch", T.access_ptr(Y[row, 0], "w"), eval=lambda to: None)

    return main


def call(function, x, **options):
    """The report, and what a plain call gives and warns of."""
    kernel = tilelang.compile(function, target="sim:sm_80", out_idx=[1, 2])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = kernel(x)
    return kernel.simulate(x, **options), given, [w for w in caught if w.category is TilelangWarning]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_is_left_is_nan_and_told(dtype):
    x = np.ones((5, 7), dtype)
    report, (y, z), warned = call(rows(5, 7, 2, dtype), x)
    assert np.isnan(y[:2]).all() and (y[2:] == 1).all() and (z == 1).all()
    (gap,) = report.unwritten_outputs
    assert (gap.tensor, gap.first, gap.elements, gap.of) == ("Y", (0, 0), 14, 35)
    assert not report and "Y: 14 of 35 elements" in str(report)
    assert len(warned) == 1 and "Y: 14 of 35 elements" in str(warned[0].message)
    assert (warned[0].filename, warned[0].lineno) == (__file__, gap.place[1])


def test_of_integers():
    x = np.ones((3, 4), "int32")
    report, (y, _), _ = call(rows(3, 4, 1, "int32"), x)
    assert report.unwritten_outputs[0].elements == 4 and (y[0].view("u1") == 0xAA).all()


def test_where_everything_is_written_nothing_is_told():
    report, (y, z), warned = call(rows(5, 7), np.ones((5, 7), "float32"))
    assert not report.unwritten_outputs and not warned and (y == 1).all() and (z == 1).all()


@pytest.mark.parametrize("options", [{"blocks": 3}, {"blocks": [4]}, {"watch": False}])
def test_a_run_that_does_not_see_everything_tells_nothing(options):
    report, _, _ = call(rows(5, 7, 2), np.ones((5, 7), "float32"), **options)
    assert not report.unwritten_outputs


def test_foreign_code_may_have_written_it():
    assert not call(rows(5, 7, 2, foreign=True), np.ones((5, 7), "float32"))[0].unwritten_outputs


def test_every_schedule_begins_with_nothing():
    report, _, _ = call(rows(5, 7, 2), np.ones((5, 7), "float32"), schedules=3)
    assert report.unwritten_outputs[0].elements == 14 and report.schedules == 3


def test_the_last_kernel_counts():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(X[0:32], Y[0:32])
        with T.Kernel(1, threads=32):
            T.copy(X[32:64], Y[32:64])

    kernel = tilelang.compile(main, target="sim:sm_80", out_idx=[1])
    assert not kernel.simulate(np.ones(64, "float32")).unwritten_outputs


def test_what_the_caller_gives_is_his():
    kernel = tilelang.compile(rows(5, 7, 2), target="sim:sm_80")
    x, y, z = np.ones((5, 7), "f4"), np.zeros((5, 7), "f4"), np.zeros((5, 7), "f4")
    assert not kernel.simulate(x, y, z).unwritten_outputs and (y[:2] == 0).all()


def test_of_the_eager_dialect():
    @tilelang.jit(target="sim:sm_80")
    def twice(X):
        N = T.const("N")
        X: T.Tensor((N,), "float32")
        Y = T.empty((N,), "float32")
        with T.Kernel(N // 32, threads=32) as bx:
            at = bx * 32 + T.get_thread_binding()
            Y[at] = X[at] + X[at]
        return Y

    with pytest.warns(
        TilelangWarning, match=r"Y: 8 of 40 elements were not written by any block, Y\[32\] first"
    ):
        assert np.isnan(twice(np.ones(40, "float32"))[32:]).all()


def test_a_tensor_of_the_caller_keeps_what_nobody_writes():
    """It is not poisoned, what it holds is data, and a gap in it is no finding."""
    x, y, z = np.ones((5, 7), "float32"), np.full((5, 7), 3, "float32"), np.zeros((5, 7), "float32")
    report = tilelang.compile(rows(5, 7, 2), target="sim:sm_80").simulate(x, y, z)
    assert (y[:2] == 3).all() and (y[2:] == 1).all() and (z == 1).all()
    assert not report and not report.unwritten_outputs
