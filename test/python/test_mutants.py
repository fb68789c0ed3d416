"""Faults put into our own programs are noticed: a sample of them; `make mutants` judges all."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mutants"))

import judge  # noqa: E402
import mutate  # noqa: E402


@pytest.mark.parametrize("family", ["gemm", "row_sum", "scan", "stencil", "hillis", "histogram"])
def test_a_sample_is_noticed(family):
    shown, survivors = judge.run([family], every=4)
    assert sum(n for (_, how), n in shown.items() if how != "invalid") >= 3
    assert [s for s in survivors if s not in judge.allowed()] == []


def test_every_barrier_of_a_gemm_is_needed():
    (_, family, text, threads), *_ = [p for p in judge.programs(["gemm"]) if p[0] == "gemm/4"]
    barriers = [m for m in mutate.mutants(text) if m.operator == "drop_barrier"]
    assert len(barriers) >= 2
    assert {judge.judge(family, text, m, threads) for m in barriers} <= {"race", "unwritten"}
