"""Run the kernels of cold_trial.txt once each, buggy and repaired: python cold_trial.py OUT_FOLDER [--build]"""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import tilelang

HEAD = "import numpy as np\nimport tilelang\nimport tilelang.language as T\n\n"


def module(folder, name, text, drop):
    keep = [("" if drop in line.partition("#")[2].split() else line) for line in text.splitlines()]
    path = folder / f"{name}.py"
    path.write_text(HEAD + "\n".join(keep) + "\n")
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made, {i for i, line in enumerate(path.read_text().splitlines(), 1) if "HERE" in line.partition("#")[2].split()}


def call(made, head, target):
    out = re.search(r"^out_idx: (\d+)", head, re.M)
    kernel = tilelang.compile(made.main, target=target, **({"out_idx": [int(out[1])]} if out else {}))
    if not target.startswith("sim"):
        return 0.0
    args = made.inputs(np.random.default_rng(7))
    want = made.expected(*[a.copy() if hasattr(a, "copy") else a for a in args])
    result = kernel(*args)
    return max(np.abs(np.asarray(result if k == "out" else args[k], "f8") - w).max() for k, w in want.items())


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True, parents=True)
    target = "cuda -arch=sm_80" if "--build" in sys.argv else "sim:sm_80"
    for part in Path(__file__).with_suffix(".txt").read_text().split("\n=== ")[1:]:
        head, _, text = part.partition("@T.prim_func")
        name, text = head.split()[0], "@T.prim_func" + text
        for kind, drop in (("bug", "FIX"), ("fix", "BUG")):
            try:
                made, here = module(folder, f"{name}_{kind}", text, drop)
                print(f"{name} {kind}: no finding, greatest difference {call(made, head, target):.2g}")
            except Exception as error:
                lines = [int(n) for n in re.findall(r"\.py:(\d+):", str(error))]
                print(f"{name} {kind}: {type(error).__name__}, first line {lines[:1]} of {sorted(here)}\n    "
                      + str(error).replace("\n", "\n    "))


main()
