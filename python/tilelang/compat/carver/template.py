"""Templates that recommend tile sizes, under the names that published programs import; later."""

from __future__ import annotations

from typing import Any

from ...front.errors import caller_place, compile_error

__all__ = ["ConvTemplate", "ElementwiseTemplate", "FlashAttentionTemplate", "GEMVTemplate",
           "GeneralReductionTemplate", "MatmulTemplate"]  # fmt: skip


class _Template:
    """Not in this version yet: making one raises CompileError."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise compile_error(f"tilelang.carver.template.{type(self).__name__}: recommended tile sizes are not "
                            "in this version yet; list the configurations to try yourself, "
                            "@tilelang.autotune(configs=[...])", caller_place())


class MatmulTemplate(_Template):
    __doc__ = _Template.__doc__


class GEMVTemplate(_Template):
    __doc__ = _Template.__doc__


class ElementwiseTemplate(_Template):
    __doc__ = _Template.__doc__


class GeneralReductionTemplate(_Template):
    __doc__ = _Template.__doc__


class FlashAttentionTemplate(_Template):
    __doc__ = _Template.__doc__


class ConvTemplate(_Template):
    __doc__ = _Template.__doc__
