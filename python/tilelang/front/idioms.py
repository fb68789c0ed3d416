"""What people write who come from Triton, PyTorch, NumPy or CUDA, and what it is called here.

Read only where an error is worded: of an unknown name of the language (surface.py), of an attribute that a
buffer or a value does not have, of a keyword that a function does not take (misuse.py)."""

from __future__ import annotations

from .offered import OFFERED

_CLEARED = "T.alloc_fragment(shape, dtype), and T.clear(tile) or T.fill(tile, value)"
_DIVIDED = "T.reduce_sum(tile, out, dim), and a division by the extent in a T.Parallel loop over out"
_PAIRS = "T.reduce((values, places), (best, place), dim, combine=…) finds the greatest with its place"
_BLOCK = "an index that the launch names, `with T.Kernel(gx, gy) as (bx, by):`"
_THREAD = "T.get_thread_binding(0); most kernels need none, since T.Parallel spreads its iterations"
_BARRIER = "T.sync_threads(); the compiler places the barriers between statements on tiles by itself"
_MOVED = "T.copy(A[i0, j0], tile) and back for a tile, A[i, j] for an element"
_JOINED = "a T.copy of each part into its slice of one tile, T.copy(a, out[0:n])"
_INDEXED = "an index less, x[i] in `for i, j in T.Parallel(m, n):`"
_TURNED = "T.transpose(src, dst), or T.gemm(…, transpose_A=True), transpose_B=True"
_ROWS = "T.reduce_max, T.exp in a T.Parallel loop and T.reduce_sum, as docs/quickstart.md shows"
_SLICES = "a slice of the tensor, A[i0:i1, j0:j1], or the element where the part begins, A[i0, j0]"

# Names asked for in `T.…` -> what to write.
NAMES: dict[str, str] = {name: instead for names, instead in (
    ("sum", "T.reduce_sum(tile, out, dim)"), ("prod", "T.reduce_prod(tile, out, dim)"),
    ("amax", "T.reduce_max(tile, out, dim); of two values T.max(a, b)"),
    ("amin", "T.reduce_min(tile, out, dim); of two values T.min(a, b)"),
    ("mean average std", _DIVIDED), ("argmax argmin topk", _PAIRS),
    ("softmax log_softmax logsumexp", _ROWS), ("any", "T.any_of(…)"), ("all", "T.all_of(…)"),
    ("where select", "T.if_then_else(condition, a, b)"), ("maximum fmaxf", "T.max(a, b)"),
    ("minimum fminf", "T.min(a, b)"), ("relu", "T.max(x, 0)"), ("square", "x * x"),
    ("fmaf", "a * b + c, or T.ieee_fmaf(a, b, c)"), ("expf", "T.exp(x)"), ("sqrtf", "T.sqrt(x)"),
    ("rsqrtf", "T.rsqrt(x)"), ("arange", "the index of a loop, `for i in T.Parallel(n):`"),
    ("range", "Python's range, or T.serial(start, stop, step)"),
    ("static_range", "T.unroll(start, stop, step)"), ("program_id blockIdx", _BLOCK),
    ("num_programs gridDim", "T.get_block_extent(0), or the extents given to T.Kernel"),
    ("threadIdx thread_id", _THREAD),
    ("blockDim", "T.get_thread_extent(0), or the threads given to T.Kernel"),
    ("dot matmul mma mm bmm einsum", "T.gemm(A, B, C), which adds the product to C"),
    ("zeros ones full zeros_like ones_like full_like empty_like", _CLEARED),
    ("load store ldg stg memcpy", _MOVED), ("make_block_ptr make_tensor_descriptor advance", _SLICES),
    ("syncthreads __syncthreads barrier debug_barrier", _BARRIER),
    ("syncwarp __syncwarp", "T.sync_warp()"), ("concatenate concat cat stack hstack vstack", _JOINED),
    ("trans permute swapaxes", _TURNED), ("broadcast_to expand_dims unsqueeze", _INDEXED),
    ("shared shared_memory __shared__", "T.alloc_shared(shape, dtype)"),
    ("atomicAdd", "T.atomic_add(place, value)"),
    ("atomicMax", "T.atomic_max(place, value)"), ("atomicMin", "T.atomic_min(place, value)"),
    ("atomicOr", "T.atomic_or(place, value)"), ("atomicSub atomic_sub", "T.atomic_add(place, -value)"),
    ("__shfl_sync", "T.shfl_sync(value, srcLane), without a mask in front"),
    ("__shfl_xor_sync __shfl_xor shfl_xor_sync", "T.shfl_xor(value, delta), without a mask in front"),
    ("__shfl_down_sync __shfl_down shfl_down_sync", "T.shfl_down(value, delta), without a mask in front"),
    ("__shfl_up_sync __shfl_up shfl_up_sync", "T.shfl_up(value, delta), without a mask in front"),
    ("__ballot_sync __ballot", "T.ballot(condition), or T.ballot_sync(condition, mask)"),
    ("__popc __popcll popc", "T.popcount(x)"), ("__clz __clzll", "T.clz(x)"),
    ("mulhi umulhi __mulhi __umulhi mul_hi",
     "T.cast(a, 'int64') * b >> 32, with uint64 for unsigned numbers of 32 bits"),
    ("rotl rotr rotate_left rotate_right", "(x << n) | (x >> (32 - n)) of a uint32 x, where 0 < n < 32"),
    ("ffs __ffs", "T.popcount(x ^ (x - 1)) of an x that is not 0"), ("ctz", "T.popcount((x & -x) - 1)"),
    ("printf device_print static_print", "T.print(…)"), ("static_assert", "assert"),
    ("astype to type", "T.cast(value, dtype); of a tile, T.copy into one of that dtype"),
    ("rand randn", "T.rng_init(seed, seq=…) and T.rng_rand_float()"),
    ("constexpr", "a plain parameter of the factory or of the eager function"),
    ("tensor", "T.Tensor(shape, dtype)")) for name in names.split()}

_NO_ATOMIC = ("here are T.atomic_add, T.atomic_max, T.atomic_min, T.atomic_or, T.atomic_load and "
              "T.atomic_store")
# Names of what the language does not have -> what to do instead.
ABSENT: dict[str, str] = {name: instead for names, instead in (
    ("atomic_cas atomicCAS atomic_compare_exchange", f"nothing compares and exchanges; {_NO_ATOMIC}, "
     "and T.atomic_add(place, 1, return_prev=True) gives each thread a place of its own"),
    ("atomic_exch atomic_exchange atomicExch atomic_xchg", f"nothing exchanges atomically; {_NO_ATOMIC}"),
    ("atomic_xor atomicXor", f"an atomic exclusive or does not exist; {_NO_ATOMIC}; "
     "T.reduce_bitxor folds a tile"),
    ("atomic_and atomicAnd", f"an atomic and does not exist; {_NO_ATOMIC}; T.atomic_or of the bits to "
     "clear into a mask serves instead"),
    ("sort argsort", "nothing sorts a tile; sort by a network of comparisons, "
     "T.min and T.max of elements i and i ^ j of a shared tile, with a T.sync_threads() between the steps"),
    ("brev __brev bitreverse", "nothing reverses bits; swap halves by masks and shifts, ((x & 0x55555555) << "
     "1) | ((x >> 1) & 0x55555555) and so on for 2, 4, 8 and 16")) for name in names.split()}  # fmt: skip

# Attributes asked for of a buffer `{0}` -> what to write.
OF_BUFFERS: dict[str, str] = {name: instead for names, instead in (
    ("T mT t transpose permute swapaxes",
     "give T.gemm transpose_A=True or transpose_B=True, or turn it by T.transpose(src, dst)"),
    ("sum", "T.reduce_sum({0}, out, dim)"), ("max amax", "T.reduce_max({0}, out, dim)"),
    ("min amin", "T.reduce_min({0}, out, dim)"), ("mean var std", _DIVIDED.replace("tile", "{0}")),
    ("prod", "T.reduce_prod({0}, out, dim)"), ("argmax argmin topk", _PAIRS), ("any", "T.any_of({0})"),
    ("all", "T.all_of({0})"), ("reshape flatten ravel squeeze unsqueeze", "T.reshape({0}, shape)"),
    ("view", "T.view({0}, shape, dtype)"), ("copy clone contiguous", "T.copy({0}, other)"),
    ("to type float half double int long bfloat16",
     "T.copy({0}, other) converts to the dtype of other; so does T.cast({0}[…], dtype) of an element"),
    ("fill fill_ full_", "T.fill({0}, value)"), ("zero_ zeros", "T.clear({0})"),
    ("cumsum", "T.cumsum({0}, dim=…)"), ("clamp clip", "T.clamp({0}, low, high)"),
    ("dot matmul mm", "T.gemm(A, B, C), which adds the product to C"), ("ndim dim", "len({0}.shape)"),
    ("size numel itemsize", "{0}.shape has the extents, {0}.dtype.bits the bits of an element"),
    ("device", "a kernel runs where its tensors are; {0}.scope says where the buffer lives"),
    ("load store item at", "{0}[…] is an element")) for name in names.split()}  # fmt: skip

# The same of a value.
OF_VALUES: dict[str, str] = {name: instead for names, instead in (
    ("to type float half double int long bfloat16", "T.cast(value, dtype)"),
    ("item", "only the device will know the value; use it as it is"),
    ("x y z", "each dimension has an index of its own: T.Kernel(gx, gy) as (bx, by), "
     "T.get_thread_bindings()")) for name in names.split()}  # fmt: skip

# Keywords -> what they are called here, where the function has a parameter of that name; else what to do.
KEYWORDS: dict[str, str] = {
    "axis": "dim", "axes": "dim", "trans_a": "transpose_A", "trans_b": "transpose_B",
    "transA": "transpose_A", "transB": "transpose_B", "transpose_a": "transpose_A",
    "transpose_b": "transpose_B", "input": "buffer", "type": "dtype", "out_dtype": "dtype",
    "size": "shape", "block": "threads", "block_dim": "threads", "num_threads": "threads",
    "stages": "num_stages", "fill_value": "value", "min": "min_val", "max": "max_val",
}  # fmt: skip
_KEPT = "whether the dimension is kept, out says: its shape is (m,) or (m, 1) for a tile of (m, n)"
_WARPS = "threads=128 gives the threads of a block"
_GRID = "the extents of the grid come first, one by one, T.Kernel(gx, gy, threads=128)"
CURES: dict[str, str] = {"keepdim": _KEPT, "keepdims": _KEPT, "keep_dims": _KEPT, "num_warps": _WARPS,
                         "grid": _GRID}
# Functions of Python's math and of NumPy -> ours, where the names differ.
FUNCTIONS = {
    "maximum": "max", "fmax": "max", "minimum": "min", "fmin": "min", "absolute": "abs", "fabs": "abs",
    "arctan": "atan", "arctan2": "atan2", "arcsin": "asin", "arccos": "acos", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "power": "pow", "rint": "round", "around": "round",
    "floor_divide": "floordiv", "mod": "floormod", "remainder": "floormod",
    "sum": "reduce_sum", "prod": "reduce_prod", "amax": "reduce_max", "amin": "reduce_min",
    "cumsum": "cumsum", "clip": "clamp", "copyto": "copy", "reshape": "reshape", "transpose": "transpose",
}  # fmt: skip


def function_like(name: str) -> str:
    """What to write for math.name or np.name."""
    ours = FUNCTIONS.get(name, name)
    if ours in OFFERED:
        return f"T.{ours}"
    return NAMES.get(name, "the language's own functions")
