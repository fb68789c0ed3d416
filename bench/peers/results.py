"""The results file: a JSON line for each finished part, and for each variant that is not tried again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from peers.shapes import Case


class Results:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.parts: dict[str, dict[str, Any]] = {}
        self.lost: set[tuple[str, str, str]] = set()
        text = path.read_text() if path.exists() else ""
        for line in text.splitlines():
            self._read(line)
        if text and not text.endswith("\n"):  # a run was ended while it wrote
            path.write_text(text + "\n")

    def _read(self, line: str) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            return
        if said["kind"] == "part":
            self.parts[said["case"]] = said
        else:
            self.lost.add((said["case"], said["provider"], said["variant"]))

    def _write(self, said: dict[str, Any]) -> None:
        with self.lock, open(self.path, "a") as out:
            out.write(json.dumps(said) + "\n")

    def has(self, case: Case, packages: Iterable[str]) -> bool:
        """Whether the part is finished, and all of these packages took part."""
        return case.name in self.parts and set(packages) <= set(self.parts[case.name]["about"])

    def add(self, case: Case, **found: Any) -> None:
        said = {"kind": "part", "case": case.name, **found}
        self._write(said)
        self.parts[case.name] = said

    def add_lost(self, case: Case, provider: str, variant: Any, reason: str) -> None:
        """Such a variant is not tried again."""
        what = {"case": case.name, "provider": provider, "variant": json.dumps(variant)}
        self._write({"kind": "lost", **what, "reason": reason})
        self.lost.add(tuple(what.values()))

    def is_lost(self, case: Case, provider: str, variant: Any) -> bool:
        return (case.name, provider, json.dumps(variant)) in self.lost
