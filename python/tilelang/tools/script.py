"""`python -m tilelang sim SCRIPT`: the script runs as it is, but each of its kernels is simulated.

    python -m tilelang sim [--target sim:CHIP] [--seed N] [--schedules N] [--blocks N|A,B,…] [--timeout S]
                          script.py …

Kernels for a GPU are simulated for its chip, all others for sim:sm_90a; the reference stays what it is.  The
first finding ends the script, with exit status 1; else there is a line for each kernel that was simulated."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..front.errors import CompileError
from ..jit import config
from ..jit.env import env
from . import host_torch, simulation
from .simulation import plural

DEFAULT_CHIP = "sim:sm_90a"


@dataclass
class Simulated:
    """What became of one kernel."""

    calls: int = 0
    blocks: int = 0
    schedules: int = 0


class Script:
    """A script that runs with every kernel simulated; `config.script` while it does."""

    def __init__(self, target: str | None = None) -> None:
        self.target = target
        self.kernels: dict[tuple[str, str], Simulated] = {}
        self.asides: dict[str, None] = {}  # what else is to be said, in order
        self.report: Any = None  # the first with findings
        self._guard = threading.Lock()

    def redirect(self, target: str) -> str:
        """The target on which kernels for `target` run instead."""
        if target.startswith("reference"):
            return target
        if self.target:
            return self.target
        if target.startswith("sim:"):
            return target
        chip = re.search(r"-arch=(\S+)", target) if target.startswith("cuda") else None
        return f"sim:{chip[1]}" if chip else DEFAULT_CHIP

    def instead(self, name: str, target: str, error: CompileError) -> str | None:
        """Where a kernel runs that the simulator's chip refuses: one for the CPU there, others nowhere."""
        if not target.startswith("cpu"):
            return None
        why = f"for {self.redirect(target)}: {error.text}"
        self.asides[f"{name}: not simulated, runs on the CPU as its target says; {why}"] = None
        return target

    def note(self, kernel: Any, report: Any) -> None:
        """A kernel was simulated; ends the script where something was found."""
        with self._guard:
            entry = self.kernels.setdefault((kernel._func.name, kernel.target), Simulated())
            entry.calls += 1
            entry.blocks += report.blocks
            entry.schedules += report.schedules
            if report.findings and self.report is None:
                self.report = report
        if report.findings:
            raise SystemExit(1)  # no handler of the script's is to take it for an error of its own

    def adopt(self, made: list[Any], args: Sequence[Any]) -> None:
        """The outputs of a call lie where its arguments do."""
        tensor = getattr(sys.modules.get("torch"), "Tensor", ())
        if any(isinstance(a, tensor) and host_torch.is_marked(a) for a in args):
            host_torch.mark(made)

    def measure_once(self, fn: Callable[[], Any]) -> float:
        """do_bench, here: one run, whose milliseconds say nothing of a GPU."""
        self.asides["do_bench: one simulated run each; the times are the simulator's, not a GPU's"] = None
        begin = time.perf_counter()
        fn()
        return (time.perf_counter() - begin) * 1e3

    def run(self, path: str, args: Sequence[str]) -> int:
        """Run the script; its exit status, 1 where something was found."""
        before = sys.argv, sys.path[:], config.script
        sys.argv = [path, *args]
        sys.path[0:1] = [os.path.dirname(os.path.abspath(path))]
        config.script = self
        host_torch.when_imported(host_torch.install)
        try:
            status = _status_of(lambda: runpy.run_path(path, run_name="__main__"))
        finally:
            sys.argv, sys.path[:], config.script = before
        return 1 if self.report is not None else status

    def summary(self) -> str:
        """What is said at the end."""
        lines = [f"tilelang sim: {aside}" for aside in self.asides]
        if self.report is not None:
            return "\n".join([*lines, str(simulation.error_of(self.report))])
        for (name, target), k in self.kernels.items():
            ran = f"{plural(k.calls, 'call')}, {plural(k.blocks, 'block')}, {plural(k.schedules, 'schedule')}"
            lines.append(f"tilelang sim: {name} for {target}: {ran}: nothing found")
        if not self.kernels:
            lines.append("tilelang sim: the script ran no kernel that could be simulated")
        return "\n".join(lines)


def _status_of(work: Callable[[], Any]) -> int:
    try:
        work()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except CompileError as error:
        print(error, file=sys.stderr)
        return 1
    except Exception as error:
        frames, ours = error.__traceback__, (__file__, "<frozen runpy>", runpy.__file__)
        while frames and frames.tb_frame.f_code.co_filename in ours:
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames)
        return 1
    return 0


def _blocks(text: str) -> Any:
    try:
        return int(text) if "," not in text else [int(part) for part in text.split(",") if part]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"'{text}' is neither a number of blocks nor a list of them (0,5,7)"
        ) from None


def main(argv: list[str]) -> int:
    """The command `sim`; returns the exit status."""
    parser = argparse.ArgumentParser(
        "python -m tilelang sim", description="run a script, each kernel simulated"
    )
    parser.add_argument("--target", metavar="sim:CHIP", help="simulate this chip, whatever the script says")
    parser.add_argument("--seed", type=int, default=0, help="of the order in which warps run (default 0)")
    parser.add_argument(
        "--schedules", type=int, default=1, help="orders to try, with seeds from there on (default 1)"
    )
    parser.add_argument(
        "--blocks", type=_blocks, help="how many blocks of a grid to sample, or their numbers: 0,5,7"
    )
    parser.add_argument(
        "--timeout", metavar="S", type=float, help="seconds that one call may take (default 3600; 0: any)"
    )
    parser.add_argument("script")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="the script's own")
    options = parser.parse_args(argv)
    if not os.path.isfile(options.script):
        parser.error(f"no file '{options.script}'")
    if options.schedules < 1 or options.seed < 0 or (isinstance(options.blocks, int) and options.blocks < 1):
        parser.error("--schedules and --blocks are at least 1, --seed at least 0")
    if options.timeout is not None:
        if not 0 <= options.timeout < float("inf"):
            parser.error("--timeout is a number of seconds, at least 0")
        env.TILELANG_SIM_TIMEOUT = str(options.timeout)
    script = Script()
    if options.target:
        try:
            script.target = _core.resolve_target(script.redirect(options.target))
        except CompileError as error:
            parser.error(error.text)
    simulation.defaults = simulation.Defaults(options.seed, options.schedules, options.blocks)
    status = script.run(options.script, options.args)
    sys.stdout.flush()
    print(script.summary(), file=sys.stderr)
    return status
