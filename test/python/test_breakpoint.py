"""`breakpoint()` in a kernel: what the simulator shows there, and that all others pass it."""

import sys

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang.tools import breakpoints


def program():
    @T.prim_func
    def main(A: T.Tensor((2, 16, 32), "float32"), B: T.Tensor((2, 16, 32), "float32")):
        with T.Kernel(2, threads=64) as bx:
            S = T.alloc_shared((16, 32), "float32")
            X = T.alloc_fragment((16, 32), "float32")
            tx = T.get_thread_binding()
            mine = T.alloc_local((3,), "int32")
            for i in T.serial(3):
                mine[i] = tx * 10 + i
            T.copy(A[bx, 0, 0], S)
            T.copy(S, X)
            T.sync_threads()
            breakpoint()
            for i, j in T.Parallel(16, 32):
                X[i, j] = X[i, j] + mine[0] - tx * 10
            T.copy(X, B[bx, 0, 0])

    return main


@pytest.fixture(autouse=True)
def nobody_else_chose():
    yield
    breakpoints.chosen.block = breakpoints.chosen.thread = 0


def run(target="sim:sm_80"):
    a = np.arange(1024, dtype="f4").reshape(2, 16, 32)
    b = np.zeros_like(a)
    tilelang.compile(program(), target=target)(a, b)
    assert np.array_equal(a, b)
    return a


@pytest.mark.parametrize("block, thread", [(0, 0), (1, 37)])
def test_what_is_shown(block, thread, monkeypatch, capsys):
    breakpoints.chosen.block, breakpoints.chosen.thread = block, thread
    seen = []
    monkeypatch.setattr(breakpoints.State, "summary", lambda self: seen.append(self) or "shown")
    a = run()
    (state,) = seen
    assert state.place[0] == __file__ and state.active == 0xFFFFFFFF
    assert np.array_equal(state.value("S"), a[block])
    held = state.value("X")
    assert len(held) == 16 * 32 // 64
    assert all(value == a[block][index] for index, value in held.items())
    assert state.value("mine").tolist() == [thread * 10, thread * 10 + 1, thread * 10 + 2]
    assert capsys.readouterr().out == "shown\n"


def test_the_summary(capsys):
    run()
    out = capsys.readouterr().out
    assert "breakpoint, block (0) of main, thread 0; of its warp 32 threads stop here" in out
    assert "mine, local i32[3]: [0 1 2]" in out
    assert "S, shared f32[16, 32]: [[" in out and "X, fragment f32[16, 32]: [0, 0] 0.0" in out


def test_the_prompt(monkeypatch, capsys):
    said = iter(["p mine", "t 3", "p mine", "p nothing", "what", "t 40", "b 1", "c", "p mine", ""])
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: next(said))
    run()
    out = capsys.readouterr().out
    assert "[0 1 2]" in out and "[30 31 32]" in out and "[400 401 402]" in out
    assert "there is no 'nothing' here; there are " in out and "p [NAME]" in out
    assert "block (1) of main, thread 40" in out
    assert next(said, None) is None
    breakpoints.chosen.block = breakpoints.chosen.thread = 0
    monkeypatch.setattr("builtins.input", lambda prompt: "q")
    with pytest.raises(KeyboardInterrupt):
        run()


@pytest.mark.parametrize("target", ["cpu", "reference", "cuda -arch=sm_80"])
def test_other_targets_pass(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = A[i] + 1
            breakpoint()

    with pytest.warns(tilelang.TilelangWarning, match="breakpoint.. does nothing on"):
        kernel = tilelang.compile(main, target=target)
    if not target.startswith("cuda"):
        b = np.zeros(64, "f4")
        kernel(np.ones(64, "f4"), b)
        assert (b == 2).all()


def test_under_a_condition_and_round_trip():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            A[tx] = tx
            if tx == 5:
                breakpoint()

    assert "breakpoint()" in main.text
    assert tilelang._core.parse(main.text).text() == main.text
    seen = []
    keep = breakpoints.Stops.show
    try:
        breakpoints.Stops.show = lambda self, place, where, first, active, *rest: seen.append((first, active))
        tilelang.compile(main, target="sim:sm_80")(np.zeros(64, "i4"))
    finally:
        breakpoints.Stops.show = keep
    assert seen == [(0, 1 << 5)]
