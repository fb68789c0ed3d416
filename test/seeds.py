"""All examples, small (at most six blocks, six steps), in the simulator under many seeds: nothing is found,
and the numbers are right each time.

    python test/seeds.py [--seeds 50] [--targets sim:sm_80,sim:sm_90] [--only gemm]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import tilelang

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import harness  # noqa: E402


def faults(case: harness.Case, target: str, seeds: Iterable[int]) -> list[str]:
    """What is wrong with a case, seed by seed."""
    kernel = case.compiled(target)
    wrong = []
    for seed in seeds:
        arguments = [harness.put(kernel, value) for value in case.arguments]
        try:
            kernel.simulate(*arguments, seed=seed, count=False)
        except tilelang.SimulationError as error:
            wrong.append(f"{case.name}, seed {seed}: {error}")
            continue
        error = max(harness.error_of(arguments[i], expected) for i, expected in case.expected.items())
        if not error <= case.bound:
            wrong.append(f"{case.name}, seed {seed}: error {error:.1e}, at most {case.bound:.0e} allowed")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--targets", default="sim:sm_80,sim:sm_90")
    parser.add_argument("--only", default="", help="examples whose names begin so")
    options = parser.parse_args()
    begin, runs, wrong = time.monotonic(), 0, []
    for case in harness.small_cases("gpu"):
        for target in options.targets.split(",") if case.name.startswith(options.only) else ():
            wrong += faults(case, target, range(options.seeds))
            runs += options.seeds
    for text in wrong:
        print(text)
    print(f"{runs} runs in {time.monotonic() - begin:.0f} s: {len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
