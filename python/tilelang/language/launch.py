"""The launch: T.Kernel, a grid of blocks."""

from __future__ import annotations

import operator
import warnings
from typing import Any

from .._core import Buffer, Expr
from ..front.errors import TilelangWarning
from ..front.loops import whole
from ..front.trace import active, fail
from ..front.values import as_value, constant
from ..front.wording import given


class Kernel:
    """`with T.Kernel(gx, gy, gz, threads=128) as (bx, by, bz):`, a grid of blocks that run the body.

    blocks: one to three extents (integers or scalars of the kernel); a single one binds a single name, and
    none, with threads= or is_cpu=True, is one block.  threads: threads of a block, an int or up to three;
    without it the target decides (128 on a GPU, one on a CPU).  is_cpu: a block is one thread.  prelude: CUDA
    text in front of the kernel, as T.import_source gives it.  cluster_dims: blocks that form a cluster, an
    int or up to three along x, y and z; the grid is made of whole ones (cluster.py).

    The body is run by every thread of a block.  Tile operators and T.Parallel loops share their elements out
    among the threads; any other statement each of them runs for itself.  So the values that it computes
    agree, a store is made by all of them, and an atomic update outside of T.Parallel happens once per thread
    on a GPU; executors that run one thread per block ("cpu", "reference") refuse that one.  What is meant
    once per block stands in `for _ in T.Parallel(1):`, or under a condition on the thread,
    `if T.get_thread_binding() == 0:`, in a kernel for GPUs.  A grid that is 0 runs no block; of a constant 0
    there is a warning, unless a tensor is empty."""

    def __init__(
        self,
        *blocks: Any,
        threads: Any = None,
        prelude: str | None = None,
        cluster_dims: Any = None,
        is_cpu: bool = False,
    ) -> None:
        self.indexed = len(blocks)  # how many indices the block has for the program
        if is_cpu and threads is not None:
            raise fail("T.Kernel: is_cpu=True is one thread a block; leave threads= out, or is_cpu")
        if is_cpu:
            threads = 1
        if not blocks and threads is not None:
            blocks = (1,)
        if not 1 <= len(blocks) <= 3:
            raise fail(
                f"T.Kernel takes one to three block extents, not {len(blocks)}"
                + ("; T.Kernel(threads=…) is one block" if not blocks else "")
            )
        if isinstance(blocks[0], (tuple, list)):
            given, what = ", ".join(map(str, blocks[0])), type(blocks[0]).__name__
            raise fail(
                "T.Kernel takes the block extents of the grid one by one, not as one "
                f"{what}: T.Kernel({given}, threads=…)"
            )
        self.grid = [whole(as_value(b), f"block extent {d} of T.Kernel") for d, b in enumerate(blocks)]
        _warn_of_no_blocks(self.grid)
        self.threads = None if threads is None else integers(threads, "T.Kernel: threads")
        self.cluster = [] if cluster_dims is None else integers(cluster_dims, "T.Kernel: cluster_dims")
        self.names: tuple = ()
        self.unpacks = False  # `as (bx,)`, though there is one
        self.indices: list = []  # of the block, when it is open
        self.teams: list[int] = []  # the threads of the T.ws that are open
        self.bound: Any = None  # what `as` binds
        self.trace = active("T.Kernel")
        self.comments: list[str] = []  # on the kernel, in what is generated of it
        self.sources, self.trace.sources = self.trace.sources, []
        if prelude is not None:
            if not isinstance(prelude, str):
                raise fail(f"prelude= of T.Kernel is the text of CUDA C++, not {prelude!r}")
            self.sources.append(prelude)

    def __enter__(self) -> Any:
        trace = self.trace
        if trace.kernel is not None:
            raise fail(
                "a T.Kernel inside a T.Kernel: several kernels of one prim_func stand one after another"
            )
        n = self.indexed
        whole = not self.unpacks and n > 1  # `as bs`, for several: their tuple
        if self.names and len(self.names) != n and not whole:
            raise fail(
                f"this T.Kernel has {n} block extent{'s' * (n > 1)} but `as` gives {len(self.names)} names"
            )
        names = [
            name or default
            for name, default in zip(
                ("",) * n if whole else self.names or ("",) * n, ("bx", "by", "bz"), strict=False
            )
        ] or ["bx"]
        attrs = {"source": "\n".join(self.sources)} if self.sources else {}
        indices = trace.builder.begin_kernel(self.grid, self.threads, attrs, names)
        trace.kernel, self.indices = self, indices
        trace.launches += 1
        if self.cluster:
            trace.builder.form_clusters(self.cluster)
        trace.generator = None
        self.bound = indices[0] if n == 1 and not self.unpacks else tuple(indices[:n])
        return self.bound

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.trace.builder.end_kernel()
        self.trace.kernel = None


def _warn_of_no_blocks(grid: list) -> None:
    """A warning for a constant grid without blocks, unless there is nothing to do: a tensor is empty."""
    trace = active("T.Kernel")
    tensors = [*trace.parameters, *trace.outputs, *(trace.eager.made.values() if trace.eager else ())]
    empty = any(n.__class__ is int and n == 0 for x in tensors if x.__class__ is Buffer for n in x.shape)
    for d, extent in enumerate(grid):
        size = constant(extent)
        if size.__class__ is int and size == 0 and not empty:
            said = (
                f"block extent {d} of T.Kernel is 0: no block will run, and nothing be written; to "
                "cover n elements by tiles of b write T.ceildiv(n, b), as n // b is 0 where n < b"
            )
            warnings.warn_explicit(said, TilelangWarning, trace.file, trace.site[0])


def no_cluster(what: str, dims: Any, name: str = "cluster_dims") -> None:
    """An error unless a cluster is one block."""
    if dims is not None and any(n != 1 for n in integers(dims, f"{what}: {name}")):
        raise fail(
            f"{what}: {name}={dims} asks for clusters of several blocks, which T.Kernel(…, cluster_dims=…) "
            f"makes; here {name} is 1, or none"
        )


def integers(value: Any, what: str) -> list[int]:
    items = value if isinstance(value, (tuple, list)) else (value,)
    result = []
    for item in items:
        item = whole(item.value if item.__class__ is Expr and item.is_const else item, what)
        if item.__class__ is Expr or not hasattr(item, "__index__") or operator.index(item) < 1:
            raise fail(f"{what} must be positive integers known while the kernel is built, not {given(item)}")
        result.append(as_value(operator.index(item)))
    return result


__all__ = ["Kernel"]
