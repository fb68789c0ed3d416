"""Hooks on generated text, under the names that published programs import; they are not in this version."""

from __future__ import annotations

from typing import Any

from ..errors import caller_place, compile_error

__all__ = ["register_c_postproc_callback", "register_cuda_postproc", "register_cuda_postproc_callback",
           "register_hip_postproc_callback"]  # fmt: skip


def _missing(name: str) -> Any:
    def register(*_: Any, **__: Any) -> Any:
        raise compile_error(f"tilelang.engine.{name}: changing the generated text is not in this version yet; "
                            "T.import_source and T.call_extern bring CUDA text of your own into a kernel",
                            caller_place())

    register.__name__ = register.__qualname__ = name
    register.__doc__ = "Not in this version yet: raises CompileError."
    return register


register_cuda_postproc = _missing("register_cuda_postproc")
register_cuda_postproc_callback = _missing("register_cuda_postproc_callback")
register_c_postproc_callback = _missing("register_c_postproc_callback")
register_hip_postproc_callback = _missing("register_hip_postproc_callback")
