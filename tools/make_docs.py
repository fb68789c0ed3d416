"""Writes the pages of docs/ that are made from the code: reference, surface, targets and from_elsewhere.

Usage:
    python tools/make_docs.py            write them
    python tools/make_docs.py --check    exit with 1 where they are out of date
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import published_names
import target_table
import tilelang.language as T
from tilelang import _core
from tilelang.front import idioms
from tilelang.language import MODULES, surface

DOCS = Path(__file__).resolve().parent.parent / "docs"
# Modules that the language loads when one of their names is asked for.
LATE = [importlib.import_module(f"tilelang.{name}") for name in (
    "language.image", "language.sparse", "language.mma_hand", "language.wgmma_hand",
    "language.wgmma_layouts", "language.bulk",
    "language.warp_schedule", "language.intrinsics", "language.tir", "compat.tvm.target")]  # fmt: skip
MADE = "<!-- made by tools/make_docs.py: change the docstrings -->\n"


def signature(name: str, value: object) -> str:
    if isinstance(value, enum.EnumMeta):
        return f"T.{name}"
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return f"T.{name}"
    return f"T.{name}{text}".replace("'", "").replace(": Any", "").split(" -> ")[0]


def entry(name: str) -> str:
    value = getattr(T, name)
    if isinstance(value, T.dtypes.DType):
        return ""
    doc = inspect.getdoc(value) or ""
    if not (inspect.isfunction(value) or inspect.isclass(value)):
        doc = inspect.getdoc(type(value)) or ""
    return f"### `{signature(name, value)}`\n\n{doc}\n"


def comes_from(module: ModuleType, name: str) -> bool:
    value = getattr(T, name)
    home = getattr(value, "__module__", "")
    return name in module.__all__ or home == module.__name__ or home.startswith(f"{module.__name__}.")


def operators() -> str:
    lines = ["| operator | operands | attributes | meaning |", "|---|---|---|---|"]
    for row in _core.tile_ops():
        operands = ", ".join(f"{access} {name}" for name, access in row["operands"])
        attributes = ", ".join(name for name, _ in row["attrs"])
        lines.append(f"| `{row['name']}` | {operands} | {attributes} | {row['doc']} |")
    return "\n".join(lines) + "\n"


def reference() -> str:
    parts = ["# The language\n\n" + MADE, inspect.getdoc(T) or "", "\n"]
    for module in (*MODULES, *LATE):
        names = [name for name in T.__all__ if comes_from(module, name) and entry(name)]
        if not names:
            continue
        head, _, rest = (inspect.getdoc(module) or "").partition("\n\n")
        parts.append(f"\n## {' '.join(head.split()).rstrip('.:')}\n\n{rest.strip()}\n")
        parts += [f"\n{entry(name)}" for name in names]
    types = ", ".join(f"`T.{name}`" for name in T.__all__ if isinstance(getattr(T, name), T.dtypes.DType))
    parts.append(f"\n## Types\n\n{types}; `T.dtypes` is the module that holds them.\n")
    parts.append(package())
    parts.append("\n## Rows of the tile operators\n\nAs text IR and C++ see them.\n\n" + operators())
    text = "".join(part if part.endswith("\n") else part + "\n" for part in parts)
    return re.sub(r"\n{3,}", "\n\n", text)


# The package beyond the language: as it is imported, and what is in it that users call.
PACKAGE = """
    tilelang tilelang.layout tilelang.profiler tilelang.testing tilelang.tools tilelang.tools.simulation
    tilelang.tools.report tilelang.tools.timeline tilelang.tools.breakpoints tilelang.autotuner
    tilelang.engine tilelang.utils.tensor tilelang.utils.target
""".split()


NO_ENTRY = {"ARCH_CONFIGS", "__version__", "env"}  # a table, a text, and an object of docs/quickstart.md


def members(cls: type) -> str:
    """The public methods and properties of a class, with the first sentence of what is said of them."""
    lines = []
    for name, member in inspect.getmembers(cls):
        doc = inspect.getdoc(member) or ""
        if (
            name.startswith("_")
            or not doc
            or not cls.__module__.startswith("tilelang")
            or not any(name in vars(base) for base in cls.__mro__ if base.__module__.startswith("tilelang"))
        ):
            continue
        first = " ".join(doc.split("\n\n")[0].split())
        call = signature(name, member).removeprefix("T.").replace("(self, ", "(").replace("(self)", "()")
        lines.append(f"- `.{call if callable(member) else name}`: {first}")
    return "\n".join(lines)


def package() -> str:
    parts: list[str] = []
    told: dict[int, str] = {}
    for path in PACKAGE:
        module = importlib.import_module(path)
        made = []
        for name in sorted(getattr(module, "__all__", ())):
            value = getattr(module, name)
            home = getattr(value, "__module__", None) or ""
            head = signature(name, value).replace("T.", f"{path}.", 1)
            if not home.startswith("tilelang") or told.get(id(value)) == name or inspect.ismodule(value):
                continue
            if id(value) in told:
                made.append(f"\n### `{head}`\n\nThe same as `{told[id(value)]}`.\n")
                continue
            told[id(value)] = name
            made.append(f"\n### `{head}`\n\n{inspect.getdoc(value) or ''}\n")
            if inspect.isclass(value) and not isinstance(value, enum.EnumMeta) and members(value):
                made.append(f"\n{members(value)}\n")
        if made:
            doc = inspect.getdoc(module) or "" if path != "tilelang" else ""
            parts.append(f"\n## `{path}`\n\n{doc}\n" + "".join(made))
    return "".join(parts)


def without_entry(text: str) -> list[str]:
    """The names of the language that the reference, `text`, says nothing of."""
    entries, _, types = text.partition("\n## Types\n")
    told = {*re.findall(r"^### `T\.(\w+)", entries, re.M), *re.findall(r"`T\.(\w+)`", types)}
    told |= set(re.findall(r"^### `tilelang(?:\.\w+)*\.(\w+)", text, re.M))
    package = [
        name
        for path in PACKAGE
        for name in getattr(importlib.import_module(path), "__all__", ())
        if not inspect.ismodule(getattr(importlib.import_module(path), name))
    ]
    return [name for name in (*T.__all__, *package) if name not in told and name not in NO_ENTRY]


def surface_page() -> str:
    """What published_names.tsv lists, and what names.txt says of it."""
    absent, _ = surface.table()
    rows = [row for row in published_names.read(published_names.LIST) if row.name and "." not in row.name]
    theirs = {row.name for row in rows if row.module == "tilelang.language"}
    lines = [
        "# The published surface", "", MADE,
        "Every name of the published language, and whether it is here. What does not work can be imported,",
        "has the signature that it has there, and raises an error with its reason where it is called.", "",
        "| name | |", "|---|---|",
    ]  # fmt: skip
    language = {
        path.rpartition(".")[2]: entry
        for path, entry in absent.items()
        if path.startswith("tilelang.language.")
    }
    for name in sorted({*theirs, *T.__all__}, key=lambda name: (name.lower(), name)):
        status = "here" if name in theirs else "here; beyond the published language"
        if name in language and name not in T.__all__:
            status = language[name].reason
        lines.append(f"| `T.{name}` | {status} |")
    lines += ["", "Elsewhere in the package:", "", "| module | names |", "|---|---|"]
    elsewhere: dict[str, list[str]] = {}
    for row in rows:
        if row.module != "tilelang.language" and row.path not in absent and row.kind != "module":
            elsewhere.setdefault(row.module, []).append(row.name)
    for module, names in elsewhere.items():
        lines.append(f"| `{module}` | {', '.join(f'`{name}`' for name in names)} |")
    lines += ["", "## Later", "", "What a version to come has.", "", *reasons(absent, "later")]
    lines += ["", "## Closed list", "", "What needs other hardware, or something that is not to be had here."]
    lines += ["", *reasons(absent, "closed")]
    return "\n".join(lines) + "\n"


def reasons(absent: dict[str, surface.Entry], status: str) -> list[str]:
    """The names that do not work, by the reason."""
    names: dict[str, list[str]] = {}
    for path, entry in absent.items():
        if entry.status == status and " = " not in entry.declared:
            names.setdefault(entry.reason, []).append(f"`{surface.short(path)}`")
    return [
        "| name | hardware or reason |",
        "|---|---|",
        *(f"| {', '.join(which)} | {reason} |" for reason, which in names.items()),
    ]


def targets_page() -> str:
    return target_table.page("<!-- made by tools/make_docs.py from tools/target_table.py -->\n")


def rows(table: dict[str, str], written: str) -> list[str]:
    """Of names that mean one thing one row each; `written` says how such a name is written."""
    names: dict[str, list[str]] = {}
    for name, instead in table.items():
        names.setdefault(instead, []).append(f"`{written.format(name)}`")
    return [
        "| written elsewhere | here |",
        "|---|---|",
        *(f"| {', '.join(which)} | {instead} |" for instead, which in names.items()),
    ]


def from_elsewhere() -> str:
    """The tables by which errors are worded."""
    escaped = [
        {name: text.replace("|", "\\|") for name, text in table.items()}
        for table in (idioms.NAMES, idioms.ABSENT, idioms.OF_BUFFERS, idioms.OF_VALUES)
    ]
    functions = {name: f"`T.{ours}`" for name, ours in idioms.FUNCTIONS.items() if ours in T.__all__}
    keywords = {
        name: text if " " in text else f"`{text}=`"
        for name, text in {**idioms.KEYWORDS, **idioms.CURES}.items()
    }
    parts = (
        ("Names", "Functions and objects of CUDA, Triton, NumPy and PyTorch.", rows(escaped[0], "{}")),
        ("What does not exist", "And what to do instead.", rows(escaped[1], "{}")),
        (
            "Functions of Python's math and of NumPy",
            "Those of one name in both are left out: `T.exp`.",
            rows(functions, "np.{}"),
        ),
        ("Methods of tiles and tensors", "`{0}` stands for the buffer.", rows(escaped[2], ".{}")),
        (
            "Methods of values",
            "A value is an element, or what is computed of elements.",
            rows(escaped[3], ".{}"),
        ),
        ("Keywords", "In calls of functions that have such a parameter.", rows(keywords, "{}=")),
    )
    lines = [
        "# From NumPy, PyTorch, CUDA and Triton to here",
        "",
        "<!-- made by tools/make_docs.py of python/tilelang/front/idioms.py -->",
        "",
        "Names of other languages and libraries, and what to write here instead. A kernel that uses one",
        "of these names gets an error that says the same.",
    ]
    for title, text, table in parts:
        lines += ["", f"## {title}", "", text, "", *table]
    return "\n".join(lines) + "\n"


def main() -> int:
    stale = []
    untold = without_entry(reference())
    if untold:
        print(
            f"docs/reference.md has no entry of {', '.join(untold)}; it is made of the modules in "
            "tilelang/language/__init__.py, MODULES, and of PACKAGE here"
        )
        return 1
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if stale and "--check" in sys.argv:
        print(f"out of date: {', '.join(stale)} (python tools/make_docs.py)")
        return 1
    return 0


PAGES = {
    "reference.md": reference,
    "surface.md": surface_page,
    "targets.md": targets_page,
    "from_elsewhere.md": from_elsewhere,
}

if __name__ == "__main__":
    raise SystemExit(main())
