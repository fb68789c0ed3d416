"""Matrix instructions of the user's own, for `T.gemm` to choose: `tilelang.register_matrix`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .._core import CompileError
from ..front.dtypes import DType, as_dtype
from ..front.trace import fail


def register_matrix(
    shape: Sequence[int],
    dtypes: Sequence[Any],
    a: Any,
    b: Any,
    c: Any,
    ptx: str,
    eval: Callable | None = None,
) -> str:
    """Add a warp's matrix instruction D = A @ B + C to those of the NVIDIA chips; returns its name, by which
    `explain()` calls it and `unregister_matrix` takes it back.  T.gemm prefers it, in kernels compiled from
    now on, where the types are these and the shape divides the tiles; of several the one added last.

    shape: (m, n, k).  dtypes: of A (and B, the same), B and C.  a, b, c: where the m×k, k×n and m×n tiles
    lie in the registers, a T.Fragment or a function (row, column) -> (lane, register); registers count
    elements, packed into 32 bits, and hold each element once.  ptx: the mnemonic; its operands are d, a, b,
    c.  eval(A, B, C) -> D on NumPy arrays: what it means, run by the simulator; without it A @ B + C."""
    sizes = [int(n) for n in shape]
    types = [as_dtype(t) for t in dtypes]
    if len(sizes) != 3 or len(types) != 3:
        raise fail("register_matrix: the shape is (m, n, k), and dtypes are those of A, B and C")
    m, n, k = sizes
    tiles = {"a": (a, m, k), "b": (b, k, n), "c": (c, m, n)}
    places = [_places(name, *tile) for name, tile in tiles.items()]
    if eval is not None and not callable(eval):
        raise fail(f"register_matrix: eval must be a function of three arrays, not {eval!r}")
    meaning = None if eval is None else _on_bytes(eval, (m, n, k), types)
    return _ask(_core.register_matrix, "register_matrix", sizes, *types, *places, ptx, meaning)


def _ask(function: Callable, what: str, *args: Any) -> Any:
    try:
        return function(*args)
    except CompileError as e:
        if e.file:
            raise
        raise fail(f"{what}: {e.text}") from None


def unregister_matrix(name: str) -> None:
    """Take back an instruction that `register_matrix` added: kernels compiled from now on do not use it."""
    _ask(_core.unregister_matrix, "unregister_matrix", name)


def _places(name: str, fragment: Any, rows: int, columns: int) -> tuple[list[int], list[int]]:
    """(rows, columns, copies) and, for each, lane and register."""
    if hasattr(fragment, "replicas"):
        shape = (*fragment.shape, fragment.replicas)
        points = fragment.layout.points()
    elif callable(fragment):
        shape = (rows, columns, 1)
        points = [fragment(i, j) for i in range(rows) for j in range(columns)]
    else:
        raise fail(
            f"register_matrix: {name} must be a T.Fragment or a function (row, column) -> (lane, "
            f"register), not {fragment!r}"
        )
    flat = []
    for point in points:
        pair = isinstance(point, (tuple, list)) and len(point) == 2
        if not pair or not all(hasattr(x, "__index__") for x in point):
            raise fail(f"register_matrix: {name} must give (lane, register), two integers, not {point!r}")
        flat += [int(x) for x in point]
    return list(shape), flat


def _on_bytes(eval: Callable, shape: tuple, types: list[DType]) -> Callable:
    """`eval` as the compiler calls it: tiles are the bytes of their elements as doubles."""
    m, n, k = shape
    extents = ((m, k), (k, n), (m, n))

    def run(*tiles: bytes) -> bytes:
        import numpy

        kinds = [t.as_numpy() for t in types]
        arrays = [
            numpy.frombuffer(tile, numpy.float64).reshape(extent).astype(kind)
            for tile, extent, kind in zip(tiles, extents, kinds, strict=True)
        ]
        result = numpy.asarray(eval(*arrays))
        if result.shape != (m, n):
            raise fail(f"register_matrix: eval gave an array of shape {result.shape}, but D is {(m, n)}")
        if result.dtype != kinds[2]:
            raise fail(f"register_matrix: eval gave an array of {result.dtype}, but D is {types[2]}")
        return result.astype(numpy.float64).tobytes()

    return run
