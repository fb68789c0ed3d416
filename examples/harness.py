"""What the examples share: cases (a kernel, what it is given, what must come out), and a main program.

An example defines `cases` and `SMALL`, and ends with `main`; a test asks for the cases of all:

    def cases(kind, rows=1000, columns=1003):            # kind: "cpu", "gpu", "reference", of TILES
        ...
        yield harness.Case("float32", kernel, [x, harness.blank(x.shape)], {1: expected}, 1e-6)

    SMALL = {"rows": 7, "columns": 40}                   # arguments of `cases`: few blocks and few steps, but
                                                         # more than a T.Pipelined loop has stages
    harness.main(__doc__, cases, TILES)                  # --target, --rows, --columns; status 1 if wrong

    for case in harness.small_cases("gpu"):              # of all examples, at those sizes
        kernel = case.compiled("sim:sm_80")
        assert harness.worst(kernel, case) <= case.bound
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import tilelang
from tilelang import _core


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel at one size, with the arguments of a call and what these must hold after it."""

    name: str
    kernel: Any  # a prim_func
    arguments: Sequence[Any]  # one for each parameter, NumPy arrays and numbers; outputs as they are before
    expected: dict[int, Any]  # the number of an argument: its content after the call
    bound: float  # relative error allowed, |found - expected| / |expected|; 0: every element is equal
    thread_level: bool = False  # code of single threads, which "cpu" and "reference" refuse
    pass_configs: dict[str, Any] | None = None
    chips: tuple[str, ...] = ()  # that have its instructions, where others refuse it

    def compiled(self, target: str) -> Any:
        return tilelang.compile(self.kernel, target=target, pass_configs=self.pass_configs)


def blank(shape: Any, dtype: Any = "float32") -> np.ndarray:
    """An output before the call: NaN, or the least integer, so that what is left out is seen."""
    dtype = np.dtype(dtype)
    return np.full(shape, np.iinfo(dtype).min if dtype.kind in "iu" else np.nan, dtype)


def kind_of(target: str, tiles: Container[str] = ()) -> str:
    """Which tiles suit a target: "cpu", "gpu" (also in the simulator), "reference", or, where an example has
    tiles of that name, "small_gpu" for a GPU that gives a block at most 64 KiB of shared memory and
    "warpgroup_gpu" for one whose warpgroups multiply tiles (sm_90a)."""
    name = tilelang.resolve_target(target)
    if name.split()[0].split(":")[0] not in ("cuda", "hip", "sim"):
        return name.split()[0]
    if "small_gpu" in tiles and _core.target_info(name)["shared_bytes"] <= 64 << 10:
        return "small_gpu"
    if "warpgroup_gpu" in tiles and name.endswith(("-arch=sm_90a", "sim:sm_90a")):
        return "warpgroup_gpu"
    return "gpu"


def put(kernel: Any, value: Any) -> Any:
    """A copy of an array, where the kernel's tensors live; numbers stay as they are."""
    if not isinstance(value, np.ndarray):
        return value
    if kernel.device_type == "cpu":
        return value.copy()
    import torch  # holds the tensors on the GPU

    if value.dtype.isbuiltin == 2:  # a type that PyTorch knows and NumPy does not: through its bits
        bits = torch.from_numpy(value.view(f"u{value.itemsize}"))
        return bits.cuda().view(getattr(torch, value.dtype.name))
    return torch.from_numpy(value).cuda()


def get(value: Any) -> Any:
    """A tensor as a NumPy array; floats of less than 32 bits as float32."""
    if not hasattr(value, "cpu"):
        return value
    narrow = value.is_floating_point() and value.dtype.itemsize < 4
    return (value.float() if narrow else value).cpu().numpy()


def error_of(found: Any, expected: Any) -> float:
    """|found - expected| / |expected| in float64; infinity where the shapes differ or a NaN was found."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape:
        return float("inf")
    error = np.linalg.norm(found - expected) / (np.linalg.norm(expected) or 1.0)
    return float(error) if np.isfinite(error) else float("inf")


def worst(kernel: Any, case: Case) -> float:
    """Call the compiled kernel of a case on copies of its arguments; the greatest error of its outputs."""
    arguments = [put(kernel, value) for value in case.arguments]
    kernel(*arguments)
    return max(error_of(get(arguments[i]), expected) for i, expected in case.expected.items())


def is_refused(case: Case, target: str) -> bool:
    """Whether compiling or calling it says that it is thread-level code, or that of other chips."""
    try:
        worst(case.compiled(target), case)
    except tilelang.CompileError as error:
        said = (
            "thread-level code",
            "is not an instruction of",
            "no clusters",
            "another block of the cluster",
        )
        return any(words in str(error) for words in said)
    return False


def must_refuse(case: Case, target: str) -> bool:
    """Whether a target cannot run it."""
    name = tilelang.resolve_target(target)
    lacks = case.chips and not any(name.endswith((f"sim:{chip}", f"-arch={chip}")) for chip in case.chips)
    return bool(lacks) or (case.thread_level and kind_of(target) != "gpu")


def small_cases(kind: str = "gpu") -> Iterator[Case]:
    """The cases of all examples in this folder that run on every chip, cut to at most six blocks and six
    steps each."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        module = importlib.import_module(path.stem)
        if hasattr(module, "cases"):
            for case in module.cases(kind, **module.SMALL):
                if case.chips:
                    continue
                yield dataclasses.replace(case, name=f"{path.stem}: {case.name}".rstrip(": "))


def parse_options(doc: str, cases: Callable) -> dict[str, Any]:
    """The command line: --target, and an option for each parameter of `cases` with a default."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--target", default="auto")
    for name, parameter in list(inspect.signature(cases, eval_str=True).parameters.items())[1:]:
        default = parameter.default
        kinds = get_args(parameter.annotation) or (parameter.annotation,)  # of `str | None`, where it is None
        kind = next(k for k in kinds if k is not type(None)) if default is None else type(default)
        how = {"type": kind, "default": default}
        if kind is bool:
            how = {"action": "store_true", "default": default}
        parser.add_argument(f"--{name.replace('_', '-')}", **how)
    return vars(parser.parse_args())


def judge(case: Case, target: str) -> tuple[bool, str]:
    """Compile and run a case: whether all is well, and what to say about it."""
    if must_refuse(case, target):
        right = is_refused(case, target)
        needs = f": it needs {' or '.join(case.chips)}" if case.chips else ""
        return right, f"{target}: {case.name}: {'' if right else 'not '}refused, as it must be{needs}"
    kernel = case.compiled(target)
    error = worst(kernel, case)
    said = f"relative error {error:.1e}, at most {case.bound:.0e} allowed"
    if not case.bound:
        said = "exact" if not error else f"relative error {error:.1e}, but it must be exact"
    return error <= case.bound, f"{kernel.target}: {case.name}: {said}"


def target_of(name: str) -> str:
    """The target to run on; for "auto", the CPU where a GPU answers but nothing could hold its tensors."""
    try:
        target = tilelang.resolve_target(name)
    except tilelang.CompileError as error:
        sys.exit(str(error))
    if not target.startswith("cuda") or importlib.util.find_spec("torch"):
        return target
    if name != "auto":
        sys.exit(f"{name}: PyTorch, which would hold the tensors on the GPU, is not installed")
    print("a GPU answers, but PyTorch, which would hold its tensors, is not installed: taking the CPU")
    return tilelang.resolve_target("cpu")


def main(doc: str, cases: Callable, tiles: Container[str] = ()) -> None:
    """Run the cases as the command line says, print their errors, and end: status 1 if one was wrong.
    `tiles`: the kinds of target that the example has tiles for, where there are more than the usual ones."""
    options = parse_options(doc, cases)
    target, wrong = target_of(options.pop("target")), 0
    for case in cases(kind_of(target, tiles), **options):
        right, said = judge(case, target)
        print(said if right else f"{said}  WRONG")
        wrong += not right
    sys.exit(1 if wrong else 0)
