"""The harness of the examples: what is wrong is found."""

import dataclasses

import harness
import numpy as np
import pytest
import seeds
import softmax
import tilelang.language as T


@pytest.fixture
def case():
    return next(softmax.cases("gpu", rows=5, columns=9))


def test_a_right_case(case):
    right, said = harness.judge(case, "reference")
    assert right and "float32 5 x 9" in said


@pytest.mark.parametrize("change", [{"expected": {1: np.ones((5, 9))}}, {"expected": {1: np.ones((5, 8))}},
                                    {"bound": 0}, {"thread_level": True}])  # fmt: skip
def test_a_wrong_case(case, change):
    right, _ = harness.judge(dataclasses.replace(case, **change), "reference")
    assert not right


def test_seeds_see_wrong_numbers_and_faults(case):
    assert not seeds.faults(case, "sim:sm_80", range(2))
    wrong = dataclasses.replace(case, expected={1: np.ones((5, 9))})
    assert len(seeds.faults(wrong, "sim:sm_80", range(2))) == 2

    @T.prim_func
    def beyond(X: T.Tensor((5, 9), "float32"), Y: T.Tensor((5, 9), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((32,), "float32")
            Y[0, 0] = S[T.get_thread_binding() + 1]

    assert "seed 1: " in seeds.faults(dataclasses.replace(case, kernel=beyond), "sim:sm_80", [1])[0]


def test_nan_is_wrong():
    assert harness.error_of([1, np.nan], [1, 1]) == harness.error_of([1, np.inf], [1, 1]) == float("inf")


def test_arguments_stay_as_they_are(case):
    kernel = case.compiled("reference")
    assert harness.worst(kernel, case) == harness.worst(kernel, case) <= case.bound
    assert np.isnan(case.arguments[1]).all()


def test_outputs_are_poisoned():
    assert np.isnan(harness.blank((2, 3), "float16")).all()
    assert (harness.blank(4, "int8") == -128).all()


def test_all_examples_are_found():
    names = [case.name for case in harness.small_cases("gpu")]
    assert len(names) == len(set(names)) and "softmax: float32 7 x 203" in names


def test_options_come_from_the_cases(monkeypatch):
    def cases(
        kind, rows=3, dtype="float16", causal=False, masked: bool | None = None, level: str | None = None
    ):
        raise AssertionError

    given = ["x", "--rows", "5", "--causal", "--masked", "--level", "fast"]
    for words, masked, level in ((given, True, "fast"), (given[:-3], None, None)):
        monkeypatch.setattr("sys.argv", words)
        expected = {"target": "auto", "rows": 5, "dtype": "float16", "causal": True}
        assert harness.parse_options("What it is.", cases) == {**expected, "masked": masked, "level": level}


def test_the_main_program_fails_with_a_wrong_case(case, monkeypatch, capsys):
    wrong = dataclasses.replace(case, expected={1: np.ones((5, 9))})
    monkeypatch.setattr("sys.argv", ["x", "--target", "reference"])
    for cases, status in (([case], 0), ([case, wrong], 1)):
        with pytest.raises(SystemExit) as ended:
            harness.main("What it is.", lambda kind, cases=cases: cases)
        assert ended.value.code == status
    assert capsys.readouterr().out.count("WRONG") == 1
