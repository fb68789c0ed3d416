"""Who may include whom: the table of ARCHITECTURE.md, enforced.

A file includes, itself or through others, the header that declares a function it calls: a unity build, where
other sources stand in front of it, does not notice.

Also: chips are named in target/ only, languages are asked for by their rows and not by name, nothing is
compiled for one target and left out for another, and Python reaches the compiler through the binding alone.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Room -> the rooms, or single headers, that it may include; itself and base always.
LINE = ["ir", "arith", "layout", "target", "ops", "pass"]  # each may include those to its left
ALLOWED: dict[str, set[str]] = {
    "base": set(),
    **{room: set(LINE[:i]) for i, room in enumerate(LINE)},
    "codegen": {"ir", "arith", "layout", "target"},
    "sim": {"ir", "arith", "layout", "target", "ops"},
    "runtime": {"codegen/program.h"},
    "compile": {*LINE, "codegen", "runtime/cache.h"},
    "api": {*LINE, "codegen", "sim", "runtime", "compile"},
    "bindings": {"api"},
}
PUBLIC_HEADER = "api/tilelang.h"  # the only one that is installed: it stands alone

# The same for python/tilelang: room -> the rooms, or single files, that it may import; itself and _core
# always.
# Imports in functions count as well: a file that is loaded later is still a file that must be there.
PYTHON_ROOMS: dict[str, set[str]] = {
    "front": set(),
    "jit": {
        "front",
        "tools/breakpoints",
        "tools/machine_code",
        "tools/passes",
        "tools/profiler",
        "tools/report",
        "tools/simulation",
        "tools/timeline",
    },
    "language": {"front", "jit/config", "jit/eager", "jit/function", "jit/prim_func"},
    "tools": {"front", "jit", "language"},
    "compat": {"front", "jit", "language", "tools"},
}
PACKAGE = ROOT / "python" / "tilelang"

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
CHIP = re.compile(r"\b(?:sm_|gfx)")
# A language is a row (target/languages.cpp); the runtime, which may not include it, has a table of its own.
LANGUAGE = re.compile(r'"(?:cuda|llvm|hip|rocm)"')
NAMES_LANGUAGES = {"target/languages.cpp", "target/absent.cpp", "runtime/build.cpp"}
COMPARISON = re.compile(r'(?:[!=]=\s*"(?:cuda|llvm|hip|rocm)"|"(?:cuda|llvm|hip|rocm)"\s*[!=]=)')
CONDITION = re.compile(
    r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b.*(?:CUDA|HIP|ROCM|NVRTC|NVIDIA|AMD|LLVM_|TARGET)", re.M | re.I
)
# Of nanobind's, which end the process where a thread wants the lock while the interpreter ends.
LOCK = re.compile(r"\bgil_scoped_\w+")
# A comment, or a literal that might hold something that looks like one.
TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r'|R"(?P<d>[^()\s\\]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])+'",
    re.S,
)

# What Python files of the package may import beside the standard library; never at import time.
ARRAYS = {"numpy", "torch", "ml_dtypes", "matplotlib"}
LATE = {"tqdm", "pytest"}  # asked for by a tuning loop, and by a file of tests


def without_comments(text: str) -> str:
    """The text with comments blanked; every line keeps its number."""

    def blank(m: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", m[0]) if m[0].startswith("/") else m[0]

    return TOKEN.sub(blank, text)


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def room_of(header: str) -> str:
    """The folder of a path below src/."""
    return header.split("/")[0]


def check_cpp(path: Path, name: str, room: str) -> list[str]:
    text = without_comments(path.read_text(encoding="utf-8"))
    faults = []

    def fault(offset: int, what: str) -> None:
        faults.append(f"{path.relative_to(ROOT)}:{line_of(text, offset)}: {what}")

    if room not in ALLOWED:
        return [f"{path.relative_to(ROOT)}:1: `{room}` is not a room; the rooms are: {' '.join(ALLOWED)}"]
    allowed = ALLOWED[room]
    for m in INCLUDE.finditer(text):
        header = m[1]
        if name == PUBLIC_HEADER:
            fault(m.start(), f'{PUBLIC_HEADER} is installed alone: it may not include "{header}"')
        elif (ROOT / "src" / header).exists():
            other = room_of(header)
            if other not in {room, "base", *allowed} and header not in allowed:
                may = " ".join(sorted({"base", *allowed}))
                fault(m.start(), f'{room} may not include "{header}" (it may include: {may})')
        elif room != "bindings" or not (path.parent / header).exists():
            fault(m.start(), f'no "{header}" in src/: write the path below src/, or <…> for what is not ours')
    for m in CONDITION.finditer(text) if path.suffix != ".inc" else ():
        fault(m.start(), "nothing is compiled for one target only: every target is in every build")
    for m in CHIP.finditer(text) if room != "target" else ():
        fault(m.start(), "a chip is named outside target/: ask the Target for a row or a number")
    for m in LOCK.finditer(text):
        fault(m.start(), "the interpreter's lock is let go and taken by bindings/gil.h")
    by_name = COMPARISON if room == "bindings" or name in NAMES_LANGUAGES else LANGUAGE
    for m in by_name.finditer(text):
        fault(m.start(), "a language is asked for by its name: give its row in target/languages.cpp a column")
    return faults


# A free function that a header declares, and whatever else may introduce a name that is then called.
DECLARED = re.compile(
    r"^(?!using|return|namespace|template|friend)(?:[\w:<>,&*\[\]]+ )*[\w:<>,*]+[&*]? [&*]?(\w+)\(", re.M
)
INTRODUCED = re.compile(r"(\w+|[>*&])[&*]* +[&*]?(\w+)\b *[({=;:),]|\busing (\w+)|\b(?:struct|class) (\w+)")
CALLED = re.compile(r"(?<![.>:\w])(\w+)\b(?=\()")
NOT_A_TYPE = {"return", "else", "case", "throw", "new", "delete", "goto"}
FOUND_BY_ARGUMENT = {"destroy"}  # in templates, by the argument's type


def code_alone(path: Path) -> str:
    """The text without comments and without what stands in literals."""

    def blank(m: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", m[0]) if m[0].startswith("/") else '""' + "\n" * m[0].count("\n")

    return TOKEN.sub(blank, path.read_text(encoding="utf-8"))


def introduced(text: str) -> set[str]:
    """Names that a text may itself declare: of functions, members, variables, types."""
    found = INTRODUCED.findall(text)
    return {b or c or d for a, b, c, d in found if a not in NOT_A_TYPE}


def check_calls() -> list[str]:
    """Calls of functions of src/ whose header is included neither by the file nor by what it includes."""
    src = ROOT / "src"
    paths = {p.relative_to(src).as_posix(): p for p in src.rglob("*") if p.suffix in {".h", ".cpp"}}
    texts = {name: code_alone(path) for name, path in paths.items()}
    includes = {
        name: [h for h in INCLUDE.findall(without_comments(path.read_text(encoding="utf-8"))) if h in paths]
        for name, path in paths.items()
    }
    names = {name: introduced(text) for name, text in texts.items()}
    headers: dict[str, set[str]] = {}
    for name, text in texts.items():
        for function in DECLARED.findall(text) if name.endswith(".h") else ():
            headers.setdefault(function, set()).add(name)
    faults = []
    for name, text in texts.items():
        seen, todo = set(), [name]
        while todo:
            if (file := todo.pop()) not in seen:
                seen.add(file)
                todo += includes[file]
        for m in CALLED.finditer(text):
            function = m[1]
            at = headers.get(function, set()) - {name}
            if not at or at & seen or function in FOUND_BY_ARGUMENT:
                continue
            if not any(function in names[file] for file in seen):
                faults.append(
                    f'src/{name}:{line_of(text, m.start())}: "{min(at)}" declares {function}; include it'
                )
    return faults


def deferred(tree: ast.Module) -> set[ast.AST]:
    """The nodes that do not run when the module is imported."""
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if checking or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside.update(ast.walk(node))
    return inside


def check_python(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    late = deferred(tree)
    faults = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            continue
        for name in names:
            top = name.split(".")[0]
            if top in ARRAYS:
                if node in late:
                    continue
                what = f"`import tilelang` must not import {top}: import it where it is used"
            elif top in {"ctypes", "cffi"}:
                what = f"Python reaches the compiler through tilelang._core alone, not through {top}"
            elif top == "tilelang" or top in sys.stdlib_module_names or (top in LATE and node in late):
                continue
            else:
                what = f"{top} is not a dependency of tilelang"
            faults.append(f"{path.relative_to(ROOT)}:{node.lineno}: {what}")
    return faults


def imported(path: Path, tree: ast.Module) -> list[tuple[ast.AST, str]]:
    """The files of the package that one imports, "front/values", but for annotations only."""
    here = path.relative_to(PACKAGE).parent.parts
    for_annotations = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.level or node in for_annotations:
            continue
        base = [*here[: len(here) - node.level + 1], *(node.module or "").split(".")]
        folder = "/".join(part for part in base if part)
        for alias in node.names:
            name = f"{folder}/{alias.name}".lstrip("/")
            found.append((node, name if file_of(name) else folder))
    return found


def file_of(name: str) -> Path | None:
    """The file of the package that "front/values" names."""
    found = [PACKAGE / f"{name}.py", PACKAGE / name / "__init__.py"]
    return next((path for path in found if path.exists()), None)


def check_rooms() -> list[str]:
    """Faults of python/tilelang: imports that the table does not allow, and circles."""
    faults, graph = [], {}
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE)
        room, name = inside.parts[0], inside.with_suffix("").as_posix().removesuffix("/__init__")
        arcs = imported(path, ast.parse(path.read_text(encoding="utf-8")))
        graph[name] = {arc for _, arc in arcs if arc not in ("", name) and file_of(arc)}
        if len(inside.parts) > 1:
            allowed = PYTHON_ROOMS.get(room)
            if allowed is None:
                faults.append(
                    f"{path.relative_to(ROOT)}:1: `{room}` is not a room; the rooms are: "
                    f"{' '.join(PYTHON_ROOMS)}"
                )
                continue
            faults += [
                f"{path.relative_to(ROOT)}:{node.lineno}: {room} may not import {arc} (it may import: "
                f"{' '.join(sorted(allowed)) or 'nothing else'})"
                for node, arc in arcs
                if arc not in ("", "_core")
                and arc.split("/")[0] != room
                and arc.split("/")[0] not in allowed
                and arc not in allowed
            ]
    while True:  # what imports nothing that is left is in no circle
        done = {name for name, arcs in graph.items() if not arcs & graph.keys()}
        if not done:
            break
        graph = {name: arcs for name, arcs in graph.items() if name not in done}
    if graph:
        faults.append(
            f"python/tilelang: these files import each other in a circle, or one that does: "
            f"{' '.join(sorted(graph))}"
        )
    return faults


def main() -> int:
    faults, count = [], 0
    for path in sorted([*(ROOT / "src").rglob("*"), *(ROOT / "bindings").glob("*")]):
        if path.suffix in {".h", ".cpp", ".inc"}:
            in_src = path.is_relative_to(ROOT / "src")
            name = path.relative_to(ROOT / "src").as_posix() if in_src else path.name
            faults += check_cpp(path, name, room_of(name) if in_src else "bindings")
            count += 1
    for path in sorted((ROOT / "python").rglob("*.py")):
        faults += check_python(path)
        count += 1
    faults += check_rooms() + check_calls()
    print("\n".join(faults + [f"includes: {count} files, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
