"""`T.PersistentTileScheduler`: which tiles of a grid a block that stays on the chip works on, one after
another."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

from .._core import Buffer
from ..front.dtypes import as_dtype
from ..front.errors import UnknownName, caller_place, compile_error
from ..front.trace import fail, in_kernel
from ..front.values import DEVICE, PYTHON, Element, as_value, binary, constant
from ..front.wording import given

_WHAT = "T.PersistentTileScheduler"


def _op(op: str, a: Any, b: Any) -> Any:
    if isinstance(a, DEVICE) or isinstance(b, DEVICE):
        return binary(op, a, b)
    return {"min": min, "max": max, **PYTHON}[op](a, b)


def _blocks_together(cluster_size: Any, dims: list[int]) -> int:
    together, given = prod(dims), 1 if cluster_size is None else constant(as_value(cluster_size))
    if given.__class__ is not int or given not in (1, together):
        raise fail(
            f"{_WHAT}: cluster_size is {cluster_size}, but the blocks of this kernel form clusters of "
            f"{together}, as T.Kernel(…, cluster_dims=…) says: give the same number, or 1"
        )
    return given


class PersistentTileScheduler:
    """The tiles (m, n) of a grid of m_blocks × n_blocks, shared out among blocks that stay on the chip.

        sched = T.PersistentTileScheduler(m_blocks, n_blocks, swizzle_size=8)
        sched.init(block)
        while sched.valid():
            … sched.m_idx, sched.n_idx, sched.current_iter …
            sched.next_tile()

    Block b works on tiles b, b + num_workers, …: each tile once, whatever the numbers.  m_blocks, n_blocks:
    extents, constant or of the call.  A pipelined loop in the `while` is not divided among roles (its tiles
    are loaded by the threads that compute, docs/pipelines.md): one in a `for` loop over `coord`, see
    stateful, or over T.Persistent is.  num_workers: how many blocks share the tiles, all of the kernel if
    left out.  swizzle_size: tiles are numbered in groups of so many columns n, row by row m within a group,
    so that blocks that run together share data in the L2 cache; 1 walks m first.  stateful: whether it has
    variables; without them sched.coord(number) gives (m, n).  name: of its variables in the generated text.
    cluster_size: blocks of a cluster of the kernel (cluster_dims), which then work on as many tiles of one
    column n at the same time: block_id // cluster_size is the number of the cluster, and the block of rank r
    has row r of them. All of them go on equally long; where m_blocks is no multiple of it, m_idx of the last
    tiles of a column is m_blocks or more, outside of the tensors, where reads give 0 and nothing is written.
    num_workers is a multiple of it."""

    def __init__(
        self,
        m_blocks: Any,
        n_blocks: Any,
        *more: Any,
        num_workers: Any = None,
        swizzle_size: int = 1,
        name: str = "sched",
        stateful: bool = True,
        cluster_size: Any = None,
    ) -> None:
        trace = in_kernel(_WHAT)
        self._together = _blocks_together(cluster_size, trace.kernel.cluster)
        hint = trace.take_hint(name)
        arrays = isinstance(m_blocks, str)  # an older form: name first, variables read as sched.m_idx[0]
        if arrays:
            name, m_blocks, n_blocks, more = m_blocks, n_blocks, *more[:1], more[1:]
        elif name == "sched":
            name = hint
        if more:
            num_workers, *more = more
        if more:
            swizzle_size, *more = more
        if more or not isinstance(name, str):
            raise fail(
                f"{_WHAT} takes m_blocks, n_blocks, num_workers and swizzle_size, then name= and stateful="
            )
        if not hasattr(swizzle_size, "__index__") or operator.index(swizzle_size) < 1:
            raise fail(f"{_WHAT}: swizzle_size must be a positive integer, not {given(swizzle_size)}")
        self._trace, self._group, self._name = trace, operator.index(swizzle_size), name
        self._rows, self._columns = (self._settled(n) for n in (m_blocks, n_blocks))
        if num_workers is None:
            num_workers = 1
            for extent in trace.kernel.grid:
                num_workers = _op("mul", num_workers, extent)
        self._workers = self._settled(num_workers)
        if self._workers.__class__ is int and self._workers % self._together:
            raise fail(
                f"{_WHAT}: num_workers is {self._workers}, but they come in clusters of {self._together} "
                "(cluster_size): make it a multiple of that"
            )
        self._variables: dict[str, Buffer] = {}
        for part in ("tile", "m_idx", "n_idx", "current_iter") if stateful else ():
            made = trace.builder.alloc(
                f"{name}_{part}", "local" if arrays else "var", (1,) if arrays else (), as_dtype("int32"), {}
            )
            trace.owned.add(made.id)
            self._variables[part] = made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        instead = {
            "m": "m_idx",
            "n": "n_idx",
            "tile_m": "m_idx",
            "tile_n": "n_idx",
            "iter": "current_iter",
            "next": "next_tile",
            "is_valid": "valid",
        }.get(name)
        meant = f"did you mean {instead}? It" if instead else "it"
        raise compile_error(
            f"a {_WHAT} has no attribute '{name}': {meant} has m_idx, n_idx, current_iter, "
            "and the methods init, valid, next_tile and coord",
            caller_place(),
            UnknownName,
        )

    def _settled(self, extent: Any) -> Any:
        extent = constant(as_value(extent))
        if extent.__class__ is int and extent < 1:
            raise fail(f"{_WHAT}: an extent is {extent}; there must be a tile and a block")
        return self._trace.builder.let("extent", extent) if isinstance(extent, DEVICE) else extent

    # ── where a block is ──────────────────────────────────────────────────────────────────────────────
    def init(self, block_id: Any) -> None:
        """Begin with the tile of that number, which is the block's own, from 0."""
        self._move("init", as_value(block_id), 0)

    def next_tile(self) -> None:
        """Go on to this block's next tile."""
        tile, trip = (self._read(part, "next_tile") for part in ("tile", "current_iter"))
        self._move("next_tile", _op("add", tile, self._workers), _op("add", trip, 1))

    def valid(self) -> Any:
        """Whether there is a tile; after the last one m_idx and n_idx mean nothing."""
        tiles = _op("mul", _op("mul", self._row_groups(), self._together), self._columns)
        return binary("lt", self._read("tile", "valid"), tiles)

    def _row_groups(self) -> Any:
        """How many clusters a column of tiles is for."""
        if self._together == 1:
            return self._rows
        return _op("floordiv", _op("add", self._rows, self._together - 1), self._together)

    @property
    def m_idx(self) -> Any:
        """The row of tiles."""
        return self._variable("m_idx", "m_idx")

    @property
    def n_idx(self) -> Any:
        """The column of tiles."""
        return self._variable("n_idx", "n_idx")

    @property
    def current_iter(self) -> Any:
        """How many tiles this block has done."""
        return self._variable("current_iter", "current_iter")

    @property
    def linear_idx(self) -> Any:
        """The number of the tile."""
        return self._variable("tile", "linear_idx")

    def update_current_idx(self, linear_idx: Any) -> None:
        """Go to the tile of that number; current_iter stays."""
        wanted = "update_current_idx"
        self._move(wanted, as_value(linear_idx), self._read("current_iter", wanted))

    def coord(self, tile_id: Any) -> tuple[Any, Any]:
        """(m, n) of the tile of that number."""
        let, together = self._trace.builder.let, self._together
        tile = as_value(tile_id)
        if together > 1:
            rank, tile = let("rank", _op("floormod", tile, together)), _op("floordiv", tile, together)
        # Extents of a call may be 0: then there is no tile, and whatever comes out of this is not used.
        area = _op("max", _op("mul", self._row_groups(), self._group), 1)
        first = let("first", _op("mul", _op("floordiv", tile, area), self._group))
        within = let("within", _op("floormod", tile, area))
        width = self._group
        if self._group > 1 and not (self._columns.__class__ is int and self._columns % self._group == 0):
            width = let("width", _op("max", _op("min", _op("sub", self._columns, first), self._group), 1))
        column = _op("add", first, _op("floormod", within, width))
        row = _op("floordiv", within, width)
        if together > 1:
            row = _op("add", _op("mul", row, together), rank)
        return let("m", row), let("n", column)

    # ── its variables ─────────────────────────────────────────────────────────────────────────────────
    def _variable(self, part: str, wanted: str) -> Buffer:
        if part not in self._variables:
            raise fail(
                f"{self._name}.{wanted}: a scheduler with stateful=False has no place of its own; ask "
                f"{self._name}.coord(number)"
            )
        return self._variables[part]

    def _read(self, part: str, wanted: str) -> Any:
        variable = self._variable(part, wanted)
        return as_value(variable if variable.scope == "var" else Element(variable, (0,)))

    def _move(self, wanted: str, tile: Any, trip: Any) -> None:
        builder = self._trace.builder
        if isinstance(tile, DEVICE):
            tile = builder.let("tile", tile)
        m, n = self.coord(tile)
        for part, value in (("tile", tile), ("m_idx", m), ("n_idx", n), ("current_iter", trip)):
            variable = self._variable(part, wanted)
            builder.store(variable, () if variable.scope == "var" else (0,), value)
            self._trace.wrote(variable)


__all__ = ["PersistentTileScheduler"]
