"""Programs for what threads do together: indices, shuffles, votes, barriers; for control flow, wide accesses,
foreign code and messages.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tilelang.language as T
from atomics import atomic_function, atomic_load, atomic_store
from trial import Trial, by_threads, generator
from values import numpy_type, values

MASK = "4294967295:u32"
LOW, HIGH = "65535:u32", "4294901760:u32"  # of one half of a warp


def _ints(n: int, key: str, low: int = -(2**31), high: int = 2**31) -> np.ndarray:
    return generator(key).integers(low, high, n).astype(np.int32)


def _int_threads(body: str, *, key: str = "", n: int = 64, inputs: dict | None = None, **rest) -> Trial:
    """Y[tx] of A[tx], in i32."""
    given = inputs or {"A": _ints(n, key)}
    arrays = given | {"Y": np.full(n, -1, np.int32)}
    params = ", ".join(
        f"{name}: {'u32' if a.dtype == np.uint32 else 'i32'}[{a.size}]" for name, a in arrays.items()
    )
    return by_threads(body, params, arrays, ["Y"], rest.pop("threads", n), **rest)


# ── who asks ──────────────────────────────────────────────────────────────────────────────────────────
def thread_index(row: dict) -> Iterator[Trial]:
    yield _int_threads("Y[b*60 + tx] = cast<i32>(thread_index(0) + 10*thread_index(1) + 100*thread_index(2))",
                       n=180, threads="5, 4, 3", blocks=3, inputs={"A": _ints(1, "a")})  # fmt: skip


def thread_number(row: dict) -> Iterator[Trial]:
    yield _int_threads("Y[b*60 + tx] = cast<i32>(tx) + 1000*cast<i32>(b)", n=180, threads="5, 4, 3", blocks=3,
                       inputs={"A": _ints(1, "a")})  # fmt: skip


def block_uniform(row: dict) -> Iterator[Trial]:
    yield _int_threads("Y[tx] = A[block_uniform(A[0]%64)] + A[tx]", key="uniform",
                       inputs={"A": abs(_ints(64, "uniform") // 2)})  # fmt: skip


LIMITS = np.array([-1, 0, 2, 50, 97, 98, 99, 100], np.int32)  # of numbers from 0 to 99: none, few, …, all


# ── shuffles and votes ────────────────────────────────────────────────────────────────────────────────
SHUFFLED = ("i32", "f32", "f16", "bf16", "i64", "f64", "u8", "i16", "u32", "u64")


def shuffle(row: dict) -> Iterator[Trial]:
    """shfl(value, number), and with a width and a mask; all numbers that PTX gives a meaning to."""
    name, masked = row["name"], row["arity"] == 4
    low, high = (-64, 64) if name in ("shfl", "shfl_sync") else (0, 32)
    for kind in SHUFFLED:
        for width in (32, 16, 8, 4, 2, 1) if masked else (32,):
            rng = generator(name, kind, width)
            a = np.where(np.arange(512) >= 0, np.resize(values(rng, kind, 512), 512), 0).astype(
                numpy_type(kind)
            )
            arrays = {"A": a, "L": rng.integers(low, high, 512).astype(np.int32), "Y": np.zeros_like(a)}
            rest = f", {width}:i32, {MASK}" if masked else ""
            yield by_threads(
                f"Y[b*64 + tx] = {name}(A[b*64 + tx], L[b*64 + tx]{rest})",
                f"A: {kind}[512], L: i32[512], Y: {kind}[512]",
                arrays,
                ["Y"],
                64,
                8,
                calls=f"{name}(",
                note=kind,
            )
    if masked:  # the halves of a warp, each among its own lanes
        a = _ints(64, name)
        numbers = np.tile(np.arange(16, dtype=np.int32), 4) % (16 if name == "shfl_sync" else 8)
        body = f"if tx % 32 < 16:\n  Y[tx] = {name}(A[tx], L[tx], 16:i32, {LOW})\n"
        body += f"else:\n  Y[tx] = {name}(A[tx], L[tx], 16:i32, {HIGH}) + 1"
        yield by_threads(
            body,
            "A: i32[64], L: i32[64], Y: i32[64]",
            {"A": a, "L": numbers, "Y": np.zeros_like(a)},
            ["Y"],
            64,
            calls=f"{name}(",
            note="half a warp",
        )


def vote(row: dict) -> Iterator[Trial]:
    """any_sync(condition, mask) and its like, of all lanes and of half a warp; activemask().  What gives 64
    bits is made of what gives 32."""
    name, called = row["name"], row["name"].removesuffix("64")
    to = "u64" if called != name else "i32" if name in ("any_sync", "all_sync") else "u32"
    whole = f"{name}()" if called == "activemask" else f"{name}(A[b*64 + tx] > L[b], {MASK})"
    rng = generator(name)
    arrays = {"A": rng.integers(0, 100, 512).astype(np.int32), "L": LIMITS,
              "Y": np.zeros(512, numpy_type(to))}  # fmt: skip
    params = f"A: i32[512], L: i32[8], Y: {to}[512]"
    yield by_threads(f"Y[b*64 + tx] = {whole}", params, arrays, ["Y"], 64, 8, calls=f"{called}(")
    half = [whole.replace(MASK, mask) for mask in (LOW, HIGH)]
    body = f"if tx % 32 < 16:\n  Y[b*64 + tx] = {half[0]}\nelse:\n  Y[b*64 + tx] = {half[1]}"
    if called != "activemask":  # who is active after a branch is the chip's choice
        yield by_threads(body, params, arrays, ["Y"], 64, 8, calls=f"{called}(", note="half a warp")


def match(row: dict) -> Iterator[Trial]:
    name, called = row["name"], row["name"].removesuffix("64")
    to = np.dtype(np.uint64 if called != name else np.uint32)
    for kind in ("i32", "u32", "i64", "u64", "f32", "f64"):
        rng = generator(name, kind)
        few = np.resize(values(rng, kind, 512), 512)[:5]
        a = few[rng.integers(0, 5, 512)]
        a[:64], a[64:96] = few[0], few[1]
        yield by_threads(
            f"Y[b*64 + tx] = {name}(A[b*64 + tx], {MASK})",
            f"A: {kind}[512], Y: u{8 * to.itemsize}[512]",
            {"A": a, "Y": np.zeros(512, to)},
            ["Y"],
            64,
            8,
            calls=f"{called}(",
            note=kind,
        )


def warp_width(row: dict) -> Iterator[Trial]:
    """What becomes a constant."""
    size = row["name"] == "warp_size"
    yield _int_threads(
        "Y[tx] = cast<i32>(tx % warp_size())"
        if size
        else "Y[tx] = shfl_xor_sync(A[tx], 1:i32, 32:i32, all_lanes())",
        key=row["name"],
        calls="" if size else "shfl_xor_sync(",
    )


def warp_reduction(row: dict) -> Iterator[Trial]:
    yield _int_threads(f"r = {row['name']}(A[tx])\nY[tx] = r", key=row["name"], calls="shfl_xor_sync(")


# ── barriers ──────────────────────────────────────────────────────────────────────────────────────────
def sync_threads(row: dict) -> Iterator[Trial]:
    body = (
        "S = shared i32[256]\nfor k in serial(8):\n  S[tx] = A[b*256 + tx] + cast<i32>(k)\n  sync_threads()\n"
    )
    body += "  Y[b*256 + tx] = Y[b*256 + tx]*3 + S[255 - tx]\n  sync_threads()"
    yield _int_threads(body, key="sync", n=1024, threads=256, blocks=4, calls="sync_threads()",
                       exact=lambda A, Y: {"Y": _horner(A.reshape(4, 256)[:, ::-1], Y)})  # fmt: skip


def _horner(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    y = y.reshape(a.shape).astype(np.int64)
    for k in range(8):
        y = y * 3 + a + k
    return y.astype(np.int32).reshape(-1)


def sync_warp(row: dict) -> Iterator[Trial]:
    body = f"S = shared i32[64]\nS[tx] = A[tx]\nsync_warp({MASK})\nY[tx] = S[tx//32*32 + 31 - tx%32]"
    yield _int_threads(body, key="warp", calls="sync_warp(")
    body = (
        f"S = shared i32[64]\nif tx % 32 < 16:\n  S[tx] = A[tx]\n  sync_warp({LOW})\n"
        f"  Y[tx] = S[tx//32*32 + 15 - tx%32]\n"
        f"else:\n  Y[tx] = A[tx]"
    )
    yield _int_threads(body, key="warp", calls="sync_warp(", note="half a warp")


def named_barrier(row: dict) -> Iterator[Trial]:
    """Two halves of a block, each by itself; then one half hands over to the other, which alone waits."""
    body = (
        "S = shared i32[128]\nS[tx] = A[tx]\nif tx < 64:\n  bar_sync(1:i64, 64:i64)\n"
        "else:\n  bar_sync(2:i64, 64:i64)\n"
        "Y[tx] = S[tx//64*64 + 63 - tx%64]"
    )
    if row["name"] == "bar_sync":
        yield _int_threads(body, key="named", n=128, calls="bar_sync(")
    body = (
        "S = shared i32[64]\nif tx < 64:\n  S[tx] = A[tx]\n  bar_arrive(3:i64, 128:i64)\n  Y[tx] = A[tx]\n"
        "else:\n  bar_sync(3:i64, 128:i64)\n  Y[tx] = S[127 - tx]"
    )
    yield _int_threads(body, key="arrive", n=128, calls=f"{row['name']}(")


def groups_barrier(row: dict) -> Iterator[Trial]:
    """Two groups of 128 threads, each by itself: one does twice as much before it comes."""
    body = (
        "S = shared i32[256]\nS[tx] = A[tx]\nif tx < 128:\n  bar_sync_groups(3:i64, 128:i64)\n"
        "  Y[tx] = S[127 - tx]\n  bar_sync_groups(3:i64, 128:i64)\n  S[tx] = Y[tx]\n"
        "bar_sync_groups(3:i64, 128:i64)\nY[tx] = S[tx//128*128 + 127 - tx%128]"
    )
    yield _int_threads(body, key="groups", n=256, calls="bar_sync_groups(")


def block_vote(row: dict) -> Iterator[Trial]:
    name = row["name"]
    yield _int_threads(
        f"Y[b*96 + tx] = {name}(A[b*96 + tx] > L[b])",
        key=name,
        n=768,
        threads=96,
        blocks=8,
        inputs={"A": _ints(768, name, 0, 100), "L": LIMITS},
        calls=f"{name}(",
    )


def sync_grid(row: dict) -> Iterator[Trial]:
    body = "W[b*64 + tx] = A[b*64 + tx]\nsync_grid()\nY[b*64 + tx] = W[511 - b*64 - tx]\nsync_grid()\n"
    body += "W[b*64 + tx] = 2*Y[b*64 + tx]\nsync_grid()\nY[b*64 + tx] = W[511 - b*64 - tx]"
    a = _ints(512, "grid", 0, 1000)
    yield _int_threads(
        body,
        key="grid",
        n=512,
        threads=64,
        blocks=8,
        inputs={"A": a, "W": np.zeros_like(a)},
        calls="sync_grid",
        exact=lambda A, **_: {"Y": 2 * A},
    )


# ── control flow ──────────────────────────────────────────────────────────────────────────────────────
def control(row: dict) -> Iterator[Trial]:
    name = row["name"]
    body = f"for k in serial(12):\n  if (A[tx] + cast<i32>(k))%5 == 0:\n    {name}()\n"
    body += "  Y[tx] = Y[tx]*3 + A[tx]%7\nY[tx] = Y[tx] + 1000"
    yield _int_threads(body, key=name, inputs={"A": abs(_ints(64, name) // 4)}, calls=f"{name}()")


# ── memory, and what others have written ──────────────────────────────────────────────────────────────
def address_of(row: dict) -> Iterator[Trial]:
    yield from wide({"name": "load_wide"})


def _moved(load: object, store: object, words: int) -> object:
    @T.prim_func
    def main(A: T.Tensor((512,), "float32"), Y: T.Tensor((512,), "float32")):
        with T.Kernel(1, threads=512 // words):
            tx = T.get_thread_binding()
            store(Y[tx * words], load(A[(511 // words - tx) * words]))

    return main.function


def wide(row: dict) -> Iterator[Trial]:
    """A vector of words as one access, through registers."""
    moves = (T.ldg32, T.stg32, 1), (T.ldg64, T.stg64, 2), (T.ldg128, T.stg128, 4), (T.ldg256, T.stg256, 8)
    for load, store, words in moves:
        a = values(generator("wide"), "f32", 512)
        reversed_ = a.reshape(-1, words)[::-1].reshape(-1)
        yield Trial(
            "",
            {"A": a, "Y": np.zeros_like(a)},
            {"Y": np.dtype(np.uint32)},
            calls=row["name"],
            function=_moved(load, store, words),
            note=f"{4 * words} bytes",
            exact=lambda wanted=reversed_, **_: {"Y": wanted},
        )


SOURCE = """
__device__ int scaled(int x, int n) { return x * n + 1; }
__device__ void add_to(int* at, int x) { *at += x; }
"""


def _add_to(at, x):
    at[0] = int(np.int64(int(at[0]) + x).astype(np.int32))


def foreign(row: dict) -> Iterator[Trial]:
    """The text on the chip, and the meaning that its author gave in the simulator."""
    name = row["name"]

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            T.import_source(SOURCE)
            tx = T.get_thread_binding()
            Y[tx] = 5
            if name == "call_extern":
                T.call_extern("void", "add_to", T.address_of(Y[tx]), A[tx], eval=_add_to)
            elif name == "call_pure_extern":
                Y[tx] = T.call_pure_extern("int32", "scaled", A[tx], 3, eval=lambda x, n: x * n + 1)
            else:
                Y[tx] = T.ptx(
                    "mad.lo.s32 {out}, {0}, {1}, 7;", A[tx], 3, out="int32", eval=lambda x, n: x * n + 7
                )

    a = _ints(64, name)
    yield Trial("", {"A": a, "Y": np.zeros_like(a)}, {"Y": a.dtype}, calls=name, function=main.function)


# ── messages ──────────────────────────────────────────────────────────────────────────────────────────
def message(row: dict) -> Iterator[Trial]:
    """What holds changes nothing; a failure ends the program, which test/device/test_math_cuda.py shows."""
    statement = {"assume_true": "assume_true(A[tx] >= 0)", "breakpoint": "breakpoint()",
                 "pdl_sync": "pdl_sync()", "pdl_trigger": "pdl_trigger()",
                 "device_assert": 'device_assert(A[tx] >= 0, "negative", "here:1")'}[row["name"]]  # fmt: skip
    yield _int_threads(
        f"{statement}\nY[tx] = A[tx]*2",
        key=row["name"],
        inputs={"A": abs(_ints(64, "message") // 4)},
        calls=f"{row['name']}(",
    )


def printed(row: dict) -> Iterator[Trial]:
    for kind in ("f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"):
        a = values(generator("print", kind), kind, 512)[:: 512 // 64][:64].copy()
        yield by_threads(
            'print("{thread} a {} of {}%", A[tx], tx)\nY[tx] = 1',
            f"A: {kind}[64], Y: i32[64]",
            {"A": a, "Y": np.zeros(64, np.int32)},
            ["Y"],
            calls="print(",
            note=kind,
        )


GENERATORS = {
    **dict.fromkeys(["shfl", "shfl_xor", "shfl_up", "shfl_down", "shfl_sync", "shfl_xor_sync", "shfl_up_sync",
                     "shfl_down_sync"], shuffle),
    **dict.fromkeys(["any_sync", "all_sync", "ballot_sync", "ballot_sync64", "activemask", "activemask64"],
                    vote),
    **dict.fromkeys(["match_any_sync", "match_any_sync64", "match_all_sync", "match_all_sync64"], match),
    **dict.fromkeys(["warp_size", "all_lanes"], warp_width),
    **dict.fromkeys([f"warp_reduce_{op}" for op in ("add", "max", "min", "and", "or")], warp_reduction),
    **dict.fromkeys(["bar_sync", "bar_arrive"], named_barrier),
    "bar_sync_groups": groups_barrier,
    **dict.fromkeys(["sync_threads_count", "sync_threads_and", "sync_threads_or"], block_vote),
    **dict.fromkeys(["break", "continue", "thread_return"], control),
    **dict.fromkeys(["atomic_add", "atomic_max", "atomic_min", "atomic_or"], atomic_function),
    **dict.fromkeys(["load_wide", "store_wide"], wide),
    **dict.fromkeys(["call_extern", "call_pure_extern", "ptx"], foreign),
    **dict.fromkeys(["device_assert", "assume_true", "breakpoint", "pdl_sync", "pdl_trigger"], message),
    "thread_index": thread_index, "thread_number": thread_number, "block_uniform": block_uniform,
    "sync_threads": sync_threads, "sync_warp": sync_warp, "sync_grid": sync_grid, "address_of": address_of,
    "atomic_load": atomic_load, "atomic_store": atomic_store, "print": printed,
}  # fmt: skip


def thread(row: dict) -> Iterator[Trial]:
    yield from GENERATORS[row["name"]](row)
