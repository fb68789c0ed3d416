"""Products of what threads compute from another product: begun a turn late, they run beside the next turn's
threads.  Which loops have them, why not others, and that each form computes what it means in every order of
warps."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from test_roles import numbers, poisoned, run, text_of, why_not

SIM = "sim:sm_90a"


def chain(steps, rows=64, width=64, depth=64, threads=128, stages=2, through="fragment", form="scaled"):
    """O = sum over k of f(A · B[k]) · C[k], where f halves; `form`: what else the turn does with O."""
    n = T.dynamic("n") if steps is None else steps * width

    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), "float16"),
        B: T.Tensor((n, depth), "float16"),
        C: T.Tensor((n, 64), "float16"),
        O: T.Tensor((rows, 64), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((rows, depth), "float16")
            b, c = T.alloc_shared((width, depth), "float16"), T.alloc_shared((width, 64), "float16")
            s = T.alloc_fragment((rows, width), "float32")
            p = T.alloc_fragment((rows, width), "float16")
            kept = T.alloc_shared((rows, width), "float16")
            o, total = T.alloc_fragment((rows, 64), "float32"), T.alloc_fragment((rows,), "float32")
            full_row = T.GemmWarpPolicy.FullRow
            T.copy(A, a)
            T.clear(o)
            for k in T.Pipelined(T.ceildiv(n, width), num_stages=stages):
                T.copy(B[k * width, 0], b)
                if form == "triangle":
                    for i, j in T.Parallel(rows, width):
                        s[i, j] = T.if_then_else(k * width + j <= i + 200, 0, -4)
                else:
                    T.clear(s)
                if form == "masked" and k % 2 == 1:
                    for i, j in T.Parallel(rows, width):
                        if j > i:
                            s[i, j] = 8
                T.gemm(a, b, s, transpose_B=True, policy=full_row)
                for i, j in T.Parallel(rows, width):
                    s[i, j] = s[i, j] / 2
                T.reduce_sum(s, total, dim=1)
                if form == "scaled":
                    for i, j in T.Parallel(rows, 64):
                        o[i, j] = o[i, j] / 2
                T.copy(s, p)
                if through == "shared":
                    T.copy(p, kept)
                T.copy(C[k * width, 0], c)
                if through == "shared":
                    T.gemm(kept, c, o, policy=full_row)
                else:
                    T.gemm(p, c, o, policy=full_row)
            T.copy(o, O)

    return main


def chain_of(a, b, c, width, form):
    """The same in float64, with the half-precision factors between the products."""
    out = np.zeros((a.shape[0], 64))
    for k in range(len(b) // width):
        rows = slice(k * width, (k + 1) * width)
        s = a.astype(float) @ b[rows].T.astype(float)
        if form == "masked" and k % 2 == 1:
            s += 8 * (np.arange(width) > np.arange(a.shape[0])[:, None])
        if form == "triangle":
            s -= 4 * (k * width + np.arange(width) > np.arange(a.shape[0])[:, None] + 200)
        if form == "scaled":
            out /= 2
        out += (s / 2).astype(np.float16).astype(float) @ c[rows].astype(float)
    return out


def small(*shape, seed):
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(np.float16)


def is_late(kernel):
    return "are begun a turn late" in kernel.report.text


@pytest.mark.parametrize("form", ["scaled", "masked", "triangle", "plain"])
@pytest.mark.parametrize("through", ["fragment", "shared"])
@pytest.mark.parametrize("steps, options", [(2, {}), (3, {"stages": 3}), (5, {"rows": 128, "threads": 256})])
def test_chains(steps, options, through, form):
    width, rows = 64, options.get("rows", 64)
    a, b, c = small(rows, 64, seed=0), small(steps * width, 64, seed=1), small(steps * width, 64, seed=2)
    o = poisoned(rows, 64)
    kernel = run(chain(steps, through=through, form=form, **options), a, b, c, o, seeds=range(4))
    assert is_late(kernel), kernel.report.text
    assert np.array_equal(o, chain_of(a, b, c, width, form))
    if steps == 5:  # else the turns are few enough to know each
        assert ("if masked" in text_of(kernel)) == (form in ("masked", "triangle"))


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("form", ["scaled", "masked"])
def test_trips_that_only_the_call_knows(steps, form):
    a, b, c = small(64, 64, seed=0), small(steps * 64, 64, seed=1), small(steps * 64, 64, seed=2)
    o = poisoned(64, 64)
    kernel = run(chain(None, form=form), a, b, c, o)
    assert is_late(kernel)
    assert np.array_equal(o, chain_of(a, b, c, 64, form))


@pytest.mark.parametrize("uneven", [False, True])
def test_from_one_tile_to_the_next(uneven):
    """Loops around: the turns count on, and a tile beside the loop is loaded once for each of its uses."""
    tiles, most = 5, 4

    @T.prim_func
    def main(
        A: T.Tensor((tiles, 64, 64), "float16"),
        B: T.Tensor((most * 64, 64), "float16"),
        O: T.Tensor((tiles, 64, 64), "float32"),
        n: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_shared((64, 64), "float16")
            s, o = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            p = T.alloc_fragment((64, 64), "float16")
            for t in T.serial(tiles):
                T.copy(A[t, :, :], a)
                T.clear(o)
                for k in T.Pipelined(T.min(n, t) if uneven else n, num_stages=2):
                    T.copy(B[k * 64, 0], b)
                    T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                    T.copy(s, p)
                    T.copy(B[k * 64, 0], c)
                    T.gemm(p, c, o)
                T.copy(o, O[t, :, :])

    a, b = small(tiles, 64, 64, seed=0), small(most * 64, 64, seed=1)
    for n in (0, 1, 2, most):
        o = poisoned(tiles, 64, 64)
        kernel = run(main, a, b, o, n, seeds=range(3))
        assert is_late(kernel) and "a_full" in text_of(kernel)
        for t in range(tiles):
            rows = b[: 64 * (min(n, t) if uneven else n)]
            exact = chain_of(a[t] * 2, rows, rows, 64, "plain")
            assert np.array_equal(o[t], exact), (n, t)


def test_one_tile_for_both_products():
    """Latent attention: what the late product reads was loaded a turn ago, and keeps its slot for two."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"), B: T.Tensor((256, 64), "float16"), O: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            s, o = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            p = T.alloc_fragment((64, 64), "float16")
            T.copy(A, a)
            T.clear(o)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                T.copy(s, p)
                T.gemm(p, b, o)
            T.copy(o, O)

    a, b, o = small(64, 64, seed=0), small(256, 64, seed=1), poisoned(64, 64)
    kernel = run(main, a, b, o, seeds=range(6))
    assert is_late(kernel)
    assert np.array_equal(o, chain_of(a * 2, b, b, 64, "plain"))


def test_two_late_products_and_one_that_is_looked_at():
    """A gradient's shape: two sums grow by what threads have computed, a third leaves in every turn."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((256, 64), "float16"),
        O: T.Tensor((2, 64, 64), "float32"),
        D: T.Tensor((4, 64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_shared((64, 64), "float16")
            s, t, d = [T.alloc_fragment((64, 64), "float32") for _ in range(3)]
            o, q = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            p, r = T.alloc_fragment((64, 64), "float16"), T.alloc_fragment((64, 64), "float16")
            T.copy(A, a)
            T.clear(o)
            T.clear(q)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(B[k * 64, 0], b)
                T.copy(B[(3 - k) * 64, 0], c)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                T.gemm(a, c, t, transpose_B=True, clear_accum=True)
                T.copy(s, p)
                T.gemm(p, c, o)
                for i, j in T.Parallel(64, 64):
                    t[i, j] = t[i, j] - s[i, j]
                T.copy(t, r)
                T.gemm(r, b, q)
                T.gemm(r, c, d, clear_accum=True)
                T.copy(d, D[k, :, :])
            T.copy(o, O[0, :, :])
            T.copy(q, O[1, :, :])

    a, b = small(64, 64, seed=0), small(256, 64, seed=1)
    o, d = poisoned(2, 64, 64), poisoned(4, 64, 64)
    kernel = run(main, a, b, o, d, seeds=range(4))
    assert is_late(kernel), kernel.report.text
    exact, parts = np.zeros((2, 64, 64)), b.astype(float).reshape(4, 64, 64)
    for k in range(4):
        b_k, c_k = parts[k], parts[3 - k]
        s, t = a @ b_k.T, a @ c_k.T
        exact[0] += s @ c_k
        exact[1] += (t - s) @ b_k
        assert np.array_equal(d[k], (t - s) @ c_k), k
    assert np.array_equal(o, exact)


def test_sums_that_the_turn_looks_at_again():
    """What stands between this turn's product and the next turn's first keeps it from being late."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"), B: T.Tensor((256, 64), "float16"), O: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            s, o = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            p = T.alloc_fragment((64, 64), "float16")
            T.copy(A, a)
            T.clear(o)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                T.copy(s, p)
                T.gemm(p, b, o)
                for i, j in T.Parallel(64, 64):
                    o[i, j] = o[i, j] / 2
            T.copy(o, O)

    a, b, o = small(64, 64, seed=0), small(256, 64, seed=1), poisoned(64, 64)
    kernel = tilelang.compile(main, target=SIM)
    assert not kernel.simulate(a, b, o).findings
    assert "cannot be begun a turn later" in why_not(kernel) and "uses o between" in why_not(kernel)
    exact = np.zeros((64, 64))
    for part in b.astype(float).reshape(4, 64, 64):
        exact = (exact + a @ part.T @ part) / 2
    assert np.array_equal(o, exact)


@pytest.mark.parametrize("heads, kv_heads, queries, keys, dim", [(2, 1, 200, 300, 64), (1, 1, 130, 520, 128)])
@pytest.mark.parametrize("causal", [False, True])
def test_the_plain_attention(heads, kv_heads, queries, keys, dim, causal):
    import flash_attention

    tiles = flash_attention.TILES["warpgroup_gpu"][dim > 64]
    shape = (1, heads, queries, keys, dim, causal)
    program = flash_attention.attention.get_tir(*shape, *tiles, "float16", kv_heads)
    kernel = tilelang.compile(program, target=SIM, pass_configs=flash_attention.FAST)
    assert is_late(kernel), kernel.report.text
    rng = np.random.default_rng(0)
    q, k, v = (
        rng.standard_normal((1, n, length, dim), np.float32).astype(np.float16)
        for n, length in ((heads, queries), (kv_heads, keys), (kv_heads, keys))
    )
    o = np.full(q.shape, np.nan, np.float16)
    for seed in range(2):
        assert not kernel.simulate(q, k, v, o, seed=seed).findings
    exact = flash_attention.exact(q, k, v, causal)
    assert np.linalg.norm(o - exact) <= 1e-3 * np.linalg.norm(exact)


def test_no_slot_to_load_ahead():
    """A tile that both products use and that fills the memory twice: its slots hold two turns, no third."""
    H, N, D = 64, 64, 512

    @T.prim_func
    def main(
        A: T.Tensor((H, D), "float16"), B: T.Tensor((256, D), "float16"), O: T.Tensor((H, D), "float32")
    ):
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((H, D), "float16"), T.alloc_shared((N, D), "float16")
            s, o = T.alloc_fragment((H, N), "float32"), T.alloc_fragment((H, D), "float32")
            p = T.alloc_shared((H, N), "float16")
            columns = T.GemmWarpPolicy.FullCol
            T.copy(A, a)
            T.clear(o)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(B[k * N, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True, policy=columns)
                T.copy(s, p)
                T.gemm(p, b, o, policy=columns)
            T.copy(o, O)

    assert "none is left to load ahead" in why_not(tilelang.compile(main, target=SIM))


def test_too_few_registers():
    """Fragments of both products are alive at once: 128 threads hold those of 64 rows, not of 128."""
    import flash_attention

    def notes(rows):
        program = flash_attention.attention.get_tir(1, 1, 256, 256, 64, False, rows, 128, 128)
        return tilelang.compile(program, target=SIM)

    assert is_late(notes(64))
    assert "are alive at once" in why_not(notes(128))


@pytest.mark.parametrize("form", ["copied", "at times", "in a loop", "stored"])
def test_a_tile_that_the_turn_reads_again(form):
    """Behind the product that is begun a turn late: this turn waits for the tile itself."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((256, 64), "float16"),
        O: T.Tensor((2, 64, 64), "float32"),
        D: T.Tensor((4, 64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b, c = [T.alloc_shared((64, 64), "float16") for _ in range(3)]
            s, o, t = [T.alloc_fragment((64, 64), "float32") for _ in range(3)]
            p, q = T.alloc_fragment((64, 64), "float16"), T.alloc_fragment((64, 64), "float16")
            T.copy(A, a)
            T.clear(o)
            T.clear(t)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                T.copy(s, p)
                T.copy(B[(3 - k) * 64, 0], c)
                T.gemm(p, c, o)
                if form == "copied":
                    T.copy(c, q)
                    for i, j in T.Parallel(64, 64):
                        t[i, j] += q[i, j]
                elif form == "at times":
                    if k % 2 == 0:
                        T.gemm(a, c, t)
                elif form == "in a loop":
                    for _ in T.serial(2):
                        T.gemm(a, c, t)
                else:
                    T.gemm(a, c, t, clear_accum=True)
                    T.copy(t, D[k, :, :])
            T.copy(o, O[0, :, :])
            T.copy(t, O[1, :, :])

    a, b = small(64, 64, seed=0), small(256, 64, seed=1)
    o, d = poisoned(2, 64, 64), poisoned(4, 64, 64)
    assert is_late(run(main, a, b, o, d, seeds=range(6)))
    parts = b.astype(float).reshape(4, 64, 64)
    assert np.array_equal(o[0], sum(a @ parts[k].T @ parts[3 - k] for k in range(4)))
    products = [a @ parts[3 - k] for k in range(4)]
    exact = {
        "copied": parts.sum(0),
        "at times": products[0] + products[2],
        "in a loop": 2 * sum(products),
        "stored": products[3],
    }
    assert np.array_equal(o[1], exact[form])
    if form == "stored":
        assert np.array_equal(d, np.stack(products))


def test_a_region_that_memory_names():
    """Which part of a tile a product reads is known in its own turn only."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"), B: T.Tensor((256, 64), "float16"), O: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_shared((128, 64), "float16")
            s, o = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            p, v = T.alloc_fragment((64, 64), "float16"), T.alloc_var("int32", 0)
            T.copy(A, a)
            T.copy(B[0:128, :], c)
            T.clear(o)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                T.copy(s, p)
                T.gemm(p, c[v * 64 : v * 64 + 64, :], o)
                v = 1 - v
            T.copy(o, O)

    a, b, o = small(64, 64, seed=0), small(256, 64, seed=1), poisoned(64, 64)
    kernel = tilelang.compile(main, target=SIM)
    assert not kernel.simulate(a, b, o).findings and "depend on memory" in why_not(kernel)
    parts = b.astype(float).reshape(4, 64, 64)
    assert np.array_equal(o, sum(a @ parts[k].T @ parts[k % 2] for k in range(4)))


@pytest.mark.parametrize("name", ["variable", "tile", "atomic"])
def test_names_that_only_those_who_compute_know(name):
    """The role that loads has no copy of what it does not need: neither its value nor its effect."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 256), "float16"),
        C: T.Tensor((64, 64), "float32"),
        D: T.Tensor((4,), "int32"),
        E: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            kept, total = T.alloc_shared((64,), "float32"), T.alloc_fragment((64,), "float32")
            v = T.alloc_var("int32", 1)
            T.clear(c)
            T.clear(total)
            T.fill(kept, 2)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.gemm(a, a, c, transpose_B=True)
                if name == "variable":
                    w = v * 1
                    for i in T.Parallel(64):
                        total[i] += w
                elif name == "tile":
                    w = kept[3]
                    for i in T.Parallel(64):
                        total[i] += w
                else:
                    w = T.atomic_add(D[k], 1, return_prev=True)
                    for i in T.Parallel(64):
                        total[i] += T.min(w, 0)
            T.copy(c, C)
            T.copy(total, E)

    a, c, d, e = numbers(64, 256), poisoned(64, 64), np.zeros(4, np.int32), poisoned(64)
    run(main, a, c, d, e, seeds=range(2))
    assert np.array_equal(c, a.astype(float) @ a.T.astype(float))
    assert (e == {"variable": 4, "tile": 8, "atomic": 0}[name]).all()
    assert (d == (256 if name == "atomic" else 0)).all()  # two runs of 128 threads


@pytest.mark.parametrize("form", ["plain", "masked"])
def test_a_clear_stays_in_front_of_a_jump(form):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), O: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, s = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            for k in T.serial(4):
                T.clear(s)
                if form == "masked" and k % 2 == 1:
                    T.fill(s, 1)
                if k == 2:
                    break
                T.gemm(a, a, s, transpose_B=True)
            T.copy(s, O)

    a, o = small(64, 64, seed=0), poisoned(64, 64)
    kernel = tilelang.compile(main, target=SIM)
    assert not kernel.simulate(a, o).findings and (o == 0).all()
