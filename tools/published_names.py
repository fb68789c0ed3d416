"""Compares the package with the published language, whose names tools/published_names.tsv lists.

    python tools/published_names.py                  exit with 1, and a listing, where a name is missing,
                                                     differs, or is on the closed list without saying so
    python tools/published_names.py --called         also: the used names that no test or example calls
    python tools/published_names.py --against FILE   also: the rows of another list that ours should have
    python tools/published_names.py --against FILE --write     write ours from it

A row: module, name (members as Class.member, none for the module itself), kind, signature, and how many of
the published examples use it.  A name is here if it is found and takes every published parameter, in the
published order, with the published default where both are plain constants (None stands for any); parameters
of our own come after them or go by keyword.  What will not come is on the closed list, a table of
docs/surface.md under the heading "Closed list" with the columns name and reason: called, such a name says
the reason.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import fnmatch
import importlib
import inspect
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "published_names.tsv"
CLOSED = ROOT / "docs" / "surface.md"
COLUMNS = ["module", "name", "kind", "signature", "used"]
CALLABLE = ("function", "method", "class", "object (callable)")

# What of another list belongs into ours, besides the names that an example uses.
MODULES = """
    tilelang.language.fp8 tilelang.language.dtypes tilelang.tileop tilelang.tileop.base
    tilelang.cuda.intrinsics.layout.mma_layout tilelang.cuda.intrinsics.layout.utils
    tilelang.cuda.intrinsics.macro.mma_macro_generator tilelang.cuda.intrinsics.sparse_layout
    tilelang.cuda.target tilelang.tools.cuda tilelang.tools.cuda.iket tilelang.rocm.target
    tilelang.rocm.intrinsics tilelang.rocm.intrinsics.utils tilelang.rocm.intrinsics.mfma_layout
    tilelang.rocm.intrinsics.mfma_macro_generator tilelang.metal.intrinsics
    tilelang.jit tilelang.jit.kernel tilelang.jit.param tilelang.jit.exceptions
    tilelang.layout.layout tilelang.layout.fragment tilelang.layout.swizzle tilelang.layout.partial_fragment
    tilelang.layout.swizzle_mode tilelang.layout.gemm_sp tilelang.profiler.bench
    tilelang.autotuner.tuner tilelang.autotuner.param tilelang.autotuner.capture
    tilelang.transform.pass_config tilelang.engine.lower tilelang.utils.language tilelang.utils.device
    tilelang.utils.deprecated tilelang.backend tilelang.backend.target tilelang.analysis tilelang.libinfo
    tilelang.ir tilelang.cache.kernel_cache tilelang.contrib.cc tilelang.contrib.hipcc tilelang.contrib.rocm
    tilelang.testing.perf_regression tilelang.carver.arch.cuda tilelang.carver.arch.cdna
    tilelang.carver.arch.arch_base tilelang.carver.roller.hint tilelang.carver.roller.policy
    tilelang.carver.template.matmul tilelang.tools.plot_layout tilelang.tools.Analyzer
    tilelang.tools.lower_trace tilelang.tools.pass_timing tilelang.tools.pass_visualizer
    """.split()  # noqa: SIM905
WHOLE = {
    "tilelang.language": "*", "tilelang.language.fp8": "determine_*", "tilelang.testing": "*",
    "tilelang.testing.perf_regression": "*", "tilelang.profiler": "do_bench", "tilelang.autotuner": "*",
    "tilelang.profiler.bench": "do_bench", "tilelang.jit": "[!T]*", "tilelang.jit.kernel": "JITKernel",
    "tilelang.layout": "[!F]*", "tilelang.layout.layout": "*", "tilelang.layout.fragment": "*",
    "tilelang.layout.swizzle": "make_*", "tilelang.layout.swizzle_mode": "*",
    "tilelang.engine.lower": "lower", "tilelang.autotuner.tuner": "[!T]*",
    "tilelang.autotuner.capture": "*_autotune_inputs", "tilelang.autotuner.param": "*[Arguls]",
    "tilelang.transform.pass_config": "PassConfigKey",
    "tilelang.tileop.base": "*", "tilelang.tools.plot_layout": "plot_layout", "tilelang.tools.Analyzer": "*",
    "tilelang.carver.arch": "*", "tilelang.carver.arch.cuda": "CUDA", "tilelang.carver.arch.cdna": "CDNA",
    "tilelang.carver.arch.arch_base": "TileDevice", "tilelang.carver.roller.hint": "Hint",
    "tilelang.carver.template": "*", "tilelang.carver.template.matmul": "*", "tilelang.utils.tensor": "*",
    "tilelang.carver.roller.rasterization": "*Rasterization*",
}  # fmt: skip
MEMBERS = {
    "tilelang": "JITKernel Layout Fragment PassConfigKey TensorSupplyType", "tilelang.jit": "JITImpl",
    "tilelang.profiler": "Profiler", "tilelang.autotuner": "AutoTuner",
    "tilelang.language": "GemmWarpPolicy PersistentTileScheduler Ref WSSync WSScope WSRole WSPipeline",
    "tilelang.carver.template": "MatmulTemplate", "tilelang.carver.roller.hint": "Hint",
    "tilelang.carver.roller.rasterization": "NoRasterization Rasterization2DColumn Rasterization2DRow",
    "tilelang.carver.arch": "CUDA", "tilelang.cuda.intrinsics": "TensorCoreIntrinEmitter",
    "tilelang.tools.Analyzer": "AnalysisResult", "tilelang.tileop.base": "GemmWarpPolicy",
}  # fmt: skip
ENVIRONMENT = re.compile(
    r"(TILELANG_(CACHE|DEFAULT|DISABLE|PRINT|AUTO|COMPILE)\w*|(en|dis)able_cache|"
    r"get_(default_(target|verbose|exec)|compile)\w*|is_(autotune|cache_e|print)\w*)"
)
NOT_FOR_SCRIPTS = re.compile(
    r"Any|AnyDType|TYPE_CHECKING|.*ascend.*|Kernel\.get_kernel_source|.*Template\."
    r"(set_\w+|initialize_function|output_nodes|class_attributes)"
)
# Classes whose objects decorators make.
NOT_CONSTRUCTED = ("JITImpl", "AutoTuneImpl")


@dataclass(frozen=True)
class Row:
    """A line of the list."""

    module: str
    name: str
    kind: str
    signature: str
    used: int

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module

    @property
    def short(self) -> str:
        return re.sub(r"^tilelang\.language\b", "T", self.path)


# What examples use that is no public name of its module.
ASIDE = [
    Row("tilelang.language.dtypes", "dtype.bits", "attribute", "", 1),
    Row("tilelang.tvm.testing", "requires_package", "function", "(*packages)", 1),
]


def read(path: Path) -> list[Row]:
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    places = [lines[0].index(column) for column in COLUMNS]
    rows = [[line[place] for place in places] for line in lines[1:]]
    return [Row(*row[:4], int(row[4]) if row[4].isdigit() else 0) for row in rows]


# ── another list ──────────────────────────────────────────────────────────────────────────────────────


def wanted(rows: list[Row]) -> list[Row]:
    """The rows of another list that belong into ours."""

    def keep(row: Row) -> bool:
        owner, _, member = row.name.partition(".")
        if NOT_FOR_SCRIPTS.fullmatch(row.name) or row.path == "tilelang.jit.Kernel" or row.name == "*":
            return False
        if row.kind == "module" and not row.used and row.module != "tilelang.language":
            return row.path in MODULES
        if row.used or row.module == "tilelang.language" and not member:
            return True
        if member:
            return (
                owner in MEMBERS.get(row.module, "").split()
                or owner == "Environment"
                and bool(ENVIRONMENT.fullmatch(member))
            )
        return fnmatch.fnmatchcase(row.name, WHOLE.get(row.module, "")) and row.kind != "constant"

    paths = [Row(module, "", "path", "", 0) for module in MODULES]
    return paths + ASIDE + [tidy(row) for row in rows if keep(row)]


def tidy(row: Row) -> Row:
    """Without what differs from one run of Python to the next; types of several lanes are types."""
    kind, signature = row.kind, row.signature
    if row.name.startswith("Environment."):  # `tilelang.env` is such an object
        return tidy(
            Row(
                "tilelang",
                row.name.replace("Environment", "env"),
                kind,
                signature,
                int(row.name.endswith(".TILELANG_CACHE_DIR")),
            )
        )
    if re.fullmatch(r"(b?float|u?int)\d+\w*", row.name) and "expr" in signature:
        kind = "dtype"
    if kind in ("attribute", "property", "module", "dtype", "constant") or row.name in NOT_CONSTRUCTED:
        signature = ""
    return Row(row.module, row.name, kind, re.sub(r"<function .*?>", "...", signature), row.used)


def write(rows: list[Row]) -> None:
    lines = ["\t".join(COLUMNS)]
    lines += ["\t".join([r.module, r.name, r.kind, r.signature, str(r.used)]) for r in rows]
    LIST.write_text("\n".join(lines) + "\n")


# ── what is here ──────────────────────────────────────────────────────────────────────────────────────


def _samples() -> dict[str, Any]:
    """Objects of the classes whose attributes are set for each object."""
    import tilelang
    import tilelang.language as T

    def factory(n: int = 4) -> Any:
        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(1):
                for i in T.Parallel(n):
                    A[i] = 0.0

        return main

    impl = tilelang.jit(factory, target="reference")
    kernel = impl(4)
    return {
        "JITImpl": impl, "JITKernel": kernel, "Profiler": kernel.get_profiler(),
        "AutoTuneImpl": tilelang.autotune(impl, configs=[{"n": 4}]),
        "AutoTuner": tilelang.AutoTuner.from_kernel(impl, configs=[{"n": 4}]),
        "Layout": T.Layout((4, 4), lambda i, j: (j, i)), "Fragment": T.Fragment((4,), lambda i: (i, 0)),
    }  # fmt: skip


class Package:
    """The package as a script finds it."""

    def __init__(self) -> None:
        import tilelang

        self.error = tilelang.CompileError
        self.absent: tuple = (tilelang.CompileError, AttributeError, ImportError)
        self._samples: dict[str, Any] | None = None

    def find(self, row: Row) -> Any:
        """What the row names; raises what the package raises where it is not found."""
        value = importlib.import_module(row.module)
        owner, _, member = row.name.rpartition(".")
        for part in owner.split(".") if owner else []:
            value = getattr(value, part)
        if not member:
            return value
        if row.kind == "module" and not hasattr(value, member):
            return importlib.import_module(row.path)
        try:
            return getattr(value, member)
        except self.absent:
            if owner in self.samples:
                return getattr(self.samples[owner], member)
            if member in getattr(value, "__annotations__", ()):
                return None  # a field, which every object has
            raise

    @property
    def samples(self) -> dict[str, Any]:
        if self._samples is None:
            self._samples = _samples()
        return self._samples

    def call(self, row: Row) -> str:
        """What it says that `row` is called, with as many arguments as it needs."""
        needed = [p for p in parameters(row.signature) if p.default is None and p.kind in (P, K)]
        keywords = {p.name: None for p in needed if p.kind == K}
        try:
            self.find(row)(*[None for p in needed if p.kind == P], **keywords)
        except Exception as error:
            return str(error) if isinstance(error, self.error) else f"{type(error).__name__}: {error}"
        return "it did not say anything"


# ── signatures ────────────────────────────────────────────────────────────────────────────────────────

P, K, STAR, STARS = "positional", "keyword", "*", "**"


@dataclass
class Parameter:
    name: str
    kind: str
    default: str | None = None
    by_name: bool = True


def parameters(signature: str) -> list[Parameter]:
    """Of a published signature as text."""
    found: list[Parameter] = []
    kind = P
    for text in _split(signature.strip()[1:-1]):
        if text == "/":
            for p in found:
                p.by_name = False
        elif text == "*":
            kind = K
        elif text.startswith("*"):
            found.append(Parameter(text.strip("*"), STARS if text.startswith("**") else STAR))
            kind = K
        else:
            name, equals, default = text.partition("=")
            found.append(Parameter(name.strip(), kind, default if equals else None))
    return found


def _split(text: str) -> list[str]:
    """At the commas that stand outside of brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def differs(row: Row, value: Any) -> str:
    """How the signature of `value` differs from that of the row; "" where it does not, or says nothing."""
    theirs = [p for p in parameters(row.signature) if p.name not in ("self", "cls")]
    kinds = [p.kind for p in theirs]
    open_ended = kinds == [STAR, STARS] or (row.kind == "class" and kinds == [STAR])
    if not callable(value) or not row.signature or open_ended:
        return ""
    try:
        ours = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return ""
    if ours and ours[0].name in ("self", "cls"):
        ours = ours[1:]
    places = [p for p in ours if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = {p.name: p for p in ours if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    star = any(p.kind == p.VAR_POSITIONAL for p in ours)
    stars = any(p.kind == p.VAR_KEYWORD for p in ours)
    for i, p in enumerate(p for p in theirs if p.kind == P):
        here = places[i] if i < len(places) else None
        if here is None and not star:
            return f"takes no {p.name} as argument {i + 1}"
        if p.by_name and here is not None and here.name != p.name:
            return f"argument {i + 1} is {here.name}, not {p.name}"
        if p.by_name and p.name not in named and not stars:
            return f"takes no keyword {p.name}="
    for p in theirs:
        if p.kind == K and p.name not in named and not stars:
            return f"takes no keyword {p.name}="
        if p.kind == STAR and not star and len(places) < kinds.count(P) + 2:
            return f"takes no *{p.name}"
    known = {p.name for p in theirs}
    required = [
        p.name
        for p in ours
        if p.default is p.empty and p.name not in known and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if required and not any(p.kind == P and not p.by_name for p in theirs):
        return f"needs {required[0]}, which is not published"
    return next(filter(None, (_default(p, named.get(p.name)) for p in theirs)), "")


def _default(theirs: Parameter, ours: Any) -> str:
    if theirs.default is None or ours is None or theirs.default in ("...", "<MISSING>"):
        return ""
    if ours.default is ours.empty:
        return f"{theirs.name} has no default, which is {theirs.default}"
    named = re.fullmatch(r"dtype\('(\w+)'\)|<\w+\.(\w+): .*>", theirs.default)
    with contextlib.suppress(ValueError, SyntaxError):
        plain = (named[1] or named[2]) if named else ast.literal_eval(theirs.default)
        mine = ours.default
        if named and mine is not None:  # a member of an enumeration, or a dtype
            mine = getattr(mine, "name", plain) if named[2] else str(mine)
        if isinstance(mine, (int, float, str)) and mine != plain:
            return f"the default of {theirs.name} is {mine!r}, not {plain!r}"
    return ""


# ── the comparison ────────────────────────────────────────────────────────────────────────────────────


def closed_list(page: str) -> dict[str, str]:
    """The table below the heading "Closed list": a name, or a pattern with *, and its reason."""
    _, _, section = page.partition("\n## Closed list\n")
    rows = re.findall(r"^\| (`.*`) \| (.+?) \|$", section.partition("\n## ")[0], re.M)
    return {name: reason for names, reason in rows for name in re.findall(r"`([^`]+)`", names)}


def reason_of(row: Row, closed: dict[str, str]) -> str | None:
    """Why a name is on the closed list, with its members, and under the paths of modules below its own."""
    parents, owner = row.module.split("."), row.name.partition(".")[0]
    above = [".".join(parents[:n]) for n in range(2, len(parents) + 1)] or [row.module]
    names = [f"{module}.{name}" for module in above for name in {row.name, owner}]
    names += [re.sub(r"^tilelang\.language\b", "T", name) for name in names]
    found = next((closed[name] for name in names if name in closed), None)
    for pattern in closed if found is None else ():
        if "*" in pattern and any(fnmatch.fnmatchcase(name, pattern) for name in names):
            return closed[pattern]
    return found


def compare(rows: list[Row], closed: dict[str, str]) -> dict[str, list[str]]:
    """What is wrong, by kind of fault: the names, with what is to be said of each."""
    package = Package()
    faults: dict[str, list[str]] = {"cannot be imported": [], "missing": [], "differs": [], "closed": []}
    for row in rows:
        reason = reason_of(row, closed)
        if reason is not None:
            if "." in row.name and reason_of(Row(row.module, row.name.partition(".")[0], "", "", 0), closed):
                continue  # its class is
            said = package.call(row)
            if reason not in said:
                faults["closed"].append(f"{row.short} must say '{reason}': {said.splitlines()[0]}")
            continue
        try:
            value = package.find(row)
        except Exception as error:
            kind = "missing" if row.name and row.module in sys.modules else "cannot be imported"
            known = isinstance(error, package.absent)
            faults[kind].append(row.short + ("" if known else f" ({type(error).__name__}: {error})"))
            continue
        how = differs(row, value) if row.kind in CALLABLE else ""
        if how:
            faults["differs"].append(f"{row.short}{row.signature}: {how}")
    return faults


# ── what tests call ───────────────────────────────────────────────────────────────────────────────────

FOLDERS = ("test", "examples")
ROOTS = ("T", "tl", "tilelang", "tvm", "tirx")


class Words:
    """The names that tests and examples use: `owner.name`, and what a file imports by name."""

    def __init__(self) -> None:
        self.called: set[tuple[str, str]] = set()  # (owner, name); of imported names the owner is ""
        self.used: set[tuple[str, str]] = set()
        for folder in FOLDERS:
            for path in sorted((ROOT / folder).rglob("*.py")):
                self.look_at(path.read_text())

    def look_at(self, text: str) -> None:
        for owner, name, call in re.findall(r"(\w+|[)\]])\s*\.\s*(?=([A-Za-z_]\w*)(\s*\()?)", text):
            self.used.add((owner, name))
            if call:
                self.called.add((owner, name))
        self.called.update(re.findall(r"^\s*@(?:\w+\.)*?(?:(\w+)\.)?(\w+)$", text, re.M))
        imports = re.findall(r"^\s*from (?:tilelang|tvm)[\w.]* import (\([^)]*\)|.*)", text, re.M)
        for name in {word for names in imports for word in re.findall(r"\w+", names)}:
            self.used.add(("", name))
            if re.search(rf"(?<![\w.]){name}\s*\(|@{name}\b", text):
                self.called.add(("", name))
        for path in re.findall(r"^\s*(?:import|from) ((?:tilelang|tvm)[\w.]*)", text, re.M):
            self.used.update(("", part) for part in path.split("."))

    def have(self, row: Row) -> bool:
        """Whether one of them calls it; what is no function is used."""
        owner, _, last = row.path.rpartition(".")
        found = self.called if row.kind in CALLABLE and row.kind != "class" else self.used
        if last == "__call__":
            return True  # every test that runs a kernel
        if "." in row.name:
            return any(name == last for _, name in found)
        owners = ("T", "") if row.module == "tilelang.language" else (*ROOTS, owner.rpartition(".")[2], "")
        return any((owner, last) in found for owner in owners)


def never_called(rows: list[Row], closed: dict[str, str]) -> list[str]:
    """The names of the list that an example uses and no test of ours calls, or uses if there is no call."""
    words = Words()
    names = {
        row.short: row.used
        for row in rows
        if row.used and reason_of(row, closed) is None and not words.have(row)
    }
    return sorted(names, key=lambda name: (-names[name], name))


# ── the command ───────────────────────────────────────────────────────────────────────────────────────


def say(title: str, items: list[str], most: int) -> None:
    if items:
        print(f"{title} ({len(items)}):")
        for item in items[:most]:
            print(f"  {item}")
        if len(items) > most:
            print(f"  and {len(items) - most} more (--all)")


def main() -> int:
    parser = argparse.ArgumentParser("published_names", description=__doc__.partition("\n")[0])
    parser.add_argument("--called", action="store_true", help="also the used names that no test calls")
    parser.add_argument("--against", type=Path, metavar="FILE", help="another list, of which ours has a part")
    parser.add_argument("--write", action="store_true", help="with --against: write ours from it")
    parser.add_argument("--all", action="store_true", help="a listing without end")
    parser.add_argument("--used", action="store_true", help="only the names that an example uses")
    options = parser.parse_args()
    most = sys.maxsize if options.all else 20
    if options.write and options.against:
        write(wanted(read(options.against)))
    rows = read(LIST)
    listed = {(row.module, row.name) for row in rows}
    closed = closed_list(CLOSED.read_text())
    looked_at = [row for row in rows if row.used] if options.used else rows
    faults = compare(looked_at, closed)
    if options.against:
        faults["missing in the list"] = [
            row.short for row in wanted(read(options.against)) if (row.module, row.name) not in listed
        ]
    if options.called:
        faults["never called in a test"] = never_called(rows, closed)
    for title, items in faults.items():
        say(title, items, most)
    count = sum(reason_of(row, closed) is not None for row in looked_at)
    wrong = ", ".join(f"{len(items)} {title}" for title, items in faults.items())
    print(f"published names: {len(looked_at)} looked at, {count} on the closed list; {wrong}")
    return int(any(faults.values()))


if __name__ == "__main__":
    sys.exit(main())
