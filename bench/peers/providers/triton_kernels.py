"""Triton's GEMM in three manners: pointers, TMA with programs that run through many tiles, and TMA with warps
that the compiler specializes (where it does; it takes descriptors that the program makes itself)."""

import triton
import triton.language as tl


@triton.jit
def place(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Row and column of a tile, GROUP rows of tiles at a time."""
    first = tile // (GROUP * tiles_n) * GROUP
    rows = min(tiles_m - first, GROUP)
    inside = tile % (GROUP * tiles_n)
    return first + inside % rows, inside // rows


@triton.jit
def by_pointers(
    a,
    b,
    c,
    m,
    n,
    k,
    stride_a,
    stride_bk,
    stride_bn,
    stride_c,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    WHOLE: tl.constexpr,
):
    """WHOLE: BK divides k.  Rows and columns outside are read from inside, and are not stored."""
    i, j = place(tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(n, BN), GROUP)
    at_m, at_n, at_k = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN), tl.arange(0, BK)
    from_m = tl.max_contiguous(tl.multiple_of(at_m % m, BM), BM)
    from_n = tl.max_contiguous(tl.multiple_of(at_n % n, BN), BN)
    at_a = a + from_m[:, None] * stride_a + at_k[None, :]
    at_b = b + at_k[:, None] * stride_bk + from_n[None, :] * stride_bn
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, BK)):
        if WHOLE:
            total = tl.dot(tl.load(at_a), tl.load(at_b), total)
        else:
            left = k - step * BK
            tile_a = tl.load(at_a, mask=at_k[None, :] < left, other=0.0)
            tile_b = tl.load(at_b, mask=at_k[:, None] < left, other=0.0)
            total = tl.dot(tile_a, tile_b, total)
        at_a += BK
        at_b += BK * stride_bk
    inside = (at_m[:, None] < m) & (at_n[None, :] < n)
    tl.store(c + at_m[:, None] * stride_c + at_n[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def product(a, b, i, j, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TRANSPOSED: tl.constexpr):
    """The sums of one tile of C, of descriptors."""
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, BK)):
        tile_a = a.load([i * BM, step * BK])
        if TRANSPOSED:
            total = tl.dot(tile_a, b.load([j * BN, step * BK]).T, total)
        else:
            total = tl.dot(tile_a, b.load([step * BK, j * BN]), total)
    return total


@triton.jit
def by_tma(
    a,
    b,
    c,
    m,
    n,
    k,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    PROGRAMS: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    HALVES: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    """Descriptors from the host; C is stored in two halves where HALVES says so."""
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    stored = tl.program_id(0) - PROGRAMS
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=FLATTEN):
        i, j = place(tile, tiles_m, tiles_n, GROUP)
        total = product(a, b, i, j, k, BM, BN, BK, TRANSPOSED)
        stored += PROGRAMS  # a name of its own, so that the place is not kept through the loop
        i, j = place(stored, tiles_m, tiles_n, GROUP)
        if HALVES:
            parts = tl.permute(tl.reshape(total, (BM, 2, BN // 2)), (0, 2, 1))
            left, right = tl.split(parts)
            c.store([i * BM, j * BN], left.to(c.dtype))
            c.store([i * BM, j * BN + BN // 2], right.to(c.dtype))
        else:
            c.store([i * BM, j * BN], total.to(c.dtype))


@triton.jit
def by_specialized_warps(
    a,
    b,
    c,
    m,
    n,
    k,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    TRANSPOSED: tl.constexpr,
):
    rows_b: tl.constexpr = BN if TRANSPOSED else BK
    columns_b: tl.constexpr = BK if TRANSPOSED else BN
    height_b, width_b = (n, k) if TRANSPOSED else (k, n)
    a_tiles = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(b, [height_b, width_b], [width_b, 1], [rows_b, columns_b])
    c_tiles = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BM, BN])
    i, j = place(tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(n, BN), GROUP)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in tl.range(0, tl.cdiv(k, BK), warp_specialize=True):
        tile_a = a_tiles.load([i * BM, step * BK])
        if TRANSPOSED:
            total = tl.dot(tile_a, b_tiles.load([j * BN, step * BK]).T, total)
        else:
            total = tl.dot(tile_a, b_tiles.load([step * BK, j * BN]), total)
    c_tiles.store([i * BM, j * BN], total.to(c.dtype.element_ty))
