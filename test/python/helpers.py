"""What the tests of the Python front share: kernels from text, comparison of programs, runs."""

import importlib.util
import itertools
import os
import sys
import textwrap

import numpy as np
import pytest
import tilelang
import tilelang.language as T

_count = itertools.count()
TARGETS = ["cpu", "reference", "sim:sm_80"]  # for loops; a test on one of them takes the fixture `target`


def in_turn(choices, turn):
    """One of them, so that cases which are alike share them out; all with TL_FULL=1."""
    return list(choices) if os.environ.get("TL_FULL") else [choices[turn % len(choices)]]


def assert_round_trip(text):
    """Text IR, parsed and printed, is the same text."""
    assert tilelang._core.parse(text).text() == text


def load(path):
    """Import a file as a module of its own."""
    name = f"kernels_{next(_count)}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_text(folder, text):
    """Import a text as a module; it is written to a file, because the front reads sources."""
    path = folder / f"kernels_{next(_count)}.py"
    path.write_text(textwrap.dedent(text))
    return load(path)


SIGNATURE = "A: T.Tensor((64, 8), 'float32'), n: T.int32"
HEAD = """\
import tilelang.language as T
@T.prim_func
def main({signature}):
    with {launch} as bx:
"""
FIRST_LINE = 5  # of the body, in the file
INDENT = 8


def kernel(folder, body, signature=SIGNATURE, before="", launch="T.Kernel(4, threads=32)"):
    """The prim_func with this body; `before` goes before its definition."""
    text = (
        before
        + HEAD.format(signature=signature, launch=launch)
        + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * INDENT)
    )
    path = folder / f"kernels_{next(_count)}.py"
    path.write_text(text + "\n")
    return load(path).main


def failure(folder, body, **kwargs):
    """The CompileError that this body raises."""
    with pytest.raises(tilelang.CompileError) as caught:
        kernel(folder, body, **kwargs)
    return caught.value


# ── programs of tile operators ──
def run(program, target, *arrays):
    tilelang.compile(program, target=target)(*arrays)


def simulate(program, *arrays):
    run(program, "sim:sm_80", *arrays)


def source(program, target):
    return tilelang.compile(program, target=target).get_kernel_source()


def cuda_text(program):
    """The CUDA text for sm_90; it compiles for sm_80, too."""
    return [source(program, f"cuda -arch={arch}") for arch in ("sm_80", "sm_90")][-1]


def random(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(got, wanted, tolerance=1e-5):
    """Asserts that they are near in the relative norm of the error."""
    wanted = np.asarray(wanted, "float64")
    assert got.shape == wanted.shape
    assert np.linalg.norm(got.astype("float64") - wanted) <= tolerance * max(np.linalg.norm(wanted), 1e-30)


def compiles_for_gpus(program):
    for arch in ("sm_80", "sm_90"):
        try:
            source = tilelang.compile(program, target=f"cuda -arch={arch}").get_kernel_source()
        except RuntimeError as missing:
            if "libnvrtc" in str(missing):
                pytest.skip("NVRTC is not installed")
            raise
        assert f"for {arch}" in source


def alloc(scope, shape, dtype):
    return T.alloc_shared(shape, dtype) if scope == "shared" else T.alloc_fragment(shape, dtype)


def without(shape, dim):
    return tuple(e for d, e in enumerate(shape) if d != dim) or (1,)
