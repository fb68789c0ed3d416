"""What single threads and warps do: indices, barriers, shuffles, votes.

Thread-level code is for GPUs and the simulator; the targets "cpu" and "reference" run one thread per block
and refuse it.  Indices are int64, as all indices of the language.  How many threads a warp has, the target
says (32 of NVIDIA's), so what depends on it here is left to the compiler."""

from __future__ import annotations

import operator
from typing import Any

from .._core import Expr
from ..front.dtypes import DType
from ..front.offered import named
from ..front.registers import WARP, WIDEST_WARP
from ..front.trace import fail, in_kernel
from ..front.values import DEVICE, as_condition, as_value, binary, constant
from ..front.vectors import Vector, as_vector, is_vector
from ..front.wording import given


# ── indices ───────────────────────────────────────────────────────────────────────────────────────────
def _dimension(dim: int, what: str) -> int:
    if dim not in (0, 1, 2):
        raise fail(f"{what}: dim must be 0, 1 or 2 (x, y, z), not {dim}")
    return int(dim)


def get_thread_binding(dim: int = 0) -> Expr:
    """The index of the thread in its block along x, y or z."""
    return in_kernel("T.get_thread_binding").builder.call(
        "thread_index", (_dimension(dim, "T.get_thread_binding"),)
    )


def get_thread_bindings() -> list[Expr]:
    """The indices of the thread along x, y and z."""
    return [get_thread_binding(dim) for dim in range(3)]


def get_thread_extent(dim: int = 0) -> int:
    """The threads of a block along x, y or z, as given to T.Kernel."""
    return get_thread_extents()[_dimension(dim, "T.get_thread_extent")]


def get_thread_extents() -> list[int]:
    """The threads of a block along x, y and z, as given to T.Kernel."""
    threads = in_kernel("T.get_thread_extent").kernel.threads
    if threads is None:
        raise fail(
            "T.get_thread_extent: this T.Kernel leaves the number of threads to the target; give threads="
        )
    return [*threads, 1, 1][:3]


def get_block_binding(dim: int = 0) -> Any:
    """The index of the block along x, y or z; 0 along a dimension that the grid does not have."""
    indices = in_kernel("T.get_block_binding").kernel.indices
    return [*indices, 0, 0][_dimension(dim, "T.get_block_binding")]


def get_block_bindings() -> list:
    """The indices of the block, one for each dimension of the grid."""
    return list(in_kernel("T.get_block_bindings").kernel.indices)


def get_block_extent(dim: int = 0) -> Any:
    """The blocks of the grid along x, y or z."""
    return [*get_block_extents(), 1, 1][_dimension(dim, "T.get_block_extent")]


def get_block_extents() -> list:
    """The blocks of the grid along each of its dimensions."""
    return list(in_kernel("T.get_block_extents").kernel.grid)


def _thread_number(what: str) -> Expr:
    return in_kernel(what).builder.call("thread_number", ())


def warp_size() -> Expr:
    """The threads of a warp, which the target decides: 32, or 64 of AMD's GPUs.

    A number from where the kernel is compiled on, but not yet where it is built."""
    return _warp_size("T.warp_size")


def _warp_size(what: str) -> Expr:
    return in_kernel(what).builder.call("warp_size", ())


def _size(size: Any, what: str) -> Any:
    if size is None:
        return None
    if not hasattr(size, "__index__") or operator.index(size) < 1:
        raise fail(f"{what} must be a positive integer, not {given(size)}")
    return operator.index(size)


def get_lane_idx(warp_size: int | None = None) -> Expr:
    """The thread's place in its warp."""
    size = _size(warp_size, "T.get_lane_idx: warp_size") or _warp_size("T.get_lane_idx")
    return binary("floormod", _thread_number("T.get_lane_idx"), size)


def get_warp_idx(warp_size: int | None = None) -> Expr:
    """The number of the thread's warp in the block."""
    size = _size(warp_size, "T.get_warp_idx: warp_size") or _warp_size("T.get_warp_idx")
    return binary("floordiv", _thread_number("T.get_warp_idx"), size)


def get_warp_idx_sync(warp_size: int | None = None) -> Expr:
    """The same as get_warp_idx."""
    return get_warp_idx(warp_size)


def get_warp_group_idx(warp_size: int | None = None, warps_per_group: int | None = None) -> Expr:
    """The number of the thread's group of (usually four) warps in the block."""
    what = "T.get_warp_group_idx"
    size = _size(warp_size, f"{what}: warp_size")
    warps = _size(warps_per_group, f"{what}: warps_per_group") or 4
    threads = size * warps if size else binary("mul", _warp_size(what), warps)
    return binary("floordiv", _thread_number(what), threads)


def shuffle_elect(thread_extent: int = 0) -> Expr:
    """True in one thread (the first) of every run of thread_extent threads; 0: in one of the block."""
    number = _thread_number("T.shuffle_elect")
    if not hasattr(thread_extent, "__index__") or operator.index(thread_extent) < 0:
        raise fail(f"T.shuffle_elect: thread_extent must be an integer >= 0, not {given(thread_extent)}")
    extent = operator.index(thread_extent)
    return binary("eq", binary("floormod", number, extent) if extent else number, 0)


# ── barriers ──────────────────────────────────────────────────────────────────────────────────────────
def _number(value: Any, what: str, hint: str = "") -> int:
    value = constant(as_value(value))
    if value.__class__ is Expr or not hasattr(value, "__index__"):
        raise fail(
            f"{what} must be an integer known while the kernel is built: it is part of the instruction{hint}"
        )
    return operator.index(value)


def _barrier(row: str, what: str, barrier_id: Any, threads: Any) -> None:
    number = _number(barrier_id, f"{what}: barrier_id")
    if not 0 <= number < 16:
        raise fail(f"{what}: barrier_id is {number}; a block has barriers 0 to 15")
    count = -1 if threads is None else _number(threads, f"{what}: the number of threads")
    if count != -1 and (count < WARP or count % WARP):
        raise fail(
            f"{what}: {count} threads; the number must be a positive multiple of {WARP}, as warps "
            "arrive whole"
        )
    in_kernel(what).builder.call(row, (number, count))


def sync_threads(barrier_id: int | None = None, arrive_count: int | None = None) -> None:
    """Wait until every thread of the block is here, or arrive_count threads at the barrier of that number.

    barrier_id: 0 to 15, of which 0 is the block's own; arrive_count: threads that wait or arrive there,
    whole warps; without it all of the block.  Shared memory written before is seen by all after it."""
    if (barrier_id is None or barrier_id.__class__ is int and barrier_id == 0) and arrive_count is None:
        in_kernel("T.sync_threads").builder.call("sync_threads", ())
    else:
        _barrier("bar_sync", "T.sync_threads", 0 if barrier_id is None else barrier_id, arrive_count)


def named_barrier_arrive(barrier_id: int, thread_count: int) -> None:
    """Count as come to a named barrier without waiting there; others wait by T.sync_threads(id, count)."""
    _barrier("bar_arrive", "T.named_barrier_arrive", barrier_id, thread_count)


def sync_warp(mask: Any = None) -> None:
    """Wait for the threads of the warp that are in `mask` (all); memory written before is seen by them."""
    in_kernel("T.sync_warp").builder.call("sync_warp", (_mask(mask, "T.sync_warp"),))


def _statement(name: str, doc: str) -> Any:
    def statement() -> None:
        in_kernel(f"T.{name}").builder.call(name, ())

    return named(statement, name, doc)


sync_grid = _statement(
    "sync_grid",
    """Wait until every thread of every block of the grid is here.

    The kernel is then launched cooperatively: a grid of more blocks than fit on the GPU at once is an error.
    """,
)
sync_global = sync_grid  # another name
pdl_sync = _statement(
    "pdl_sync",
    """Wait until the kernel before this one in the stream has ended and its
    writes are seen (programmatic dependent launch, sm_90).

    A kernel with it may begin earlier than that, where all blocks of the one before came to T.pdl_trigger or
    ended: what stands in front of it must not touch what that kernel reads or writes.  Where kernels follow
    one another anyway (older chips, CPUs, the simulator) it means nothing.

    In a kernel whose loops are divided among roles (docs/pipelines.md) all threads wait before anything else:
    loads that stand in front of it come behind it, too. Without it such a kernel begins early all the same,
    and waits there.  In the body of a pipelined loop it keeps the loop's copies from running ahead.""",
)
pdl_trigger = _statement(
    "pdl_trigger",
    """Allow the next kernel of the stream to begin, once every block has
    come here or ended, if that has a T.pdl_sync, by which it waits for this one's writes.""",
)


def _vote_of_block(name: str, row: str, doc: str) -> Any:
    def barrier(predicate: Any) -> Expr:
        return in_kernel(f"T.{name}").builder.call(row, (_condition(predicate, f"T.{name}"),))

    return named(barrier, name, f"T.sync_threads() that gives every thread {doc}.")


syncthreads_count = _vote_of_block(
    "syncthreads_count", "sync_threads_count", "the number of threads whose predicate holds (int32)"
)
syncthreads_and = _vote_of_block(
    "syncthreads_and", "sync_threads_and", "1 if the predicate of all threads holds, else 0 (int32)"
)
syncthreads_or = _vote_of_block(
    "syncthreads_or", "sync_threads_or", "1 if the predicate of any thread holds, else 0 (int32)"
)


# ── shuffles and votes ────────────────────────────────────────────────────────────────────────────────
def _mask(mask: Any, what: str) -> Any:
    """None, and -1, which has all bits: every lane of the warp."""
    builder = in_kernel(what).builder
    if mask is None:
        return builder.call("all_lanes", ())
    mask = as_value(mask)
    if mask.__class__ is bool or mask.__class__ is Expr and not mask.dtype.is_int:
        kind = "bool" if mask.__class__ is bool else mask.dtype
        raise fail(f"{what}: the mask is a {kind}, not an integer with a bit for each lane{_order_of(what)}")
    if mask.__class__ is float:
        raise fail(f"{what}: the mask is the float {mask}, not an integer with a bit for each lane")
    if mask.__class__ is Expr:
        return mask
    if mask == -1:
        return builder.call("all_lanes", ())
    mask &= (1 << 64) - 1
    return builder.const(mask, DType("u32" if mask < 1 << 32 else "u64"))


_ORDERS = {"shfl_sync": "value, srcLane, width, mask", "shfl_xor": "value, delta, width, mask",
           "shfl_down": "value, delta, width, mask", "shfl_up": "value, delta, width, mask",
           "any_sync": "predicate, mask", "all_sync": "predicate, mask", "ballot_sync": "predicate, mask",
           "match_any_sync": "value, mask", "match_all_sync": "value, mask"}  # fmt: skip


def _order_of(what: str) -> str:
    """In CUDA the mask comes first: what is said to those who write it so."""
    order = _ORDERS.get(what.removeprefix("T."))
    return f"; the order is ({order}): the mask comes last, or not at all" if order else ""


def _condition(predicate: Any, what: str = "") -> Any:
    value = as_condition(predicate)
    if value.__class__ is Expr:
        return value
    if what and _is_all_lanes(value):
        raise fail(f"{what}: the predicate is the number {value}, a mask of all lanes{_order_of(what)}")
    return bool(value)


def _is_all_lanes(value: Any) -> bool:
    """Is it what CUDA's functions begin with?"""
    return value.__class__ is int and value in (-1, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)


def _shuffle(row: str, what: str, value: Any, number: Any, width: Any, mask: Any) -> Expr:
    if is_vector(value):
        return _shuffle_words(row, what, as_vector(value), number, width, mask)
    value, number = as_value(value), as_value(number)
    if value.__class__ is not Expr:
        raise fail(f"{what}: the value is the number {value}, the same in all threads{_order_of(what)}")
    if number.__class__ is float or number.__class__ is Expr and number.dtype.is_float:
        kind = "lane" if row == "shfl_sync" else "distance"
        given = number.dtype if number.__class__ is Expr else f"the float {number}"
        raise fail(f"{what}: the {kind} is {given}, not an integer{_order_of(what)}")
    width = _warp_size(what) if width is None else _number(width, f"{what}: width", _order_of(what))
    if width.__class__ is int and (width < 1 or width > WIDEST_WARP or width & (width - 1)):
        order = _order_of(what)
        raise fail(f"{what}: width is {width}; it must be a power of two, at most {WIDEST_WARP}{order}")
    known = constant(number)
    if known.__class__ is int and (known < 0 or row == "shfl_xor_sync" and known >= WIDEST_WARP):
        raise fail(
            f"{what}: {known} is not a {'lane' if row == 'shfl_sync' else 'distance'} within a warp: it must "
            f"be 0 to {WIDEST_WARP - 1}"
        )
    return in_kernel(what).builder.call(row, (value, number, width, _mask(mask, what)))


def _shuffle_words(row: str, what: str, vector: Vector, number: Any, width: Any, mask: Any) -> Vector:
    """A vector as other lanes have it: word by word, or lane by lane where it fills no words."""
    number = in_kernel(what).builder.let("lane", as_value(number)) if isinstance(number, DEVICE) else number
    moved = lambda x: in_kernel(what).builder.let("moved", _shuffle(row, what, x, number, width, mask))
    if vector.words:
        return Vector(None, vector.dtype, [moved(x) for x in vector.words])
    return Vector([moved(x) for x in vector.lanes], vector.dtype)


def shfl_sync(value: Any, srcLane: Any, width: int | None = None, mask: Any = None) -> Expr:
    """`value` as lane srcLane of the run of `width` lanes has it; all lanes in `mask` execute it together."""
    return _shuffle("shfl_sync", "T.shfl_sync", value, srcLane, width, mask)


def _shuffled(name: str, doc: str) -> Any:
    def shuffle(value: Any, delta: Any, width: int | None = None, mask: Any = None) -> Expr:
        return _shuffle(f"{name}_sync", f"T.{name}", value, delta, width, mask)

    return named(shuffle, name, f"`value` as lane {doc}.")


shfl_xor = _shuffled("shfl_xor", "(own ^ delta) has it")
shfl_down = _shuffled(
    "shfl_down", "(own + delta) has it; the own one where that is beyond the run of `width` lanes"
)
shfl_up = _shuffled(
    "shfl_up", "(own - delta) has it; the own one where that is before the run of `width` lanes"
)


def tvm_warp_shuffle(mask: Any, value: Any, warp_id: Any, width: Any = None, warp_size: Any = None) -> Expr:
    """shfl_sync with its older order of arguments; warp_id is the lane."""
    return _shuffle("shfl_sync", "T.tvm_warp_shuffle", value, warp_id, width, mask)


def _older_shuffle(way: str) -> Any:
    name = f"tvm_warp_shuffle_{way}"

    def shuffle(mask: Any, value: Any, offset: Any, width: Any = None, warp_size: Any = None) -> Expr:
        return _shuffle(f"shfl_{way}_sync", f"T.{name}", value, offset, width, mask)

    return named(shuffle, name, f"shfl_{way} with its older order of arguments.")


tvm_warp_shuffle_up, tvm_warp_shuffle_down = _older_shuffle("up"), _older_shuffle("down")


def _vote(name: str, doc: str) -> Any:
    def vote(predicate: Any, mask: Any = None) -> Expr:
        builder = in_kernel(f"T.{name}").builder
        return builder.call(name, (_condition(predicate, f"T.{name}"), _mask(mask, f"T.{name}")))

    return named(vote, name, doc)


any_sync = _vote("any_sync", "1 if the predicate holds in any lane of `mask`, else 0 (int32).")
all_sync = _vote("all_sync", "1 if the predicate holds in all lanes of `mask`, else 0 (int32).")


def _of_lanes(name: str, dtype: Any, what: str) -> str:
    """The row that gives lanes in that dtype."""
    rows = {"uint32": name, "uint64": f"{name}64"}
    if str(dtype) not in rows:
        raise fail(
            f"{what}: dtype is {dtype}; lanes are the bits of a uint32, or of a uint64, as warps of 64 need"
        )
    return rows[str(dtype)]


def ballot_sync(predicate: Any, mask: Any = None, dtype: Any = "uint32") -> Expr:
    """The lanes of `mask` in which the predicate holds, one bit each, as uint32 or uint64."""
    row = _of_lanes("ballot_sync", dtype, "T.ballot_sync")
    condition = _condition(predicate, "T.ballot_sync")
    return in_kernel("T.ballot_sync").builder.call(row, (condition, _mask(mask, "T.ballot_sync")))


def ballot(predicate: Any, dtype: Any = "uint32") -> Expr:
    """The lanes of the warp in which the predicate holds, one bit each, as uint32 or uint64."""
    return ballot_sync(predicate, dtype=dtype)


def activemask(dtype: Any = "uint32") -> Expr:
    """The lanes of the warp that execute this together, one bit each, as uint32 or uint64."""
    return in_kernel("T.activemask").builder.call(_of_lanes("activemask", dtype, "T.activemask"), ())


def _matched(value: Any, what: str) -> Any:
    value = as_value(value)
    if value.__class__ is Expr and value.dtype.bits in (32, 64):
        return value
    if _is_all_lanes(value):
        raise fail(f"{what}: the value is the number {value}, a mask of all lanes{_order_of(what)}")
    if value.__class__ is not Expr:  # the same in all threads
        return strong(value)
    raise fail(f"{what} compares values of 32 or 64 bits, not {value.dtype}: cast this one")


def _match(name: str, doc: str) -> Any:
    def match(value: Any, mask: Any = None, dtype: Any = "uint32") -> Expr:
        row = _of_lanes(name, dtype, f"T.{name}")
        builder = in_kernel(f"T.{name}").builder
        return builder.call(row, (_matched(value, f"T.{name}"), _mask(mask, f"T.{name}")))

    return named(match, name, doc)


match_any_sync = _match(
    "match_any_sync", "The lanes of `mask` that have the same bits as the own value, as uint32 or uint64."
)
match_all_sync = _match(
    "match_all_sync", "`mask` if all its lanes have the same value, else 0, as uint32 or uint64."
)


def strong(value: Any) -> Expr:
    """A number that is the same in all threads as a value of 32 bits, of 64 where it needs them."""
    if value.__class__ is Expr:
        return value
    wide = value.__class__ is int and not -(1 << 31) <= value < 1 << 31
    dtype = "float32" if value.__class__ is float else "int64" if wide else "int32"
    return in_kernel("a number").builder.const(int(value) if dtype != "float32" else value, DType(dtype))


# ── reductions over threads ───────────────────────────────────────────────────────────────────────────
def butterfly(value: Expr, width: int, combine: Any, name: str) -> Expr:
    """The values of every run of `width` lanes combined, in all of them; width is a power of two."""
    builder = in_kernel("a reduction over lanes").builder
    value, offset = builder.let(name, value), width // 2
    while offset:
        other = builder.let(name, _shuffle("shfl_xor_sync", name, value, offset, width, None))
        value, offset = builder.let(name, combine(value, other)), offset // 2
    return value


def _warp_reduction(name: str, op: str, doc: str, integers: bool = False) -> Any:
    what = f"T.warp_reduce_{name}"

    def reduction(value: Any) -> Expr:
        value = strong(as_value(value))
        if integers and not value.dtype.is_int:
            raise fail(f"{what} takes integers, not {value.dtype}")
        builder = in_kernel(what).builder
        return builder.let(f"warp_{name}", builder.call(f"warp_reduce_{op}", (value,)))

    return named(
        reduction,
        what[2:],
        f"{doc} of the values of all lanes of the warp, in every lane; computed in their dtype.",
    )


warp_reduce_sum = _warp_reduction("sum", "add", "The sum")
warp_reduce_max = _warp_reduction("max", "max", "The greatest")
warp_reduce_min = _warp_reduction("min", "min", "The least")
warp_reduce_bitand = _warp_reduction("bitand", "and", "The bitwise and", integers=True)
warp_reduce_bitor = _warp_reduction("bitor", "or", "The bitwise or", integers=True)


# ── what only later chips act upon ────────────────────────────────────────────────────────────────────
def _hint(name: str) -> Any:
    def hint() -> None:
        in_kernel(f"T.{name}").builder.annotate(name, 1)

    return named(
        hint,
        name,
        "Accepted without effect: moving registers between warp groups needs sm_90a; explain() says so.",
    )


disable_warp_group_reg_alloc = _hint("disable_warp_group_reg_alloc")
no_set_max_nreg = _hint("no_set_max_nreg")

__all__ = ["activemask", "all_sync", "any_sync", "ballot", "ballot_sync", "disable_warp_group_reg_alloc",
           "get_block_binding", "get_block_bindings", "get_block_extent", "get_block_extents",
           "get_lane_idx", "get_thread_binding", "get_thread_bindings", "get_thread_extent",
           "get_thread_extents", "get_warp_group_idx", "get_warp_idx", "get_warp_idx_sync", "match_all_sync",
           "match_any_sync", "named_barrier_arrive", "no_set_max_nreg", "shfl_down", "shfl_sync",
           "shfl_up", "shfl_xor", "pdl_sync", "pdl_trigger", "shuffle_elect", "sync_global", "sync_grid",
           "sync_threads",
           "sync_warp", "syncthreads_and", "syncthreads_count", "syncthreads_or", "tvm_warp_shuffle",
           "tvm_warp_shuffle_down", "tvm_warp_shuffle_up", "warp_reduce_bitand", "warp_reduce_bitor",
           "warp_reduce_max", "warp_reduce_min", "warp_reduce_sum", "warp_size"]  # fmt: skip
