"""strict=True: a pipeline that the program asks for and does not get is an error on its line."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T


def summed(body, stages=3, length=64, columns=256):
    """Adds up rows of A by a pipelined loop."""

    @T.prim_func
    def main(A: T.Tensor((64, columns), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            S, F = T.alloc_shared((64, length), "float32"), T.alloc_fragment((64,), "float32")
            T.clear(F)
            if body == "rows apart":
                T.annotate_layout({S: T.Layout((64, length), lambda i, j: i * (length + 1) + j)})
            for k in T.Pipelined(columns // length, num_stages=stages):  # the loop
                if body == "no copy":
                    for i in T.Parallel(64):
                        F[i] += A[i, k * length]
                else:
                    T.copy(A[0, k * length], S)
                    if body == "barrier":
                        T.sync_threads()
                    for i in T.Parallel(64):
                        for j in T.serial(length):
                            F[i] += S[i, j]
            if body == "after":
                for i in T.Parallel(64):
                    F[i] += S[i, 0] * 0
            T.copy(F, B)

    return main


CASES = {
    "slots": (
        {"body": "", "stages": 4, "length": 128, "columns": 1024},
        "sim:sm_86",
        "loop k: num_stages=4 was asked for, 3 fit into the 99 KB of shared memory of a block; ",
        "for k in T.Pipelined",
    ),
    "in order": (
        {"body": "barrier"},
        "sim:sm_80",
        "loop k: runs in order, num_stages=3 has no effect: nothing moves across the sync_threads in it; ",
        "for k in T.Pipelined",
    ),
    "a copy": (
        {"body": "after"},
        "sim:sm_80",
        "loop k: the copy of A to S does not run ahead: S is read after the loop; ",
        "T.copy(A[0, k * length], S)",
    ),
    "no copy": (
        {"body": "no copy"},
        "sim:sm_80",
        "loop k: runs in order, num_stages=3 has no effect: it has no copy from a tensor to a tile that "
        "could run ahead; ",
        "for k in T.Pipelined",
    ),
    "not asynchronous": (
        {"body": "rows apart"},
        "sim:sm_80",
        "copy: is not asynchronous here: the 128 bits that a thread moves at once are not contiguous and "
        "aligned in S; ",
        "T.copy(A[0, k * length], S)",
    ),
}
ADVICE = (
    "strict=True makes an error of what is asked for and not done: ask for what can be done, or compile "
    "without strict"
)


@pytest.mark.parametrize("case", CASES)
def test_what_is_asked_for_and_not_done(case):
    given, target, says, line = CASES[case]
    program = summed(**given)
    tilelang.compile(program, target=target)  # by default it is a refusal of the report
    with pytest.raises(tilelang.CompileError) as error:
        tilelang.compile(program, target=target, strict=True)
    assert str(error.value).split("error: ", 1)[1].startswith(says + ADVICE), error.value
    assert line in str(error.value)


@pytest.mark.parametrize("target", ["sim:sm_75", "sim:sm_80", "sim:gfx942", "cpu", "reference"])
def test_what_is_done_passes(target):
    """Where there are no threads, nothing is lost by running in order."""
    kernel = tilelang.compile(summed("", stages=2, length=32), target=target, strict=True)
    a, b = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32), np.zeros(64, np.float32)
    kernel(a, b)
    assert np.allclose(b, a.sum(1), atol=1e-4)


def test_in_every_form():
    bad = summed("barrier")
    with pytest.raises(tilelang.CompileError, match="strict=True"):
        tilelang.jit(lambda: bad, target="sim:sm_80", strict=True)()
    assert tilelang.par_compile([bad], target="sim:sm_80", strict=True, ignore_error=True) == [None]

    @tilelang.jit(target="sim:sm_80", strict=True)
    def eager(A):
        A: T.Tensor((64, 256), "float32")
        B = T.empty((64,), "float32")
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64, 64), "float32")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], S)
                T.sync_threads()
                T.copy(S[:, 0], B)
        return B

    with pytest.raises(tilelang.CompileError, match="strict=True"):
        eager(np.zeros((64, 256), np.float32))


def test_the_cache_does_not_hide_it(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tilelang.env, "_cache_enabled", True)
    bad = summed("barrier")
    tilelang.compile(bad, target="cuda -arch=sm_80")
    with pytest.raises(tilelang.CompileError, match="strict=True"):
        tilelang.compile(bad, target="cuda -arch=sm_80", strict=True)
