"""XORWOW and MRG32k3a beside Philox: cuRAND's numbers, and a stream for each thread of a launch whatever its
grid; models by matrices, where the compiler's streams begin by polynomials."""

import functools
import random

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure
from test_random import stream as philox_stream

XORWOW, MRG, PHILOX = "curandStateXORWOW_t", "curandStateMRG32k3a_t", "curandStatePhilox4_32_10_t"
LOW = 0xFFFFFFFF

# What curandCreateGeneratorHost of cuRAND 10.4.5 gives, by seed and sequence: positions 0 to 2.
KNOWN = {
    (XORWOW, 0x0, 0): (3179217846, 1883133293, 2220552389),
    (XORWOW, 0x0, 77): (1020313117, 4102051655, 4035587666),
    (XORWOW, 0x299F31D0A4093822, 0): (2685464385, 2161373548, 1626914734),
    (XORWOW, 0x299F31D0A4093822, 77): (447741413, 2491004578, 3859619630),
    (MRG, 0x0, 0): (545508615, 1368065476, 1327943825),
    (MRG, 0x0, 77): (1007151389, 102976055, 1463030333),
    (MRG, 0x299F31D0A4093822, 0): (2709009335, 3800926856, 2350942949),
    (MRG, 0x299F31D0A4093822, 77): (497270612, 2251914993, 2633200093),
}


def step_of_words(v):
    t = v[0] ^ (v[0] >> 2)
    return [*v[1:], ((v[4] ^ (v[4] << 4)) ^ (t ^ (t << 1))) & LOW]


def as_bits(v):
    return sum(x << 32 * i for i, x in enumerate(v))


def applied(columns, bits):
    out = 0
    for n in range(160):
        out ^= columns[n] if bits >> n & 1 else 0
    return out


@functools.cache
def xorwow_columns(doublings):
    """The matrix over GF(2) of 2^doublings steps."""
    if doublings:
        half = xorwow_columns(doublings - 1)
        return [applied(half, c) for c in half]
    unit = lambda n: [(1 << n) >> 32 * i & LOW for i in range(5)]
    return [as_bits(step_of_words(unit(n))) for n in range(160)]


def xorwow(seed, seq, off, count):
    low = 1099087573 * ((seed & LOW) ^ 0xAAD26B49) & LOW
    high = 2591861531 * ((seed >> 32) ^ 0xF7DCEFDD) & LOW
    v = [123456789 + low, 362436069 ^ low, 521288629 + high, 88675123 ^ high, 5783321 + low]
    bits, total = as_bits([x & LOW for x in v]), 6615241 + low + high + off * 362437
    for amount, first in ((seq, 67), (off, 0)):
        for n in range(amount.bit_length()):
            bits = applied(xorwow_columns(first + n), bits) if amount >> n & 1 else bits
    v, numbers = [bits >> 32 * i & LOW for i in range(5)], []
    for n in range(1, count + 1):
        v = step_of_words(v)
        numbers.append((v[4] + total + 362437 * n) & LOW)
    return np.array(numbers, np.uint32)


M1, M2 = 4294967087, 4294944443
A1 = ((0, 1, 0), (0, 0, 1), (-810728, 1403580, 0))
A2 = ((0, 1, 0), (0, 0, 1), (-1370589, 0, 527612))


def matrix_power(a, n, m):
    each = range(3)
    product = lambda x, y: [[sum(x[i][k] * y[k][j] for k in each) % m for j in each] for i in each]
    power = [[int(i == j) for j in each] for i in each]
    for bit in bin(n)[2:]:
        power = product(power, power)
        power = product(power, a) if bit == "1" else power
    return power


def whole_mrg(seed, seq, off, count):
    x, y = (seed & LOW) ^ 0x55555555, (seed >> 32) ^ 0xAAAAAAAA
    salt = (1,) * 6 if seed == 0 else (x, y, x, y, x, y)
    states = [[12345 * s for s in salt[:3]], [12345 * s for s in salt[3:]]]
    for n in range(count):
        numbers = []
        for a, m, state in ((A1, M1, states[0]), (A2, M2, states[1])):
            power = matrix_power(a, (seq << 76) + off + n + 1, m)
            numbers.append(sum(power[2][k] * state[k] for k in range(3)) % m)
        yield (numbers[0] - numbers[1] - 1) % M1 + 1


def mrg(seed, seq, off, count):
    return np.array([int(x * 1.000000048662) for x in whole_mrg(seed, seq, off, count)], np.uint32)


STREAMS = {XORWOW: xorwow, MRG: mrg, PHILOX: philox_stream}


def test_models():
    for (kind, seed, seq), numbers in KNOWN.items():
        assert STREAMS[kind](seed, seq, 0, 3).tolist() == list(numbers), kind


@pytest.mark.parametrize("seed, seq, off", [(0, 77, 0), (0x299F31D0A4093822, 2**40 + 1, 2**34 + 3)])
@pytest.mark.parametrize("kind", [XORWOW, MRG])
def test_order(kind, seed, seq, off, target):
    count = 5

    @T.prim_func
    def main(B: T.Tensor((2, count), "uint32"), F: T.Tensor((2, 2), "float32"), D: T.Tensor((2,), "float64")):
        with T.Kernel(2, threads=32) as bx:
            for _ in T.Parallel(1):
                T.rng_init(seed, seq=bx + seq, off=off, generator=kind)
                for i in T.serial(count):
                    B[bx, i] = T.rng_rand()
                T.rng_init(seed, seq=bx + seq, off=off, generator=kind)
                F[bx, 0] = T.rng_rand_float()
                F[bx, 1] = T.rng_rand_float(32, "normal")
                T.rng_init(seed, seq=bx + seq, off=off, generator=kind)
                D[bx] = T.rng_rand_float(64)

    bits, floats, doubles = np.zeros((2, count), "u4"), np.zeros((2, 2), "f4"), np.zeros(2)
    tilelang.compile(main, target=target)(bits, floats, doubles)
    for block in range(2):
        words = STREAMS[kind](seed, seq + block, off, count)
        assert np.array_equal(bits[block], words)
        if kind == MRG:
            units = [x * 2.3283065498378288e-10 for x in whole_mrg(seed, seq + block, off, 3)]
            double = units[0]
        else:
            units = [float(np.float32(int(x)) * np.float32(2**-32) + np.float32(2**-33)) for x in words]
            double = (int(words[0]) ^ int(words[1]) << 21) * 2.0**-53 + 2.0**-54
        assert floats[block, 0] == np.float32(units[0]) and doubles[block] == double
        normal = np.sqrt(-2 * np.log(units[1])) * np.sin(2 * np.pi * units[2])
        assert floats[block, 1] == pytest.approx(normal, rel=2e-5, abs=2e-6)


def drawn(rng):
    """A launch: blocks along each dimension, threads, whether the call gives the blocks, the generator."""
    blocks = [rng.randint(1, 3) for _ in range(rng.choice([1, 2, 3, 3]))]
    threads = rng.choice([(8,), (32,), (4, 8), (2, 2, 8)])
    kind, off, rounds = rng.choice(list(STREAMS)), rng.randint(0, 5), rng.randint(1, 2)
    return blocks, threads, rng.random() < 0.4, kind, off, rounds


def launch(blocks, threads, dynamic, kind, off, rounds):
    count, whole = int(np.prod(threads)) * rounds, int(np.prod(blocks))

    @T.prim_func
    def main(O: T.Tensor((whole, count), "uint32"), n: T.int32):
        extents = [blocks[0] * n if dynamic else blocks[0], *blocks[1:]]
        with T.Kernel(*extents, threads=threads):
            at = [*T.get_block_bindings(), 0, 0]
            number = (at[2] * [*extents, 1, 1][1] + at[1]) * extents[0] + at[0]
            T.rng_init(99, off=off, generator=kind)
            for i in T.Parallel(count):
                O[number, i] = T.rng_rand()

    return main


@pytest.mark.parametrize("seed", range(12))
def test_streams_of_drawn_launches(seed, target):
    """Each number of each thread's stream is there once: streams of blocks along y and z differ."""
    blocks, threads, dynamic, kind, off, rounds = shape = drawn(random.Random(seed))
    program = launch(*shape)
    per_block = int(np.prod(threads))
    out = np.zeros((int(np.prod(blocks)), per_block * rounds), np.uint32)
    tilelang.compile(program, target=target)(out, 1)
    on_gpu = target.startswith("sim")
    for block, got in enumerate(out):
        if on_gpu:
            streams = [STREAMS[kind](99, block * per_block + t, off, rounds) for t in range(per_block)]
        else:
            streams = [STREAMS[kind](99, block, off, per_block * rounds)]
        assert sorted(got.tolist()) == sorted(np.concatenate(streams).tolist()), shape


def test_refusal_and_text(tmp_path):
    error = failure(tmp_path, "T.rng_init(1, generator='xorwow')")
    assert (
        "T.rng_init: there is no generator 'xorwow'; there are 'curandStatePhilox4_32_10_t', "
        "'curandStateXORWOW_t', 'curandStateMRG32k3a_t'" in str(error)
    )
    for kind in STREAMS:
        assert tilelang.compile(launch([1, 2, 2], (32,), False, kind, 0, 1), target="cuda -arch=sm_80")
