"""What a simulation counts: goldens of our main kernels, each kind of counter, and where it is shown."""

import json
import xml.dom.minidom

import counter_goldens
import numpy as np
import pytest
import tilelang
import tilelang.language as T


@pytest.mark.parametrize("name", counter_goldens.KERNELS)
def test_golden(name):
    """After a change that is meant: make bless."""
    assert counter_goldens.counted(name) == (counter_goldens.FOLDER / f"{name}.txt").read_text()


def simulate(function, *arguments, **options):
    return tilelang.compile(function, target="sim:sm_80").simulate(*arguments, **options)


def of(report, **wanted):
    rows = [c for c in report.counters if all(getattr(c, k) == v for k, v in wanted.items())]
    assert len(rows) == 1, (wanted, report.counters)
    return rows[0]


@pytest.mark.parametrize("stride, ways", [(1, 1), (2, 2), (8, 8), (32, 32), (33, 1)])
def test_bank_conflicts_and_sectors(stride, ways):
    """Planted: lane i touches word stride*i, in shared and in global memory."""

    @T.prim_func
    def main(A: T.Tensor((32 * stride,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            S = T.alloc_shared((32 * stride,), "float32")
            S[tx * stride] = A[tx * stride]
            B[31 - tx] = S[tx * stride]

    report = simulate(main, np.ones(32 * stride, "f4"), np.zeros(32, "f4"))
    for what in ("shared store", "shared load"):
        row = of(report, what=what)
        assert (row.executed, row.bytes, row.requests, row.least) == (1, 128, ways, 1)
    row = of(report, what="global load")
    assert (row.requests, row.least) == (min(32, 4 * stride), 4)
    assert of(report, what="global store").requests == 4
    assert report.requests("shared") == (2 * ways, 2)
    assert report.bytes == {"shared": 256, "global": 256}


def test_instructions_by_kind():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), N: T.Tensor((2,), "int32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(3, threads=64):
            tx = T.get_thread_binding()
            count = T.alloc_shared((1,), "int32")
            if tx == 0:
                count[0] = 0
            T.sync_threads()
            x = T.shfl_xor(A[tx], 1)
            if T.any_sync(x > 2.0):
                T.atomic_add(count[0], 1)
            T.sync_threads()
            T.atomic_add(N[tx // 32], count[0])
            if tx < 32:
                T.sync_warp()
            T.atomic_add(B[tx], x)

    arrays = np.arange(64, dtype="f4"), np.zeros(2, "i4"), np.zeros(64, "f4")
    report = simulate(main, *arrays)
    assert arrays[1].tolist() == [3 * 32 * 64] * 2
    found = report.instructions
    assert (found["shuffle"], found["vote"]) == (6, 6)
    assert found["atomic"] == 3 * 2 * 3  # three statements, two warps
    assert found["barrier"] >= 3 * 5
    on_n = of(report, kind="atomic", buffer="N")
    assert (on_n.level, on_n.executed, on_n.bytes, on_n.requests, on_n.least) == ("global", 6, 768, 6, 6)
    shared = of(report, kind="atomic", buffer="count")
    assert (shared.level, shared.bytes, shared.requests) == ("shared", 768, 0)
    assert of(report, kind="atomic", buffer="B").requests == 6 * 4


def test_waits_at_barriers():
    """Warp 0 has a loop before the barrier: the others wait for it, in any order, as long as it takes."""

    def program(trips):
        @T.prim_func
        def main(A: T.Tensor((128,), "int32")):
            with T.Kernel(1, threads=128):
                tx = T.get_thread_binding()
                x = T.alloc_var("int32")
                x = tx
                if tx < 32:
                    for _ in T.serial(trips):
                        x = x * 3 + 1
                T.sync_threads()
                A[tx] = x

        return main

    waits = []
    for trips in (10, 1000):
        row = of(simulate(program(trips), np.zeros(128, "i4"), seed=1), kind="barrier")
        assert row.executed == 4
        waits.append(row.waited)
    assert waits[1] > waits[0] and waits[1] >= 1000


def test_shown_in_the_report_and_as_json():
    a = np.ones((128, 64), "f2"), np.ones((64, 128), "f2"), np.zeros((128, 128), "f4")
    kernel = tilelang.compile(counter_goldens.gemm(128, 128, 64, "float16"), target="sim:sm_80")
    assert kernel.report.simulation is None and "simulated:" not in str(kernel.report)
    simulated = kernel.simulate(*a)
    assert simulated.flops == 2 * 128 * 128 * 64
    assert simulated.instructions["ldmatrix"] == 128
    report = kernel.explain()
    assert report.simulation is simulated
    line = next(line for line in str(report).splitlines() if "mma_m16n8k16" in line and "2097152" in line)
    assert line.split()[0] == "line" and "512" in line
    assert "waited" in str(report)
    page = report.html()
    xml.dom.minidom.parseString(page.removeprefix("<!DOCTYPE html>\n"))
    assert "Counted by the simulator" in page and "2097152" in page
    data = json.loads(simulated.json())
    assert data["sums"]["flops"] == simulated.flops
    count, least = simulated.requests("shared")
    assert data["sums"]["bank_cycles"] == {"count": count, "least": least}
    assert {c["kind"] for c in data["counters"]} == set(simulated.instructions)
    kernel(*a)  # a plain call counts nothing, and keeps what was counted
    assert kernel.report.simulation is simulated


def test_twin_of_a_cuda_kernel():
    """A kernel for a GPU that is not here is simulated for its chip, and explains that."""
    kernel = tilelang.compile(counter_goldens.transpose(64, 64), target="cuda -arch=sm_80")
    report = kernel.simulate(np.ones((64, 64), "f4"), np.zeros((64, 64), "f4"))
    assert report.blocks == 4 and kernel.report.simulation is report


def dropped(report):
    return {(c.line, c.kind, c.buffer): c.dropped for c in report.counters if c.dropped}


def test_what_bounds_guards_drop():
    """Line by line: of a shifted read those that leave their row, of a ragged tile all beyond its tensor."""

    @T.prim_func
    def main(A: T.Tensor((10, 20), "float32"), B: T.Tensor((10, 20), "float32")):
        with T.Kernel(2, threads=64) as bx:
            S = T.alloc_shared((8, 32), "float32")
            T.copy(A[bx * 8, 0], S)
            T.copy(S, B[bx * 8, 0])
            for i, j in T.Parallel(5, 20):
                B[bx * 5 + i, j] = A[bx * 5 + i, j + 1]

    report = simulate(main, np.ones((10, 20), "f4"), np.zeros((10, 20), "f4"), watch=False)
    first = main.place[1] if hasattr(main, "place") else min(c.line for c in report.counters)
    copies, shifts = 2 * 8 * 32 - 200, 10
    lines = {line for line, _, _ in dropped(report)}
    assert min(lines) >= first and len(lines) == 3
    assert sorted(dropped(report).values()) == [shifts, copies, copies]
    assert "dropped" in str(report).splitlines()[1]


Fifty = T.Tensor((50,), "float32")


def test_what_a_condition_of_the_program_leaves_out_is_not_dropped():
    @T.prim_func
    def main(A: Fifty, B: Fifty, C: Fifty, n: T.int32):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if tx < 50:
                B[tx] = A[tx]
            if tx < n:
                B[tx] = A[tx] + 1.0
            T.atomic_add(C[tx + 10], 1.0)

    report = simulate(main, np.ones(50, "f4"), np.zeros(50, "f4"), np.zeros(50, "f4"), 40)
    assert list(dropped(report).values()) == [24] and list(dropped(report))[0][1] == "atomic"
    report = simulate(main, np.ones(50, "f4"), np.zeros(50, "f4"), np.zeros(50, "f4"), 60)
    assert sorted(dropped(report).values()) == [10, 24]  # what is not stored is not read
    small = simulate(main, np.ones(50, "f4"), np.zeros(50, "f4"), np.zeros(50, "f4"), 60, blocks=1)
    assert json.loads(small.json())["counters"][0]["dropped"] == small.counters[0].dropped
