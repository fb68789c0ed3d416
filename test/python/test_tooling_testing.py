"""tilelang.testing in its published forms: regression suites, and the markers that skip."""

import pytest
import tilelang.testing
from tilelang.testing.perf_regression import PerfResult, process_func


def suite(**functions):
    """A module of regression functions; calling it runs tilelang.testing.regression there."""
    scope = {"tilelang": tilelang, "process_func": process_func, **functions}
    exec("def run(**options):\n    return tilelang.testing.regression(**options)", scope)
    return scope["run"]


def latency(ms=0.25):
    return ms


def test_regression_runs_the_functions_of_its_module(capsys):
    def one():
        assert process_func(latency, "small", ms=0.5) is None
        process_func(latency, ms=2)

    run = suite(regression_one=one, regression_two=lambda: 1.5, other=lambda: 1 / 0)
    assert run() == [
        PerfResult("small", 0.5, "regression_one"),
        PerfResult("test_tooling_testing", 2.0, "regression_one"),
        PerfResult("two", 1.5, "regression_two"),
    ]
    printed = capsys.readouterr().out
    assert "latency (ms)" in printed and "small" in printed and "1.5000" in printed
    assert len(run(verbose=False)) == 3 and not capsys.readouterr().out


def test_regression_runs_all_and_says_what_failed():
    run = suite(perf_bad=lambda: 1 / 0, perf_none=lambda: None, perf_good=lambda: 2.0)
    with pytest.raises(
        RuntimeError,
        match=r"2 of 3 failed:\n  perf_bad: ZeroDivisionError.*\n  perf_none: .*"
        "gave None; it returns a latency",
    ):
        run(prefixes=("perf_",))
    with pytest.raises(RuntimeError, match="no function here has a name that begins with regression_"):
        run()


def test_the_name_is_positional_only():
    names = []
    process_func(lambda name, func: names.append((name, func)) or 1.0, "of the result", name="a", func="b")
    assert names == [("a", "b")]
    with pytest.raises(TypeError, match="gave 'fast'"):
        process_func(lambda: "fast")


def test_markers():
    t = tilelang.testing
    assert t.requires_cuda(support_required="compile-only").args == (False,)
    assert t.requires_cuda(support_required="optional").args == (False,)
    with pytest.raises(ValueError, match="compile-only or optional"):
        t.requires_cuda(support_required="yes")
    for what in ("rocm", "metal", "cdna", "gfx950", "ascend"):
        requires = getattr(t, f"requires_{what}")
        assert requires().args == (True,) and callable(requires(latency)) and requires.__doc__
    assert t.requires_llvm(support_required="compile-only").args == (False,)
    assert callable(t.requires_cuda_or_cdna(latency)) and not t.ascend_backend_compiled()
    for mode in ("", "_ge", "_gt", "_eq", "_le", "_lt"):
        mark = getattr(t, f"requires_cuda_compute_version{mode}")(major_version=9, minor_version=0)
        assert "9.0" in mark.kwargs["reason"]
    assert t.requires_package("numpy", "pytest").args == (False,)
    mark = t.requires_package("numpy", "no_such_package")
    assert mark.args == (True,) and mark.kwargs["reason"] == "needs the package no_such_package"
