"""A vector times packed weights, y = dequantised(W) @ x: int4 and nf4 by float16, int2 by int8.

    python examples/dequant_gemv.py [--target auto|cpu|cuda|sim:CHIP|reference] [--n N] [--k K]

A thread takes 16 bytes of a row at a time, four words of 32 bits, and the elements of x that belong to them;
four threads share neighbouring elements, so that what they read of x at once lies side by side.  `pack` says
where an element stands.  The loops are bound by the bandwidth with which W is read.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

TILES = {"cpu": (4, 1024, 1), "gpu": (4, 1024, 32), "reference": (16, 512, 1)}
TILES_NF4 = {
    "cpu": (4, 1024, 1, 4),
    "gpu": (16, 2048, 256, 528),
    "reference": (16, 512, 1, 4),
}  # … and blocks
SMALL = {"n": 9, "k": 2304}
INT4_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)  # the place of each of 8 elements: a mask of every fourth finds a pair
INT2_ORDER = tuple(i // 4 + i % 4 * 4 for i in range(16))  # … of every eighth bit, four neighbours
NF4 = [-1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.091050036, 0.0, 0.0795803,
       0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0]  # fmt: skip


def pack(codes, bits, order):
    """Codes (rows, K) of so many bits as words (rows, pieces, 4), a piece for a thread.

    A word holds neighbouring elements, element i at the place order[i].  Of four times four neighbouring
    words the first four are the first ones of four pieces, and so on: K is a multiple of 16 words."""
    parts = codes.astype(np.uint32).reshape(len(codes), -1, 4, 4, len(order))
    words = sum(parts[..., i] << np.uint32(bits * place) for i, place in enumerate(order))
    return words.astype(np.uint32).swapaxes(2, 3).reshape(len(codes), -1, 4)


@T.macro
def copy_pieces(x, first, xs):
    """What belongs to the pieces from `first` on: x is (words of W, words of x for each), in order."""
    for j, c in T.Parallel(*xs.shape):
        xs[j, c] = x[(first + j) // 4 * 4 + c // 4, j % 4 * 4 + c % 4]


@tilelang.jit(out_idx=[-1])
def int4_gemv(N, K, group, block_N, block_K, threads):
    """y = (W - 8) * scales @ x: codes of 4 bits, a scale for `group` neighbours along K."""
    pieces = block_K // 32

    @T.prim_func
    def main(
        W: T.Tensor((N, K // 32, 4), "uint32"),
        scales: T.Tensor((N, K // group), "float16"),
        x: T.Tensor((K // 32, 16), "uint32"),  # pairs of float16
        y: T.Tensor((N,), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), threads=threads) as bx:
            codes = T.alloc_fragment((block_N, pieces, 4), "uint32")
            xs = T.alloc_fragment((pieces, 16), "uint32")
            sums = T.alloc_fragment((block_N, pieces), "float32")
            total = T.alloc_fragment((block_N,), "float32")
            T.clear(sums)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(W[bx * block_N, k * pieces, 0], codes)
                copy_pieces(x, k * pieces, xs)
                for i, j in T.Parallel(block_N, pieces):
                    sum_ = T.alloc_var("uint32", 0)  # of the even and of the odd elements
                    for v in T.unroll(4):
                        for h in T.unroll(2):  # 1024 + code in every half, or 1024 + 16 * code
                            word = codes[i, j, v] >> T.uint32(8 * h)
                            low = T.reinterpret(
                                word & T.uint32(0x000F000F) | T.uint32(0x64006400), "float16x2"
                            )
                            high = T.reinterpret(
                                word & T.uint32(0x00F000F0) | T.uint32(0x64006400), "float16x2"
                            )
                            low = T.add2(low, T.float16(-1032))
                            high = T.fma2(high, T.float16(1 / 16), T.float16(-72))
                            so_far = T.reinterpret(sum_, "float16x2")
                            so_far = T.fma2(low, T.reinterpret(xs[j, 4 * v + 2 * h], "float16x2"), so_far)
                            so_far = T.fma2(
                                high, T.reinterpret(xs[j, 4 * v + 2 * h + 1], "float16x2"), so_far
                            )
                            sum_ = T.reinterpret(so_far, "uint32")
                    pair = T.reinterpret(sum_, "float16x2")
                    scale = scales[bx * block_N + i, (k * pieces + j) * 32 // group]
                    sums[i, j] += (T.float32(pair[0]) + T.float32(pair[1])) * T.float32(scale)
            T.reduce_sum(sums, total, dim=1)
            T.copy(total, y[bx * block_N])

    return main


@tilelang.jit(out_idx=[-1])
def int2_gemv(N, K, block_N, block_K, threads):
    """y = (W - 2) @ x: codes of 2 bits by int8, summed in int32."""
    pieces = block_K // 64

    @T.prim_func
    def main(
        W: T.Tensor((N, K // 64, 4), "uint32"),
        x: T.Tensor((K // 64, 16), "uint32"),  # four int8 each
        y: T.Tensor((N,), "int32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), threads=threads) as bx:
            codes = T.alloc_fragment((block_N, pieces, 4), "uint32")
            xs = T.alloc_fragment((pieces, 16), "uint32")
            sums = T.alloc_fragment((block_N, pieces), "int32")
            twice = T.alloc_fragment((pieces,), "int32")  # -2 times what belongs to a piece of x
            total = T.alloc_fragment((block_N,), "int32")
            T.clear(sums)
            T.clear(twice)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(W[bx * block_N, k * pieces, 0], codes)
                copy_pieces(x, k * pieces, xs)
                for i, j in T.Parallel(block_N, pieces):
                    for v in T.unroll(4):
                        for h in T.unroll(4):
                            four = codes[i, j, v] >> T.uint32(2 * h) & T.uint32(0x03030303)
                            numbers = T.reinterpret(xs[j, 4 * v + h], "int8x4")
                            T.dp4a(T.reinterpret(four, "int8x4"), numbers, sums[i, j])
                for j in T.Parallel(pieces):
                    for v in T.unroll(16):
                        minus_two = T.reinterpret(T.uint32(0xFEFEFEFE), "int8x4")
                        T.dp4a(minus_two, T.reinterpret(xs[j, v], "int8x4"), twice[j])
            for i, j in T.Parallel(block_N, pieces):
                sums[i, j] += twice[j]
            T.reduce_sum(sums, total, dim=1)
            T.copy(total, y[bx * block_N])

    return main


@tilelang.jit(out_idx=[-1])
def nf4_gemv(N, K, group, block_N, block_K, threads, blocks):
    """y = values[W] * scales @ x: codes of 4 bits for the 16 numbers of nf4.

    A byte is two codes: the pair of their values comes out of a table of 256 pairs in shared memory, of which
    each lane of a warp has a copy, in a bank of its own.  A block fills it once, and goes on to further rows.
    """
    pieces, lanes = block_K // 32, min(threads, 32)

    @T.prim_func
    def main(
        W: T.Tensor((N, K // 32, 4), "uint32"),
        scales: T.Tensor((N, K // group), "float16"),
        values: T.Tensor((16,), "float16"),
        x: T.Tensor((K // 32, 16), "uint32"),  # pairs of float16
        y: T.Tensor((N,), "float16"),
    ):
        with T.Kernel(blocks, threads=threads) as bx:
            table = T.alloc_shared((256, lanes), "uint32")
            codes = T.alloc_fragment((block_N, pieces, 4), "uint32")
            xs = T.alloc_fragment((pieces, 16), "uint32")
            sums = T.alloc_fragment((block_N, pieces), "float32")
            total = T.alloc_fragment((block_N,), "float32")
            for byte, lane in T.Parallel(256, lanes):
                table[byte, lane] = T.reinterpret((values[byte % 16], values[byte // 16]), "uint32")
            for tile in T.serial(T.ceildiv(T.ceildiv(N, block_N) - bx, blocks)):
                row = (tile * blocks + bx) * block_N
                T.clear(sums)
                for k in T.serial(T.ceildiv(K, block_K)):
                    T.copy(W[row, k * pieces, 0], codes)
                    copy_pieces(x, k * pieces, xs)
                    for i, j in T.Parallel(block_N, pieces):
                        sum_ = T.alloc_var("uint32", 0)  # of the even and of the odd elements
                        for v in T.unroll(4):
                            for h in T.unroll(4):
                                byte = codes[i, j, v] >> T.uint32(8 * h) & T.uint32(255)
                                pair = T.reinterpret(table[byte, j % lanes], "float16x2")
                                pair = T.fma2(
                                    pair,
                                    T.reinterpret(xs[j, 4 * v + h], "float16x2"),
                                    T.reinterpret(sum_, "float16x2"),
                                )
                                sum_ = T.reinterpret(pair, "uint32")
                        pair = T.reinterpret(sum_, "float16x2")
                        scale = scales[row + i, (k * pieces + j) * 32 // group]
                        sums[i, j] += (T.float32(pair[0]) + T.float32(pair[1])) * T.float32(scale)
                T.reduce_sum(sums, total, dim=1)
                T.copy(total, y[row])

    return main


def cases(kind, n=1000, k=4096):
    rng = np.random.default_rng(0)
    x, bytes_ = rng.standard_normal(k).astype(np.float16), rng.integers(-128, 128, k, dtype=np.int8)
    codes, group = rng.integers(0, 16, (n, k), dtype=np.uint8), 128
    scales = rng.uniform(0.5, 1.5, (n, k // group)).astype(np.float16)
    wide = np.repeat(scales.astype(np.float64), group, 1)
    words, blank = x.view(np.uint32).reshape(-1, 16), harness.blank(n, "float16")

    kernel = int4_gemv.get_tir(n, k, group, *TILES[kind])
    expected = ((codes - 8.0) * wide) @ x.astype(np.float64)
    arguments = [pack(codes, 4, INT4_ORDER), scales, words, blank]
    yield harness.Case(f"int4 {n} x {k}", kernel, arguments, {3: expected}, 2e-3)

    rows, columns, threads = TILES[kind]
    kernel = int2_gemv.get_tir(n, k, rows, 2 * columns, threads)
    expected = (codes % 4 - 2.0) @ bytes_.astype(np.float64)
    arguments = [pack(codes % 4, 2, INT2_ORDER), bytes_.view(np.uint32).reshape(-1, 16)]
    arguments.append(harness.blank(n, "int32"))
    yield harness.Case(f"int2 {n} x {k}", kernel, arguments, {2: expected}, 0)

    values = np.array(NF4, np.float16)
    *tile, blocks = TILES_NF4[kind]
    kernel = nf4_gemv.get_tir(n, k, group, *tile, min(blocks, -(-n // tile[0])))
    expected = (values[codes].astype(np.float64) * wide) @ x.astype(np.float64)
    arguments = [pack(codes, 4, range(8)), scales, values, words, blank]
    yield harness.Case(f"nf4 {n} x {k}", kernel, arguments, {4: expected}, 2e-3)


if __name__ == "__main__":
    harness.main(__doc__, cases)
