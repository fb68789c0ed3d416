"""What people write who come from Triton, PyTorch, NumPy or CUDA, and what it is called here: the tables of
idioms.txt, each an attribute of this module (NAMES, ABSENT, OF_BUFFERS, …).

Read where an error is worded: of an unknown name of the language (surface.py), of an attribute that a buffer
or a value does not have, of a keyword that a function does not take (misuse.py); and where a kernel is
parsed, for what it may not have (parse.py)."""

from __future__ import annotations

import functools
import os

from .offered import OFFERED


@functools.cache
def _tables() -> dict[str, dict[str, str]]:
    """The tables of idioms.txt by their names; a row has the words that one text answers."""
    tables: dict[str, dict[str, str]] = {}
    with open(os.path.splitext(__file__)[0] + ".txt", encoding="utf-8") as rows:
        for row in rows.read().splitlines():
            words, arrow, instead = row.partition(" -> ")
            if row.startswith("["):
                table = tables[row[1:-1]] = {}
            elif arrow and not row.startswith("#"):
                table.update(dict.fromkeys(words.split(), instead))
    return tables


def __getattr__(name: str) -> dict[str, str]:
    if name.isupper() and name in _tables():
        return _tables()[name]
    raise AttributeError(name)


def function_like(name: str) -> str:
    """What to write for math.name or np.name."""
    ours = _tables()["FUNCTIONS"].get(name, name)
    if ours in OFFERED:
        return f"T.{ours}"
    return _tables()["NAMES"].get(name, "the language's own functions")
