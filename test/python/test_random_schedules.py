"""Random schedules of warps, chains of roles each of which reads what the one before has filled: they give
what the program gives without them, and the simulator finds nothing."""

import itertools
import random

import numpy as np
import pytest
import tilelang
from helpers import load_text

HEAD = """
import tilelang.language as T
S = T.WSSync

@T.prim_func
def main(A: T.Tensor(({rows}, {width}), "float32"), n: T.int32, B: T.Tensor(({rows}, {width}), "float32")):
    with T.Kernel(1, threads={threads}):
        x = [T.alloc_shared(({width},), "float32") for _ in {links}]
        f = [T.alloc_fragment(({width},), "float32") for _ in {roles}]
        roles = [{given}]
        pipes = [T.WSPipeline(f"p{{i}}", [x[i]], depth) for i, depth in enumerate({depths})]
        scopes = [T.WSScope(T.WSScope.ROOT, [["outer"]] * {count}), T.WSScope("outer", [["inner"]] * {count}),
                  T.WSScope("inner", {bodies})]
        T.annotate_ws_schedule(T.WSSchedule({threads} // 32, roles, pipes, scopes))
        with T.ws_op("outer"):
            for t in T.serial({outer}):
                with T.ws_op("inner"):
                    for j in T.serial({inner}):
                        row = t * {turns} + j
"""


def steps(role, last, depths, rng):
    """Of one role: wait and read, acquire, fill and commit, and a release somewhere behind the reads."""
    out, release = [], []
    if role > 0:
        late = rng.randrange(depths[role - 1]) if rng.random() < 0.4 else 0
        release = [f"S.consumer_release('p{role - 1}', {late})"]
        out = [f"S.consumer_wait('p{role - 1}')", f"'read{role}'"]
    fill = [f"S.producer_acquire('p{role}')", f"'fill{role}'", f"S.producer_commit('p{role}')"]
    parts = [release, ["'store'"] if role == last else fill]
    if rng.random() < 0.5:
        parts.reverse()
    return "[" + ", ".join([*out, *parts[0], *parts[1]]) + "]"


def operations(role, last, width, rng):
    """The text of what one role does."""

    def loop(line):
        return [f"    for i in T.Parallel({width}):", f"        {line}"]

    out = []
    if role > 0:
        plain = [f"    T.copy(x[{role - 1}], f[{role}])"]
        turned = loop(f"f[{role}][i] = x[{role - 1}][{width - 1} - i]")
        out += [f"with T.ws_op('read{role}'):", *rng.choice([plain, turned])]
        out += rng.choice([[], loop(f"f[{role}][i] = f[{role}][i] * 2 + row")])
    if role == last:
        return [*out, "with T.ws_op('store'):", f"    T.copy(f[{role}], B[row, :])"]
    source, given = ("A[row, :]", "A[row, i]") if role == 0 else (f"f[{role}]", f"f[{role}][i]")
    fills = [[f"    T.copy({source}, x[{role}])"], loop(f"x[{role}][i] = {given} - 1")]
    return [*out, f"with T.ws_op('fill{role}'):", *rng.choice(fills)]


def program(rng):
    """The text of a program, its rows, and the trip count that the call gives."""
    count, outer, turns = rng.choice([2, 3, 4]), rng.choice([0, 1, 3]), rng.choice([0, 1, 2, 5])
    width = rng.choice([32, 64, 96])
    ends = list(itertools.accumulate([rng.randint(1, 4) for _ in range(count)], initial=0))
    depths = [rng.choice([1, 2, 3]) for _ in range(count - 1)]
    text = HEAD.format(
        rows=max(1, outer * turns),
        width=width,
        threads=32 * ends[-1],
        links=range(count - 1),
        roles=range(count),
        count=count,
        depths=depths,
        outer=outer,
        turns=turns,
        inner=rng.choice([f"T.min(t + 1, {turns})", str(turns), "n"]),
        given=", ".join(
            f"T.WSRole('r{r}', warps_lo={ends[r]}, warps_hi={ends[r + 1]})" for r in range(count)
        ),
        bodies="[" + ", ".join(steps(r, count - 1, depths, rng) for r in range(count)) + "]",
    )
    lines = [line for r in range(count) for line in operations(r, count - 1, width, rng)]
    return text + "".join(f"{' ' * 24}{line}\n" for line in lines), (max(1, outer * turns), width), turns


@pytest.mark.parametrize("seed", range(12))
def test_a_random_schedule(tmp_path, seed):
    text, shape, turns = program(random.Random(seed))
    function = load_text(tmp_path, text).main
    a = np.random.default_rng(seed).integers(-5, 5, shape).astype(np.float32)
    expected, found = np.zeros_like(a), np.zeros_like(a)
    tilelang.compile(function, target="reference")(a, turns, expected)
    report = tilelang.compile(function, target="sim:sm_90").simulate(a, turns, found, schedules=3)
    assert not report.findings and np.array_equal(expected, found)
