"""Compilation in one step, as published programs call it, and functions that edit the generated text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import postproc
from .kernel import compile
from .postproc import *  # noqa: F403

__all__ = ["CompiledArtifact", "lower", *postproc.__all__]


@dataclass
class CompiledArtifact:
    """What `lower` gives: the generated text, the parameters, and the kernel that runs it."""

    host_mod: Any
    device_mod: str
    params: list[Any]
    kernel_source: str
    rt_mod: Any


def lower(func: Any, target: Any = "auto", target_host: Any = None, runtime_only: bool = False,
          enable_host_codegen: bool = False, enable_device_compile: bool = False) -> CompiledArtifact:
    """Compile a @T.prim_func.  The kernel itself is `rt_mod`; there is no host text (`host_mod` is None).

    The other parameters are accepted and change nothing.
    """
    kernel = compile(func, target=target)
    return CompiledArtifact(None, kernel.kernel_source, kernel.params, kernel.kernel_source, kernel)
