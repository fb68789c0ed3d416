"""`@tilelang.jit`: a factory of prim_funcs becomes a factory of compiled kernels, each made once
(factory.py); a function whose own body is a kernel becomes an eager kernel (dispatch.py)."""

from __future__ import annotations

import functools
import sys
from types import FunctionType
from typing import Any

from ..front.errors import caller_place, compile_error, kind_of
from ..front.misuse import suggesting
from ..front.texts import note
from . import style
from .config import normalize_pass_configs
from .dispatch import EagerImpl
from .factory import BoundJIT, JITImpl
from .function import PrimFunc
from .kernel import JITKernel, compile


@suggesting
def jit(
    func: Any = None,
    *,
    out_idx: Any = None,
    target: Any = None,
    target_host: Any = None,
    execution_backend: Any = None,
    verbose: bool | None = None,
    pass_configs: dict[Any, Any] | None = None,
    debug_root_path: Any = None,
    compile_flags: Any = None,
    deterministic: bool = False,
    strict: bool = False,
) -> Any:
    """Decorate a function that returns a @T.prim_func: calling it gives the compiled kernel for its
    arguments.  Or decorate a kernel itself (eager): calling it with tensors compiles it for them, once, and
    runs it.  Above a @T.prim_func it makes that one a compiled kernel at once.  Of what is jitted already it
    makes the same function with these settings beside its own: jit(f, target="sim:sm_90").

    The parameters mean what they mean to `tilelang.compile` (deterministic=True: an error where a result
    depends on the order of atomic accesses; strict=True: an error where a pipeline that is asked for cannot
    be had); an eager kernel returns what it makes by T.empty, and has no
    out_idx.  Its target "auto" is where its tensors are.  `@tilelang.jit` and
    `@tilelang.jit(...)` both work."""
    settings = {
        "out_idx": out_idx,
        "target": target,
        "target_host": target_host,
        "verbose": verbose,
        "execution_backend": execution_backend,
        "pass_configs": pass_configs,
        "debug_root_path": debug_root_path,
        "compile_flags": compile_flags,
        "deterministic": deterministic,
        "strict": strict,
    }
    normalize_pass_configs(pass_configs)
    if func is None:
        return lambda f: wrapped(f, settings, sys._getframe(1))
    return wrapped(func, settings, sys._getframe(2))  # behind the wrapper that `suggesting` makes


class LazyPrimFunc:
    """What T.prim_func(eager_jit=True) makes: called as the eager kernel would be, it gives the prim_func."""

    said = "a @T.prim_func(eager_jit=True)"

    def __init__(self, impl: JITImpl) -> None:
        functools.update_wrapper(self, impl.func)
        self.impl, self.orig_func, self.signature = impl, impl.func, impl.signature

    def __call__(self, *args: Any, **kwargs: Any) -> PrimFunc:
        return self.impl.get_tir(*args, **kwargs)

    get_tir = __call__


def wrapped(func: Any, settings: dict[str, Any], frame: Any) -> Any:
    """What `jit` makes of a function, or of what it has made of one; frame: where the function is defined."""
    if isinstance(func, PrimFunc):
        return compile(func, **settings)
    if isinstance(func, (classmethod, staticmethod)):
        return type(func)(wrapped(func.__func__, settings, frame))
    if isinstance(func, BoundJIT):
        return BoundJIT(wrapped(func.impl, settings, frame), func.instance)
    if isinstance(func, JITImpl):
        return func.with_settings({k: v for k, v in settings.items() if v is not None and v is not False})
    if isinstance(func, LazyPrimFunc):
        return wrapped(func.impl, settings, frame)
    if isinstance(func, JITKernel):
        raise compile_error(
            "tilelang.jit: this is a compiled kernel already; "
            "tilelang.compile(kernel.prim_func, "
            "target=…) compiles its function for another target",
            caller_place(),
        )
    if not isinstance(func, FunctionType):
        raise compile_error(f"@tilelang.jit decorates a function, not {kind_of(func)}", caller_place())
    note(func)
    found = style.read(func, frame)
    return JITImpl(func=func, **settings) if found is None else EagerImpl(func, settings, *found)
