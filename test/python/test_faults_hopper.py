"""Faults of programs for Hopper that tile compilers are known for (test/faults.md, classes 10 to 18), of
programs by hand and of plain ones that the compiler divides among roles: right from every seed as they are,
and found from every seed where what guards them is taken out.

With TL_FULL=1 from 100 seeds, else from 5, which differ in their kind of schedule.
"""

import os
import re

import hopper_cases as cases
import numpy as np
import pytest
import role_cases
import tilelang

SIM = "sim:sm_90a"
PROGRAMS = {**cases.PROGRAMS, **role_cases.PROGRAMS}
SEEDS = range(100) if os.environ.get("TL_FULL") else [0, 1, 6, 11, 17]


def simulated(kernel, arguments, seed):
    """The findings of one schedule; the arguments are as it leaves them."""
    return kernel.simulate(arguments, [], seed, 1, [], 0, True, False, None)["findings"]


def at_machine(text):
    function = tilelang._core.parse(text, "without.ir")
    return tilelang._core.compile(function, SIM, {"at_machine": True, "cache": False})


def told(findings):
    return [(f["kind"], f["text"]) for f in findings]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_right_from_every_seed(name):
    program = PROGRAMS[name]
    kernel = tilelang.compile(program.make(), target=SIM)._kernel
    for seed in SEEDS:
        arguments = program.arguments(np.random.default_rng(seed))
        assert not (found := simulated(kernel, arguments, seed)), (seed, told(found))
        for place, wanted in program.expected(*arguments).items():
            assert np.array_equal(arguments[place], wanted), seed


@pytest.mark.parametrize("name, guard", [(n, g) for n, p in PROGRAMS.items() for g in p.guards])
def test_it_is_found_without_its_guard(name, guard):
    program = PROGRAMS[name]
    take, kinds = program.guards[guard]
    text = tilelang.compile(program.make(), target=SIM)._kernel.machine_text
    assert take(text) != text
    kernel = at_machine(take(text))
    for seed in SEEDS:
        found = simulated(kernel, program.arguments(np.random.default_rng(seed)), seed)
        assert found and found[0]["kind"] in kinds, (seed, told(found))


# ── 17: tensors that the accelerator cannot move ──────────────────────────────────────────────────────
def test_17_any_shape_is_moved_or_refused():
    """T.tma_copy says why it cannot, T.copy moves all; neither writes beyond the tensor."""
    moved = 0
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        dtype, rows, columns = cases.any_shape(rng)
        x, memory = cases.guarded(rng, rows, columns, dtype)
        for by_tma in (False, True):
            memory[:] = 7
            try:
                kernel = tilelang.compile(cases.moved(rows, columns, dtype, by_tma), target=SIM)._kernel
            except tilelang.CompileError as error:
                assert by_tma and not cases.can_move(dtype, columns), str(error)
                assert "which must be a multiple of 16" in str(error) or "16 bytes" in str(error)
                continue
            assert not by_tma or cases.can_move(dtype, columns), (seed, dtype, columns)
            if by_tma:
                assert "bulk_tensor" in kernel.machine_text
            elif not cases.can_move(dtype, columns):
                assert "bulk_tensor" not in kernel.machine_text
            assert not (found := simulated(kernel, [x, memory[1:-1]], seed)), (seed, told(found))
            assert np.array_equal(memory[1:-1], x) and (memory[[0, -1]] == 7).all(), seed
            moved += by_tma
    assert moved >= len(SEEDS) // 4


def test_17_it_is_refused_by_the_call_too():
    """Rows of 120 bytes, had the compiler and the launch let them pass."""
    text = tilelang.compile(cases.moved(40, 64, "float16", True), target=SIM)._kernel.machine_text
    assert text.count("f16[40, 64]") == 2
    with pytest.raises(tilelang.CompileError, match="a stride is 120 bytes, which must be a multiple of 16"):
        at_machine(text.replace("f16[40, 64]", "f16[40, 60]"))
    text = tilelang.compile(cases.any_tensor(), target=SIM)._kernel.machine_text
    assert text.count("  assume n%8 == 0\n") == 1
    kernel = at_machine(text.replace("  assume n%8 == 0\n", ""))
    for seed in SEEDS:
        x, y = np.ones((40, 60), np.float16), np.zeros((40, 60), np.float16)
        found = simulated(kernel, [x, y], seed)
        assert found and "a stride is 120 bytes, which must be a multiple of 16" in found[0]["text"]


# ── 18: the map of another tensor ─────────────────────────────────────────────────────────────────────
def shapes_of_calls(seed):
    rng = np.random.default_rng(seed)
    return [(int(rng.integers(1, 80)), 8 * int(rng.integers(1, 10))) for _ in range(3)]


def through_shapes(kernel, seed):
    """What is wrong with the calls, in turns."""
    wrong = []
    shapes = shapes_of_calls(seed)
    for shape in (*shapes, shapes[0]):
        x, y = (
            np.random.default_rng(seed).standard_normal(shape).astype(np.float16),
            np.zeros(shape, np.float16),
        )
        found = simulated(kernel, [x, y], seed)
        wrong += told(found) or ([] if np.array_equal(x, y) else [("numbers", shape)])
    return wrong


def test_18_each_call_makes_its_own_map():
    kernel = tilelang.compile(cases.any_tensor(), target=SIM)._kernel
    for seed in SEEDS:
        assert not (wrong := through_shapes(kernel, seed)), (seed, wrong)


@pytest.mark.parametrize("tensor", ["X", "Y"])
def test_18_the_map_of_another_tensor_shows(tensor):
    text = tilelang.compile(cases.any_tensor(), target=SIM)._kernel.machine_text
    fixed = re.sub(rf"(tensor_map \S+ = {tensor}) box", r"\1[24, 16] box", text)
    assert fixed != text
    kernel = at_machine(fixed)
    for seed in SEEDS:
        if set(shapes_of_calls(seed)) != {(24, 16)}:
            assert through_shapes(kernel, seed), seed
