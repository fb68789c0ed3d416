"""Faults put into our own programs are noticed: a sample of them; `make mutants` judges all."""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mutants"))

import judge  # noqa: E402
import mutate  # noqa: E402
import pipelines  # noqa: E402


@pytest.mark.parametrize("family", ["gemm", "row_sum", "scan", "stencil", "hillis", "histogram"])
def test_a_sample_is_noticed(family):
    shown, survivors = judge.run([family], every=4)
    assert sum(n for (_, how), n in shown.items() if how != "invalid") >= 3
    assert [told for told, _, _ in survivors if told not in judge.allowed()] == []


def test_every_barrier_of_a_gemm_is_needed():
    family, threads = next(f for f in judge.FAMILIES if f.name == "gemm"), 128
    text = judge.program(family, 4)
    barriers = [m for m in mutate.mutants(text) if m.operator == "drop_barrier"]
    assert len(barriers) >= 2
    assert {judge.judge(family, text, m, threads) for m in barriers} <= {"race", "unwritten"}


@pytest.mark.parametrize("family", ["slots", "ahead_gemm_3", "ahead_attention_2", "ahead_cast_2"])
def test_every_fault_of_a_pipeline_is_noticed(family):
    _, survivors = judge.run([family])
    assert [told for told, _, _ in survivors if told not in judge.allowed()] == []


@pytest.mark.parametrize("family", ["hand_gemm_nn", "hand_gemm_nt", "hand_attention", "hand_causal"])
def test_a_sample_of_faults_of_warpgroups_is_noticed(family):
    shown, survivors = judge.run([family], every=7)
    assert sum(shown.values()) >= 14
    assert [told for told, _, _ in survivors if told not in judge.allowed()] == []


def test_what_is_put_into_a_gemm_of_warpgroups():
    family = next(f for f in judge.FAMILIES if f.name == "hand_gemm_nn")
    text = family.make(384)
    lines = text.rstrip("\n").split("\n")
    found = {}
    for m in mutate.mutants(text, family.operators):
        found.setdefault(m.operator, []).append(m)
    assert set(found) == set(mutate.OF_WARPGROUPS)
    assert {m.apply(lines).count("wgmma_commit_group()") for m in found["drop_commit"]} == {1, 2}
    assert len(found["wrong_registers"]) == 3 and len(found["drop_fence"]) == 5
    parities = [m.new.split("), ")[-1] for m in found["restarted_parity"]]
    assert parities == ["(cast<i32>(k)//2 + 1)%2):", "cast<i32>(k)//2%2):", "cast<i32>(k)//2%2):"]
    early = found["early_release"][0].apply(lines).split("\n")
    at = found["early_release"][0].line
    assert "mbarrier_arrive(" in early[at + 1] and "wgmma_wait_group(1:i32)" in early[at + 2]
    assert len(early) == len(lines)


def test_the_faults_of_a_ring_of_three_slots():
    text = pipelines.text_of("slots", 64)
    lines = text.split("\n")
    found = {}
    for m in mutate.mutants(text, mutate.OF_PIPELINES):
        found.setdefault(m.operator, []).append((lines[m.line].strip(), m.new.strip()))
    assert {operator: len(all_of_it) for operator, all_of_it in found.items()} == {
        "drop_barrier": 1, "drop_commit": 2, "drop_wait": 1, "wait_too_little": 1, "wrong_slot": 6,
    }  # fmt: skip
    assert found["wait_too_little"] == [("cp_async_wait_group(1:i32)", "cp_async_wait_group(2:i32)")]
    slots = [re.search(r"S\[(.*?)\*64", new)[1] for _, new in found["wrong_slot"]]
    assert slots == [
        "(cast<i32>(j) + 1)%3", "(cast<i32>(j) + 2)%3",
        "((cast<i32>(k) + 2) + 1)%3", "((cast<i32>(k) + 2) + 2)%3",
        "(cast<i32>(k) + 1)%3", "(cast<i32>(k) + 2)%3",
    ]  # fmt: skip
