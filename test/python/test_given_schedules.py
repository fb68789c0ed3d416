"""order, stage, group and sync of T.Pipelined: a schedule by hand is carried out, or refused on its line."""

import inspect
import random

import numpy as np
import pytest
import tilelang
import tilelang.language as T

TARGETS = ["sim:sm_80", "sim:sm_75", "sim:gfx942", "cpu", "reference"]


def matmul(M, N, K, num_stages, **given):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=128) as (bx, by):
            A_shared = T.alloc_shared((32, 32), "float16")
            B_shared = T.alloc_shared((32, 32), "float16")
            acc = T.alloc_fragment((32, 32), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=num_stages, **given):
                T.copy(A[by * 32, k * 32], A_shared)
                T.copy(B[k * 32, bx * 32], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C[by * 32, bx * 32])

    return main


def attention(queries, keys, dim, tile, **given):
    """The products of neighbouring iterations beside each other, as kernels for sm_90 do."""

    @T.prim_func
    def main(
        Q: T.Tensor((queries, dim), "float16"),
        K: T.Tensor((keys, dim), "float16"),
        V: T.Tensor((keys, dim), "float16"),
        O: T.Tensor((queries, dim), "float32"),
    ):
        with T.Kernel(T.ceildiv(queries, tile), threads=128) as bx:
            Q_shared = T.alloc_shared((tile, dim), "float16")
            K_shared = T.alloc_shared((tile, dim), "float16")
            V_shared = T.alloc_shared((tile, dim), "float16")
            scores = T.alloc_fragment((tile, tile), "float32")
            weights = T.alloc_fragment((tile, tile), "float16")
            out = T.alloc_fragment((tile, dim), "float32")
            greatest = T.alloc_fragment((tile,), "float32")
            before = T.alloc_fragment((tile,), "float32")
            scale = T.alloc_fragment((tile,), "float32")
            part = T.alloc_fragment((tile,), "float32")
            total = T.alloc_fragment((tile,), "float32")
            T.copy(Q[bx * tile, 0], Q_shared)
            T.clear(out)
            T.clear(total)
            T.fill(greatest, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(keys, tile), num_stages=2, **given):
                T.copy(K[k * tile, 0], K_shared)
                for i, j in T.Parallel(tile, tile):
                    scores[i, j] = T.if_then_else(k * tile + j < keys, 0, -T.infinity("float32"))
                T.gemm(Q_shared, K_shared, scores, transpose_B=True)
                T.copy(greatest, before)
                T.reduce_max(scores, greatest, dim=1, clear=False)
                for i in T.Parallel(tile):
                    scale[i] = T.exp(before[i] - greatest[i])
                for i, j in T.Parallel(tile, tile):
                    scores[i, j] = T.exp(scores[i, j] - greatest[i])
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(tile):
                    total[i] = total[i] * scale[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(tile, dim):
                    out[i, j] *= scale[i]
                T.copy(V[k * tile, 0], V_shared)
                T.gemm(weights, V_shared, out)
            for i, j in T.Parallel(tile, dim):
                out[i, j] /= total[i]
            T.copy(out, O[bx * tile, 0])

    return main


LATE_PRODUCT = {
    "order": [-1, 0, 3, 1, -1, 2],
    "stage": [-1, 0, 0, 1, -1, 1],
    "group": [[0], [1, 2], [3, 4, 5, 6, 7, 8, 9], [10], [11], [12]],
}


def multiply(kernel, M, N, K):
    rng = np.random.default_rng(M + N + K)
    a, b = rng.standard_normal((M, K)).astype(np.float16), rng.standard_normal((K, N)).astype(np.float16)
    c = np.full((M, N), np.nan, np.float32)
    kernel(a, b, c)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.linalg.norm(c - exact) <= 1e-5 * np.linalg.norm(exact)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "given",
    [
        {"order": [0, 1, 2], "stage": [0, 0, 2]},
        {"order": [2, 1, 0], "stage": [0, 0, 1]},  # the product first, then the next copies
        {"order": [0, 2, 1], "stage": [0, 1, 3]},
        {"order": [-1, -1, 0], "stage": [-1, -1, 0]},
        {"order": [-1, 0, 1], "stage": [-1, 0, 1], "sync": [[0, 2], [1, 2]]},
        {"stage": [0, 0, 1]},
        {"order": [1, 0, 2]},
        {"order": [0, 1], "stage": [0, 1], "group": [[0, 1], [2]]},
        {"order": [1, 0], "stage": [1, 0], "group": [[2], [1, 0]]},  # numbered against the text
    ],
    ids=str,
)
def test_gemm(given, target):
    for M, N, K in ((33, 40, 8), (32, 32, 64), (70, 50, 200)):
        multiply(tilelang.compile(matmul(M, N, K, 3, **given), target=target), M, N, K)


@pytest.mark.parametrize("target", TARGETS)
def test_a_late_product(target):
    """P·V of an iteration beside Q·K of the next one."""
    for queries, keys, dim in ((32, 32, 32), (40, 33, 32), (64, 160, 64)):
        kernel = tilelang.compile(attention(queries, keys, dim, 32, **LATE_PRODUCT), target=target)
        rng = np.random.default_rng(keys)
        q, k, v = (rng.standard_normal((n, dim)).astype(np.float16) for n in (queries, keys, keys))
        o = np.full((queries, dim), np.nan, np.float32)
        kernel(q / 4, k, v, o)
        scores = (q / 4).astype(np.float64) @ k.astype(np.float64).T
        weights = np.exp(scores - scores.max(1, keepdims=True))
        exact = weights @ v.astype(np.float64) / weights.sum(1, keepdims=True)
        assert np.linalg.norm(o - exact) <= 1e-3 * np.linalg.norm(exact)


def test_the_plan_stands_in_the_program():
    kernel = tilelang.compile(matmul(64, 64, 256, 3, order=[0, 1, 2], stage=[0, 0, 2]), target="sim:sm_80")
    assert "runs as order and stage say: 3 stages" in [n.text for n in kernel.report.notes]


def line_of(function, part):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if part in line)


@pytest.mark.parametrize("target", [*TARGETS, "sim:sm_90a"])
@pytest.mark.parametrize(
    ("given", "said", "part"),
    [
        ({"order": [1, 2, 0]}, "statement 2 .* before statement 0 .* writes A_shared", "T.gemm(A_sh"),
        ({"stage": [1, 0, 0]}, "statement 2 .* before statement 0 .* writes A_shared", "T.gemm(A_sh"),
        ({"order": [0, 1]}, "order has 2 items, but the body has 3 statements", "in T.Pipelined"),
        ({"order": [0, 1, 1]}, "order gives 1 to statement 1 .* and to statement 2", "in T.Pipelined"),
        ({"order": [0, 1, -1], "stage": [0, 0, 1]}, "must be both", "in T.Pipelined"),
        ({"order": [0, 1, -2]}, "count from 0", "in T.Pipelined"),
        ({"order": [0, 1], "group": [[0], [1]]}, "group names 2 statements, but the body has 3", "in T.Pi"),
        ({"order": [0, 1, 2], "sync": [[2, 0]]}, "sync lets statement 0 .* wait for statement 2", "in T.Pip"),
        ({"order": [0, 1, 2], "sync": [[2, 7]]}, "sync names 7", "in T.Pipelined"),
        ({"order": [0, 1], "group": [[2], [0, 1]]}, "statement 2 .* before the group of .*0, 1", "T.gemm("),
        ({"order": [0, 1], "group": [[0, 2], [1]]}, "0, 2 .* before statement 1 .* writes B_sh", "A[by * 32"),
        ({"order": [0, 1, -1]}, "statement 2 .* is left to the compiler, but no statement", "in T.Pipelined"),
    ],
    ids=str,
)
def test_errors(given, said, part, target):
    with pytest.raises(tilelang.CompileError, match=said) as info:
        tilelang.compile(matmul(64, 64, 256, 3, **given), target=target)
    assert f"{__file__}:{line_of(matmul, part)}:" in str(info.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"group": [[0], [1]]}, "group and sync belong to an order or a stage"),
        ({"order": 1}, "order is a list of integers, one for each statement, not 1"),
        ({"order": [0, 1, 2], "group": [[0, 0], [1, 2]]}, "group must name each statement once"),
        ({"order": [0, 1, 2], "sync": [[0, 1, 2]]}, "a pair has two numbers"),
    ],
    ids=str,
)
def test_errors_of_the_lists(given, said):
    with pytest.raises(tilelang.CompileError, match=said) as info:
        matmul(64, 64, 256, 3, **given)
    assert f"{__file__}:{line_of(matmul, 'in T.Pipelined')}:" in str(info.value)


def test_a_carried_tile_may_not_be_overtaken():
    """Softmax of the next iteration would overwrite the weights that the late product reads."""
    wrong = LATE_PRODUCT | {"order": [-1, 0, 1, 2, -1, 3]}
    for target in ("sim:sm_80", "cpu", "reference"):
        with pytest.raises(tilelang.CompileError, match=r"of the next iteration before .* (scale|weights)"):
            tilelang.compile(attention(64, 160, 64, 32, **wrong), target=target)


def test_the_program_alone_says_whether_a_schedule_fits():
    """On sm_90 the clear becomes a part of the product: it is a statement of the schedule all the same."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            part, sums = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            T.clear(sums)
            for k in T.Pipelined(4, num_stages=2, order=[0, 1, 2, 3, 4], stage=[0, 0, 1, 1, 1]):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.clear(part)
                T.gemm(a, b, part)
                for i, j in T.Parallel(64, 64):
                    sums[i, j] += part[i, j]
            T.copy(sums, C)

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((64, 256), (256, 64)))
    for target in ("sim:sm_90a", "sim:sm_80", "cpu", "reference"):
        c = np.full((64, 64), np.nan, np.float32)
        tilelang.compile(main, target=target)(a, b, c)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        assert np.linalg.norm(c - exact) <= 1e-3 * np.linalg.norm(exact)


@pytest.mark.parametrize("target", TARGETS)
def test_tiles_allocated_in_what_runs_ahead(target):
    @T.prim_func
    def main(A: T.Tensor((5, 64), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            doubled, total = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "float32")
            T.clear(doubled)
            T.clear(total)
            for k in T.Pipelined(5, num_stages=2, order=[0, 1], stage=[0, 2]):
                if k != 3:
                    row = T.alloc_shared((64,), "float32")
                    T.copy(A[k, 0], row)
                    for i in T.Parallel(64):
                        doubled[i] += 2 * row[63 - i]
                for i in T.Parallel(64):
                    total[i] += k
            for i in T.Parallel(64):
                C[i] = doubled[i] + total[i]

    a = np.random.default_rng(0).integers(-9, 9, (5, 64)).astype(np.float32)
    c = np.full(64, np.nan, np.float32)
    tilelang.compile(main, target=target)(a, c)
    assert (c == 2 * (a.sum(0) - a[3])[::-1] + 10).all()


def chain(seed):
    """A body of some statements on some tiles, with a random order and stages, which may be wrong."""
    rng = random.Random(seed)
    count = rng.randint(2, 4)
    steps = [(rng.randrange(3), rng.randrange(3)) for _ in range(count)]
    order = rng.sample(range(count), count) if rng.random() < 0.5 else list(range(count))
    stage = [rng.randrange(2) for _ in range(count)] if rng.random() < 0.5 else [0] * count
    if rng.random() < 0.1:
        order = order[1:]
    turns = rng.choice([1, 4])

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tiles = [T.alloc_shared((32,), "float32") for _ in range(3)]
            for tile in tiles:
                T.clear(tile)
            for k in T.Pipelined(turns, num_stages=2, order=order, stage=stage):
                for n, (to, of) in enumerate(steps):
                    if n == 0:
                        T.copy(A[k * 32], tiles[to])
                    else:
                        for i in T.Parallel(32):
                            tiles[to][i] = tiles[of][i] * 0.5 + n
            for i in T.Parallel(32):
                B[i] = tiles[0][i] + tiles[1][i] + tiles[2][i]

    return main


def test_random_schedules_have_one_verdict_and_one_result():
    a = np.random.default_rng(0).standard_normal(128).astype(np.float32)
    accepted = 0
    for seed in range(60):
        verdicts = set()
        for target in ("reference", "cpu", "sim:sm_80", "sim:sm_90a"):
            b = np.full(32, np.nan, np.float32)
            try:
                tilelang.compile(chain(seed), target=target)(a, b)
                verdicts.add(b.tobytes())
            except tilelang.CompileError as error:
                verdicts.add(error.text)
        assert len(verdicts) == 1, (seed, verdicts)
        accepted += isinstance(verdicts.pop(), bytes)
    assert 10 <= accepted <= 50
