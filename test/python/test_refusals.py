"""Wrong programs that the published package refuses are refused here, at the user's line; or they have a
meaning, which docs/reference.md states.
"""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure

SIGNATURE = "A: T.Tensor((1024,), 'float32')"
HEADER = "import tilelang.language as T\n@T.prim_func\ndef main(A: T.Tensor((1024,), 'float32'){more}):\n"

REDUCER = "o = T.alloc_reducer((4,), 'float32', 'sum')\n"
OPEN = REDUCER + "T.reducer_init(o)\n"
ADD = "for i in T.Parallel(4):\n    o[i] += A[i]\n"
GEMM = (
    "a, c = T.alloc_shared((64, 32), 'float16'), T.alloc_fragment((64, 64), 'float32')\nT.clear(a)\n"
    "T.gemm(a, a, c, transpose_B=True, policy=T.GemmWarpPolicy.from_warp_partition({}))"
)
ALLREDUCE = (
    "r = T.alloc_local((1,), 'float32')\n"
    "with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), 'reduce_scope', 0):\n"
    "    T.tvm_thread_allreduce({}, A[0], True, r[0], {})"
)
DIVIDED = (
    "l = T.alloc_local((128,), 'float32')\nf = T.alloc_fragment((128,), 'float32')\n"
    "for i in T.Parallel(128):\n    l[i] = A[i]\n    f[i] = 1.0\n"
)

# A program; the line of the body with the error; what is said.
WRONG = {
    "contributed before it is opened": (REDUCER + ADD + "T.finalize_reducer(o)", 3, "has not been opened"),
    "finalised twice": (OPEN + ADD + "T.finalize_reducer(o)\nT.finalize_reducer(o)", 6, "finalised before"),
    "finalised before it is opened": (REDUCER + "T.finalize_reducer(o)", 2, "it has not been opened"),
    "contributed after the end": (OPEN + "T.finalize_reducer(o)\n" + ADD, 5, "has been finalised, on line"),
    "opened while it is open": (OPEN + "T.reducer_init(o)\n" + ADD, 3, "it is open since line"),
    "read before the end": (OPEN + ADD + "A[5] = o[0]\nT.finalize_reducer(o)", 5, "has not been finalised "
                                                                                  "since"),
    "never finalised": (OPEN + ADD, 2, "is never finalised in the block"),
    "contributed outside of a loop": (OPEN + "T.reducer_update(o[0], 1.0)", 3, "inside of T.Parallel"),
    "an assumption that is false": ("T.assume(3 > 4)", 1, "something that is false"),
    "an assumption about an extent": ("T.assume(A.shape[0] > 2000)", 1, "something that is false"),
    "an assumption without a condition": ("T.assume()", 1, "needs a condition"),
    "more warps than there are": (GEMM.format("2, 4"), 3, "2x4 = 8 warps, but this T.Kernel has 128 threads"),
    "fewer warps than there are": (GEMM.format("1, 1"), 3, "1x1 = 1 warps"),
    "no warps": (GEMM.format("0, 4"), 3, "must be positive integers"),
    "no policy": ("T.gemm(A, A, A, policy=3)", 1, "policy must be a T.GemmWarpPolicy"),
    "two values at once": (ALLREDUCE.format(2, "T.get_thread_binding(0)"), 3, "one value is reduced at a "
                                                                              "time"),
    "no thread index": (ALLREDUCE.format(1, "3"), 3, "must be a thread index"),
    "a run of 3 lanes": ("A[0] = T.shfl_sync(A[0], 0, 3)", 1, "a power of two, at most 64"),
    "a run of 128 lanes": ("A[0] = T.shfl_xor(A[0], 1, 128)", 1, "a power of two, at most 64"),
    "a distance beyond the warp": ("A[0] = T.shfl_xor(A[0], 72)", 1, "72 is not a distance within a warp"),
    "a distance backwards": ("A[0] = T.shfl_down(A[0], -1)", 1, "-1 is not a distance"),
    "a lane before the first": ("A[0] = T.shfl_sync(A[0], -1)", 1, "-1 is not a lane"),
    "300 in eight bits": ("x = T.alloc_var('uint8', 300)", 1, "300 does not fit in uint8"),
    "a typed 300 in eight bits": ("x = T.alloc_var('uint8', T.int32(300))", 1, "300 does not fit in uint8"),
    "a fraction in an integer": ("x = T.alloc_var('int32', init=T.float32(1.5))", 1, "is not representable"),
    "infinity in an integer": ("x = T.alloc_var('int32', T.infinity('float32'))", 1, "is not representable"),
    "1000 in an int8 tile": ("t = T.alloc_shared((4,), 'int8')\nT.fill(t, 1000)", 2, "1000 does not fit in "
                                                                                     "int8"),
    "a typed 1000 in an int8 tile": ("t = T.alloc_shared((4,), 'int8')\nT.fill(t, T.int32(1000))", 2,
                                     "1000 does not fit in int8"),
    "1000 in a variable": ("x = T.alloc_var('int8')\nT.fill(x, T.int32(1000))", 2, "1000 does not fit in "
                                                                                   "int8"),
    "300 opens a reducer of bytes": ("o = T.alloc_reducer((4,), 'uint8', 'sum')\nT.reducer_init(o, "
                                     "T.int32(300))", 2,
                                     "300 does not fit in uint8"),
    "two first values": ("x = T.alloc_var('int32', 1, 2)", 1, "then its first value and the scope"),
    "a variable that is shared": ("x = T.alloc_var('int32', scope='shared')", 1, "belongs to one thread"),
    "parts of an array of each thread": (DIVIDED + "for i in T.Parallel(128):\n    A[i] = l[i]", 7,
                                         "each of which keeps l"),
    "an element of such an array": (DIVIDED + "A[0] = l[5]", 6, "each of which keeps l"),
    "a cluster": ("sched = T.PersistentTileScheduler(4, 4, cluster_size=2)", 1, "form clusters of 1, as T.K"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_refused(name, tmp_path):
    body, line, said = WRONG[name]
    before = HEADER.format(more="") + "    with T.Kernel(1, threads=128) as bx:\n"
    path = tmp_path / "wrong.py"
    path.write_text(before + "".join(f"        {text}\n" for text in body.splitlines()))
    with pytest.raises(tilelang.CompileError) as caught:
        exec(compile(path.read_text(), str(path), "exec"), {})
    assert said in str(caught.value) and caught.value.line == before.count("\n") + line


@pytest.mark.parametrize(("statement", "said"), {
    "A[0] = T.shfl_xor(A[0], 1, 64)": "width is 64, but a warp of sm_80 has 32 threads",
    "A[0] = T.shfl_xor(A[0], 40)": "40 is not a distance within a warp of sm_80",
}.items())  # fmt: skip
def test_what_only_wider_warps_have(statement, said, tmp_path):
    path, scope = tmp_path / "wide.py", {}
    path.write_text(HEADER.format(more="") + f"    with T.Kernel(1, threads=128):\n        {statement}\n")
    exec(compile(path.read_text(), str(path), "exec"), scope)
    tilelang.compile(scope["main"], target="sim:gfx942")
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(scope["main"], target="sim:sm_80")
    assert said in str(caught.value) and caught.value.line == 5


@pytest.mark.parametrize(("launch", "said"), {
    "T.Kernel(-1)": "an extent of the grid is -1",
    "T.Kernel(1, cluster_dims=2)": "a grid of 1 blocks along x is not made of whole clusters of 2",
    "T.Kernel(1, cluster_dims=(1, 2, 1))": "cluster_dims has an extent of 2 along y, but the grid has 1",
}.items())  # fmt: skip
def test_launches_that_are_refused(launch, said, tmp_path):
    path = tmp_path / "launch.py"
    path.write_text(HEADER.format(more="") + f"    with {launch}:\n        A[0] = 1.0\n")
    with pytest.raises(tilelang.CompileError) as caught:
        exec(compile(path.read_text(), str(path), "exec"), {})
    assert said in str(caught.value) and caught.value.line == 4


def test_a_partition_that_does_not_divide_the_tile(tmp_path):
    body = (
        "a, c = T.alloc_shared((66, 32), 'float16'), T.alloc_fragment((66, 66), 'float32')\n"
        "T.gemm(a, a, c, transpose_B=True, policy=T.GemmWarpPolicy.from_warp_partition(1, 1))\n"
        "T.gemm(a, a, c, transpose_B=True, policy=T.GemmWarpPolicy.from_warp_partition(4, 1))"
    )
    path = tmp_path / "partition.py"
    path.write_text(
        HEADER.format(more="")
        + "    with T.Kernel(1, threads=128):\n"
        + "".join(f"        {line}\n" for line in body.splitlines() if "1, 1" not in line)
    )
    with pytest.raises(tilelang.CompileError, match="shares the 66 rows of C among 4 warps"):
        exec(compile(path.read_text(), str(path), "exec"), {})


# ── what has a meaning ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("target", ["cpu", "sim:sm_80"])
def test_nothing_runs_where_a_tensor_is_empty(target):
    """A constant grid of 0 is no mistake then; neither is one that a call makes 0."""

    @tilelang.jit(target=target)
    def scaled(A):
        M = T.const("M")
        A: T.Tensor((M,), "float32")
        B = T.empty((M,), "float32")
        with T.Kernel(T.ceildiv(M, 32), threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i] * 2
        return B

    assert scaled(np.zeros(0, "float32")).shape == (0,)
    assert scaled(np.ones(3, "float32")).tolist() == [2, 2, 2]


def test_elements_of_a_fragment_written_by_other_threads():
    """f[i] is the block's one element i, whatever thread writes it."""

    @T.prim_func
    def main(A: T.Tensor((512,), "float32"), B: T.Tensor((512,), "float32"), C: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((512,), "float32")
            tx = T.get_thread_binding()
            T.copy(A, f)
            f[(tx + 1) % 128] = 7.0 + tx
            T.copy(f, B)
            C[tx] = f[(tx * 3) % 512]

    a, b, c = np.arange(512, dtype="float32"), np.zeros(512, "float32"), np.zeros(128, "float32")
    tilelang.compile(main, target="sim:sm_80")(a, b, c)
    expected = a.copy()
    expected[(np.arange(128) + 1) % 128] = 7 + np.arange(128)
    assert np.array_equal(b, expected) and np.array_equal(c, expected[np.arange(128) * 3 % 512])


def test_an_array_of_each_thread_that_a_loop_alone_fills():
    """Every thread runs the whole loop."""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=64):
            own = T.alloc_local((128,), "float32")
            for i in T.Parallel(128):
                own[i] = A[i] * 2
            for i in T.Parallel(128):
                B[127 - i] = own[i]

    a, b = np.arange(128, dtype="float32"), np.zeros(128, "float32")
    tilelang.compile(main, target="sim:sm_80")(a, b)
    assert np.array_equal(b, 2 * a[::-1])


def test_a_policy_is_a_wish():
    """16 rows are one instruction high, so that four warps share the columns too."""

    @T.prim_func
    def main(
        A: T.Tensor((16, 32), "float16"), B: T.Tensor((64, 32), "float16"), C: T.Tensor((16, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((16, 32), "float16"), T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((16, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, policy=T.GemmWarpPolicy.FullRow, clear_accum=True)
            T.copy(c, C)

    a, b = np.arange(512).reshape(16, 32) % 7, np.arange(2048).reshape(64, 32) % 5
    c = np.zeros((16, 64), "float32")
    tilelang.compile(main, target="sim:sm_80")(a.astype("float16"), b.astype("float16"), c)
    assert np.array_equal(c, a @ b.T)


def test_an_assumption_that_only_the_run_can_tell_is_checked_by_the_simulator():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                T.assume(i > 2)
                A[i] = 1.0

    with pytest.raises(tilelang.SimulationError, match="does not hold"):
        tilelang.compile(main, target="sim:sm_80")(np.zeros(4, "float32"))


def test_the_message_points_at_the_line(tmp_path):
    error = failure(tmp_path, "x = T.alloc_var('uint8', T.int32(300))", signature=SIGNATURE)
    assert error.line == 5 and error.column == 13


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float4_e2m1fn", "int4", "uint4", "tfloat32"])
def test_a_number_of_a_type_of_memory(dtype, tmp_path):
    error = failure(tmp_path, "B[0] = s", signature=f"s: T.dtype('{dtype}'), B: T.Tensor((1,), 'float32')")
    assert f"a number that is given at the call cannot be {dtype}" in error.text
