"""One load for several blocks of a cluster: what these must agree on, before a run and in the simulator."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tma_cases import SIM

TURNS, SIDE = 2, 64


def loaded(tile, mask=3, issuer=None, place=lambda rank: 0, word=lambda rank: 0, blocks=2):
    """Tile `tile(block, rank, turn)` of X, for the blocks of a cluster together."""

    @T.prim_func
    def main(
        X: T.Tensor((8, SIDE, SIDE), "float16"),
        where: T.Tensor((8,), "int32"),
        Y: T.Tensor((4, TURNS, SIDE, SIDE), "float16"),
    ):
        with T.Kernel(4, threads=64, cluster_dims=blocks) as b:
            S = T.alloc_shared((2, SIDE, SIDE), "float16")
            full = T.alloc_cluster_barrier([64, 64])
            rank = T.block_rank_in_cluster()
            for k in T.serial(TURNS):
                T.tma_copy(
                    X[tile(b, rank, k, where), :, :],
                    S[place(rank), :, :],
                    barrier=full[word(rank)],
                    cluster_mask=mask(rank) if callable(mask) else mask,
                    issuer=issuer(rank) if callable(issuer) else issuer,
                )
                T.barrier_arrive(full[word(rank)])
                T.barrier_wait(full[word(rank)], k % 2)
                T.copy(S[place(rank), :, :], Y[b, k, :, :])
                T.cluster_sync()

    return main


def of_block(b, rank, k, where):
    return b


def of_rank(b, rank, k, where):
    return k * 2 + rank


def of_cluster(b, rank, k, where):
    return b // 2 * 2 + k


OTHER_TILE = "load one tile for all, but X begins at 1 of dimension 0 in the block of rank 1"
REFUSED = {
    "the block's own tile": ({"tile": of_block}, OTHER_TILE),
    "the rank's own tile, in turns": ({"tile": of_rank}, OTHER_TILE),
    "for two of four": ({"tile": of_block, "mask": lambda rank: 3 << rank // 2 * 2, "blocks": 4}, OTHER_TILE),
    "another place": ({"place": lambda rank: rank}, "get the tile at the same place, but S begins"),
    "another barrier": (
        {"word": lambda rank: rank},
        "count its bytes at the same barrier, but full begins",
    ),
    "each issues it": (
        {"issuer": lambda rank: rank},
        "the block of rank 1 says that rank 1 does, and that of",
    ),
    "none issues it": ({"issuer": lambda rank: 1 - rank}, "would come twice, or never; give the same issuer"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_blocks_that_do_not_agree(name):
    given, text = REFUSED[name]
    with pytest.raises(tilelang.CompileError) as error:
        tilelang.compile(loaded(**{"tile": of_cluster} | given), target=SIM)
    assert text in error.value.text and "T.tma_copy(" in str(error.value), str(error.value)


@pytest.mark.parametrize("issuer", [None, 0, 1])
def test_a_tile_of_the_cluster(issuer):
    x = np.arange(8 * SIDE * SIDE).reshape(8, SIDE, SIDE).astype("float16")
    y = np.zeros((4, TURNS, SIDE, SIDE), "float16")
    tilelang.compile(loaded(of_cluster, issuer=issuer), target=SIM)(x, np.zeros(8, "int32"), y)
    assert np.array_equal(y, x[:4].reshape(2, 1, 2, SIDE, SIDE).repeat(2, 1).reshape(y.shape))


def test_all_get_what_the_issuer_names():
    """Where only data tell the tile it is the issuer's, as on the chip."""
    x = np.arange(8)[:, None, None] * np.ones((1, SIDE, SIDE), "float16")
    y = np.zeros((4, TURNS, SIDE, SIDE), "float16")
    kernel = tilelang.compile(loaded(lambda b, rank, k, where: where[b]), target=SIM)
    kernel(x.astype("float16"), np.arange(8, dtype="int32"), y)
    assert list(y[:, 0, 0, 0]) == [0, 0, 2, 2]


@pytest.mark.parametrize("tiles", [(0, 0), (0, 1)])
def test_two_blocks_that_load_to_one_place(tiles):
    """Each under a condition of its own: both tiles arrive in both blocks, and nothing orders them."""

    @T.prim_func
    def main(X: T.Tensor((2, SIDE, SIDE), "float16"), Y: T.Tensor((2, SIDE, SIDE), "float16")):
        with T.Kernel(2, threads=64, cluster_dims=2) as b:
            S = T.alloc_shared((SIDE, SIDE), "float16")
            full = T.alloc_cluster_barrier(64)
            if T.block_rank_in_cluster() == 0:
                T.tma_copy(X[tiles[0], :, :], S, barrier=full, cluster_mask=3, issuer=0)
            else:
                T.tma_copy(X[tiles[1], :, :], S, barrier=full, cluster_mask=3, issuer=1)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.copy(S, Y[b, :, :])

    kernel = tilelang.compile(main, target=SIM)
    kinds = set()
    for seed in range(6):
        with pytest.raises(tilelang.SimulationError) as error:
            x = np.ones((2, SIDE, SIDE), "float16")
            kernel.simulate(x, np.zeros_like(x), seed=seed)
        first = error.value.report.findings[0]
        kinds.add(first.kind)
        if first.kind == "race":
            assert "several blocks load to the same place of one" in first.text, first.text
        else:
            assert "8192 bytes more have landed than were expected" in first.text, first.text
    assert "race" in kinds
