"""Compilation in one step, as published programs call it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..front.misuse import suggesting
from .artifact import CompiledArtifact
from .function import PrimFunc
from .kernel import compile


@suggesting
def lower(
    func_or_mod: Any,
    target: Any = "auto",
    target_host: Any = None,
    runtime_only: bool = False,
    enable_host_codegen: bool = False,
    enable_device_compile: bool = False,
) -> CompiledArtifact:
    """Compile a @T.prim_func.  The kernel itself is `rt_mod` of the result.

    target_host and the other parameters are accepted and change nothing."""
    kernel = compile(func_or_mod, target=target)
    return replace(kernel.artifact, rt_mod=kernel, target_host=target_host)


def is_device_call(func: Any) -> bool:
    """Whether a function is the part of a program that only the device runs: a prim_func never is, as it
    says what the host launches as well."""
    if not isinstance(func, PrimFunc):
        raise TypeError(f"is_device_call takes a @T.prim_func, not {type(func).__name__}")
    return False
