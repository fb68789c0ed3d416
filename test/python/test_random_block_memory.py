"""Random kernels near the limit of a block's memory on every chip: tiles that live one after another, each as
large as all of it, fit; tiles that live at once and do not fit are refused with a list that adds up."""

import random
import re

import numpy as np
import pytest
import tilelang
from helpers import load_text

CHIPS = ["sm_75", "sm_80", "sm_90a", "sm_89", "sm_90a", "sm_120", "sm_86", "sm_90"]
LIMITS = {"sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_89": 99, "sm_90": 227, "sm_90a": 227, "sm_120": 99}
PROGRAMS = 32
TYPES = {"float32": 4, "float16": 2}


def tiles_near(rng, limit):
    """Shapes of one type whose bytes are nearly the limit; some have rows that padding would lengthen."""
    dtype = rng.choice(list(TYPES))
    columns = rng.choice([16, 32, 48, 64, 96, 128, 160])
    rows = int(limit * 1024 * rng.uniform(0.96, 0.998)) // (columns * TYPES[dtype])
    return dtype, (rows // 16 * 16, columns)


def steps_of(rng, number, shape, dtype, product):
    """What happens while this tile lives: filled, changed, read."""
    rows, columns = shape
    name = f"P{number}"
    if product:  # whose sums lie among the threads as no row of the tile does
        return "product", [
            "T.copy(L, a)", "T.copy(R, b)", "T.gemm(a, b, c, clear_accum=True)", f"T.copy(c, {name})",
            f"T.copy({name}, Y{number})",
        ]  # fmt: skip
    loop = f"for i, j in T.Parallel({rows}, {columns}): {name}[i, j]"
    out = [rng.choice([f"T.copy(X{number}, {name})"] * 3 + [f"{loop} = X{number}[i, j]"])]
    change = rng.choice(["", "", "", "double", "turned"])
    if change == "double":
        out.append(f"{loop} = {name}[i, j] * 2")
    if change == "turned":
        out.append(f"for i, j in T.Parallel({columns}, {rows}): Y{number}[j, i] = {name}[{rows - 1} - j, i]")
    else:
        out.append(f"T.copy({name}, Y{number})")
    return change, out


def program(rng, limit, at_once=False):
    dtype, shape = tiles_near(rng, limit / 2 if at_once else limit)
    count = 3 if at_once else rng.choice([2, 2, 3])
    rows, columns = shape
    parameters, allocations, lines, changes = [], [], [], []
    products = dtype == "float32" and not at_once and limit < 200  # else more sums than registers hold
    if products:
        parameters = [f"L: T.Tensor(({rows}, 16), 'float16')", f"R: T.Tensor((16, {columns}), 'float16')"]
        allocations = [f"a = T.alloc_shared(({rows}, 16), 'float16')",
                       f"b = T.alloc_shared((16, {columns}), 'float16')",
                       f"c = T.alloc_fragment(({rows}, {columns}), 'float32')"]  # fmt: skip
    for number in range(count):
        first = products and "product" not in changes  # a second one would keep its factors' tiles alive
        change, steps = steps_of(rng, number, shape, dtype, first and rng.random() < 0.6)
        changes.append(change)
        parameters += [f"{x}{number}: T.Tensor({shape}, '{dtype}')" for x in "XY"]
        allocations.append(f"P{number} = T.alloc_shared({shape}, '{dtype}')")
        lines.append(steps)
    body = [step for steps in lines for step in steps]
    if at_once:  # all are filled before the first is read
        body = [steps[0] for steps in lines] + [step for steps in lines for step in steps[1:]]
    text = "\n        ".join(allocations + body)
    return (
        changes,
        dtype,
        shape,
        f"""
import tilelang.language as T

@T.prim_func
def main({", ".join(parameters)}):
    with T.Kernel(1, threads={256 if products else rng.choice([128, 256])}):
        {text}
""",
    )


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_tiles_that_live_one_after_another(tmp_path, seed):
    rng = random.Random(seed)
    chip = CHIPS[seed % len(CHIPS)]
    changes, dtype, shape, text = program(rng, LIMITS[chip])
    kernel = tilelang.compile(load_text(tmp_path, text).main, target=f"sim:{chip}")
    numbers = np.random.default_rng(seed)
    given = [numbers.integers(-99, 100, shape).astype(dtype) for _ in changes]
    out = [np.full(shape, np.nan, dtype) for _ in changes]
    factors = [numbers.integers(-3, 4, s).astype(np.float16) for s in ((shape[0], 16), (16, shape[1]))]
    arrays = [a for pair in zip(given, out, strict=True) for a in pair]
    for order in (0, 1, 6):
        report = kernel.simulate(*(factors if "T.alloc_fragment" in text else []), *arrays, seed=order)
        assert not report.findings, report
        product = factors[0].astype(float) @ factors[1].astype(float)
        for change, x, y in zip(changes, given, out, strict=True):
            wanted = {"double": x * 2, "turned": x[::-1], "product": product}.get(change, x)
            assert np.array_equal(y, wanted), (chip, change)


@pytest.mark.parametrize("seed", range(len(LIMITS)))
def test_tiles_that_live_at_once_are_listed_and_add_up(tmp_path, seed):
    rng = random.Random(100 + seed)
    chip = list(LIMITS)[seed]
    text = program(rng, LIMITS[chip], at_once=True)[-1]
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(load_text(tmp_path, text).main, target=f"cuda -arch={chip}")
    said = re.search(
        r"the tiles need ([\d.]+) KB of shared memory \((.*)\), but .* gives a block (\d+) KB; (.*)",
        str(caught.value),
    )
    need, listed, given, mend = said.groups()
    parts = [float(x) for x in re.findall(r"P\d+ ([\d.]+) KB", listed)]
    assert int(given) == LIMITS[chip] and len(parts) == 3 and abs(sum(parts) - float(need)) < 1.5
    left = float(re.search(r"would have to shrink to ([\d.]+) KB", mend).group(1))
    assert 0 < left <= parts[0] - (float(need) - LIMITS[chip]) + 0.2
