"""Lines per room, and the numbers to watch: node kinds, passes, options, variables."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".h", ".cpp", ".inc", ".py"}
WATCH = {"node kinds": 24, "passes": 16, "options": 12, "variables": 10}


def lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def room_of(path: Path) -> str:
    """`src/ir`, `src/compile` for the files directly in src, else the first folder."""
    parts = path.relative_to(ROOT).parts
    if parts[0] != "src":
        return parts[0]
    return f"src/{parts[1] if len(parts) > 2 else 'compile'}"


def read(path: str) -> str:
    file = ROOT / path
    return file.read_text(encoding="utf-8") if file.exists() else ""


def braces(text: str, start: str) -> str:
    """What stands between the braces that follow `start`."""
    m = re.search(start, text)
    if not m:
        return ""
    depth, begin = 0, text.index("{", m.end() - 1)
    for i in range(begin, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return text[begin + 1 : i]
    return ""


def counts(files: list[Path]) -> dict[str, int]:
    node = read("src/ir/node.h")
    kinds = re.search(r"#define TL_EXPRS.*?(?=\n\n|\nenum)", node, re.S)
    passes = braces(read("src/compile/compile.cpp"), r"Pass passes\[\] = ")
    headers = "\n".join(f.read_text(encoding="utf-8") for f in files if f.suffix == ".h")
    options = re.sub(r"//[^\n]*", "", braces(headers, r"struct Options "))
    everything = "\n".join(f.read_text(encoding="utf-8") for f in files if room_of(f) != "test")
    return {
        "node kinds": len(re.findall(r"\bX\(\w\w+\)", kinds[0])) if kinds else 0,
        "passes": len(re.findall(r'^\s*\{"\w+"', passes, re.M)),
        "options": len(re.findall(r";", options)),
        "variables": len(set(re.findall(r'"(TILELANG_[A-Z_]+)"', everything))),
    }


def main() -> None:
    places = ("src", "bindings", "python", "tools", "test", "examples", "bench")
    files = sorted(p for place in places for p in (ROOT / place).rglob("*") if p.suffix in SUFFIXES)
    rooms: dict[str, list[Path]] = {}
    for file in files:
        rooms.setdefault(room_of(file), []).append(file)
    for room, members in rooms.items():
        print(f"{room:<16} {sum(map(lines, members)):>6} lines  {len(members):>3} files")
    cpp = sum(lines(f) for f in files if room_of(f).startswith(("src", "bindings")))
    python = sum(lines(f) for f in files if room_of(f) == "python")
    print(f"{'compiler':<16} {cpp:>6} lines of C++, {python} of Python\n")
    for name, count in counts(files).items():
        note = "  <- more than meant to be" if count > WATCH[name] else ""
        print(f"{name:<16} {count:>6}  (watch: {WATCH[name]}){note}")


if __name__ == "__main__":
    main()
