"""The process that multiplies: it reads commands, one JSON object a line, and answers each.

`python -m peers.server PACKAGE`, where PACKAGE is ours or published: which tilelang is on the path.  What
libraries print goes to the log; an error is an answer, too; one that ends the CUDA context ends the process.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from typing import Any, TextIO

from peers.providers import PUBLISHED, Provider, Variant, providers
from peers.shapes import Case


class Session:
    """A case at a time: its operands, and the windows of the variants that were chosen."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.known: dict[str, Provider] = {}

    def hello(self) -> dict[str, Any]:
        import tilelang
        import torch

        self.known = providers(self.package)
        versions = {"tilelang": tilelang.__version__}
        if self.package != PUBLISHED:
            import triton

            versions |= {"torch": torch.__version__, "CUDA": torch.version.cuda}
            versions |= {"Triton": triton.__version__, "Python": platform.python_version()}
        return {"gpu": torch.cuda.get_device_name(), "driver": driver(), "versions": versions}

    def variants(self, case: dict, provider: str) -> list[Variant]:
        return self.known[provider].variants(Case(**case))

    def compile(self, case: dict, provider: str, variant: Variant) -> None:
        self.known[provider].compile(Case(**case), variant)

    def open(self, case: dict) -> None:
        import torch

        from peers import operands

        self.close()
        torch.manual_seed(0)
        self.case = Case(**case)
        self.sets = [operands.make(self.case) for _ in range(self.case.sets)]
        self.judge = operands.Judge(self.case, self.sets)
        self.windows: dict[str, Any] = {}

    def attempt(self, provider: str, variant: Variant) -> float:
        """Milliseconds of a launch, after it was found right."""
        from peers import regimes

        made = self.known[provider].launches(self.case, variant, self.sets)
        launch, c = made[0]
        c.fill_(float("nan"))
        launch()
        self.judge.error(0, c)
        return regimes.quick(regimes.in_turn([launch for launch, _ in made]))

    def hold(self, provider: str, variant: Variant) -> float:
        """Captures the window that is measured; the greatest error of what it computes."""
        from timing import Window

        from peers import regimes

        made = self.known[provider].launches(self.case, variant, self.sets)
        window = Window(regimes.in_turn([launch for launch, _ in made]))
        for _, c in made:
            c.fill_(float("nan"))
        window.graph.replay()
        written = min(window.launches, len(made))  # the window begins anywhere in the turn
        finite = [i for i, (_, c) in enumerate(made) if not bool(c[:1].isnan().any())]
        if len(finite) < written:
            raise ValueError(f"wrong: of {written} outputs of a window {len(finite)} were written")
        self.windows[provider] = window
        return max(self.judge.error(i, made[i][1]) for i in {finite[0], finite[-1]})

    def burst(self, provider: str) -> float:
        return self.windows[provider].run()

    def sustain(self, provider: str, seconds: float) -> dict[str, Any]:
        from peers import regimes

        times, mhz = regimes.sustained(self.windows[provider], seconds)
        return {"times": times, "mhz": mhz}

    def close(self) -> None:
        import torch

        self.case = self.sets = self.judge = None
        self.windows = {}
        torch.cuda.empty_cache()


def driver() -> str:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "unknown"
    asked = [tool, "--query-gpu=driver_version,power.limit", "--format=csv,noheader", "--id=0"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()


def broken() -> bool:
    """Whether the CUDA context is lost."""
    torch = sys.modules.get("torch")
    try:
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize()
    except Exception:
        return True
    return False


def answer(session: Any, command: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"is": getattr(session, command.pop("do"))(**command)}
    except Exception as problem:
        return {"error": " ".join(f"{type(problem).__name__}: {problem}".split())[:300]}


def serve(session: Any, commands: TextIO, answers: TextIO) -> int:
    for line in commands:
        said = answer(session, json.loads(line))
        lost = "error" in said and broken()
        answers.write(json.dumps(said | {"lost": lost}) + "\n")
        answers.flush()
        if lost:
            return 1
    return 0


def main() -> int:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print
    return serve(Session(sys.argv[1]), sys.stdin, answers)


if __name__ == "__main__":
    raise SystemExit(main())
