"""What explain() says of pipelined loops: one turn in order, slots, bytes in flight, and what was refused."""

import json

import pytest
import tilelang
import tilelang.language as T


def program(stages=3, tile=64, between=False, **given):
    @T.prim_func
    def main(
        A: T.Tensor((128, 1024), "float16"),
        B: T.Tensor((1024, 128), "float16"),
        C: T.Tensor((128, 128), "float32"),
    ):
        with T.Kernel(1, threads=128):
            A_shared, B_shared = (
                T.alloc_shared((128, tile), "float16"),
                T.alloc_shared((tile, 128), "float16"),
            )
            C_local = T.alloc_fragment((128, 128), "float32")
            T.clear(C_local)
            for k in T.Pipelined(1024 // tile, num_stages=stages, **given):
                T.copy(A[0, k * tile], A_shared)
                T.copy(B[k * tile, 0], B_shared)
                if between:
                    T.sync_threads()
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C)

    return main


def pipeline(prim, target):
    (found,) = tilelang.compile(prim, target=target).report.pipelines
    return found


def turn(found):
    return [(s.text, s.ahead, s.how) for s in found.steps]


COPIES = ["copy(A, A_shared)", "copy(B, B_shared)"]
GEMM = "gemm(A_shared, B_shared, C_local)"
ASYNC = "begun by cp.async"


def test_a_gemm_in_steps():
    found = pipeline(program(), "sim:sm_80")
    assert turn(found) == [
        (GEMM, 0, ""),
        ("wait until 1 group of copies may be in flight", None, ""),
        ("fragments of " + GEMM, 1, "loaded into registers"),
        *((copy, 3, ASYNC) for copy in COPIES),
        (GEMM, 0, ""),
    ]
    assert [(t.name, t.slots, t.bytes) for t in found.tiles] == [
        ("A_shared", 3, 16384),
        ("B_shared", 3, 16384),
    ]
    assert found.bytes_in_flight == 2 * 2 * 16384 and found.num_stages == 3 and not found.refusals
    assert found.steps[-1].place.line == found.place.line + 5


def test_without_asynchronous_copies():
    found = pipeline(program(), "sim:sm_75")
    assert turn(found) == [
        *((copy, 1, "stored from registers") for copy in COPIES),
        *((copy, 2, "loaded into registers") for copy in COPIES),
        (GEMM, 0, ""),
    ]
    assert [t.slots for t in found.tiles] == [2, 2] and found.bytes_in_flight == 0


def test_a_schedule_by_hand():
    found = pipeline(program(order=[0, 1, 2], stage=[0, 0, 1]), "sim:sm_80")
    assert [s.ahead for s in found.steps if s.text in COPIES] == [1, 1]
    assert [s.ahead for s in found.steps if s.text == GEMM] == [0]


@pytest.mark.parametrize(
    ("given", "target", "why"),
    [
        ({"between": True}, "sim:sm_80", "nothing moves across the sync_threads in it"),
        ({}, "cpu", "runs one thread a block"),
    ],
)
def test_a_loop_in_order_says_why(given, target, why):
    found = pipeline(program(**given), target)
    assert not found.steps and not found.tiles and why in found.refusals[0]


def test_fewer_slots_are_told():
    found = pipeline(program(stages=8, tile=128), "sim:sm_80")
    assert [t.slots for t in found.tiles] == [2, 2]
    assert found.refusals == (
        "num_stages=8 was asked for, 2 fit into the 163 KB of shared memory of a block",
    )


def test_the_text_the_page_and_the_dict():
    report = tilelang.compile(program(), target="sim:sm_80").report
    assert "3 slots of A_shared (16 KB), 3 slots of B_shared (16 KB), at most 64 KB in flight" in report.text
    assert "begun by cp.async" in report.html() and "Pipelined loops" in report.html()
    again = json.loads(json.dumps(report.as_dict()))
    assert again["pipelines"][0]["steps"][-1]["text"] == GEMM and again["function"] == "main"


def test_the_turns_of_both_roles():
    """Each role has a row of its own; a product that is begun a turn late is for the iteration before."""
    from test_late_products import chain

    report = tilelang.compile(chain(4), target="sim:sm_90a").report
    load, compute = report.pipelines
    assert (load.role, load.threads, compute.role, compute.threads) == (
        "load",
        (128, 256),
        "compute",
        (0, 128),
    )
    assert [t.slots for t in load.tiles] == [4, 4] and (load.registers, compute.registers) == (0, 0)
    copies = [(s.text, s.ahead, s.how) for s in load.steps if s.ahead is not None]
    assert copies == [("copy(B, b)", 0, "begun by TMA"), ("copy(C, c)", 0, "begun by TMA")]
    products = [(s.text, s.ahead) for s in compute.steps if s.how == "begun by wgmma"]
    assert products == [("gemm(a, b, s)", 0), ("gemm(p, c, o)", -1)]
    waits = [s.text for s in compute.steps if s.ahead is None and "wait" in s.text]
    assert waits == [
        "wait for b_full",
        "wait for c_full",
        "wait until 1 product may be in flight",
        "wait for all products",
    ]
    assert "k - 1  begun by wgmma" in report.text and "the threads [0, 128) compute" in report.html()


@pytest.mark.parametrize(
    ("width", "slots"),
    [
        (128, "2 slots: the next one lands while this one is in use"),
        (256, "one slot, as there is no memory for a second one"),
    ],
)
def test_tiles_beside_a_divided_loop(width, slots):
    attention = pytest.importorskip("flash_attention")
    sizes = (4, 16, 4096, 4096, width, True, 128, 128 if width == 128 else 64, 256, "float16")
    kernel = tilelang.compile(attention.attention.get_tir(*sizes), target="sim:sm_90a")
    (note,) = (n for n in kernel.report.notes if n.subject == "Q_shared" and n.decided_by == "assign_roles")
    assert note.text == f"loaded by the same warps beside the loops, in {slots}"
