"""2:4 sparse products: the compressor, the orders of metadata, and T.gemm_sp of what they make."""

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import close
from tilelang import CompileError
from tilelang.cuda.intrinsics.sparse_layout import GROUP_CONFIG, get_e_factor, get_e_replicate_factor
from tilelang.layout import make_cutlass_metadata_layout
from tilelang.utils.sparse import compress

TARGETS = ["reference", "cpu", "sim:sm_80", "sim:sm_90a"]
ACCUM = {"int8": "int32", "uint8": "int32"}


def array(dtype, values):
    return np.asarray(values).astype(getattr(ml_dtypes, dtype, None) or dtype)


def dense_and_b(m, n, k, dtype, seed=5):
    """A matrix with as many zeros as the dtype's groups have, and groups with more; and one without."""
    rng = np.random.default_rng(seed)
    kept, of = GROUP_CONFIG[dtype]
    low = {"uint8": 0}.get(dtype, -9)
    a, b = (rng.integers(low, 10, s) if "int" in dtype else rng.standard_normal(s) for s in ((m, k), (k, n)))
    scores = rng.random((m, k // of, of)).argsort(-1).argsort(-1)
    a[(scores >= kept).reshape(m, k)] = 0
    a[rng.random((m, k)) < 0.2] = 0
    return array(dtype, a), array(dtype, b)


def gemm_sp(m, n, k, bk, dtype, meta, turned=(False,) * 3, order=None, where="shared", parts=False):
    """C = A_sparse @ B; turned: A, E and B transposed; order: (arch, block_k) of the metadata in memory."""
    ta, te, tb = turned
    kept, of = GROUP_CONFIG[dtype]
    a, e = bk * kept // of, bk // get_e_factor(dtype, meta)
    accum = ACCUM.get(dtype, "float32")
    parts = (1,) if parts else ()
    arch, block_k = order or (None, None)

    @T.prim_func
    def main(
        A: T.Tensor((m, k // bk * a)[:: -1 if ta else 1], dtype),
        E: T.Tensor((m, k // bk * e)[:: -1 if te else 1], meta),
        B: T.Tensor((n, k) if tb else (k, n), dtype),
        C: T.Tensor((m, n), accum),
    ):
        with T.Kernel(1, threads=128):
            alloc = T.alloc_shared if where == "shared" else T.alloc_fragment
            As = alloc(parts + ((a, m) if ta else (m, a)), dtype)
            Es = alloc(parts + ((e, m) if te else (m, e)), meta)
            Bs = T.alloc_shared((n, bk) if tb else (bk, n), dtype)
            Cf = T.alloc_fragment((m, n), accum)
            if order:
                layouts = {x: make_cutlass_metadata_layout(x, dtype, arch, block_k=block_k) for x in (E, Es)}
                T.annotate_layout(layouts)
            A_tile, E_tile = (As[0, :, :], Es[0, :, :]) if parts else (As, Es)
            for step in T.Pipelined(k // bk, num_stages=1 if where == "fragment" else 2):
                T.copy(A[step * a, 0] if ta else A[0, step * a], A_tile)
                T.copy(E[step * e, 0] if te else E[0, step * e], E_tile)
                T.copy(B[0, step * bk] if tb else B[step * bk, 0], Bs)
                T.gemm_sp(A_tile, E_tile, Bs, Cf, *turned, clear_accum=(step == 0))
            T.copy(Cf, C)

    return main


def product(program, target, A_sparse, E, b, turned=(False,) * 3, accum="float32"):
    m, n = (A_sparse.shape[0], b.shape[1])
    c = np.full((m, n), 77, accum)
    given = [np.ascontiguousarray(x.T if t else x) for x, t in zip((A_sparse, E, b), turned, strict=True)]
    tilelang.compile(program, target=target)(*given, c)
    return c


def check(target, dtype, meta, turned=(False,) * 3, order=None, **how):
    m, n, k, bk = 64, 32, 256, 128
    a, b = dense_and_b(m, n, k, dtype)
    arch, block_k = order or (None, None)
    A_sparse, E = compress(a, arch=arch, meta_dtype=meta, block_k=block_k)
    assert A_sparse.shape == (m, k * GROUP_CONFIG[dtype][0] // GROUP_CONFIG[dtype][1])
    assert E.shape == (m, k // get_e_factor(dtype, meta)) and E.dtype == meta
    program = gemm_sp(m, n, k, bk, dtype, meta, turned, order, **how)
    c = product(program, target, A_sparse, E, b, turned, ACCUM.get(dtype, "float32"))
    close(c, a.astype(np.float64) @ b.astype(np.float64), 2e-3 if dtype == "float32" else 1e-6)


# ── T.gemm_sp ─────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype,meta,turned", [
    ("float16", "int16", "   "), ("float16", "uint8", "AEB"), ("float16", "int32", " E "),
    ("bfloat16", "uint16", "A  "), ("bfloat16", "int8", "  B"), ("int8", "int32", "  B"),
    ("int8", "uint8", " E "), ("int8", "int16", "A  "), ("uint8", "uint32", "   "), ("uint8", "int8", "AE "),
    ("float8_e4m3fn", "int32", "  B"), ("float8_e4m3fn", "uint8", "   "), ("float8_e5m2", "int16", "AEB"),
    ("float32", "int16", " E "), ("float32", "uint8", "A B"), ("float32", "int32", "   "),
])  # fmt: skip
def test_the_product_of_what_was_compressed(target, dtype, meta, turned):
    check(target, dtype, meta, tuple(letter != " " for letter in turned))


ORDERS = [
    ("float16", "int16", ("8.0", None)), ("int8", "int32", ("8.9", None)),
    ("float32", "uint8", ("8.6", None)), ("float16", "uint8", ("9.0", 128)),
    ("bfloat16", "int8", ("9.0", 64)), ("int8", "uint8", ("9.0", 128)),
    ("float8_e4m3fn", "uint8", ("sm_90a", 64)), ("float32", "uint8", ("12.0", 32)),
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype,meta,order", ORDERS)
def test_metadata_in_the_order_of_a_chip(target, dtype, meta, order):
    check(target, dtype, meta, order=order)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("how", [{"where": "fragment"}, {"parts": True}])
def test_operands_in_registers_and_parts_of_tiles(target, how):
    check(target, "float16", "int16", **how)
    check(target, "int8", "int32", **how)


@pytest.mark.parametrize("dtype,arch,block_k,turned", [
    ("float16", "8.0", None, "A "), ("bfloat16", "9.0", 64, " B"), ("int8", "8.0", None, "AB"),
    ("float8_e4m3fn", "9.0", 128, "A "), ("float8_e5m2", "8.9", None, " B"), ("int8", "9.0", 64, "AB"),
])  # fmt: skip
def test_transposed_operands_and_metadata_in_the_order_of_a_chip(dtype, arch, block_k, turned):
    """What the compressor makes of (k, m): the kept elements along k first, the metadata as it always is."""
    m, n, k, bk = 64, 32, 256, block_k or 128
    a, b = dense_and_b(m, n, k, dtype)
    ta, tb = (letter != " " for letter in turned)
    given = np.ascontiguousarray(a.T) if ta else a
    A_sparse, E = compress(given, transposed=ta, arch=arch, block_k=block_k)
    program = gemm_sp(m, n, k, bk, dtype, str(E.dtype), (ta, False, tb), (arch, block_k))
    for target in ("sim:sm_80", "sim:sm_90a"):
        c = np.full((m, n), 77, ACCUM.get(dtype, "float32"))
        operand = np.ascontiguousarray(b.T) if tb else b
        tilelang.compile(program, target=target)(A_sparse, E, operand, c)
        close(c, a.astype(np.float64) @ b.astype(np.float64), 1e-6)
    tilelang.compile(program, target=f"cuda -arch={'sm_80' if arch == '8.0' else 'sm_90a'}")


def test_metadata_of_pytorch(target="sim:sm_80"):
    torch = pytest.importorskip("torch")
    from torch.sparse._semi_structured_conversions import sparse_semi_structured_from_dense_cutlass

    for dtype in ("float16", "int8", "float32"):
        a, b = dense_and_b(64, 32, 256, dtype)
        A_sparse, E = (x.numpy() for x in sparse_semi_structured_from_dense_cutlass(torch.from_numpy(a)))
        ours = compress(a, arch="8.0")
        assert (ours[0] == A_sparse).all() and (ours[1] == E).all()
        program = gemm_sp(64, 32, 256, 128, dtype, str(E.dtype), order=("8.0", None))
        c = product(program, target, A_sparse, E, b, accum=ACCUM.get(dtype, "float32"))
        close(c, a.astype(np.float64) @ b.astype(np.float64), 2e-3 if dtype == "float32" else 1e-6)


# ── a compressor that a user writes ───────────────────────────────────────────────────────────────────
def compressor(m, k, block_k, dtype, meta, order):
    per = get_e_factor(dtype, meta)
    arch, of_order = order or (None, None)

    @T.prim_func
    def main(
        A: T.Tensor((m, k), dtype), A_sparse: T.Tensor((m, k // 2), dtype), E: T.Tensor((m, k // per), meta)
    ):
        with T.Kernel(m // 32, k // block_k, threads=32) as (bx, by):
            A_s, kept = T.alloc_shared((32, block_k), dtype), T.alloc_shared((32, block_k // 2), dtype)
            E_s = T.alloc_shared((32, block_k // per), meta)
            count, places = T.alloc_local((1,), "uint8"), T.alloc_local((2,), "uint8")
            if order:
                T.annotate_layout({E: make_cutlass_metadata_layout(E, dtype, arch, block_k=of_order)})
            T.clear(kept)
            T.clear(E_s)
            T.copy(A[bx * 32, by * block_k], A_s)
            for row in T.Parallel(32):
                for group in range(0, block_k // 4):
                    count[0] = 0
                    places[0], places[1] = 0, 0
                    for i in range(4):
                        value = A_s[row, group * 4 + i]
                        if value != 0.0:
                            places[count[0]] = i
                            kept[row, group * 2 + count[0]] = value
                            count[0] += 1
                    if count[0] == 1 and places[0] == 3:
                        places[0], places[1] = 0, 3
                        kept[row, group * 2 + 1] = kept[row, group * 2]
                        kept[row, group * 2] = 0.0
                    elif count[0] == 1:
                        places[1] = 3
                    for i in T.serial(2):
                        place = places[i]  # a uint8, which is shifted by up to 30
                        at = 4 * (group % (per // 4)) + 2 * i
                        E_s[row, group * 4 // per] |= T.shift_left(place, at)
            T.copy(kept, A_sparse[bx * 32, by * block_k // 2])
            T.copy(E_s, E[bx * 32, by * block_k // per])

    return main


@pytest.mark.parametrize("target", TARGETS[1:])
@pytest.mark.parametrize("dtype,meta,order", [
    ("float16", "int16", None), ("float16", "uint32", None), ("bfloat16", "uint8", ("9.0", 64)),
    ("int8", "int32", ("8.0", None)), ("float8_e5m2", "uint16", None), ("uint8", "int8", None),
])  # fmt: skip
def test_a_compressor_written_as_a_kernel(target, dtype, meta, order):
    m, n, k = 64, 32, 128
    a, b = dense_and_b(m, n, k, dtype, seed=6)
    A_sparse, E = np.zeros((m, k // 2), a.dtype), np.zeros((m, k // get_e_factor(dtype, meta)), meta)
    tilelang.compile(compressor(m, k, 64, dtype, meta, order), target=target)(a, A_sparse, E)
    program = gemm_sp(m, n, k, 64, dtype, meta, order=order)
    c = product(program, target, A_sparse, E, b, accum=ACCUM.get(dtype, "float32"))
    close(c, a.astype(np.float64) @ b.astype(np.float64), 1e-6)


# ── the compressor and the orders ─────────────────────────────────────────────────────────────────────
def test_the_bits_of_metadata():
    row = np.array([[0, 5, 0, 6, 1, 2, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0]], np.float16)
    values, meta = compress(row)
    # places 1, 3 | 0, 1 | 2, 3 | 1, 2: beside a lone element a zero of the second half is kept
    assert values.tolist() == [[5, 6, 1, 2, 0, 3, 4, 0]]
    assert meta.dtype == np.int16 and int(meta.view(np.uint16)[0, 0]) == 0b1001_1110_0100_1101
    assert compress(row.T.copy(), transposed=True)[1].shape == (1, 1)
    halves = compress(np.array([[0, 9, 8, 0, 0, 0, 0, 7]], np.float32))[1]
    assert int(halves.view(np.uint16)[0, 0]) == 0b1110_1110_0100_1110
    assert (get_e_factor("float16", "int16"), get_e_factor(T.float32, "uint8")) == (16, 4)
    assert get_e_factor("int8", "int32") == 32
    assert [get_e_replicate_factor(t) for t in ("float16", "float32", "int8")] == [2, 2, 1]


# how far apart the rows 2^b, then the columns 2^b are from the first element: observed
@pytest.mark.parametrize("dtype,meta,arch,block_k,shape,rows,columns", [
    ("float16", "int16", "8.0", None, (64, 4), [8, 16, 32, 1, 4, 64], [2, 128]),
    ("int8", "int32", "8.9", None, (32, 4), [4, 8, 16, 1, 32], [2, 64]),
    ("float32", "int16", "8.0", None, (64, 4), [8, 16, 32, 1, 4, 64], [2, 128]),
    ("float16", "uint8", "9.0", 32, (64, 16), [4, 8, 16, 2, 64, 128], [1, 32, 256, 512]),
    ("float16", "uint8", "9.0", 64, (64, 16), [8, 16, 32, 2, 128, 256], [1, 64, 4, 512]),
    ("float16", "uint8", "9.0", 128, (64, 32), [16, 32, 64, 2, 256, 512], [1, 128, 4, 8, 1024]),
    ("float32", "uint8", "9.0", 64, (64, 16), [8, 16, 32, 1, 128, 256], [64, 2, 4, 512]),
    ("float8_e4m3fn", "uint8", "9.0", 64, (64, 16), [8, 16, 32, 64, 128, 256], [1, 2, 4, 512]),
    ("int8", "uint8", "10.0", 256, (64, 32), [16, 32, 64, 128, 256, 512], [1, 2, 4, 8, 1024]),
])  # fmt: skip
def test_the_orders_are_those_of_cutlass(dtype, meta, arch, block_k, shape, rows, columns):
    found = []

    @T.prim_func
    def main(E: T.Tensor(shape, meta)):
        with T.Kernel(1):
            found.append(make_cutlass_metadata_layout(E, dtype, arch, block_k=block_k))
            E[0, 0] = 0

    assert [found[0](1 << b, 0) for b in range(len(rows))] == rows
    assert [found[0](0, 1 << b) for b in range(len(columns))] == columns
    assert found[0].is_bijective()


def test_a_layout_takes_no_other_keyword():
    with pytest.raises(CompileError, match="takes block_k beside arch, not blok_k"):
        make_cutlass_metadata_layout(None, arch="9.0", blok_k=64)
    with pytest.raises(CompileError, match="takes a buffer of two dimensions"):
        make_cutlass_metadata_layout(None, arch="9.0", block_k=64)


def test_compress_takes_tensors():
    torch = pytest.importorskip("torch")

    for dtype in ("float16", "bfloat16", "int8", "float32", "float8_e4m3fn"):
        dense = dense_and_b(32, 8, 128, "float32" if "float" in dtype else dtype)[0]
        dense = torch.from_numpy(dense).to(getattr(torch, dtype))
        values, meta = compress(dense)
        wanted = compress(array("float32" if "float" in dtype else dtype, dense.float().numpy()))
        assert values.dtype == dense.dtype and values.shape == (32, 64)
        if dtype == "float32":
            assert (meta.numpy() == wanted[1]).all()
        for turned in compress(dense.T.contiguous(), transposed=True):
            assert turned.shape[1] == 32


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("said,ask", [
    ("row 1 has more than 2 elements that are not zero among the 4 from 4 on",
     lambda: compress(np.array([[0] * 16, [0, 0, 0, 0, 1, 1, 1] + [0] * 9], "f2"))),
    ("k is 8, but an element of int16 describes 16 elements", lambda: compress(np.zeros((2, 8), "f2"))),
    ("a sparse operand is of float16, ", lambda: get_e_factor("float64", "int16")),
    ("compress: meta_dtype is float32, but metadata is of integers of 8, 16 or 32 bits",
     lambda: compress(np.zeros((2, 16), "f2"), meta_dtype="float32")),
    ("compress takes a matrix, not an array of shape (16,)", lambda: compress(np.zeros(16, "f2"))),
    ("the metadata of float16 is of 16 bits in the order of 8.x, not of uint8",
     lambda: compress(np.zeros((64, 64), "f2"), arch="8.0", meta_dtype="uint8")),
    ("its rows must be a multiple of 32, its columns of 2",
     lambda: compress(np.zeros((16, 64), "f2"), arch="8.0")),
    ("the order of 9.0 is of 8 bits, not of int16",
     lambda: compress(np.zeros((64, 64), "f2"), arch="9.0", meta_dtype="int16", block_k=64)),
    ("from 9.0 on depends on block_k", lambda: compress(np.zeros((64, 64), "f2"), arch="9.0")),
    ("block_k is 32: in the order of 9.0 it is a power of two, of int8 from 64 on",
     lambda: compress(np.zeros((64, 64), "i1"), arch="9.0", block_k=32)),
    ("its rows must be a multiple of 64, its columns of 8",
     lambda: compress(np.zeros((32, 128), "f2"), arch="9.0", block_k=64)),
    ("arch is '7.5': metadata is ordered for chips from",
     lambda: compress(np.zeros((64, 64), "f2"), arch="7.5")),
])  # fmt: skip
def test_what_the_compressor_refuses(said, ask):
    with pytest.raises(CompileError) as caught:
        ask()
    assert said in str(caught.value)


@pytest.mark.parametrize("a,e,meta,said", [
    ((16, 16), (16, 4), "int16", "A has 32 elements along k, so E must be (16, 2), one int16 for 16 of them, "
     "but its shape is (16, 4)"),
    ((16, 16), (16, 2), "float16", "E is float16, but metadata is of integers of 8, 16 or 32 bits"),
    ((16, 16), (16, 1), "int64", "E is int64, but metadata is of integers of 8, 16 or 32 bits"),
    ((16, 16), (2, 16, 2), "int16", "E is a tile of two dimensions, but it has shape (2, 16, 2)"),
])  # fmt: skip
def test_metadata_that_does_not_fit_is_refused(a, e, meta, said):
    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def main(C: T.Tensor((16, 16), "float32")):
            with T.Kernel(1, threads=32):
                A, E = T.alloc_shared(a, "float16"), T.alloc_shared(e, meta)
                B, F = T.alloc_shared((32, 16), "float16"), T.alloc_fragment((16, 16), "float32")
                T.gemm_sp(A, E, B, F)

    assert f"T.gemm_sp: {said}" in str(caught.value)
