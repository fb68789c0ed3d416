"""`python -m tilelang check`: what of a script would fail, found without running it."""

from pathlib import Path

import pytest
from tilelang.language import surface
from tilelang.tools.command_line import main

ROOT = Path(__file__).parents[2]
HEAD = "import tilelang\nimport tilelang.language as T\n"


def checked(tmp_path, capsys, text):
    """The lines that the command prints for a script, and its exit status."""
    script = tmp_path / "script.py"
    script.write_text(HEAD + text)
    status = main(["check", str(script)])
    return capsys.readouterr().out, status


@pytest.mark.parametrize(
    "text, said, place",
    [
        ("from tilelang.nothing import x\n", "No module named 'tilelang.nothing'", "3:1"),
        (
            "from tilelang.language import alloc_shard\n",
            "there is no such name in the language; did you mean T.alloc_shared?",
            "3:31",
        ),
        ("x = T.alloc_smem\n", "there is no such name in the language; did you mean T.alloc_shared?", "3:5"),
        ("x = T.prefetched\n", "did you mean T.prefetch? It is a hint that fetches a line", "3:5"),
        ("from tvm import relay\n", "relay", "3:17"),
        ("x = T.prefetch(1)\n", "T.prefetch is a hint that fetches a line of the cache early", "3:5"),
        (
            "@T.prim_func\ndef f(A: T.Tensor((3,), 'int8'), **more):\n    pass\n",
            "a kernel names its parameters, each a tensor or a number that a call passes, but 'more' takes",
            "4:36",
        ),
        ("def f():\n    T.copyy(1, 2)\n", "did you mean T.copy?", "4:5"),
        ("k = tilelang.jitt\n", "module 'tilelang' has no attribute 'jitt'", "3:5"),
        (
            "b = T.create_tma_descriptor(1)\n",
            "T.create_tma_descriptor needs descriptors of the tensor",
            "3:5",
        ),
        ("from tilelang.language import alloc_tmem\n", "T.alloc_tmem needs sm_100", "3:31"),
        ("p = T.GemmWarpPolicy.Rows\n", "there is no Rows among its members, Square, ", "3:5"),
        (
            "T.gemm(1, 2, 3, transposed=True)\n",
            "got an unexpected keyword argument 'transposed'; it takes (A, ",
            "3:1",
        ),
        ("T.fill(1)\n", "missing a required argument: 'value'", "3:1"),
        ("A = T.Tensor((3,), 'flaot16')\n", "unknown dtype 'flaot16'; did you mean float16?", "3:20"),
        ("x = T.alloc_shared((3,), dtype='float17')\n", "unknown dtype 'float17'", "3:32"),
        ("f = tilelang.compile(f, target='cuda -arch=sm_12')\n", "there is no chip 'sm_12'", "3:32"),
        ("f = tilelang.compile(f, target='sim:sm_999')\n", "there is no chip 'sm_999'", "3:32"),
        (
            "f = tilelang.jit(pass_configs={'tl.disable_tma_lowr': True})\n",
            "there is no pass config 'tl.disable_tma_lowr'; did you mean 'tl.disable_tma_lower'?",
            "3:32",
        ),
        (
            "k = tilelang.PassConfigKey.TL_DISABLE_TMA\n",
            "there is no TL_DISABLE_TMA among its members",
            "3:5",
        ),
        (
            "@T.prim_func\ndef f(A: T.Tensor((3,), 'int8')):\n"
            "    try:\n        pass\n    finally:\n        pass\n",
            "'try' has no meaning in a kernel",
            "5:5",
        ),
        ("def f():\n    T.tcgen05_gemm(1, 2, 3)\n", "T.tcgen05_gemm needs sm_100", "4:5"),
        (
            "x = T.alloc_shared((8, 8), 'float32', scope='shared.tmem')\n",
            "'local.var', not 'shared.tmem': tensor memory needs sm_100's own instructions (tcgen05)",
            "3:45",
        ),
        ("x = T.alloc_buffer((8,), 'int8', 'sharde')\n", "'local.var', not 'sharde'\n", "3:34"),
        (
            "f = tilelang.jit(execution_backend='metal')\n",
            "unknown execution_backend 'metal': there is one runtime",
            "3:36",
        ),
        ("@tilelang.jit(target='cutedsl')\ndef f():\n    pass\n", "not CuTe DSL: say cuda", "3:22"),
        ("f = tilelang.compile(f, target='metal')\n", "there is no back end for Apple's GPUs", "3:32"),
        ("f = tilelang.compile(f, target='webgpu')\n", "there is no back end that writes WGSL", "3:32"),
        ("f = tilelang.compile(f, target='ascend')\n", "no back end for Ascend's NPUs", "3:32"),
        ("f = tilelang.compile(f, target='cuda -arch=sm_70')\n", "Volta has no asynchronous", "3:32"),
        (
            "from tilelang.jit.adapter import CuTeDSLKernelAdapter\n",
            "CuTeDSLKernelAdapter belongs to the ways in which the published compiler calls",
            "3:34",
        ),
        ("from tvm.script import tir\n", "there is no TVM here", "3:1"),
        ("def f(:\n", "this is not Python", "3:7"),
    ],
)
def test_what_would_fail(tmp_path, capsys, text, said, place):
    out, status = checked(tmp_path, capsys, text)
    assert status == 1 and said in out and f"script.py:{place}: error: " in out
    assert "1 fault in 1 script" in out


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    from tilelang.nothing import x\nexcept ImportError:\n    x = None\n",
        "import os\nT2 = os\nT2.copyy\n",
        "args = (1, 2)\nT.gemm(*args, 3)\nT.copy(**{})\n",
        "class T:\n    copyy = 1\nT.copyy\n",  # the script's own T
        "from tilelang.profiler import do_bench\nimport tilelang.layout.cute as cute\ncute.Layout\n",
        "def f(x, y, t):\n    T.tvm_thread_allreduce(T.uint32(1), x, True, y, t, dtype='handle')\n"
        "    T.reinterpret(T.uint64(0), dtype='handle')\n",
        "@T.macro\ndef m(x, *more, scale=1.0, **rest):\n    for y in more:\n        x[0] = y * scale\n",
        "def f(A):\n    T.call_extern('f', A, dtype='handle')\n    T.call_extern('float32', 'f', A)\n",
        "from tilelang.cuda.intrinsics.macro.wgmma_macro_generator import TensorCoreIntrinEmitter\n",
        "def f(dtype):\n    try:\n        return T.float16\n    except KeyError:\n        return None\n",
    ],
)
def test_what_would_not(tmp_path, capsys, text):
    out, status = checked(tmp_path, capsys, text)
    assert (out, status) == ("0 faults in 1 script\n", 0)


def test_every_name_that_does_not_work(tmp_path, capsys):
    absent = surface.table()[0]
    names = [surface.short(path) for path, entry in absent.items() if " = " not in entry.declared]
    modules = {name.rpartition(".")[0] for name in names if not name.startswith("T.")}
    calls = [f"import {module}\n" for module in sorted(modules)] + [f"{name}\n" for name in names]
    out, status = checked(tmp_path, capsys, "".join(calls))
    entries = (entry for entry in absent.values() if " = " not in entry.declared)
    first = HEAD.count("\n") + len(modules) + 1
    for line, (name, entry) in enumerate(zip(names, entries, strict=True), first):
        assert f"script.py:{line}:1: error: {name} {entry.reason}\n" in out, name
    assert status == 1


def test_nothing_is_run(tmp_path, capsys):
    assert checked(tmp_path, capsys, "raise SystemExit('it runs')\n")[1] == 0


def test_the_examples_have_no_faults(capsys):
    scripts = sorted(map(str, (ROOT / "examples").glob("*.py")))
    assert main(["check", *scripts]) == 0, capsys.readouterr().out


def test_a_script_that_is_not_there(capsys):
    assert main(["check", "no/such/file.py"]) == 2
    assert "no/such/file.py: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8-sig", "ascii"])
def test_scripts_in_their_own_encoding(tmp_path, encoding):
    script = tmp_path / "script.py"
    script.write_bytes(
        f"# -*- coding: {encoding} -*-\n# {'' if encoding == 'ascii' else 'é'}\n".encode(encoding)
    )
    assert main(["check", str(script)]) == 0
    script.write_bytes(b"# -*- coding: ascii -*-\n# \xe9\n")
    assert main(["check", str(script)]) == 2
