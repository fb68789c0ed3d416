"""kernel.simulate(): its options, kernels that return, and what its defaults are."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang.tools import simulation


def numbers(blocks, trips=1):
    """Block b writes b to its element."""

    @T.prim_func
    def main(B: T.Tensor((blocks, 32), "int32")):
        with T.Kernel(blocks, threads=32) as bx:
            tx = T.get_thread_binding()
            x = T.alloc_var("int32")
            x = 0
            for i in T.serial(trips):
                x = x * 3 + i
            B[bx, tx] = T.if_then_else(x == -1, 0, bx)

    return tilelang.compile(main, target="sim:sm_80")


@pytest.mark.parametrize(
    "blocks, ran",
    [(None, range(10)), (4, [0, 3, 6, 9]), (1, [0]), (50, range(10)), ([7, 2], [2, 7]), ([3, 12], [3])],
)
def test_blocks(blocks, ran):
    out = np.full((10, 32), -1, "int32")
    report = numbers(10).simulate(out, blocks=blocks)
    assert report.blocks == len(list(ran))
    assert out[:, 0].tolist() == [b if b in ran else -1 for b in range(10)]


@pytest.mark.parametrize("options", [{"blocks": 0}, {"schedules": 0}])
def test_nothing_to_run_is_an_error(options):
    with pytest.raises(ValueError, match="must be at least 1"):
        numbers(2).simulate(np.zeros((2, 32), "int32"), **options)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"seed": -1}, ValueError, "seed=-1; it must be at least 0"),
        ({"blocks": [-1]}, ValueError, "blocks=-1; it must be at least 0"),
        ({"blocks": [2, 7]}, ValueError, "none of the blocks 2, 7 is one of main's"),
        ({"schedules": 1.5}, TypeError, "schedules=1.5; a whole number was expected"),
        ({"blocks": True}, TypeError, "blocks=True; a whole number was expected"),
        ({"schedules": "most"}, ValueError, "schedules='most'; a number was expected, or 'all'"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        numbers(2).simulate(np.zeros((2, 32), "int32"), **options)


def test_all_schedules_of_a_kernel_that_is_too_large():
    message = "5 blocks of 1 warps, but all orders are tried of at most 4 warps"
    with pytest.raises(tilelang.CompileError, match=message):
        numbers(10).simulate(np.zeros((10, 32), "int32"), schedules="all", blocks=5)


def test_all_schedules_find_what_needs_one_order():
    @T.prim_func
    def main(F: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if tx == 0:
                for _ in T.serial(3):
                    first = T.atomic_add(F[0], 1, return_prev=True)
                    second = T.atomic_add(F[0], 1, return_prev=True)
                    assert first != 102 or second != 203, "the other warp came between"
            if tx == 32:
                for _ in T.serial(3):
                    T.atomic_add(F[0], 100)

    kernel = tilelang.compile(main, target="sim:sm_90")
    kernel.simulate(np.zeros(1, "int32"), schedules=100)
    with pytest.raises(simulation.SimulationError, match="the other warp came between"):
        kernel.simulate(np.zeros(1, "int32"), schedules="all")


def test_after_all_schedules_the_outputs_are_those_of_one_whole_run():
    out = np.full((2, 32), -1, "int32")
    report = numbers(2).simulate(out, schedules="all")
    assert not report and report.schedules == 1 and out[:, 0].tolist() == [0, 1]


def test_defaults(monkeypatch):
    kernel, out = numbers(10), np.full((10, 32), -1, "int32")
    monkeypatch.setattr(simulation, "defaults", simulation.Defaults(blocks=[4]))
    kernel(out)
    assert (out[:, 0] >= 0).sum() == 1
    kernel.launch([out.copy()])
    monkeypatch.setattr(simulation, "defaults", simulation.Defaults())
    kernel.launch([out])
    assert out[:, 0].tolist() == list(range(10))


def returning(target):
    @tilelang.jit(target=target)
    def both(A):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        B = T.empty((N,), "float32")
        with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i] + 1
        return B, A

    return both


@pytest.mark.parametrize("target", ["sim:sm_80", "cuda -arch=sm_80"])
def test_kernels_that_return_what_they_make(target):
    a = np.arange(100, dtype="f4")
    kernel = returning(target).compile(a)
    report = kernel.simulate(a, schedules=3)
    assert (report.blocks, report.schedules) == (4, 3)
    if target.startswith("sim"):
        b, same = kernel(a)
        assert same is a and (b == a + 1).all()


def test_an_output_is_not_written_before():
    """What out_idx allocates holds nothing: reading it is found, also where the body returns it."""

    @tilelang.jit(target="sim:sm_80")
    def bad(A):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        B = T.empty((N,), "float32")
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            B[tx] = B[tx] + A[tx]
        return B, A

    with pytest.raises(tilelang.SimulationError, match=r"B\[0\] is read by thread 0"):
        bad(np.ones(32, "f4"))


def test_do_bench_is_one_run(monkeypatch):
    kernel, runs, simulate = numbers(4), [], simulation.simulate
    counting = lambda *args, **options: runs.append(1) or simulate(*args, **options)
    monkeypatch.setattr(simulation, "simulate", counting)
    with pytest.warns(tilelang.TilelangWarning, match="main is simulated .sim:sm_80.: one run"):
        times = kernel.get_profiler().do_bench(quantiles=[0.5, 0.2])
    assert len(times) == 2 and times[0] == times[1] > 0
    assert runs == [1]
