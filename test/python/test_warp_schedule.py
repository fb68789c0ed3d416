"""Schedules of warps (T.annotate_ws_schedule): roles and pipelines of a program written for all warps."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

SIM = "sim:sm_90a"
S = T.WSSync


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float16)


def simulated(function, *arguments, target=SIM, schedules=3):
    kernel = tilelang.compile(function, target=target)
    report = kernel.simulate(*arguments, schedules=schedules)
    assert not report.findings, report.findings
    return kernel


def ring(pipeline, *ops):
    """The steps of a producer and of a consumer."""
    return {
        "load": [S.producer_acquire(pipeline), *ops[:1], S.producer_commit(pipeline)],
        "math": [S.consumer_wait(pipeline), *ops[1:], S.consumer_release(pipeline)],
    }


def gemm_schedule(tiles, depth=3, inner="loop"):
    """One producer warpgroup, two that multiply."""
    return T.WSSchedule(
        12,
        [
            T.WSRole("math", warps_lo=0, warps_hi=8, max_nreg=240),
            T.WSRole("load", warps_lo=8, warps_hi=12, max_nreg=24),
        ],
        [T.WSPipeline("ab", tiles, depth)],
        [
            T.WSScope(T.WSScope.ROOT, {"load": ["loop"], "math": ["clear", T.WSOpRef("loop"), "store"]}),
            T.WSScope("loop", ring("ab", "copy", "gemm")),
        ],
    )


def gemm(M, N, K, depth=3, dtype="float16", rows=128, columns=128, part=64, assumed=True):
    if K is None:
        K = T.dynamic("K")

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        if assumed:
            T.assume(K % 8 == 0)
        with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=384) as (bx, by):
            a, b = T.alloc_shared((rows, part), dtype), T.alloc_shared((part, columns), dtype)
            c = T.alloc_fragment((rows, columns), "float32")
            T.annotate_ws_schedule(gemm_schedule([a, b], depth))
            with T.ws_op("clear"):
                T.clear(c)
            with T.ws_op("loop"):
                for k in T.serial(T.ceildiv(K, part)):
                    with T.ws_op("copy"):
                        T.copy(A[by * rows, k * part], a)
                        T.copy(B[k * part, bx * columns], b)
                    with T.ws_op("gemm"):
                        T.gemm(a, b, c)
            with T.ws_op("store"):
                T.copy(c, C[by * rows, bx * columns])

    return main


def check_gemm(function, m, n, k, target=SIM):
    a, b, c = numbers(m, k), numbers(k, n, seed=1), np.full((m, n), np.nan, np.float32)
    kernel = simulated(function, a, b, c, target=target)
    assert np.array_equal(c, a.astype(float) @ b.astype(float))
    return kernel


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_a_gemm_by_roles(steps):
    kernel = check_gemm(gemm(128, 128, 64 * steps), 128, 128, 64 * steps)
    text = kernel._kernel.machine_text
    assert steps == 0 or ("wgmma_m64k16_f16_f32_ss" in text and "cp_async_bulk_tensor_2d_load" in text)


@pytest.mark.parametrize("k", [0, 8, 64, 128, 328])
def test_dynamic_k(k):
    check_gemm(gemm(256, 128, None), 256, 128, k)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_slots(depth):
    check_gemm(gemm(128, 128, 328, depth), 128, 128, 328)


def test_what_the_accelerator_cannot_copy():
    """The role's threads do, and say so to the accelerator's products."""
    kernel = check_gemm(gemm(128, 128, 100, assumed=False), 128, 128, 100)
    told = str(kernel.explain())
    assert "a is filled by threads: a tensor map cannot describe A: a stride is 200 bytes" in told
    assert "tma_load(B" in told and "tma_load(A" not in told
    assert "fence_proxy_async_shared" in kernel._kernel.machine_text


@pytest.mark.parametrize("k", [72, 70])
def test_strides_that_the_call_tells(k):
    """The specialized variant may use the accelerator, the generic one finds that it must not."""
    check_gemm(gemm(128, 128, None, assumed=False), 128, 128, k)


@pytest.mark.parametrize("target", ["sim:sm_90", "sim:sm_80", "reference", "cpu"])
def test_other_targets(target):
    a, b, c = numbers(200, 136), numbers(136, 128, seed=1), np.full((200, 128), np.nan, np.float32)
    kernel = tilelang.compile(gemm(200, 128, 136), target=target)
    kernel(a, b, c)
    assert np.array_equal(c, a.astype(float) @ b.astype(float))
    plain = "all warps execute the program as it is written"
    assert target in ("sim:sm_90", "reference") or plain in str(kernel.explain())
    if target == "sim:sm_90":  # roles, without the products of warpgroups and without registers of their own
        text = kernel._kernel.machine_text
        told = str(kernel.explain())
        assert (
            "math is the warps [0, 8), load is the warps [8, 12), the pipeline ab has 3 slots of a and b"
            in told
        )
        assert "max_nreg changes nothing: sm_90 moves no registers between warps" in told
        assert "group(256 : +128)" in text and "wgmma" not in text and "setmaxnreg" not in text


def test_text():
    from helpers import assert_round_trip

    text = str(gemm(128, 128, 64))
    assert (
        'pipeline("ab")' in text
        and '{op="copy"}' in text
        and "at loop load: acquire(ab) copy commit(ab)" in text
    )
    assert_round_trip(text)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_a_persistent_gemm(steps, ragged):
    """Slots and phases go on from tile to tile; ragged: tiles have different numbers of steps."""
    tiles, blocks, K = 5, 2, 64 * steps

    @T.prim_func
    def main(
        A: T.Tensor((tiles * 64, K), "float16"),
        B: T.Tensor((K, 64), "float16"),
        C: T.Tensor((tiles * 64, 64), "float32"),
    ):
        with T.Kernel(blocks, threads=256) as block:
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            schedule = T.WSSchedule(
                8,
                [T.WSRole("math", warps_lo=0, warps_hi=4), T.WSRole("load", warps_lo=4, warps_hi=5)],
                [T.WSPipeline("ab", [a, b], 3)],
                [
                    T.WSScope(T.WSScope.ROOT, [["tiles"], ["tiles"]]),
                    T.WSScope("tiles", {"load": ["loop"], "math": ["clear", "loop", "store"]}),
                    T.WSScope("loop", ring("ab", "copy", "gemm")),
                ],
            )
            T.annotate_ws_schedule(schedule)
            with T.ws_op("tiles"):
                for t in T.serial(T.ceildiv(tiles - block, blocks)):
                    row = (block + t * blocks) * 64
                    with T.ws_op("clear"):
                        T.clear(c)
                    with T.ws_op("loop"):
                        for k in T.serial(T.min(steps, block + t * blocks) if ragged else steps):
                            with T.ws_op("copy"):
                                T.copy(A[row, k * 64], a)
                                T.copy(B[k * 64, 0], b)
                            with T.ws_op("gemm"):
                                T.gemm(a, b, c)
                    with T.ws_op("store"):
                        T.copy(c, C[row, 0])

    a, b, c = numbers(tiles * 64, K), numbers(K, 64, seed=1), np.full((tiles * 64, 64), np.nan, np.float32)
    kernel = simulated(main, a, b, c)
    for t in range(tiles):
        depth = 64 * min(steps, t) if ragged else K
        rows = slice(64 * t, 64 * t + 64)
        assert np.array_equal(c[rows], a[rows, :depth].astype(float) @ b[:depth].astype(float))
    assert ("ab_uses" in kernel._kernel.machine_text) == ragged


def attention_schedule(q, k, v):
    return T.WSSchedule(
        12,
        [
            T.WSRole("load", warps_lo=0, warps_hi=4, max_nreg=24),
            T.WSRole("math", warps_lo=4, warps_hi=12, max_nreg=240),
        ],
        [T.WSPipeline("q", [q], 1), T.WSPipeline("k", [k], 2), T.WSPipeline("v", v, 1)],
        [
            T.WSScope(T.WSScope.ROOT, {
                "load": [S.producer_acquire("q"), "load_q", S.producer_commit("q"), "loop"],
                "math": ["begin", S.consumer_wait("q"), "loop", S.consumer_release("q"), "end"],
            }),
            T.WSScope("loop", {
                "load": [S.producer_acquire("k"), "load_k", S.producer_commit("k"),
                         S.producer_acquire("v"), "load_v", S.producer_commit("v")],
                "math": [S.consumer_wait("k"), "qk", S.consumer_release("k"), "softmax",
                         S.consumer_wait("v"), "pv", S.consumer_release("v")],
            }),
        ],
    )  # fmt: skip


def attention(length, heads=2, size=64, rows=128, keys=64):
    @T.prim_func
    def main(
        Q: T.Tensor((heads, length, size), "float16"),
        K: T.Tensor((heads, length, size), "float16"),
        V: T.Tensor((heads, length, size), "float16"),
        O: T.Tensor((heads, length, size), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, rows), heads, threads=384) as (bx, head):
            q, k_tile = T.alloc_shared((rows, size), "float16"), T.alloc_shared((keys, size), "float16")
            v_tile = T.alloc_shared((keys, size), "float16")
            scores, p = T.alloc_fragment((rows, keys), "float32"), T.alloc_fragment((rows, keys), "float16")
            o, sums = T.alloc_fragment((rows, size), "float32"), T.alloc_fragment((rows,), "float32")
            most, before = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            part = T.alloc_fragment((rows,), "float32")
            T.annotate_ws_pipeline_depth({v_tile: 3})
            T.annotate_ws_schedule(attention_schedule(q, k_tile, v_tile))
            with T.ws_op("load_q"):
                T.copy(Q[head, bx * rows : (bx + 1) * rows, :], q)
            with T.ws_op("begin"):
                T.clear(o)
                T.clear(sums)
                T.fill(most, -1e30)
            with T.ws_op("loop"):
                for i in T.Pipelined(T.ceildiv(length, keys), num_stages=2):
                    with T.ws_op("load_k"):
                        T.copy(K[head, i * keys : (i + 1) * keys, :], k_tile)
                    with T.ws_op("qk"):
                        T.gemm(q, k_tile, scores, transpose_B=True, clear_accum=True)
                    with T.ws_op("softmax"):
                        for r, j in T.Parallel(rows, keys):
                            scores[r, j] = T.if_then_else(i * keys + j < length, scores[r, j] / 8, -1e30)
                        T.copy(most, before)
                        T.reduce_max(scores, most, dim=1, clear=False)
                        for r, j in T.Parallel(rows, keys):
                            scores[r, j] = T.exp(scores[r, j] - most[r])
                        T.reduce_sum(scores, part, dim=1)
                        for r in T.Parallel(rows):
                            before[r] = T.exp(before[r] - most[r])
                            sums[r] = sums[r] * before[r] + part[r]
                        for r, j in T.Parallel(rows, size):
                            o[r, j] = o[r, j] * before[r]
                        T.copy(scores, p)
                    with T.ws_op("load_v"):
                        T.copy(V[head, i * keys : (i + 1) * keys, :], v_tile)
                    with T.ws_op("pv"):
                        T.gemm(p, v_tile, o)
            with T.ws_op("end"):
                for r, j in T.Parallel(rows, size):
                    o[r, j] = o[r, j] / sums[r]
                T.copy(o, O[head, bx * rows : (bx + 1) * rows, :])

    return main


@pytest.mark.parametrize("length", [64, 200])
@pytest.mark.parametrize("target", [SIM, "reference"])
def test_attention_with_two_pipelines(length, target):
    q, k, v = (np.random.default_rng(n).standard_normal((2, length, 64)).astype(np.float16) for n in range(3))
    o = np.full((2, length, 64), np.nan, np.float32)
    if target == SIM:
        kernel = simulated(attention(length), q, k, v, o, schedules=2)
        assert "full_v = shared u64[3]" in kernel._kernel.machine_text
    else:
        tilelang.compile(attention(length), target=target)(q, k, v, o)
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    weights = np.exp(q @ k.transpose(0, 2, 1) / 8)
    expected = weights / weights.sum(-1, keepdims=True) @ v
    assert np.abs(o - expected).max() < 5e-3


def late_release(steps):
    """A product stays in flight: its slot is released one use later."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64 * steps), "float16"),
        B: T.Tensor((64 * steps, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            math = [S.consumer_wait("ab"), "begin", "keep_one", S.consumer_release("ab", stage=1)]
            schedule = T.WSSchedule(
                8,
                [T.WSRole("load", warps_lo=4, warps_hi=8), T.WSRole("math", warps_lo=0, warps_hi=4)],
                [T.WSPipeline("ab", [a, b], 2)],
                [
                    T.WSScope(T.WSScope.ROOT, {"load": ["loop"], "math": ["loop", "store"]}),
                    T.WSScope("loop", {"load": ring("ab", "copy")["load"], "math": math}),
                ],
            )
            T.annotate_ws_schedule(schedule)
            with T.ws_op("loop"):
                for k in T.serial(steps):
                    with T.ws_op("copy"):
                        T.copy(A[0, k * 64], a)
                        T.copy(B[k * 64, 0], b)
                    with T.ws_op("begin"):
                        T.wgmma_gemm(a, b, c, clear_accum=(k == 0))
                    with T.ws_op("keep_one"):
                        T.wait_wgmma(1)
            with T.ws_op("store"):
                T.wait_wgmma(0)
                T.copy(c, C)

    return main


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_late_release(steps):
    a, b, c = numbers(64, 64 * steps), numbers(64 * steps, 64, seed=1), np.full((64, 64), np.nan, np.float32)
    simulated(late_release(steps), a, b, c)
    assert np.array_equal(c, a.astype(float) @ b.astype(float))


@pytest.mark.parametrize("target", [SIM, "sim:sm_80", "cpu"])
@pytest.mark.parametrize("count", [0, 1, 4])
def test_two_readers_and_conditions(count, target):
    """Two roles read one tile, in every other turn; a variable is assigned by all of them."""

    @T.prim_func
    def main(A: T.Tensor((count, 64), "float32"), n: T.int32, B: T.Tensor((2, count, 64), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((64,), "float32")
            s, t = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "float32")
            row = T.alloc_var("int32", init=0)
            T.annotate_ws_schedule(
                T.WSSchedule(
                    4,
                    [T.WSRole(f"r{i}", warps_lo=i, warps_hi=i + 1) for i in (0, 1)]
                    + [T.WSRole("load", warps_lo=2, warps_hi=4)],
                    T.WSPipeline("x", x, 2),
                    [
                        T.WSScope(T.WSScope.ROOT, [["loop"], ["loop"], ["loop"]]),
                        T.WSScope("loop", [["odd"], ["odd"], ["odd"]]),
                        T.WSScope(
                            "odd",
                            {
                                "load": [S.producer_acquire("x"), "fill", S.producer_commit("x")],
                                "r0": [S.consumer_wait("x"), "read0", S.consumer_release("x")],
                                "r1": [S.consumer_wait("x"), "read1", S.consumer_release("x")],
                            },
                        ),
                    ],
                )
            )
            with T.ws_op("loop"):
                for i in T.serial(count):
                    place = i * 1
                    with T.ws_op("odd"):
                        if (place + n) % 2 == 1:
                            with T.ws_op("fill"):
                                for j in T.Parallel(64):
                                    x[j] = A[i, j] + row
                            with T.ws_op("read0"):
                                for j in T.Parallel(64):
                                    s[j] = x[63 - j] * 2
                                T.copy(s, B[0, i, :])
                            with T.ws_op("read1"):
                                for j in T.Parallel(64):
                                    t[j] = x[j] + place
                                T.copy(t, B[1, i, :])
                    row = row + 2

    a = np.random.default_rng(0).integers(-9, 9, (count, 64)).astype(np.float32)
    b = np.zeros((2, count, 64), np.float32)
    if target == SIM:
        simulated(main, a, 1, b)
    else:
        tilelang.compile(main, target=target)(a, 1, b)
    expected = np.zeros_like(b)
    for i in range(0, count, 2):
        expected[0, i], expected[1, i] = (a[i] + 2 * i)[::-1] * 2, a[i] + 3 * i
    assert np.array_equal(b, expected)


def test_too_many_registers():
    schedule = gemm_schedule

    def greedy(tiles, depth):
        given = schedule(tiles, depth)
        roles = [T.WSRole(r.name, warps_lo=r.warp_lo, warps_hi=r.warp_hi, max_nreg=240) for r in given.roles]
        assert given.num_warps == 12 and given.pipelines[0].depth == depth and given.scopes[1].id == "loop"
        return T.WSSchedule(given.num_warps, roles, given.pipelines, given.scopes)

    globals()["gemm_schedule"] = greedy
    try:
        function = gemm(128, 128, 64)
    finally:
        globals()["gemm_schedule"] = schedule
    with pytest.raises(tilelang.CompileError, match="want 92160 registers together, max_nreg of each thread"):
        tilelang.compile(function, target=SIM)


@pytest.mark.parametrize("target", [SIM, "reference"])
def test_names_in_annotations(target):
    named = {n: {T.WSID: n} for n in ("clear", "loop", "copy", "gemm", "scale", "store")}

    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.annotate_ws_schedule(
                T.WSSchedule(
                    8,
                    [T.WSRole("load", warps_lo=0, warps_hi=4), T.WSRole("math", warps_lo=4, warps_hi=8)],
                    [T.WSPipeline("a", [a], 2)],
                    [
                        T.WSScope(T.WSScope.ROOT, [["loop"], ["clear", "loop", "scale", "store"]]),
                        T.WSScope("loop", ring("a", "copy", "gemm")),
                    ],
                )
            )
            T.clear(c, annotations=named["clear"])
            for k in T.Pipelined(4, num_stages=2, annotations=named["loop"]):
                T.copy(A[:, k * 64 : (k + 1) * 64], a, annotations=named["copy"])
                T.gemm(a, a, c, transpose_B=True, annotations=named["gemm"])
            for i, j in T.Parallel(64, 64, annotations=named["scale"]):
                c[i, j] = c[i, j] * 2
            T.copy(c, C, annotations=named["store"])

    a, c = numbers(64, 256), np.full((64, 64), np.nan, np.float32)
    kernel = tilelang.compile(main, target=target)
    kernel(a, c)
    assert np.array_equal(c, 2 * (a.astype(float) @ a.astype(float).T))
    assert "is a hint that this version does not use" not in str(kernel.explain())


@pytest.mark.parametrize("count", [0, 3, 8])
def test_a_while_loop(count):
    """Its turns are counted by each thread; where a copy begins is a variable's value."""

    @T.prim_func
    def main(A: T.Tensor((8, 64), "float32"), n: T.int32, B: T.Tensor((8, 64), "float32")):
        with T.Kernel(1, threads=128):
            x, i = T.alloc_shared((64,), "float32"), T.alloc_var("int32", init=0)
            T.annotate_ws_schedule(
                T.WSSchedule(
                    4,
                    [T.WSRole("load", warps_lo=0, warps_hi=1), T.WSRole("math", warps_lo=1, warps_hi=4)],
                    T.WSPipeline("p", x, 2),
                    [
                        T.WSScope(T.WSScope.ROOT, [["loop"], ["loop"]]),
                        T.WSScope("loop", ring("p", "in", "out")),
                    ],
                )
            )
            with T.ws_op("loop"):
                while i < n:
                    with T.ws_op("in"):
                        T.copy(A[i, :], x)
                    with T.ws_op("out"):
                        T.copy(x, B[i, :])
                    i = i + 1

    a, b = np.random.default_rng(0).random((8, 64), np.float32), np.zeros((8, 64), np.float32)
    kernel = simulated(main, a, count, b, schedules=5)
    assert np.array_equal(b[:count], a[:count]) and not b[count:].any()
    assert "p_uses" in kernel._kernel.machine_text and "tma_load" in str(kernel.explain())
