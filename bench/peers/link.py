"""The other end of server.py: a process that is asked, and that may refuse, fall silent or die."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from peers.providers import NAMES, PUBLISHED
from peers.shapes import Case

BENCH = Path(__file__).resolve().parents[1]
START = 120.0  # seconds within which a process must be there


class Refused(Exception):
    """The process answered with an error, and goes on."""


class Lost(Exception):
    """The process died, or did not answer in time and was ended."""


def environment(package: str, published: Path | None) -> dict[str, str]:
    """The published package has the name of ours, so each process has one of them on its path; settings of
    ours (TILELANG_…) are not for the published one."""
    env, path = dict(os.environ), os.environ.get("PYTHONPATH", "")
    if package == PUBLISHED:
        env = {name: value for name, value in env.items() if not name.startswith("TILELANG_")}
        path = str(published)
    parts = [str(BENCH), *([path] if path else [])]
    return env | {"PYTHONPATH": os.pathsep.join(parts), "PYTHONSAFEPATH": "1"}


class Link:
    """A process of server.py; ask() is one command and its answer."""

    def __init__(self, command: list[str], env: dict[str, str], log: Path) -> None:
        with open(log, "a") as said:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, env=env
            )
        self.answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def ask(self, do: str, timeout: float, **arguments: Any) -> Any:
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
            line = self.answers.get(timeout=max(timeout, 0.1))
        except queue.Empty:
            self.end()
            raise Lost(f"no answer to '{do}' within {timeout:.0f} s") from None
        except OSError:
            line = None
        if line is None:
            self.end()
            raise Lost(f"the process ended at '{do}' with status {self.process.returncode}")
        said = json.loads(line)
        if "error" not in said:
            return said["is"]
        if said["lost"]:
            self.end()
            raise Lost(said["error"])
        raise Refused(said["error"])

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Bench:
    """A process that is started when it is needed, again after it was lost, and then opens its case again."""

    def __init__(self, package: str, start: Callable[[str], Any], without: Container[str] = ()) -> None:
        self.package, self.start = package, start
        self.providers = [name for name in NAMES[package] if name not in without]
        self.link: Any = None
        self.opened: Case | None = None
        self.about: dict[str, Any] = {}

    def ask(self, do: str, timeout: float, **arguments: Any) -> Any:
        try:
            if self.link is None:
                self.link = self.start(self.package)
                self.about = self.link.ask("hello", START)
                if self.opened is not None:
                    self.link.ask("open", timeout, case=self.opened.as_dict())
            return self.link.ask(do, timeout, **arguments)
        except Lost:
            self.link = None
            raise

    def open(self, case: Case, timeout: float) -> None:
        self.opened = None
        self.ask("open", timeout, case=case.as_dict())
        self.opened = case

    def end(self) -> None:
        if self.link is not None:
            self.link.end()
        self.link = self.opened = None


def starter(published: Path | None, log: Path) -> Callable[[str], Link]:
    def start(package: str) -> Link:
        command = [sys.executable, "-m", "peers.server", package]
        return Link(command, environment(package, published), log)

    return start
