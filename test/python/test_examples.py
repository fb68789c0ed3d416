"""The examples check themselves; here they run, small, on every target that needs no GPU, and as programs."""

import copy
import dataclasses
import functools
import importlib
import re
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path

import harness
import numpy as np
import pytest
import seeds
import tilelang
from helpers import TARGETS, in_turn
from tilelang import _core

EXAMPLES = Path(harness.__file__).parent
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "harness")


def small(name, target):
    module = importlib.import_module(name)
    return module.cases(harness.kind_of(target, getattr(module, "TILES", ())), **module.SMALL)


@pytest.mark.parametrize("target", [*TARGETS, "sim:sm_90"])  # on gfx942: test_gfx942.py
@pytest.mark.parametrize("name", NAMES)
def test_example(name, target):
    for case in small(name, target):
        right, said = harness.judge(case, target)
        assert right, said
        if target.startswith("sim:"):  # `make seeds` tries more of them
            chip = f"sim:{case.chips[0]}" if case.chips else target
            assert not seeds.faults(case, chip, in_turn([1, 2], NAMES.index(name)))


@dataclasses.dataclass
class Turns:
    """A loop of a program: how often one pass through it ran its body, at most."""

    name: str  # of its variable
    is_pipelined: bool
    stages: int  # that were asked for
    most: int

    @property
    def fill_it(self):
        """Whether there are turns before all slots are in use, while they are, and after it."""
        return self.stages > 1 and self.most >= max(3, self.stages + 1)


def count_turns(case, capfd):
    """How many blocks each kernel of a case runs, and its loops.  The text of the program is given prints
    and executed: extents may be computed, or known only when it is called."""
    lines, kernels, loops = [], [], []
    for line in case.kernel.text.splitlines():
        lines.append(line)
        if grid := re.match(r"  kernel (\S+) grid\((.*)\) threads", line):
            blocks = re.findall(r"(\S+): ", grid[2])
            lines.append(f'    print("<block {len(kernels)}{" {}" * len(blocks)}>", {", ".join(blocks)})')
            kernels.append(grid[1])
        elif loop := re.match(r"( *)for (\S+) in (serial|pipelined)\(.*\)(.*):$", line):
            lines.append(f'{loop[1]}  print("<turn {len(loops)} {{}}>", {loop[2]})')
            stages = re.search(r"num_stages=(\d+)", loop[4])
            loops.append(Turns(loop[2], loop[3] == "pipelined", int(stages[1]) if stages else 0, 0))
    program = copy.copy(case.kernel)
    program.function = _core.parse("\n".join(lines) + "\n")
    target = f"sim:{case.chips[0]}" if case.chips else "sim:sm_80" if case.thread_level else "reference"
    capfd.readouterr()
    harness.worst(dataclasses.replace(case, kernel=program).compiled(target), case)
    said = capfd.readouterr().out
    ran = Counter(block.split()[0] for block in set(re.findall(r"<block (.*?)>", said)))
    for loop, turn in set(re.findall(r"<turn (\d+) (\d+)>", said)):
        loops[int(loop)].most = max(loops[int(loop)].most, int(turn) + 1)
    return [ran[str(i)] for i in range(len(kernels))], loops


@pytest.mark.parametrize("name", NAMES)
def test_small_cases_are_small(name, capfd):
    """Whoever runs them many times in the simulator counts on it: six blocks, six steps."""
    for case in small(name, "sim:sm_80"):
        assert case.expected.keys() <= set(range(len(case.arguments)))
        blocks, loops = count_turns(case, capfd)
        assert blocks and all(1 <= n <= 6 for n in blocks), (case.name, blocks)
        assert all(loop.most <= 6 for loop in loops), (case.name, loops)


def pipelined_lines(name):
    """Where an example has a T.Pipelined loop."""
    lines = (EXAMPLES / f"{name}.py").read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if "T.Pipelined(" in line]


@pytest.mark.parametrize("name", [name for name in NAMES if pipelined_lines(name)])
def test_small_cases_fill_their_pipelines(name, capfd):
    """Each T.Pipelined loop runs turns at its begin, with all slots in use, and at its end; and the compiler
    gave it the slots."""
    filled = set()
    for case in small(name, "sim:sm_80"):
        loops = [loop for loop in count_turns(case, capfd)[1] if loop.is_pipelined]
        rows = case.compiled(f"sim:{case.chips[0]}" if case.chips else "sim:sm_80").report.pipelines
        for loop in loops:
            if loop.fill_it:
                (row,) = (row for row in rows if (row.name, row.num_stages) == (loop.name, loop.stages))
                assert max(tile.slots for tile in row.tiles) == loop.stages, (case.name, row)
                ahead = max(step.ahead or 0 for step in row.steps)
                assert loop.stages - 1 <= ahead < loop.most, (case.name, row)
                filled.add(row.place.line)
    assert sorted(filled) == pipelined_lines(name)


CHIPS = _core.chips("cuda")


@pytest.mark.parametrize("name", NAMES)
def test_chips_compile_it(name):
    """At its usual sizes, in turn for two chips, with tiles that fit each."""
    module, turn = importlib.import_module(name), NAMES.index(name)
    for chip in {*in_turn(CHIPS, turn), *in_turn(["sm_75", *CHIPS[-4:]], turn)}:
        target = f"cuda -arch={chip}"
        for case in module.cases(harness.kind_of(target, getattr(module, "TILES", ()))):
            compile_for = functools.partial(case.compiled, target)
            if (name, chip) == ("register_mma_s8", "sm_75"):  # m16n8k16 is the example's own text
                with pytest.raises(tilelang.CompileError, match="requires .target sm_80 or higher"):
                    compile_for()
            elif harness.must_refuse(case, target):
                with pytest.raises(tilelang.CompileError, match="is not an instruction of|no clusters"):
                    compile_for()
            else:
                kernel = compile_for()
                used = max(row["shared_bytes"] for row in kernel.resource_usage)
                assert used <= _core.target_info(kernel.target)["shared_bytes"]


def run(name, *options):
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *options]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "quickstart"])
def test_command_line(name, monkeypatch, capsys):
    """As a user calls it, at its usual sizes, but in this process."""
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--target", "cpu"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert end.value.code == 0, said
    assert re.search(r"^cpu.*: .*(relative error \S+, at most|exact|refused)", said, re.M)


def documented(name):
    """The options of the usage line of an example, each with its values: of `--target cpu|cuda` two, of
    `--rows M` a number, of `--causal` none."""
    doc = importlib.import_module(name).__doc__
    usage = re.search(rf"python examples/{name}\.py((?:\s+\[--[^]]*\])*)", doc)
    return [words.split() for words in re.findall(r"\[([^]]*)\]", usage[1])]


@pytest.mark.parametrize("name", NAMES)
def test_the_documented_options(name, monkeypatch):
    """Each is taken as it is documented, alone and beside all others, and changes what it names."""
    cases = importlib.import_module(name).cases
    every = [f"{name}.py"]
    for option, *values in documented(name):
        for value in values[0].split("|") if values else [None]:
            given = [option] if value is None else [option, "7" if value.isupper() else value]
            monkeypatch.setattr(sys, "argv", [f"{name}.py", *given])
            found = harness.parse_options("What it is.", cases)[option[2:].replace("-", "_")]
            assert str(found) == ("True" if value is None else given[1])
        every += given
    monkeypatch.setattr(sys, "argv", every)
    assert harness.parse_options("What it is.", cases)
    assert len(every) > 1


def test_a_switch_whose_default_is_none(monkeypatch, capsys):
    """The causal case alone runs."""
    sizes = ["--heads", "2", "--kv-heads", "1", "--queries", "64", "--keys", "128", "--dim", "64"]
    monkeypatch.setattr(
        sys, "argv", ["attention_warpgroups.py", "--target", "sim:sm_90a", "--causal", *sizes]
    )
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(EXAMPLES / "attention_warpgroups.py"), run_name="__main__")
    (said,) = capsys.readouterr().out.splitlines()
    assert end.value.code == 0 and "causal" in said and "relative error" in said


def test_an_option_whose_default_is_none(monkeypatch, capsys):
    """One level of them all, by its name; and it says which chip the level needs."""
    options = ["--target", "cpu", "--level", "cluster", "--m", "64", "--n", "64", "--k", "64"]
    monkeypatch.setattr(sys, "argv", ["gemm_levels.py", *options])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(EXAMPLES / "gemm_levels.py"), run_name="__main__")
    (said,) = capsys.readouterr().out.splitlines()
    assert end.value.code == 0 and said.endswith("refused, as it must be: it needs sm_90a")


def test_the_quickstart_compares_with_numpy():
    done = run("quickstart", "--target", "cpu", "--m", "100", "--n", "70", "--k", "130")
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("GFLOP/s", "NumPy", "ratio", "error"):
        assert word in done.stdout


def test_called_from_a_program(monkeypatch):
    """The factories give kernels that allocate what they return, as the README shows it."""
    import flash_attention
    import gemm_grouped
    import softmax
    import topk

    factories = softmax.softmax, topk.topk, flash_attention.attention, gemm_grouped.gemm_grouped
    for factory in factories:
        monkeypatch.setitem(factory.settings, "target", "cpu")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 9), np.float32)
    y = softmax.softmax(5, 9, 4)(x)
    assert np.allclose(y, np.exp(x) / np.exp(x).sum(1, keepdims=True), atol=1e-6)
    values, places = topk.topk(5, 9, 2, 4)(x)
    assert np.array_equal(values, -np.sort(-x)[:, :2]) and np.array_equal(places, np.argsort(-x)[:, :2])
    q, k, v = (rng.standard_normal((1, 2, 9, 16)).astype(np.float16) for _ in range(3))
    o = flash_attention.attention(1, 2, 9, 9, 16, True, 16, 16, 1)(q, k, v)
    assert harness.error_of(o, flash_attention.exact(q, k, v, True)) < 1e-3
    a, b = rng.standard_normal((7, 16)).astype(np.float16), rng.standard_normal((2, 16, 8)).astype(np.float16)
    c = gemm_grouped.gemm_grouped(2, 8, 16, 16, 16, 16, 1)(a, b, np.int32([0, 3, 7]), 4)
    expected = [rows.astype(np.float64) @ b[g] for g, rows in enumerate((a[:3], a[3:]))]
    assert harness.error_of(c, np.concatenate(expected)) < 1e-3


@pytest.mark.parametrize(
    ("name", "factory", "sizes", "given", "why"),
    [
        ("gemm_warpgroups", "gemm", (256, 256, 128), {"block_N": 192}, "block_N is 192"),
        ("gemm_cluster", "gemm", (256, 256, 128), {"block_N": 192}, "block_N is 192"),
        ("gemm_splitk_cluster", "gemm", (64, 64, 256), {"split": 3}, "block_M is 64"),
        ("gemm_streamk", "gemm_streamk", (64, 64, 64, (64, 64, 64, 1, 1), 0), {}, "0 blocks"),
        ("gemm_levels", "gemm", (64, 64, 64, "fast", (64, 64, 64, 1, 1), 1), {}, "level is fast"),
        ("attention_warpgroups", "attention", (1, 1, 300, 150, 64, True), {}, "300 queries of 150 keys"),
    ],
)
def test_sizes_that_an_example_is_not_written_for(name, factory, sizes, given, why):
    build = getattr(importlib.import_module(name), factory)
    with pytest.raises(ValueError, match=why):
        build.get_tir(*sizes, **given)
