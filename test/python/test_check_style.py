"""tools/check_style.py: each rule finds its breach, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_style.py"
BODY = "  x = f(x);\n"
LONG = "x" * 111
METHODS = "".join(f"  int f{i}() const {{ return {i}; }}\n" for i in range(250))

CLEAN = {
    "src/a/short.cpp": "namespace tl {\n\nint f(int x) {\n" + BODY * 58 + "}\n\n}  // namespace tl\n",
    "src/a/text.cpp": f'const char* text = R"(\n{LONG}\n}} g() {{\n)";\n',
    "src/a/table.cpp": "Rows rows() {\n  // clang-format off\n"
    + f"  Row {LONG}\n" * 70
    + "  // clang-format on\n}\n",
    "src/a/held.h": "struct Held {\n" + METHODS + "};\n",
    "src/a/plain.cpp": "struct Plain {\n" + "  int x;\n" * 300 + "};\n",
    "src/a/braces.cpp": "\n".join(
        ["#define G(x) \\", "  void x() {", "// {", "int f() {", "  g('{', \"{\");", "}", ""]
    )
    + BODY * 70,
    "python/a.py": 'def f(x):\n    """' + "A line.\n" * 70 + '"""\n    return x\n',
    "python/b.py": "def f():\n    def g():\n" + "        h()\n" * 50 + "\n" + "    h()\n" * 50,
    "test/published/long.py": "def f():\n" + "    g()\n" * 80,
}
BREACHES = {
    "a line": ("src/a/line.cpp", f"int a;\nint {LONG};\n", 2, "the line has 116 columns, but 110"),
    "a file": ("bindings/file.cpp", "int a;\n" * 501, 501, "the file has 501 lines, but 500"),
    "a file of Python": ("tools/file.py", "a = 1\n" * 501, 501, "the file has 501 lines, but 500"),
    "a function": ("test/f.cpp", "int f(int x) {\n" + BODY * 59 + "}\n", 1, "f has 61 lines, but 60"),
    "its head counts": (
        "src/a/f.cpp",
        "int a;\n\nint f(int x,\n      int y) {\n" + BODY * 58 + "}\n",
        3,
        "f has 61 lines, but 60",
    ),
    "a method": (
        "src/a/f.h",
        "struct S {\n  void f(int x) const {\n" + ("  " + BODY) * 59 + "  }\n};\n",
        2,
        "f has 61 lines, but 60",
    ),
    "a test": (
        "test/unit/f.cpp",
        'TEST_CASE("{") {\n' + BODY * 59 + "}\n",
        1,
        "TEST_CASE has 61 lines, but 60",
    ),
    "a function of Python": ("bench/f.py", "\ndef f():\n" + "    g()\n" * 60, 2, "f has 61 lines, but 60"),
    "a struct": (
        "src/a/s.cpp",
        "struct Walk {\n" + METHODS + "};\n",
        1,
        "Walk has methods and 252 lines, but 250",
    ),
}


def checked(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run([sys.executable, str(TOOL), str(root)], capture_output=True, text=True)
    assert not done.stderr
    *findings, last = done.stdout.splitlines()
    assert last == f"style: {len(files)} files, {len(findings)} findings"
    assert done.returncode == bool(findings)
    return findings


def test_nothing_is_found_where_nothing_is(tmp_path):
    assert checked(tmp_path, CLEAN) == []


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_found(tmp_path, name):
    path, text, line, said = BREACHES[name]
    (finding,) = checked(tmp_path, {**CLEAN, path: text})
    assert finding.startswith(f"{path}:{line}: {said} are the most")


def test_only_files_of_git_count(tmp_path):
    checked(tmp_path, {"src/a.cpp": "int a;\n"})
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    (tmp_path / "src" / "untracked.cpp").write_text("int a;\n" * 600)
    assert checked(tmp_path, {"src/a.cpp": "int a;\n"}) == []


def test_two_types_of_one_name_are_found(tmp_path):
    """Not so in another namespace, nor where no other file sees it, nor a type's own parts."""

    def of(namespace, what="struct Counter : Base {\n};\n"):
        inner = f"namespace {namespace} {{\n{what}}}  // namespace {namespace}\n"
        return f"namespace tl {{\n{inner}}}  // namespace tl\n"

    apart = {"src/a/a.h": of("sim"), "src/a/b.h": of("test"), "src/a/c.cpp": of(""), "src/a/d.cpp": of("")}
    parts = of("sim", "struct Counter::State {\n};\n")
    assert checked(tmp_path / "apart", {**apart, "src/a/e.cpp": parts}) == []
    (finding,) = checked(tmp_path / "twice", {**apart, "src/b/counter.h": of("sim")})
    assert finding.startswith("src/b/counter.h:3: tl::sim::Counter is the name of a type in src/a/a.h, too")
