"""Which parameters a kernel returns: by out_idx, or by what its body returns; what is wrong with a wish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..front.errors import caller_place, compile_error

if TYPE_CHECKING:
    from .. import _core
    from .parameters import KernelParam


def output_indices(out_idx: Any, params: list[KernelParam], name: str) -> list[int]:
    """out_idx as indices from 0."""
    if out_idx is None:
        return []
    items = list(out_idx) if isinstance(out_idx, (list, tuple)) else [out_idx]
    result = []
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int) or not -len(params) <= item < len(params):
            raise mistake(f"out_idx: {item!r} is not an index of the {len(params)} parameters of {name}")
        index = item % len(params)
        if index in result:
            raise mistake(f"out_idx: parameter {index} ({params[index].name}) is named twice")
        if not params[index].is_tensor:
            raise mistake(
                f"out_idx: parameter {index} ({params[index]!r}) is not a tensor and cannot be returned"
            )
        result.append(index)
    return result


def check_written(outputs: list[int], written: list[bool], params: list[KernelParam]) -> None:
    """An error where unwritten memory would be returned."""
    for index in outputs:
        if not written[index] and 0 not in params[index].shape:
            others = [f"{i} ({p.name})" for i, p in enumerate(params) if written[i]]
            raise mistake(
                f"out_idx: parameter {index} ({params[index].name}) is never written by the "
                "kernel, so its return value would be undefined; "
                + (
                    f"it writes parameter {' and '.join(others)}"
                    if others
                    else "it writes none of its parameters"
                )
            )


def check_returned(results: Any, compiled: _core.Kernel, name: str) -> None:
    """The same of what the body makes and returns."""
    written = {row["name"]: stored for row, stored in zip(compiled.params, compiled.written, strict=True)}
    empty = {row["name"] for row in compiled.params if 0 in row.get("shape", ())}
    for item in results.items:
        made = results.outputs[item] if isinstance(item, int) else None
        if made is not None and not written[made] and made not in empty:
            raise mistake(f"{name} returns {made}, which T.empty has made and no kernel writes to")


def mistake(text: str) -> Exception:
    """A CompileError at the line of the user's that is being run."""
    return compile_error(text, caller_place())
