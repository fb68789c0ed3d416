"""docs/targets.md: which constructs each target takes.  Each has a small kernel of its own, and the table
says what compiling that kernel says.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace

import tilelang
from tilelang import _core

TARGETS = ("reference", "cpu", "sim:sm_90")

# Group -> the names of its constructs -> the statements of a kernel of 128 threads.  A, B: tensors of
# float32; I: of int32.  No statement takes the thread's number, which is refused for itself.
_SHUFFLES = {
    **{name: f"T.print(T.{name}(A[0], 1))" for name in ("shfl_sync", "shfl_xor", "shfl_down", "shfl_up")},
    **{name: f"T.print(T.{name}(-1, A[0], 1))"
       for name in ("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down")},
}  # fmt: skip
_VOTES = {
    **{name: f"T.print(T.{name}(A[0] > 0))" for name in ("any_sync", "all_sync", "ballot_sync", "ballot")},
    **{name: f"T.print(T.{name}(I[0]))" for name in ("match_any_sync", "match_all_sync")},
    "activemask": "T.print(T.activemask())",
}
_NUMBERS = {
    name: f"T.print({call})"
    for name, call in (
        ("get_thread_binding", "T.get_thread_binding()"),
        ("get_thread_bindings", "T.get_thread_bindings()[0]"),
        ("get_lane_idx", "T.get_lane_idx()"), ("get_warp_idx", "T.get_warp_idx()"),
        ("get_warp_idx_sync", "T.get_warp_idx_sync()"), ("get_warp_group_idx", "T.get_warp_group_idx()"),
        ("shuffle_elect", "T.cast(T.shuffle_elect(32), 'int32')"), ("warp_size", "T.warp_size()"),
    )
}  # fmt: skip
_BLOCKS = {
    name: f"for i in T.Parallel(1):\n    I[i] = T.cast({call}, 'int32')"
    for name, call in (
        ("get_block_binding", "T.get_block_binding()"), ("get_block_bindings", "T.get_block_bindings()[0]"),
        ("get_block_extent", "T.get_block_extent()"), ("get_block_extents", "T.get_block_extents()[0]"),
        ("get_thread_extent", "T.get_thread_extent()"), ("get_thread_extents", "T.get_thread_extents()[0]"),
    )
}  # fmt: skip
_SHARED = "s = T.alloc_shared((128,), 'float32')\nT.fill(s, 0)\n"
_WIDE = {
    **{f"ldg{bits}": f"T.stg{bits}(B[0], T.ldg{bits}(A[0]))" for bits in (32, 64, 128, 256)},
    **{f"stg{bits}": f"T.stg{bits}(B[0], T.ldg{bits}(A[0]))" for bits in (32, 64, 128, 256)},
    **{f"lds{bits}": f"{_SHARED}T.stg{bits}(B[0], T.lds{bits}(s[0]))" for bits in (32, 64, 128)},
    **{f"sts{bits}": f"{_SHARED}T.sts{bits}(s[0], T.ldg{bits}(A[0]))" for bits in (32, 64, 128)},
}  # fmt: skip
_UPDATES = {
    **{name: f"for i in T.Parallel(128):\n    T.{name}(B[i], A[i])"
       for name in ("atomic_add", "atomic_max", "atomic_min")},
    "atomic_or": "for i in T.Parallel(128):\n    T.atomic_or(I[i], 1)",
    "atomic_addx2": "for i in T.Parallel(64):\n    T.atomic_addx2(B[i * 2], A[i * 2])",
    "atomic_addx4": "for i in T.Parallel(32):\n    T.atomic_addx4(B[i * 4], A[i * 4])",
    "atomic_load": "for i in T.Parallel(128):\n    B[i] = T.atomic_load(A[i])",
    "atomic_store": "for i in T.Parallel(128):\n    T.atomic_store(B[i], A[i])",
}  # fmt: skip

FEATURES: dict[str, dict[str, str]] = {
    "indices and extents of blocks": _BLOCKS,
    "numbers of threads, lanes and warps": _NUMBERS,
    "a loop that is bound to threads": {
        "thread_binding": "for i in T.thread_binding(128, thread='threadIdx.x'):\n    B[i] = A[i]",
    },
    "a barrier of the block": {"sync_threads": "T.sync_threads()"},
    "a barrier of some threads": {
        "sync_threads(barrier_id=)": "T.sync_threads(1, 128)",
        "named_barrier_arrive": "T.named_barrier_arrive(1, 256)",
        "sync_warp": "T.sync_warp()",
    },
    "a barrier of the block that counts": {
        name: f"T.print(T.{name}(A[0] > 0))"
        for name in ("syncthreads_count", "syncthreads_and", "syncthreads_or")
    },
    "a barrier of the grid": {name: "T.sync_grid()" for name in ("sync_grid", "sync_global")},
    "programmatic dependent launch": {"pdl_sync": "T.pdl_sync()", "pdl_trigger": "T.pdl_trigger()"},
    "shuffles": _SHUFFLES,
    "votes": _VOTES,
    "sums and more over a warp": {
        **{f"warp_reduce_{op}": f"T.print(T.warp_reduce_{op}(A[0]))" for op in ("sum", "max", "min")},
        **{f"warp_reduce_{op}": f"T.print(T.warp_reduce_{op}(I[0]))" for op in ("bitand", "bitor")},
    },
    "accesses of a given width": _WIDE,
    "atomic accesses in T.Parallel": _UPDATES,
    "atomic accesses of every thread": {"atomic_add(…) outside of loops": "T.atomic_add(B[0], 1.0)"},
    "a variable, an array of each thread": {
        "alloc_var": "for i in T.Parallel(128):\n    v = T.alloc_var('float32', A[i])\n    B[i] = v",
        "alloc_local": "for i in T.Parallel(128):\n    v = T.alloc_local((2,), 'float32')\n"
        "    v[0] = A[i]\n    B[i] = v[0]",
    },
    "the end of a thread, of a loop": {
        "thread_return": "if A[0] > 0:\n    T.thread_return()",
        "loop_break": "for i in T.serial(128):\n    if A[i] > 0:\n        T.loop_break()",
    },
    "text, checks": {"print": "T.print(A[0])", "device_assert": "T.device_assert(A[0] > 0, 'positive')"},
    "random numbers": {
        "rng_init": "for i in T.Parallel(128):\n    T.rng_init(1, i)\n    B[i] = T.rng_rand_float()",
    },
    "foreign code": {
        "call_extern": "T.call_extern('void', 'f', T.access_ptr(B, 'w'))",
        "call_extern(…, eval=…)": "T.call_extern('void', 'f', T.access_ptr(B, 'w'), eval=lambda p: None)",
    },
    "hints about registers": {
        name: f"T.{name}()" for name in ("disable_warp_group_reg_alloc", "no_set_max_nreg")
    },
}
_KERNEL = """
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((1024,), "float32"), B: T.Tensor((1024,), "float32"), I: T.Tensor((1024,), "int32")):
    with T.Kernel(1, threads=128):
{body}
"""


def kernel_of(statements: str, folder: Path) -> object:
    """The prim_func of these statements."""
    text = _KERNEL.format(body="\n".join(" " * 8 + line for line in statements.splitlines()))
    file = folder / f"kernel_{len(list(folder.iterdir()))}.py"
    file.write_text(text)
    space = SimpleNamespace(__name__="kernel", __file__=str(file)).__dict__
    exec(compile(text, str(file), "exec"), space)
    return space["main"]


def taken(function: object, target: str) -> bool:
    """Does the target compile it?  An error other than these refusals is one of the statements above."""
    try:
        tilelang.compile(function, target=target)
    except tilelang.CompileError as error:
        if "thread-level code" in str(error) or "is text for a GPU" in str(error):
            return False
        raise
    return True


def outcomes() -> list[tuple[str, list[str], tuple[bool, ...]]]:
    """Of each group its names, apart where the targets differ on them, and whether each target takes them."""
    rows = []
    with tempfile.TemporaryDirectory() as made:
        for group, constructs in FEATURES.items():
            alike: dict[tuple[bool, ...], list[str]] = {}
            for name, statements in constructs.items():
                function = kernel_of(statements, Path(made))
                alike.setdefault(tuple([taken(function, target) for target in TARGETS]), []).append(name)
            rows += [(group, names, result) for result, names in alike.items()]
    return rows


CHIPS = """
## Chips

`cuda -arch=CHIP`, of AMD's `hip -mcpu=CHIP`, compiles for one of these, `sim:CHIP` simulates it. The
numbers stand in the chip's file in `src/target/`, and `tilelang._core.target_info(target)` tells them.
`sm_90a` is `sm_90` with the instructions that no later chip has: products by whole warpgroups (wgmma),
which T.gemm takes where its tiles allow it and T.wgmma_gemm begins by hand, and T.set_max_nreg. Its
code runs on Hopper alone, where `cuda` means it; code for `sm_90` runs on later chips too. On all of
NVIDIA's other chips products are `mma.sync`: `sm_75` has it for float16 and integers, so that others
(bfloat16, tfloat32) are multiply-adds there, as the report says, and it has no asynchronous copies;
`sm_100` and `sm_103` reach less than their rate by it, because tcgen05 is not described here. A later
chip that is not in the table (`sm_87`, `sm_88`, `sm_101`, `sm_107`, `sm_110`, with letters `sm_100a`,
and what a device of the machine or its NVRTC names besides) runs the program of the newest one before
it, as PTX is compatible with all later chips; a note in `explain()` says which. Any other name is an
error. For `gfx942` HIP text is written, and compiled by clang (19 or later, with lld; `apt install
clang-22 lld-22`) where that is installed; this version has no driver that would run it, and does not
describe the chip's matrix instructions: products are multiply-adds. PTX, named barriers, barriers that
count, and votes and matches of 32 bits (`dtype="uint64"` has a bit for each lane) are refused there at
their line, and so are arithmetic with directed rounding and most functions of float64. Operations a
second are those of tensor cores, dense, by the data sheet of the board that the file names first. What
is named elsewhere and is not here is refused with the reason.

| chip | SMs | shared memory of a block | of an SM | threads | L2 | memory | float16 | int8 | float8 |
|---|---|---|---|---|---|---|---|---|---|
"""


def chips() -> str:
    """The section on the chips of GPUs."""
    lines = []
    for chip in _core.chips():
        info = _core.target_info(f"sim:{chip}")
        each, peak = info["multiprocessors"], info["peak"]
        rates = [f"{peak[kind] / 1e12:.0f} T" if kind in peak else "-"
                 for kind in ("float16", "int8", "float8_e4m3fn")]  # fmt: skip
        sizes = [f"{info['shared_bytes'] >> 10} KB", f"{each['shared_bytes'] >> 10} KB", each["threads"],
                 f"{info['l2_bytes'] >> 20} MB", f"{info['bandwidth'] / 1e12:.2f} TB/s"]  # fmt: skip
        lines.append(f"| `{chip}` | {each['count']} | {' | '.join(map(str, sizes + rates))} |")
    return CHIPS + "\n".join(lines) + "\n"


def page(made: str) -> str:
    """The text of docs/targets.md."""
    lines = [
        "# What each target takes", "", made,
        "Tile operators, `T.Parallel`, `T.serial` and their kind run on all targets. Code for single",
        "threads (a thread's number, shuffles, barriers of some threads) runs on GPUs and in the simulator",
        "of one; the CPU and the reference run one thread per block and refuse it, at its line. Each row is",
        "what compiling a small kernel says. A GPU takes what its simulator does, and foreign code without",
        "`eval=`.", "",
        "| construct | `reference` | `cpu` | `sim:…` |", "|---|---|---|---|",
    ]  # fmt: skip
    for group, names, result in outcomes():
        cells = ["yes" if is_taken else "refused" for is_taken in result]
        lines.append(f"| {group}: {', '.join(f'`T.{name}`' for name in names)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n" + chips()
