"""Philox4x32-10: known answers, cuRAND's order of numbers, uniform and normal numbers."""

import math

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure


def philox(counter, key):
    """Four words, by the definition."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & 0xFFFFFFFF, (p >> 32) ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def stream(seed, seq, off, count):
    """Numbers off, off + 1, … of a sequence, as curand(&state) gives them."""
    words = []
    for n in range(off, off + count):
        group = n // 4
        counter = (group & 0xFFFFFFFF, group >> 32, seq & 0xFFFFFFFF, seq >> 32)
        words.append(philox(counter, (seed & 0xFFFFFFFF, seed >> 32))[n % 4])
    return np.array(words, np.uint32)


KNOWN = [  # from the paper's distribution: counter, key, result
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]  # fmt: skip


def test_model():
    for counter, key, words in KNOWN:
        assert philox(counter, key) == list(words)


def program(seed, seq, off, count):
    @T.prim_func
    def main(B: T.Tensor((4, count), "uint32")):
        with T.Kernel(4, threads=32) as bx:
            for _ in T.Parallel(1):
                T.rng_init(seed, seq=bx + seq, off=off)
                for i in T.serial(count):
                    B[bx, i] = T.rng_rand()

    return main


@pytest.mark.parametrize("seed, seq, off", [(0, 0, 0), (1234, 7, 3), (0x299F31D0A4093822, 2**40, 2**34 + 1)])
def test_order(seed, seq, off, target):
    out = np.zeros((4, 11), np.uint32)
    tilelang.compile(program(seed, seq, off, 11), target=target)(out)
    for block in range(4):
        assert np.array_equal(out[block], stream(seed, block + seq, off, 11)), block


def test_known_answers(target):
    """The vectors of the paper: the counter's words are position and sequence, two numbers wide each."""
    for counter, key, words in KNOWN:
        group = counter[0] + (counter[1] << 32)
        if group >= 1 << 62:
            continue  # cuRAND counts four numbers to a group
        seq, seed = counter[2] + (counter[3] << 32), key[0] + (key[1] << 32)
        out = np.zeros((4, 4), np.uint32)
        tilelang.compile(program(seed, seq, 4 * group, 4), target=target)(out)
        assert out[0].tolist() == list(words)


def test_by_element(target):
    """seq by the element: the same numbers however the loop is mapped."""

    @T.prim_func
    def main(B: T.Tensor((50, 20), "float32"), seed: T.int32):
        with T.Kernel(2, threads=64) as bx:
            for i, j in T.Parallel(25, 20):
                T.rng_init(seed, seq=(bx * 25 + i) * 20 + j)
                B[bx * 25 + i, j] = T.rng_rand_float()

    out = np.full((50, 20), np.nan, np.float32)
    tilelang.compile(main, target=target)(out, 99)
    words = np.array([stream(99, n, 0, 1)[0] for n in range(1000)])
    want = words.astype(np.float32) * np.float32(2**-32) + np.float32(2**-33)
    assert np.array_equal(out.ravel(), want)


def test_by_thread(target):
    """Without seq each thread has its own stream; on one thread a block."""

    @T.prim_func
    def main(B: T.Tensor((3, 128), "uint32")):
        with T.Kernel(3, threads=128) as bx:
            T.rng_init(5)
            for i in T.Parallel(128):
                B[bx, i] = T.rng_rand()

    out = np.zeros((3, 128), np.uint32)
    tilelang.compile(main, target=target)(out)
    for block in range(3):
        if target.startswith("sim"):
            want = [stream(5, block * 128 + i, 0, 1)[0] for i in range(128)]
        else:
            want = stream(5, block, 0, 128)
        assert np.array_equal(out[block], want)


@pytest.mark.parametrize("bit", [32, 64])
def test_floats(bit, target):
    count = 512

    @T.prim_func
    def main(U: T.Tensor((count,), f"float{bit}"), N: T.Tensor((count,), f"float{bit}")):
        with T.Kernel(1, threads=32):
            for _ in T.Parallel(1):
                T.rng_init(17)
                for i in T.serial(count):
                    U[i] = T.rng_rand_float(bit)
                T.rng_init(18, 0, 4)
                for i in T.serial(count):
                    N[i] = T.rng_rand_float(bit, "normal")

    u, n = (np.full(count, np.nan, f"float{bit}") for _ in range(2))
    tilelang.compile(main, target=target)(u, n)
    words = [int(w) for w in stream(17, 0, 0, 2 * count)]
    normal = [int(w) for w in stream(18, 0, 4, 2 * count)]
    if bit == 32:
        want = np.array(words[:count]).astype(np.float32) * np.float32(2**-32) + np.float32(2**-33)
        pairs = [
            (a * 2.0**-32 + 2.0**-33, b * 2.0**-32 + 2.0**-33)
            for a, b in zip(normal[0:count:2], normal[1:count:2], strict=True)
        ]
    else:
        wide = [a ^ (b << 21) for a, b in zip(words[::2], words[1::2], strict=True)]
        want = np.array([w * 2.0**-53 + 2.0**-54 for w in wide])
        wide = [a ^ (b << 21) for a, b in zip(normal[::2], normal[1::2], strict=True)]
        pairs = [
            (a * 2.0**-53 + 2.0**-54, b * 2.0**-53 + 2.0**-54)
            for a, b in zip(wide[::2], wide[1::2], strict=True)
        ]
    assert np.array_equal(u, want) and u.min() > 0 and u.max() <= 1
    for k, (a, b) in enumerate(pairs[: count // 2]):
        radius = math.sqrt(-2 * math.log(a))
        assert n[2 * k] == pytest.approx(math.sin(2 * math.pi * b) * radius, rel=1e-5, abs=2e-6)
        assert n[2 * k + 1] == pytest.approx(math.cos(2 * math.pi * b) * radius, rel=1e-5, abs=2e-6)
    assert abs(n.mean()) < 0.2 and abs(n.std() - 1) < 0.1


def test_refusals(tmp_path):
    assert "before T.rng_init(seed)" in str(failure(tmp_path, "x = T.rng_rand()"))
    assert "bit must be 32 or 64" in str(failure(tmp_path, "T.rng_init(1)\nx = T.rng_rand_float(16)"))


@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
def test_cuda_text(chip):
    source = tilelang.compile(program(1, 2, 3, 5), target=f"cuda -arch={chip}").get_kernel_source()
    assert "tl_philox(" in source and "__umulhi" in source
