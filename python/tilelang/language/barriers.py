"""Barriers in memory (mbarriers), worked by hand: who has arrived, what has landed, who waits.

A barrier counts arrivals, and from sm_90 on bytes as well. When all are in that it was made for, and all
bytes have landed that were expected, its phase ends and the next one begins. Phases are numbered from 0; a
wait names one by its parity, or by the state that an arrival in it gave. Each barrier of a kernel is
initialised where the kernel begins, before any thread uses it. A statement is executed by every thread that
comes to it: in `with T.ws(1):` a T.barrier_arrive is 128 arrivals, after `if tx == 0:` it is one."""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr
from ..front.trace import fail, in_kernel
from ..front.values import Element, as_value, constant
from .launch import integers


def alloc_barrier(arrive_count: Any) -> Buffer:
    """A barrier whose phases end after so many arrivals; a list of counts makes as many barriers, b[0],
    b[1], …, which values of the kernel may index.

    Anywhere in a T.Kernel but in loops, branches and teams."""
    trace = in_kernel("T.alloc_barrier")
    counts = integers(arrive_count, "T.alloc_barrier: the arrivals of a phase")
    return trace.builder.barriers("T.alloc_barrier", trace.take_hint("barrier"), counts)


_MOST_BARRIERS = 1 << 15  # of 8 bytes: more than any block's shared memory holds


def create_barriers(barrier_count: Any) -> Buffer:
    """So many barriers, which the T.ptx_… functions of barriers know by their numbers:
    T.ptx_init_barrier_thread_count(0, n) says how many arrivals end a phase of the first, else one does."""
    trace = in_kernel("T.create_barriers")
    (count,) = integers(barrier_count, "T.create_barriers: the number of barriers")
    if trace.barriers is not None and trace.barriers[0] is trace.kernel:
        raise fail("T.create_barriers: this kernel has its barriers already: one call makes all of them")
    if not 0 < count <= _MOST_BARRIERS:
        raise fail(f"T.create_barriers: {count} barriers, but a block has 1 to {_MOST_BARRIERS}")
    made = trace.builder.barriers("T.create_barriers", trace.take_hint("barriers"), [1] * count)
    trace.barriers = (trace.kernel, made)
    return made


def barrier_of(barrier: Any, what: str) -> Buffer | Element:
    """A barrier that was given to `what`."""
    if barrier.__class__ is Element or barrier.__class__ is Buffer and barrier.scope == "shared":
        return barrier
    raise fail(
        f"{what}: a barrier is what T.alloc_barrier makes, or an element of that, not "
        + ("a variable" if barrier.__class__ is Buffer else f"{barrier!r}")
    )


def _word(barrier: Any, what: str) -> tuple[Buffer, tuple]:
    """The words that a barrier is one of, and which."""
    one = barrier_of(barrier, what)
    return (one.buffer, one.index) if one.__class__ is Element else (one, ())


def _numbered(barrier: Any, what: str) -> tuple[Buffer, tuple]:
    number = constant(as_value(barrier)) if not isinstance(barrier, (Buffer, Element)) else None
    if number.__class__ is not int:
        return _word(barrier, what)
    made = in_kernel(what)
    if made.barriers is None or made.barriers[0] is not made.kernel:
        raise fail(f"{what}: {number} is the number of a barrier, but this kernel has no T.create_barriers")
    return made.barriers[1], (number,)


def _value(x: Any, what: str) -> Any:
    value = as_value(x)
    given = constant(value)
    if given.__class__ is float:
        raise fail(f"{what} is an integer, not {given}")
    return value


def _signal(what: str, row: str, word: tuple, amount: Any = None) -> None:
    amount = None if amount is None else _value(amount, f"{what}: the number of bytes")
    in_kernel(what).builder.signal_barrier(what, row, *word, amount)


def _wait(what: str, word: tuple, parity: Any) -> None:
    parity = _value(parity, f"{what}: the parity of a phase")
    in_kernel(what).builder.wait_barrier(what, *word, parity)


def mbarrier_arrive(mbarrier: Any, cta_id: Any = None) -> None:
    """Arrive at a barrier: what this thread has done before is known to whoever waits for the phase.

    cta_id: the rank of a block of the cluster, at whose barrier of that name it arrives."""
    what = "T.mbarrier_arrive"
    if cta_id is not None:
        rank = _value(cta_id, f"{what}: cta_id")
        in_kernel(what).builder.arrive_remote(what, *_word(mbarrier, what), rank)
        return
    _signal(what, "mbarrier_arrive", _word(mbarrier, what))


def barrier_arrive(mbarrier: Any) -> None:
    """The same as T.mbarrier_arrive."""
    _signal("T.barrier_arrive", "mbarrier_arrive", _word(mbarrier, "T.barrier_arrive"))


def mbarrier_wait_parity(mbarrier: Any, parity: Any) -> None:
    """Wait until the phase of that parity has ended: 0 for phases 0, 2, 4, …, 1 for the others.

    It is the phase under way or the one before it, so that nobody may be two phases behind. Before the first
    phase has ended, the one before it (parity 1) has."""
    what = "T.mbarrier_wait_parity"
    _wait(what, _word(mbarrier, what), parity)


def barrier_wait(mbarrier: Any, parity: Any) -> None:
    """The same as T.mbarrier_wait_parity."""
    _wait("T.barrier_wait", _word(mbarrier, "T.barrier_wait"), parity)


def mbarrier_arrive_state(mbarrier: Any, tx: Any = None, cta_id: Any = None) -> Expr:
    """Arrive as T.mbarrier_arrive does, and get the state of the phase in which this thread has arrived: by
    it T.mbarrier_wait_state waits for the end of that phase, and nobody needs to count parities.

        state = T.mbarrier_arrive_state(b)
        …                                   # what needs nothing of the others
        T.mbarrier_wait_state(b, state)

    The state is a uint64 of each thread's own, and no number to compute with. It serves at the barrier that
    gave it, until the phase behind its own has ended; later, or at another barrier, what a wait by it does is
    undefined, and the simulator reports it.
    tx: so many bytes are still to be copied in this phase, as T.mbarrier_arrive_expect_tx says; sm_90 and
    later.  cta_id: None, as an arrival at another block's barrier gives no state."""
    what = "T.mbarrier_arrive_state"
    if cta_id is not None:
        raise fail(
            f"{what}: an arrival at the barrier of another block (cta_id={cta_id}) gives no state: arrive "
            "there by T.mbarrier_arrive(b, cta_id=…), and wait for a barrier of this block"
        )
    word = _word(mbarrier, what)
    amount = None if tx is None else _value(tx, f"{what}: the number of bytes")
    row = "mbarrier_arrive_state" if tx is None else "mbarrier_arrive_expect_tx_state"
    return in_kernel(what).builder.arrive_for_state(what, row, *word, amount)


def mbarrier_wait_state(mbarrier: Any, state: Any) -> None:
    """Wait until the phase has ended in which T.mbarrier_arrive_state gave that state."""
    what = "T.mbarrier_wait_state"
    word = _word(mbarrier, what)
    in_kernel(what).builder.wait_for_state(what, *word, _value(state, f"{what}: the state of a phase"))


def mbarrier_test_state(mbarrier: Any, state: Any) -> Expr:
    """Whether the phase has ended in which T.mbarrier_arrive_state gave that state; it does not wait.

    Each thread gets its own answer. One that gets True knows what all have done who arrived in that phase,
    and may read what has landed in it, as behind T.mbarrier_wait_state."""
    what = "T.mbarrier_test_state"
    word = _word(mbarrier, what)
    return in_kernel(what).builder.test_state(what, *word, _value(state, f"{what}: the state of a phase"))


def mbarrier_expect_tx(mbarrier: Any, tx: Any) -> None:
    """The phase under way ends only when so many bytes more have been copied; T.tma_copy says that itself.

    sm_90 and later."""
    what = "T.mbarrier_expect_tx"
    _signal(what, "mbarrier_expect_tx", _word(mbarrier, what), tx)


def mbarrier_arrive_expect_tx(mbarrier: Any, tx: Any) -> None:
    """T.mbarrier_expect_tx and T.mbarrier_arrive in one."""
    what = "T.mbarrier_arrive_expect_tx"
    _signal(what, "mbarrier_arrive_expect_tx", _word(mbarrier, what), tx)


def cp_async_barrier_noinc(barrier: Any) -> None:
    """Arrive when the copies of T.ptx_cp_async that this thread has begun have landed: one of the arrivals
    that the barrier was made for."""
    what = "T.cp_async_barrier_noinc"
    _signal(what, "cp_async_mbarrier_arrive_noinc", _word(barrier, what))


def fence_proxy_async(everywhere: bool = False) -> None:
    """What this thread has written to shared memory, or `everywhere`, to tensors as well, is seen by copies
    that are started behind the next barrier (T.tma_copy), which do not go the way of ordinary accesses.
    The compiler places this fence, for shared memory, in front of its own barriers and of arrivals by which
    one team tells another; it is for programs that place their own (tl.disable_thread_storage_sync), and
    for tensors.  Without effect on chips older than sm_90."""
    row = "fence_proxy_async" if everywhere else "fence_proxy_async_shared"
    in_kernel("T.fence_proxy_async").builder.instruct(row, [])


# ── by numbers, as older programs do ──────────────────────────────────────────────────────────────────
def ptx_init_barrier_thread_count(barrier_id: Any, thread_count: Any) -> None:
    """The arrivals that end a phase of a barrier of T.create_barriers."""
    what = "T.ptx_init_barrier_thread_count"
    words, index = _numbered(barrier_id, what)
    number = constant(index[0]) if index else 0
    if number.__class__ is not int or not 0 <= number < words.shape[0]:
        raise fail(f"{what}: there is no barrier {barrier_id} among {words.shape[0]}")
    (count,) = integers(thread_count, f"{what}: thread_count")
    in_kernel(what).builder.count_arrivals(what, words, number, count)


def ptx_arrive_barrier(barrier_id: Any) -> None:
    """T.mbarrier_arrive at a barrier, or at the one of that number."""
    what = "T.ptx_arrive_barrier"
    _signal(what, "mbarrier_arrive", _numbered(barrier_id, what))


def ptx_arrive_barrier_expect_tx(barrier_id: Any, byte_count: Any) -> None:
    """T.mbarrier_arrive_expect_tx at a barrier, or at the one of that number."""
    what = "T.ptx_arrive_barrier_expect_tx"
    _signal(what, "mbarrier_arrive_expect_tx", _numbered(barrier_id, what), byte_count)


def ptx_cp_async_barrier(barrier_id: Any) -> None:
    """As T.cp_async_barrier_noinc, but the arrival is one more than the barrier was made for."""
    what = "T.ptx_cp_async_barrier"
    _signal(what, "cp_async_mbarrier_arrive", _numbered(barrier_id, what))


def ptx_wait_barrier(barrier_id: Any) -> None:
    """Wait until the first phase of a barrier, or of the one of that number, has ended (parity 0)."""
    what = "T.ptx_wait_barrier"
    _wait(what, _numbered(barrier_id, what), 0)


def ptx_fence_barrier_init() -> None:
    """The barriers that this thread has initialised are seen by copies. The compiler does this for
    T.alloc_barrier and T.create_barriers."""
    in_kernel("T.ptx_fence_barrier_init").builder.instruct("fence_mbarrier_init", [])


__all__ = ["alloc_barrier", "barrier_arrive", "barrier_wait", "cp_async_barrier_noinc", "create_barriers",
           "fence_proxy_async", "mbarrier_arrive", "mbarrier_arrive_expect_tx", "mbarrier_arrive_state",
           "mbarrier_expect_tx", "mbarrier_test_state", "mbarrier_wait_parity", "mbarrier_wait_state",
           "ptx_arrive_barrier", "ptx_arrive_barrier_expect_tx",
           "ptx_cp_async_barrier", "ptx_fence_barrier_init", "ptx_init_barrier_thread_count",
           "ptx_wait_barrier"]  # fmt: skip
