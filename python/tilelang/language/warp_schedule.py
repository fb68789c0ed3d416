"""A schedule of warps: which warps execute which operations of a kernel, and how tiles go between them

The kernel is written as for all warps alike; `with T.ws_op(id):` names its operations.  The schedule gives
each role, a range of warps, its operations, in scopes (the kernel, and loops of operations), and where it
fills and reads the slots of pipelines.  It changes who computes and when, not what: the compiler refuses a
schedule that would change results or wait for ever.

    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=384) as (bx, by):
        A_shared, B_shared = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
        C_local = T.alloc_fragment((128, 128), "float32")
        steps = T.WSScope("loop", {
            "load": [T.WSSync.producer_acquire("ab"), "copy", T.WSSync.producer_commit("ab")],
            "math": [T.WSSync.consumer_wait("ab"), "gemm", T.WSSync.consumer_release("ab")],
        })
        T.annotate_ws_schedule(T.WSSchedule(
            12,
            [T.WSRole("math", warps_lo=0, warps_hi=8, max_nreg=240),
             T.WSRole("load", warps_lo=8, warps_hi=12, max_nreg=24)],
            [T.WSPipeline("ab", [A_shared, B_shared], 3)],
            [T.WSScope(T.WSScope.ROOT, {"load": ["loop"], "math": ["clear", "loop", "store"]}), steps],
        ))
        with T.ws_op("clear"):
            T.clear(C_local)
        with T.ws_op("loop"):
            for k in T.serial(T.ceildiv(K, 64)):
                with T.ws_op("copy"):
                    T.copy(A[by * 128, k * 64], A_shared)
                    T.copy(B[k * 64, bx * 128], B_shared)
                with T.ws_op("gemm"):
                    T.gemm(A_shared, B_shared, C_local)
        with T.ws_op("store"):
            T.copy(C_local, C[by * 128, bx * 128])

From sm_90 on each role is a team of threads.  A copy of a tensor's elements into a slot goes by the tensor
memory accelerator where that is certain to do it, else by the role's threads.  Other targets, and the
reference, execute the program as it is written; explain() says so."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._core import Buffer
from ..front.trace import fail, in_kernel
from .tile import WSID, schedule_name

_WARP = 32  # threads


def _count(what: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < least:
        raise fail(f"{what} is an integer from {least} on, known while the kernel is built, not {value!r}")
    return value.__index__()


class WSInstr:
    """What a role does in a scope: a T.WSOpRef or a T.WSSync."""

    def _text(self) -> str:
        raise NotImplementedError


class WSOpRef(WSInstr):
    """The operation of that name (T.ws_op); in a list of steps its name alone does as well."""

    def __init__(self, id: str) -> None:
        self._id = schedule_name("T.WSOpRef", id)

    @property
    def id(self) -> str:
        """The operation's name."""
        return self._id

    def _text(self) -> str:
        return self._id


class WSSyncKind(enum.Enum):
    """What a T.WSSync does with a slot of its pipeline."""

    PRODUCER_ACQUIRE = "acquire"
    PRODUCER_COMMIT = "commit"
    CONSUMER_WAIT = "wait"
    CONSUMER_RELEASE = "release"

    def __str__(self) -> str:
        return f"tl.WSSyncKind.{self.name}"


class WSSync(WSInstr):
    """A step that hands over a slot of a pipeline.

    A producer acquires a slot, which waits until it is empty, fills it, and commits it; each consumer waits
    until it is filled, reads it, and releases it.  Both pairs stand in one scope, equally often.
    stage: of a release, by how many uses of the pipeline it is late, less than the pipeline's depth; the
    reads of so many uses may be under way.  Others are about the present use: stage 0."""

    def __init__(self, kind: WSSyncKind, pipeline: Any, stage: int = 0) -> None:
        if not isinstance(kind, WSSyncKind):
            raise fail(f"T.WSSync: kind is a T.WSSyncKind, not {kind!r}")
        self._kind = kind
        given = pipeline.name if isinstance(pipeline, WSPipeline) else pipeline
        self._pipeline = schedule_name("T.WSSync: pipeline", given)
        self._stage = _count("T.WSSync: stage", stage, 0)

    kind = property(lambda self: self._kind, doc="The T.WSSyncKind.")
    pipeline = property(lambda self: self._pipeline, doc="The pipeline's name.")
    stage = property(lambda self: self._stage, doc="By how many uses a release is late.")

    @staticmethod
    def producer_acquire(pipeline: Any, stage: int = 0) -> WSSync:
        """Wait until the next slot is empty."""
        return WSSync(WSSyncKind.PRODUCER_ACQUIRE, pipeline, stage)

    @staticmethod
    def producer_commit(pipeline: Any, stage: int = 0) -> WSSync:
        """The slot is filled, or will be by copies that are under way."""
        return WSSync(WSSyncKind.PRODUCER_COMMIT, pipeline, stage)

    @staticmethod
    def consumer_wait(pipeline: Any, stage: int = 0) -> WSSync:
        """Wait until the next slot is filled."""
        return WSSync(WSSyncKind.CONSUMER_WAIT, pipeline, stage)

    @staticmethod
    def consumer_release(pipeline: Any, stage: int = 0) -> WSSync:
        """The slot may be filled again; with a stage that of so many uses before."""
        return WSSync(WSSyncKind.CONSUMER_RELEASE, pipeline, stage)

    def _text(self) -> str:
        late = f",{self._stage}" if self._stage else ""
        return f"{self._kind.value}({self._pipeline}{late})"


class WSPipeline:
    """Shared tiles that one role fills together and others read, with `depth` slots of them in memory.

    buffers: of T.alloc_shared, each in one pipeline alone; with more than one slot every use fills them anew.
    depth: how many uses may be under way at once; T.annotate_ws_pipeline_depth may say otherwise."""

    def __init__(self, name: str, buffers: Any, depth: int) -> None:
        self._name = schedule_name("T.WSPipeline", name)
        self._buffers = list(buffers) if isinstance(buffers, (list, tuple)) else [buffers]
        self._depth = _count("T.WSPipeline: depth", depth, 1)
        for buffer in self._buffers:
            if buffer.__class__ is not Buffer or buffer.scope != "shared":
                raise fail(f"T.WSPipeline: the buffers of {name} are shared tiles, not {buffer!r}")

    name = property(lambda self: self._name, doc="Its name.")
    buffers = property(lambda self: self._buffers, doc="Its shared tiles.")
    depth = property(lambda self: self._depth, doc="The number of its slots.")


class WSRole:
    """The warps from warps_lo up to, and without, warps_hi, which execute one part of the kernel.

    max_nreg: registers of each thread, 24 to 256, a multiple of 8, for whole groups of 4 warps; 0: those of
    the launch, 65536 divided by the block's threads.  sm_90a moves them between roles, others ignore it."""

    def __init__(self, name: str, *, warps_lo: int, warps_hi: int, max_nreg: int = 0) -> None:
        self._name = schedule_name("T.WSRole", name)
        self._warps = (
            _count("T.WSRole: warps_lo", warps_lo, 0),
            _count("T.WSRole: warps_hi", warps_hi, 1),
        )
        self._max_nreg = _count("T.WSRole: max_nreg", max_nreg, 0)

    name = property(lambda self: self._name, doc="Its name.")
    warp_lo = property(lambda self: self._warps[0], doc="Its first warp.")
    warp_hi = property(lambda self: self._warps[1], doc="The first warp behind it.")
    max_nreg = property(lambda self: self._max_nreg, doc="Registers of each thread; 0: those of the launch.")


class WSScope:
    """What each role does in a scope: WSScope.ROOT, the kernel, or an operation that is one loop of other
    operations, or one `if` without `else`.

    bodies: {name of the role: its steps in order}, or a list of such lists, one for each role of the
    schedule.  A step is a T.WSSync, a T.WSOpRef, or the name of an operation."""

    ROOT = "tl.ws_scope_root"

    def __init__(self, id: str, bodies: Any) -> None:
        self._id = schedule_name("T.WSScope", id)
        self._bodies = bodies

    id = property(lambda self: self._id, doc="The operation's name, or WSScope.ROOT.")
    bodies = property(lambda self: self._bodies, doc="The steps of each role.")

    def _lines(self, roles: list[WSRole]) -> list[str]:
        what = f"T.WSScope({self._id!r})"
        bodies = self._bodies
        if isinstance(bodies, Mapping):
            given = [
                (role.name if isinstance(role, WSRole) else role, steps) for role, steps in bodies.items()
            ]
        elif isinstance(bodies, Sequence) and not isinstance(bodies, str) and len(bodies) == len(roles):
            given = [(role.name, steps) for role, steps in zip(roles, bodies, strict=True)]
        else:
            raise fail(f"{what}: bodies is a dict of roles and their steps, or a list for each of the roles")
        place = "." if self._id == self.ROOT else self._id
        lines = []
        for role, steps in given:
            if not isinstance(steps, (list, tuple)):
                raise fail(f"{what}: the steps of a role are a list, not {steps!r}")
            steps = [step if isinstance(step, WSInstr) else WSOpRef(step) for step in steps]
            lines.append(
                f"at {place} {schedule_name(what, role)}: {' '.join(step._text() for step in steps)}"
            )
        return lines


class WSSchedule:
    """Roles, pipelines and scopes of a kernel, for T.annotate_ws_schedule.

    num_warps: of the block, its threads divided by 32."""

    def __init__(self, num_warps: int, roles: Any, pipelines: Any, scopes: Any) -> None:
        self._num_warps = _count("T.WSSchedule: num_warps", num_warps, 1)
        self._roles = _all("roles", roles, WSRole)
        self._pipelines = _all("pipelines", pipelines, WSPipeline)
        self._scopes = _all("scopes", scopes, WSScope)

    num_warps = property(lambda self: self._num_warps, doc="Warps of the block.")
    roles = property(lambda self: self._roles, doc="The roles.")
    pipelines = property(lambda self: self._pipelines, doc="The pipelines.")
    scopes = property(lambda self: self._scopes, doc="The scopes.")


def _all(name: str, given: Any, kind: type) -> list:
    items = list(given) if isinstance(given, (list, tuple)) else [given]
    for item in items:
        if not isinstance(item, kind):
            raise fail(f"T.WSSchedule: {name} is a list of T.{kind.__name__}, not of {item!r}")
    return items


def annotate_ws_schedule(schedule: WSSchedule) -> None:
    """The roles of this kernel's warps.  Once in a T.Kernel with `threads`, behind the pipelines' tiles.

    Checked is that each operation is executed once, in the program's order as far as that matters; that what
    two roles exchange goes through a pipeline, each use of which is filled, read and released; and that no
    operation names threads.  Several roles may write to one tensor, elements of their own, that none reads.
    What stands in no operation (numbers of parameters, loops and T.alloc_var variables) each role computes.
    """
    what = "T.annotate_ws_schedule"
    trace = in_kernel(what)
    if not isinstance(schedule, WSSchedule):
        raise fail(f"{what} takes a T.WSSchedule, not {schedule!r}")
    threads = trace.kernel.threads
    count = 1
    for n in threads or (0,):
        count *= n
    if count != schedule.num_warps * _WARP:
        raise fail(
            f"{what}: num_warps is {schedule.num_warps}, {schedule.num_warps * _WARP} threads, but this "
            + (f"T.Kernel has {count} threads" if threads else "T.Kernel does not say how many: threads=…")
        )
    depths = {**trace.depths}
    parts = [f"role {r.name} {r.warp_lo} {r.warp_hi} {r.max_nreg}" for r in schedule.roles]
    tiles = []
    for pipeline in schedule.pipelines:
        asked = {depths[b.id] for b in pipeline.buffers if b.id in depths}
        if pipeline.name in depths:
            asked.add(depths[pipeline.name])
        if len(asked) > 1:
            raise fail(f"{what}: the pipeline {pipeline.name} has one number of slots, not {sorted(asked)}")
        parts.append(f"pipeline {pipeline.name} {asked.pop() if asked else pipeline.depth}")
        tiles += [(pipeline.name, buffer) for buffer in pipeline.buffers]
    for scope in schedule.scopes:
        parts += scope._lines(schedule.roles)
    trace.builder.annotate_schedule("; ".join(parts), tiles)


def annotate_ws_pipeline_depth(depth_map: dict) -> None:
    """{shared tile, or name of a pipeline: slots}: how many slots the pipeline has, in place of the depth of
    its T.WSPipeline.  It stands before T.annotate_ws_schedule; without one it changes nothing."""
    what = "T.annotate_ws_pipeline_depth"
    trace = in_kernel(what)
    if not isinstance(depth_map, dict):
        raise fail(f"{what} takes a dict of shared tiles and numbers of slots, not {depth_map!r}")
    for key, depth in depth_map.items():
        if not isinstance(key, (Buffer, str)):
            raise fail(f"{what}: {key!r} is neither a shared tile nor the name of a pipeline")
        trace.depths[key if isinstance(key, str) else key.id] = _count(f"{what}: a depth", depth, 1)


@contextlib.contextmanager
def ws_op(op_id: str) -> Iterator[None]:
    """`with T.ws_op("copy"): …`, the statements in it are the operation of that name in a schedule of warps
    (T.annotate_ws_schedule).  Without a schedule it means nothing.

    One tile operator or loop may have its name in `annotations`: T.copy(…, annotations={T.WSID: "copy"})."""
    builder = in_kernel("T.ws_op").builder
    builder.begin_op(schedule_name("T.ws_op", op_id))
    yield
    builder.end_group()


__all__ = ["WSID", "WSInstr", "WSOpRef", "WSPipeline", "WSRole", "WSSchedule", "WSScope", "WSSync",
           "WSSyncKind", "annotate_ws_pipeline_depth", "annotate_ws_schedule", "ws_op"]  # fmt: skip
