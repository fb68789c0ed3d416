"""T.view with another dtype: the bits of fragments, of threads' arrays and of tensors."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

RNG = np.random.default_rng(7)


def run(func, target, *args):
    tilelang.compile(func, target=target)(*args)
    if target == "cpu":
        for arch in ("sm_80", "sm_90"):
            tilelang.compile(func, target=f"cuda -arch={arch}")


@pytest.mark.parametrize("m,n", [(16, 64), (5, 12)])
def test_fragments_as_narrower_and_equal_types(target, m, n):
    @T.prim_func
    def main(
        x: T.Tensor((m, n), "float32"),
        same: T.Tensor((m, n), "int32"),
        halves: T.Tensor((m, 2 * n), "uint16"),
        back: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((m, n), "float32")
            T.copy(x, tile)
            bits, parts = T.view(tile, dtype="int32"), T.view(tile, (2 * n * m,), "uint16")
            rows = T.view(tile, dtype="uint16")
            T.copy(bits, same)
            T.copy(rows, halves)
            for i in T.Parallel(2 * n * m):
                parts[i] = parts[i] ^ T.uint16(0x0101)
            T.copy(tile, back)

    x = RNG.standard_normal((m, n)).astype(np.float32)
    same, halves, back = np.zeros((m, n), np.int32), np.zeros((m, 2 * n), np.uint16), np.zeros_like(x)
    run(main, target, x, same, halves, back)
    assert np.array_equal(same, x.view(np.int32)) and np.array_equal(halves, x.view(np.uint16))
    assert np.array_equal(back.view(np.uint16), x.view(np.uint16) ^ 0x0101)


def test_fragments_as_a_wider_type(target):
    @T.prim_func
    def main(x: T.Tensor((16, 64), "uint8"), out: T.Tensor((16, 16), "uint32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((16, 64), "uint8")
            T.copy(x, tile)
            words = T.view(tile, dtype="uint32")
            for i, j in T.Parallel(16, 16):
                words[i, j] = words[i, j] + T.uint32(257)
            T.copy(words, out)

    x, out = RNG.integers(0, 256, (16, 64)).astype(np.uint8), np.zeros((16, 16), np.uint32)
    run(main, target, x, out)
    assert np.array_equal(out, x.view(np.uint32) + np.uint32(257))


def test_bytes_as_float8(target):
    ml_dtypes = pytest.importorskip("ml_dtypes")

    @T.prim_func
    def main(x: T.Tensor((8, 32), "uint8"), out: T.Tensor((8, 32), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((8, 32), "uint8")
            T.copy(x, tile)
            T.copy(T.view(tile, dtype="float8_e4m3fn"), out)

    x = RNG.integers(0, 127, (8, 32)).astype(np.uint8)
    out = np.full((8, 32), np.nan, np.float32)
    run(main, target, x, out)
    assert np.array_equal(out, x.view(ml_dtypes.float8_e4m3fn).astype(np.float32))


def test_arrays_of_a_thread(target):
    @T.prim_func
    def main(x: T.Tensor((8,), "float32"), out: T.Tensor((32,), "uint8")):
        with T.Kernel(1, threads=1):
            array = T.alloc_local((8,), "float32")
            octets, pairs = T.view(array, (32,), "uint8"), T.view(array, (4,), "uint64")
            for i in T.serial(8):
                array[i] = x[i]
            pairs[1] = pairs[0]
            octets[31] = 200
            for i in T.serial(32):
                out[i] = octets[i]

    x, out = RNG.standard_normal(8).astype(np.float32), np.zeros(32, np.uint8)
    run(main, target, x, out)
    want = x.copy()
    want[2:4] = want[:2]
    want = want.view(np.uint8)
    want[31] = 200
    assert np.array_equal(out, want)


def test_tensors(target):
    m = T.dynamic("m")

    @T.prim_func
    def main(
        x: T.Tensor((m, 8), "float32"), halves: T.Tensor((m, 16), "uint16"), words: T.Tensor((m, 8), "int32")
    ):
        with T.Kernel(m, threads=32) as row:
            source, target = T.view(x, dtype="uint16"), T.view(words, dtype="float32")
            for i in T.Parallel(16):
                halves[row, i] = source[row, i]
            for i in T.Parallel(8):
                target[row, i] = x[row, i] * 2.0

    x = RNG.standard_normal((5, 8)).astype(np.float32)
    halves, words = np.zeros((5, 16), np.uint16), np.zeros((5, 8), np.int32)
    run(main, target, x, halves, words)
    assert np.array_equal(halves, x.view(np.uint16)) and np.array_equal(words, (x * 2).view(np.int32))


def test_what_it_refuses():
    def error_of(func, target="cuda -arch=sm_80"):
        with pytest.raises(tilelang.CompileError) as error:
            tilelang.compile(func, target=target)
        return str(error.value)

    @T.prim_func
    def apart(x: T.Tensor((4, 64), "uint8"), out: T.Tensor((4, 16), "uint32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((4, 64), "uint8")
            T.annotate_layout({tile: T.Fragment((4, 64), lambda i, j: (j, i))})
            T.copy(x, tile)
            T.copy(T.view(tile, dtype="uint32"), out)

    assert "where the 4 neighbours that make up one uint32 are not together" in error_of(apart)

    @T.prim_func
    def partly(x: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            part = T.view(x, dtype="uint8")
            for i in T.Parallel(32):
                part[0, i] = 3

    assert "this stores a part of an element of x" in error_of(partly)

    @T.prim_func
    def addressed(x: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            array = T.alloc_local((4,), "float32")
            T.call_extern("handle", "use", T.access_ptr(T.view(array, dtype="uint16"), "w"))

    assert "only elements of that type have addresses; copy them to a buffer of uint16" in error_of(addressed)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_all_bits_of_a_narrow_float(dtype, target):
    whole = {"float16": "int16", "bfloat16": "int16"}.get(dtype, "int8")
    n = 1 << (16 if whole == "int16" else 8)

    @T.prim_func
    def main(x: T.Tensor((n,), whole), out: T.Tensor((n,), whole)):
        with T.Kernel(n // 256, threads=64) as block:
            tile, moved = T.alloc_fragment((256,), dtype), T.alloc_fragment((256,), dtype)
            T.copy(x[block * 256 : (block + 1) * 256], T.view(tile, dtype=whole))
            for i in T.Parallel(256):
                moved[i] = tile[i]
            T.copy(T.view(moved, dtype=whole), out[block * 256 : (block + 1) * 256])

    x = np.arange(n).astype(whole)
    out = np.zeros(n, whole)
    run(main, target, x, out)
    assert np.array_equal(out, x)
