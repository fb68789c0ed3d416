"""The sizes that docs/style.md sets, asked of all files of C++ and Python; `make test` calls it.

Usage:
    python tools/check_style.py [ROOT]

Each line, file, function and struct that is too long is named as FILE:LINE, and the status is 1.  What stands
between `// clang-format off` and `on` is a table: it may have long lines, and is not counted as a part of its
function.  Long lines of Python are found by ruff.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDERS = ("src", "bindings", "tools", "test", "examples", "python", "bench")
CPP = {".h", ".cpp", ".inc"}
# Programs as their users wrote them: a kernel of theirs is as long as it is.
PROGRAMS = ("test/published/", "test/cold/")
COLUMNS, FILE, FUNCTION, STRUCT = 110, 500, 60, 250

RAW = r'R"(?P<d>[^()\s\\]{0,16})\(.*?\)(?P=d)"'
UNFORMATTED = r"// clang-format off.*?(?:// clang-format on|\Z)"
# What may hold a brace that opens nothing: literals, comments, lines of the preprocessor.
OPAQUE = re.compile(
    rf"{RAW}|//[^\n]*|/\*.*?\*/"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<!\w)'(?:\\.|[^'\\\n])+'"
    r"|^\s*\#(?:\\\n|[^\n])*",
    re.S | re.M,
)
# The heads of scopes whose members are looked at one by one; `= {` begins a table.
SCOPE = re.compile(r"(template\s*<.*>\s*)?((inline\s+)?namespace|struct|class|union|enum|extern)\b|.*=\s*\{$")

Finding = tuple[int, str]  # a line, and what is wrong there


def files(root: Path) -> list[Path]:
    """Those that git tracks; of a tree without git, all in the folders of the project."""
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*")]
    if (root / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
        )
        paths = [root / name for name in listed.stdout.split("\0")]
    return sorted(path for path in paths if path.suffix in CPP | {".py"} and path.is_file())


def touched(text: str, pattern: str) -> set[int]:
    """The numbers of the lines that have a part of the pattern's matches."""
    numbers: set[int] = set()
    for m in re.finditer(pattern, text, re.S):
        first = text.count("\n", 0, m.start()) + 1
        numbers.update(range(first, first + m[0].count("\n") + 1))
    return numbers


def long_lines(text: str, tables: set[int]) -> Iterator[Finding]:
    """Lines of C++ that are too long, outside of raw literals and of tables."""
    free = touched(text, RAW) | tables
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > COLUMNS and number not in free:
            yield number, f"the line has {len(line)} columns, but {COLUMNS} are the most"


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def blocks(lines: list[str]) -> Iterator[tuple[str, int, int]]:
    """What opens a brace at a line's end outside of functions: its head, its first and its last line, from 0.
    In formatted text it ends at the next line that stands as far left as its head."""
    at = 0
    while at < len(lines):
        first = at
        if lines[at].endswith("{"):
            while first and lines[first - 1] and lines[first - 1][-1] not in ";{}:":
                first -= 1
            indent = indent_of(lines[first])
            later = (n for n in range(at + 1, len(lines)) if lines[n] and indent_of(lines[n]) <= indent)
            last = next(later, len(lines) - 1)
            head = " ".join(line.strip() for line in lines[first : at + 1])
            yield head, first, last
            if not SCOPE.match(head):
                at = last
        at += 1


def check_cpp(text: str, is_own: bool) -> Iterator[Finding]:
    """is_own: whether its structs must be small, too; those of headers are interfaces, and may be long."""
    tables = touched(text, UNFORMATTED)
    yield from long_lines(text, tables)
    opaque = OPAQUE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    lines = [line.rstrip() for line in opaque.split("\n")]
    for head, first, last in blocks(lines):
        size = len(set(range(first + 1, last + 2)) - tables)
        struct = re.match(r"(?:template\s*<.*>\s*)?(?:struct|class)\s+(\w+)", head)
        if not SCOPE.match(head) and "(" in head and size > FUNCTION:
            name = re.search(r"([\w:~]+)\s*\(", head)
            yield (
                first + 1,
                f"{name[1] if name else 'a lambda'} has {size} lines, but {FUNCTION} are the most",
            )
        has_methods = re.compile(r"\)[\w\s]*\{").search
        if is_own and struct and size > STRUCT and has_methods("\n".join(lines[first + 1 : last])):
            yield first + 1, f"{struct[1]} has methods and {size} lines, but {STRUCT} are the most"


def functions_in(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The outermost functions within a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        else:
            yield from functions_in(child)


def lines_of(node: Any) -> int:
    return node.end_lineno - node.lineno + 1


def check_python(node: ast.AST) -> Iterator[Finding]:
    """A function within another counts for itself, and its docstring not at all."""
    for function in functions_in(node):
        left_out = list(functions_in(function))
        if ast.get_docstring(function, clean=False) is not None:
            left_out.append(function.body[0])
        size = lines_of(function) - sum(map(lines_of, left_out))
        if size > FUNCTION:
            yield function.lineno, f"{function.name} has {size} lines, but {FUNCTION} are the most"
        yield from check_python(function)


def check(path: Path, root: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(root).as_posix()
    found: list[Finding] = []
    if (count := text.count("\n")) > FILE:
        found.append(
            (FILE + 1, f"the file has {count} lines, but {FILE} are the most: split it along an idea")
        )
    if path.suffix == ".py":
        found += [] if name.startswith(PROGRAMS) else check_python(ast.parse(text))
    else:
        found += check_cpp(text, path.suffix == ".cpp" and name.startswith(("src/", "bindings/")))
    return [f"{name}:{line}: {what}" for line, what in sorted(found)]


TYPE_OR_NAMESPACE = re.compile(
    r"^(?:namespace ([\w:]*) ?\{|\}  // namespace|(?:struct|class) (\w+)\b(?!::|<)[^;\n]*\{)", re.M
)


def types_in(text: str) -> Iterator[tuple[str, int]]:
    """The types that other files can see, with their namespaces, and the line of each."""
    around: list[str] = []
    for found in TYPE_OR_NAMESPACE.finditer(text):
        if found[2]:
            if "" not in around:
                yield "::".join([*around, found[2]]), text.count("\n", 0, found.start()) + 1
        elif found[0].startswith("}"):
            around = around[:-1]
        else:
            around.append(found[1])


def check_names(paths: list[Path], root: Path) -> list[str]:
    """Two types of one name in two files: the linker takes the functions of one for those of the other."""
    seen: dict[str, str] = {}
    findings = []
    for path in paths:
        if path.suffix not in (".cpp", ".h") or root / "src" not in path.parents:
            continue
        name = str(path.relative_to(root))
        for what, line in types_in(path.read_text()):
            if seen.setdefault(what, name) != name:
                findings.append(
                    f"{name}:{line}: {what} is the name of a type in {seen[what]}, too: give it another"
                )
    return findings


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    paths = files(root)
    findings = [finding for path in paths for finding in check(path, root)]
    findings += check_names(paths, root)
    print("\n".join([*findings, f"style: {len(paths)} files, {len(findings)} findings"]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
