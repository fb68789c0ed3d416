"""The pages of docs/: those that are made are up to date, and the snippets of the others run."""

import linecache
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tilelang
import tilelang.language as T

ROOT = Path(__file__).resolve().parents[2]


def test_made_pages_are_up_to_date():
    command = [sys.executable, str(ROOT / "tools" / "make_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_name_without_an_entry_is_noticed(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import make_docs

    text = (ROOT / "docs" / "reference.md").read_text()
    assert make_docs.without_entry(text) == []
    less = text.replace("### `T.cumsum(", "### `T.cum_sum(").replace("`T.uint8`", "")
    assert set(make_docs.without_entry(less)) == {"cumsum", "uint8"}


def test_every_construct_of_threads_has_a_row_in_the_table_of_targets(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import target_table
    from tilelang.language import atomic, control, foreign, thread

    rows = {name for names in target_table.FEATURES.values() for name in names}
    wide = {name for name in foreign.__all__ if re.fullmatch(r"(ld|st)[gs]\d+", name)}
    assert {*thread.__all__, *atomic.__all__, *wide, "thread_binding", "thread_return", "loop_break"} <= rows
    assert {"thread_binding", "thread_return", "loop_break"} <= {*control.__all__}


def test_the_reference_says_each_thing_once():
    entries = (ROOT / "docs" / "reference.md").read_text().partition("\n## Types\n")[0]
    names = re.findall(r"^### `(T\.\w+)", entries, re.M)
    assert sorted(set(names)) == sorted(names)
    assert "{name}" not in entries
    lines = [line for line in entries.splitlines() if line and not line.startswith("#")]
    assert not [line for line in set(lines) if lines.count(line) > 8]
    assert "elsewhere as without the underscores." in entries


def snippets(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M)


@pytest.mark.parametrize("name", ["quickstart.md", "dynamic_shapes.md", "patterns.md"])
def test_snippets_run(name):
    scope = {"__name__": "snippet"}
    wrong = []
    for number, text in enumerate(snippets(ROOT / "docs" / name)):
        file = f"<{name} {number}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        try:
            exec(compile(text, file, "exec"), scope)
        except tilelang.CompileError as error:
            wrong.append(str(error))
    shown = re.findall(r"^```text\n\S+?: error: (.*?)\n", (ROOT / "docs" / name).read_text(), re.M)
    assert len(wrong) == len(shown)
    for error, text in zip(wrong, shown, strict=True):
        assert text in error


def test_outputs_of_the_simulators_page():
    """What its snippets print and raise, to the letter: python tools/doc_outputs.py writes it anew."""
    command = [sys.executable, str(ROOT / "tools" / "doc_outputs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (ROOT / "docs" / "simulator.md").read_text().count("```text\n") == 19
    readme, page = ((ROOT / name).read_text() for name in ("README.md", "docs/simulator.md"))
    for line in (
        "B[tx] = S[n - 1 - tx]",
        "there: B[cast<i32>(tx)] = S[n - cast<i32>(tx) - 1]",
        "data race on S[32]: thread 32 of block (0) of main writes it, thread 223 read it on",
    ):
        assert line in readme and line in page


def test_roles_on_the_page_of_pipelines():
    """What explain() says of the loop that the page shows, but for the places of its lines."""

    @T.prim_func
    def main(
        A: T.Tensor((8192, 8192), "float16"),
        B: T.Tensor((8192, 8192), "float16"),
        C: T.Tensor((8192, 8192), "float16"),
    ):
        with T.Kernel(32, 64, threads=256) as (bx, by):
            A_shared, B_shared = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 256), "float16")
            C_local = T.alloc_fragment((128, 256), "float32")
            T.clear(C_local)
            for k in T.Pipelined(128, num_stages=4):
                T.copy(A[by * 128, k * 64], A_shared)
                T.copy(B[k * 64, bx * 256], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * 128, bx * 256])

    def words(text):
        return " ".join(re.sub(r"\S+\.py:\d+", "", text).split())

    page = (ROOT / "docs" / "pipelines.md").read_text()
    shown = re.search(r"```text\n(gemm.py:7 .*?)```", page, re.S)[1]
    report = words(tilelang.compile(main, target="sim:sm_90a").report.text)
    for part in shown.split("\n\n"):
        assert words(part) in report


def test_the_readme_names_every_example():
    text = (ROOT / "README.md").read_text()
    names = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"harness"}
    table = text[text.index("## Examples") : text.index("## Where things are")]
    assert names <= set(re.findall(r"`(\w+)`", table))
    assert not [word for word in re.findall(r"examples/(\w+)\.py", text) if word not in names | {"harness"}]
