"""bench/peers: what needs no GPU.  Its processes are played by a few lines that answer the same commands."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from peers import ahead, shapes, table
from peers.link import Bench, Link, Lost, Refused, environment
from peers.measure import Budget, NobodyRan, Options, OutOfTime, Part, middle
from peers.providers import NAMES, OURS, PUBLISHED, tiles
from peers.results import Results
from peers.shapes import Case

BENCH = Path(ahead.__file__).resolve().parents[1]
M0 = Case("M0", "f16", "nt")


class Fake:
    """A process: `speed` has the milliseconds of each provider's variants, or the error to raise."""

    def __init__(self, package, speed, asked):
        self.package, self.speed, self.asked = package, speed, asked

    def ask(self, do, timeout, provider=None, variant=None, **_):
        self.asked.append((do, provider, variant))
        if do == "hello":
            return {"gpu": "a card", "driver": "1, 700 W", "versions": {"tilelang": "9"}}
        if do == "variants":
            found = self.speed[provider]
            if isinstance(found, str):
                raise Refused(f"Unsupported: {found}")
            return list(found)
        if do in ("attempt", "compile", "hold") and isinstance(self.speed[provider].get(variant), Exception):
            raise self.speed[provider][variant]
        if do in ("attempt", "hold"):
            self.held = variant
            return self.speed[provider][variant] if do == "attempt" else 2e-4
        if do == "burst":
            return min(x for x in self.speed[provider].values() if isinstance(x, float))
        if do == "sustain":
            return {"times": [1.5, 1.5, 1.6], "mhz": 1500}
        return None

    def end(self):
        self.asked.append(("end", None, None))


SPEED = {
    "cuBLAS": {"only": 1.0},
    "Triton": {"slow": 3.0, "fast": 2.0},
    "ours, tiles": {"wrong": Refused("wrong: relative error 1"), "right": 2.5},
    "ours, by hand": "is written for float16",
    "published": {"p": 1.25},
}


def benches(speed, packages=(OURS,)):
    asked = []
    return [Bench(package, lambda package: Fake(package, speed, asked)) for package in packages], asked


def quiet():
    return Options(repeats=3, sustain=0.1, sleep=lambda seconds: None)


def measured(path, speed=SPEED, packages=(OURS,), case=M0):
    results = Results(path)
    made, asked = benches(speed, packages)
    Part(case, results, Budget(100), quiet()).run(made)
    return results, asked


def test_the_parts_of_a_run():
    every = list(shapes.parts(list(shapes.SHAPES), list(shapes.DTYPES), list(shapes.LAYOUTS)))
    assert len(every) == len({case.name for case in every}) == 5 * len(shapes.LARGE) + 2 * len(shapes.SMALL)
    assert Case("M0", "fp8", "nt") in every and Case("M0", "fp8", "nn") not in every
    some = shapes.parts(["M5", "m16"], ["f16", "fp8"], ["nt"])
    assert [case.name for case in some] == ["M5 f16 nt", "M5 fp8 nt", "m16 f16 nt"]
    assert table.case_of("M5 fp8 nt") == Case("M5", "fp8", "nt")


def test_small_operands_are_rotated():
    assert Case("M5", "f16", "nt").sets == 1
    assert Case("M0", "f16", "nt").sets == 4
    assert Case("S512", "f16", "nt").sets == 64


def test_which_shapes_tma_takes():
    assert Case("R1304", "f16", "nn").by_tma and not Case("R1300", "f16", "nn").by_tma


def test_tiles_are_not_higher_than_the_matrix():
    ours = tiles.Tiles("ours", tiles.OURS, "cuda")
    assert max(row[0] for row in ours.variants(Case("m16", "f16", "nt"))) == 64
    assert max(row[0] for row in ours.variants(Case("m128", "f16", "nt"))) == 128
    assert ours.variants(Case("M0", "fp8", "nt"))[0] == [128, 256, 128, 4, 256]
    assert ours.variants(Case("M0", "f16", "nt"))[0] == [128, 256, 64, 4, 256]


def test_a_part_takes_the_fastest_that_is_right(tmp_path):
    results, asked = measured(tmp_path / "r", packages=(OURS, PUBLISHED))
    part = results.parts["M0 f16 nt"]
    assert {who: found["variant"] for who, found in part["found"].items()} == {
        "cuBLAS": "only",
        "Triton": "fast",
        "ours, tiles": "right",
        "published": "p",
    }
    assert part["found"]["Triton"]["burst"] == {"ms": 2.0, "spread": 0.0}
    assert part["found"]["Triton"]["sustained"]["ms"] == 1.5 and part["found"]["Triton"]["mhz"] == 1500
    assert part["absent"] == {"ours, by hand": [(None, "is written for float16")]}
    assert part["refused"] == {"ours, tiles": [("wrong", "wrong: relative error 1")]}
    bursts = [provider for do, provider, _ in asked if do == "burst"]
    assert bursts == ["cuBLAS", "Triton", "ours, tiles", "published"] * 3  # in turn


def test_a_variant_that_loses_its_process_is_not_tried_again(tmp_path):
    speed = SPEED | {"Triton": {"hangs": Lost("no answer"), "fast": 2.0}}
    results, asked = measured(tmp_path / "r", speed)
    assert results.parts["M0 f16 nt"]["found"]["Triton"]["variant"] == "fast"
    assert [do for do, _, _ in asked].count("hello") == 2  # started again, and the case opened again
    assert [do for do, _, _ in asked].count("open") == 2
    again = Results(tmp_path / "r")
    assert again.is_lost(M0, "Triton", "hangs") and not again.is_lost(M0, "Triton", "fast")
    made, asked = benches(speed)
    Part(M0, again, Budget(100), quiet()).run(made)
    assert ("attempt", "Triton", "hangs") not in asked
    assert again.parts["M0 f16 nt"]["refused"]["Triton"] == [("hangs", "its process was lost before")]


def test_a_variant_that_cannot_be_captured_is_left_out_and_the_part_done_again(tmp_path):
    class Fails(Fake):
        def ask(self, do, timeout, provider=None, variant=None, **more):
            if do == "hold" and variant == "fast":
                raise Refused("cannot be captured")
            return super().ask(do, timeout, provider, variant, **more)

    results = Results(tmp_path / "r")
    bench = Bench(OURS, lambda package: Fails(package, SPEED, []))
    Part(M0, results, Budget(100), quiet()).run([bench])
    assert results.parts["M0 f16 nt"]["found"]["Triton"]["variant"] == "slow"


def test_a_part_that_nobody_can_do_is_not_finished(tmp_path):
    results = Results(tmp_path / "r")
    made, _ = benches(dict.fromkeys(SPEED, "no"))
    with pytest.raises(NobodyRan, match="cuBLAS: no; Triton: no"):
        Part(M0, results, Budget(100), quiet()).run(made)
    assert not results.parts


def test_the_results_file_is_resumed(tmp_path):
    path = tmp_path / "r"
    measured(path)
    with open(path, "a") as out:
        out.write('{"kind": "part", "case": "M1 f16')  # ended while it wrote
    results = Results(path)
    assert results.has(M0, [OURS]) and not results.has(Case("M1", "f16", "nt"), [OURS])
    assert not results.has(M0, [OURS, PUBLISHED])  # the published package has not taken part yet
    measured(path, packages=(OURS, PUBLISHED))
    assert Results(path).has(M0, [OURS, PUBLISHED])


def test_a_budget_ends_a_part(tmp_path):
    now = iter(range(1000))
    budget = Budget(5, now=lambda: float(next(now)))
    assert budget.at_most(100) == 4 and budget.at_most(1) == 1
    results = Results(tmp_path / "r")
    made, _ = benches(SPEED)
    with pytest.raises(OutOfTime):
        Part(M0, results, budget, quiet()).run(made)
    assert not results.parts and not results.lost


def test_medians_and_spreads():
    assert middle([2.0]) == {"ms": 2.0, "spread": 0.0}
    assert middle([1.0, 2.0, 3.0]) == {"ms": 2.0, "spread": pytest.approx(0.8)}


def test_those_left_out_neither_compile_nor_multiply(tmp_path):
    asked = []
    made = [Bench(OURS, lambda package: Fake(package, SPEED, asked), without=["Triton"])]
    results = Results(tmp_path / "r")
    assert {item[1] for item in ahead.items([M0], made, results, Budget(100))} == {"cuBLAS", "ours, tiles"}
    Part(M0, results, Budget(100), quiet()).run(made)
    part = results.parts[M0.name]
    assert "Triton" not in part["found"] and "Triton" not in part["absent"]


def test_everything_is_compiled_ahead(tmp_path):
    results = Results(tmp_path / "r")
    speed = SPEED | {"Triton": {"crashes": Lost("status -6"), "fast": 2.0}}
    made, _ = benches(speed, (OURS, PUBLISHED))
    todo = ahead.items([M0], made, results, Budget(100))
    assert [item[1] for item in todo][0] == "published" and len(todo) == 6
    asked = []
    start = lambda package: Fake(package, speed, asked)
    assert ahead.compile_ahead(todo, start, results, Budget(100), jobs=2) == 4  # one is wrong, one crashes
    assert results.is_lost(M0, "Triton", "crashes") and not results.is_lost(M0, "ours, tiles", "wrong")
    assert len([do for do, _, _ in asked if do == "end"]) >= 1
    assert len(ahead.items([M0], made, results, Budget(100))) == 5
    assert ahead.compile_ahead(todo, start, results, Budget(0), jobs=2) == 0
    assert ahead.compile_ahead([], start, results, Budget(9), jobs=2) == 0


SERVER = textwrap.dedent("""
    import os, sys, time
    from peers.server import serve

    class Session:
        def double(self, of):
            return 2 * of
        def refuse(self):
            raise ValueError("two\\nlines")
        def die(self):
            os._exit(7)
        def sleep(self):
            time.sleep(60)

    raise SystemExit(serve(Session(), sys.stdin, sys.stdout))
""")


@pytest.fixture
def link(tmp_path):
    made = Link([sys.executable, "-c", SERVER], environment(OURS, None), tmp_path / "log")
    yield made
    made.end()


def test_a_process_answers_and_refuses(link):
    assert link.ask("double", 20, of=4) == 8
    with pytest.raises(Refused, match="^ValueError: two lines$"):
        link.ask("refuse", 20)
    assert link.ask("double", 20, of=5) == 10


def test_a_process_that_dies_is_lost(link):
    with pytest.raises(Lost, match="ended at 'die' with status"):
        link.ask("die", 20)
    with pytest.raises(Lost):
        link.ask("double", 20, of=1)


def test_a_process_that_is_silent_is_ended(link):
    link.ask("double", 20, of=1)
    with pytest.raises(Lost, match="no answer to 'sleep' within"):
        link.ask("sleep", 0.2)
    assert link.process.returncode is not None


def test_each_package_has_a_path_of_its_own(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "ours/python")
    assert environment(OURS, Path("/p"))["PYTHONPATH"] == f"{BENCH}:ours/python"
    monkeypatch.setenv("TILELANG_CACHE_DIR", "cache/of/ours")
    published = environment(PUBLISHED, Path("/p"))
    assert published["PYTHONPATH"] == f"{BENCH}:/p" and "TILELANG_CACHE_DIR" not in published


def a_part(case, burst, absent=None, about=(OURS,)):
    """burst: TFLOPS of each provider."""
    found = {
        who: {"variant": [], "tried": 1, "error": 2e-4, "burst": {"ms": case.gflop / rate, "spread": 0.01}}
        for who, rate in burst.items()
    }
    card = {"gpu": "a card", "driver": "1, 700 W", "versions": {"torch": "2", "tilelang": "9"}}
    return {
        "case": case.name,
        "found": found,
        "absent": absent or {},
        "refused": {},
        "about": dict.fromkeys(about, card),
        "date": "2026-01-02",
    }


def some_parts():
    made = [
        a_part(
            M0, {"cuBLAS": 800, "Triton": 400, "ours, tiles": 200}, {"ours, by hand": [[None, "not yet"]]}
        ),
        a_part(
            Case("M1", "f16", "nt"), {"cuBLAS": 200, "Triton": 200}, {"ours, by hand": [[None, "not yet"]]}
        ),
        a_part(Case("m16", "f16", "nn"), {"cuBLAS": 50.04, "ours, by hand": 60}),
    ]
    return {part["case"]: part for part in json.loads(json.dumps(made))}


def test_the_table():
    text = table.markdown(some_parts())
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows == [
        "| shape | m, n, k | cuBLAS | Triton | ours, tiles | ours, by hand |",
        "|---|---|---|---|---|---|",
        "| M0 | 4096, 1024, 8192 | 800.0 | 400.0 (0.500) | 200.0 (0.250) | – |",
        "| M1 | 4096, 8192, 8192 | 200.0 | 200.0 (1.000) | – | – |",
        "| geometric mean | | 400.0 | 282.8 (0.707) | 200.0 (0.250) of 1 | – |",
        "| shape | m, n, k | cuBLAS | Triton | ours, tiles | ours, by hand |",
        "|---|---|---|---|---|---|",
        "| m16 | 16, 8192, 8192 | 50.0 | – | – | 60.0 (1.199) |",
        "| geometric mean | | 50.0 | – | – | 60.0 (1.199) |",
    ]
    assert "**f16, B as (N, K), burst**: TFLOPS (of cuBLAS)" in text
    assert "**f16, B as (K, N), small shapes, burst**" in text and "sustained**" not in text
    assert "a card (driver, power limit: 1, 700 W), torch 2, tilelang 9, 2026-01-02" in text
    assert "The published package was not there" in text
    assert "- ours, by hand: not yet (M0 f16 nt, M1 f16 nt)" in text
    assert "Greatest spread: cuBLAS 1.0 %, Triton 1.0 %, ours, tiles 1.0 %." in text


def test_reasons_are_gathered():
    part = some_parts()["M0 f16 nt"]
    part["refused"]["Triton"] = [[["tma", n], "too much shared memory"] for n in range(4)]
    text = table.markdown({"M0 f16 nt": part})
    said = "(M0 f16 nt; ['tma', 0], ['tma', 1], ['tma', 2] and 1 more)"
    assert f"- Triton: too much shared memory {said}" in text


def test_the_published_package_has_a_column_where_it_took_part():
    part = a_part(M0, {"cuBLAS": 100, "published": 90}, about=(OURS, PUBLISHED))
    text = table.markdown({part["case"]: part})
    assert "| shape | m, n, k | cuBLAS | published |" in text and "published tilelang 9" in text
    assert "was not there" not in text


def test_no_table_without_parts():
    assert table.markdown({}) == "Nothing was measured.\n"


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_picture(tmp_path, suffix):
    pytest.importorskip("matplotlib")
    from peers import plot

    path = tmp_path / f"p.{suffix}"
    plot.draw(some_parts(), path)
    assert path.stat().st_size > 1000


@pytest.mark.parametrize("command", [["-m", "peers"], [str(BENCH / "peers")]], ids=["module", "folder"])
def test_without_a_budget_there_is_only_a_table(tmp_path, command):
    (tmp_path / "results.jsonl").write_text(json.dumps({"kind": "part", **some_parts()["M0 f16 nt"]}) + "\n")
    asked = ["--budget", "0", "--out", str(tmp_path), "--shapes", "M0", "M1", "--layouts", "nt"]
    run = subprocess.run([sys.executable, *command, *asked], cwd=BENCH, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "5 of 6 parts are left: M1 f16 nt, M0 bf16 nt" in run.stdout
    assert "| M0 | 4096, 1024, 8192 | 800.0 |" in (tmp_path / "table.md").read_text()


def test_every_provider_has_a_column():
    assert set(table.COLUMNS) == {*NAMES[OURS], *NAMES[PUBLISHED]}
