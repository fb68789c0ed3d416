"""Random programs of clusters: rounds of exchange, each by one of the ways there are, with blocks that pass
their tiles around; every schedule gives what the permutations say."""

import random

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tma_cases import SIM, numbers

PROGRAMS = 24
THREADS, ROWS, COLUMNS = 64, 8, 64


def script(rng):
    """The form of the grid; and of each round how the tiles move, by how many ranks, and in which order."""
    dims = rng.choice([(2, 1), (2, 1), (3, 1), (1, 2), (2, 2), (4, 1), (2, 3), (8, 1)])
    size = dims[0] * dims[1]
    ways = [rng.choice(["threads", "push", "told", "load"]) for _ in range(rng.randint(1, 3))]
    moves = [(way, rng.randrange(size), rng.randrange(size)) for way in ways]
    return dims, (dims[0] * rng.randint(1, 2), dims[1] * rng.randint(1, 2)), moves, rng.randint(1, 3)


def program(dims, grid, moves, turns):
    size, bytes_ = dims[0] * dims[1], ROWS * COLUMNS * 4
    blocks = grid[0] * grid[1]
    everyone = 2**size - 1

    @T.macro
    def send(way, shift, S, D, landed, rank, i):
        to = (rank + shift) % size
        if way == "push":
            if T.get_thread_binding() == 0:
                T.mbarrier_arrive_expect_tx(landed, bytes_)
            T.copy_cluster(S, D, dst_block=to, remote_barrier=landed)
            T.barrier_wait(landed, i % 2)
            T.cluster_sync()  # the next block has told this one nothing of its own tile
        elif way == "told":
            T.copy_cluster(S, D, dst_block=to)
            T.mbarrier_arrive(landed, cta_id=to)
            T.barrier_wait(landed, i % 2)
        else:
            T.copy_cluster(S, D, dst_block=to)
            T.cluster_sync()

    @T.prim_func
    def main(
        X: T.Tensor((blocks, ROWS, COLUMNS), "float32"),
        Z: T.Tensor((len(moves), turns, ROWS, COLUMNS), "float32"),
        Y: T.Tensor((blocks, ROWS, COLUMNS), "float32"),
    ):
        with T.Kernel(*grid, threads=THREADS, cluster_dims=dims) as (bx, by):
            S = T.alloc_shared((ROWS, COLUMNS), "float32")
            D = T.alloc_shared((ROWS, COLUMNS), "float32")
            W = T.alloc_shared((ROWS, COLUMNS), "float32")
            words = T.alloc_cluster_barrier([{"push": 1}.get(way, THREADS) for way, _, _ in moves] or [1])
            rank = T.block_rank_in_cluster()
            T.copy(X[by * grid[0] + bx, :, :], S)
            for i in T.serial(turns):
                for m, (way, shift, leader) in enumerate(moves):
                    if way == "load":
                        T.tma_copy(Z[m, i, :, :], W, barrier=words[m], cluster_mask=everyone, issuer=leader)
                        T.barrier_arrive(words[m])
                        T.barrier_wait(words[m], i % 2)
                        for y, x in T.Parallel(ROWS, COLUMNS):
                            S[y, x] = S[y, x] + W[y, x]
                    else:
                        send(way, shift, S, D, words[m], rank, i)
                        T.copy(D, S)
                    T.cluster_sync()  # every tile may be written again
            T.copy(S, Y[by * grid[0] + bx, :, :])

    return main


def wanted(dims, grid, moves, turns, x, z):
    y = x.copy()
    ranks = np.zeros(len(x), int)
    members: dict = {}
    for b in range(len(x)):
        bx, by = b % grid[0], b // grid[0]
        ranks[b] = bx % dims[0] + by % dims[1] * dims[0]
        members.setdefault((bx // dims[0], by // dims[1]), {})[ranks[b]] = b
    for i in range(turns):
        for m, (way, shift, _) in enumerate(moves):
            if way == "load":
                y = y + z[m, i]
                continue
            moved = y.copy()
            for cluster in members.values():
                for r, b in cluster.items():
                    moved[cluster[(r + shift) % len(cluster)]] = y[b]
            y = moved
    return y


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_what_comes_out(seed):
    rng = random.Random(seed)
    dims, grid, moves, turns = script(rng)
    x = numbers((grid[0] * grid[1], ROWS, COLUMNS), "float32")
    z = numbers((len(moves), turns, ROWS, COLUMNS), "float32")
    y = np.full(x.shape, np.nan, np.float32)
    kernel = tilelang.compile(program(dims, grid, moves, turns), target=SIM)
    kernel.simulate(x, z, y, schedules=4)
    assert np.array_equal(y, wanted(dims, grid, moves, turns, x, z)), (dims, grid, moves, turns)
