"""`python -m tilelang`: look at a kernel without writing a program for it.

    python -m tilelang ir      FILE:NAME [ARG=VALUE ...]      the program as text IR
    python -m tilelang source  FILE:NAME [ARG=VALUE ...]      the generated CUDA C++ or LLVM IR
    python -m tilelang explain FILE:NAME [ARG=VALUE ...]      why everything is as it is (--html PAGE,
                                                              --machine-code)
    python -m tilelang sim     SCRIPT [ARG ...]               run a script, each kernel simulated (sim --help)
    python -m tilelang check   SCRIPT ...                     what of it would fail here, without a run

NAME is a prim_func, or a factory of one (with @tilelang.jit or without) to which the arguments go."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import sys
from typing import Any

from ..front.errors import CompileError, kind_of
from ..jit.factory import JITImpl
from ..jit.function import PrimFunc
from ..jit.kernel import compile


def _load(where: str) -> Any:
    file, _, name = where.rpartition(":")
    if not file or not os.path.isfile(file):
        raise SystemExit(f"tilelang: no file '{file or where}' (expected FILE:NAME)")
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(file))[0], file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise SystemExit(f"tilelang: {file} has no '{name}'")
    return getattr(module, name)


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text  # a word: a dtype


def _arguments(items: list[str]) -> tuple[list[Any], dict[str, Any]]:
    positional, named = [], {}
    for item in items:
        name, equals, value = item.partition("=")
        if equals:
            named[name] = _value(value)
        else:
            positional.append(_value(item))
    return positional, named


def _prim_func(thing: Any, args: list[Any], named: dict[str, Any]) -> PrimFunc:
    if isinstance(thing, JITImpl):
        return thing.get_tir(*args, **named)
    if not isinstance(thing, PrimFunc) and callable(thing):
        thing = thing(*args, **named)
    if not isinstance(thing, PrimFunc):
        raise SystemExit(f"tilelang: that is {kind_of(thing)}, not a prim_func or a factory of one")
    return thing


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns its exit status."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == ["sim"]:
        from .script import main as simulate

        return simulate(given[1:])
    if given[:1] == ["check"]:
        from .check_script import main as check

        return check(given[1:])
    parser = argparse.ArgumentParser(
        "python -m tilelang", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("ir", "source", "explain"))
    parser.add_argument("kernel", metavar="FILE:NAME")
    parser.add_argument("args", nargs="*", metavar="ARG=VALUE")
    parser.add_argument("--target", help="auto, cpu, cuda -arch=sm_80, sim:sm_80, …")
    parser.add_argument("--html", metavar="PAGE", help="explain: write a page for a browser, print nothing")
    parser.add_argument("--machine-code", action="store_true", help="explain: read the machine code as well")
    options = parser.parse_args(given)
    if (options.html or options.machine_code) and options.what != "explain":
        parser.error("--html and --machine-code go with explain")
    try:
        args, named = _arguments(options.args)
        func = _prim_func(_load(options.kernel), args, named)
        if options.what == "ir":
            print(func.text)
            return 0
        kernel = compile(func, target=options.target)
        if options.what == "source":
            kernel.show_source()
        else:
            kernel.explain(html=options.html, machine_code=options.machine_code)
    except CompileError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
