"""Unpacking of narrow integers and floats, under the names that published kernels import."""

from __future__ import annotations

from typing import Any

from ..front.errors import caller_place, compile_error

__all__ = ["get_lop3_intrin_group", "get_mxfp_intrin_group"]


def _later(name: str) -> Any:
    def group(*_: Any, **__: Any) -> Any:
        raise compile_error(
            f"tilelang.quantize.{name}: decoders written in CUDA text are not in this "
            "version yet; T.unpack_uint, T.unpack_int and T.unpack_e2m1 unpack on every "
            "target, and T.import_source brings in a decoder of your own",
            caller_place(),
        )

    group.__name__ = group.__qualname__ = name
    group.__doc__ = "Not in this version yet: raises CompileError."
    return group


get_lop3_intrin_group = _later("get_lop3_intrin_group")
get_mxfp_intrin_group = _later("get_mxfp_intrin_group")
