"""The interpreter ends while daemon threads run or compile kernels: it ends as if they were not there."""

import subprocess
import sys

import pytest

HEAD = """
import os, threading, time
import numpy as np
import tilelang
import tilelang.language as T

tilelang.disable_cache()

def product(N, b=32):
    @T.prim_func
    def main(A: T.Tensor((N, N), "float32"), B: T.Tensor((N, N), "float32"), C: T.Tensor((N, N), "float32")):
        with T.Kernel(T.ceildiv(N, b), T.ceildiv(N, b), threads=128) as (bx, by):
            A_s, B_s = T.alloc_shared((b, 32), "float32"), T.alloc_shared((32, b), "float32")
            C_l = T.alloc_fragment((b, b), "float32")
            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(N, 32), num_stages=2):
                T.copy(A[by * b, k * 32], A_s)
                T.copy(B[k * 32, bx * b], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[by * b, bx * b])
    return main

begun = threading.Semaphore(0)

def daemons(work, count=3):
    def forever():
        while True:
            work()
            begun.release()
    for _ in range(count):
        threading.Thread(target=forever, daemon=True).start()
    begun.acquire()
    time.sleep(0.2)
"""
CALL = """
N = 128
kernel = tilelang.compile(product(N), target={target!r})
a, c = np.ones((N, N), "f4"), np.zeros((N, N), "f4")
daemons(lambda: kernel(a, a, c))
"""
COMPILE = """
daemons(lambda: tilelang.compile(product(128), target={target!r}))
"""
PYTHON = """
@tilelang.jit(target="cpu")
def copy(A, n: int):
    A: T.Tensor((64,), "float32")
    B = T.empty((64,), "float32")
    with T.Kernel(1):
        for i in T.Parallel(64):
            B[i] = A[i] + n
    return B

a, number = np.ones(64, "f4"), iter(range(1 << 30))
daemons(lambda: copy(a, next(number)))
"""
CALLBACK = """
def twice(x):
    return sum(x for _ in range(2000)) / 1000

@T.prim_func
def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = T.call_extern("float32", "twice", A[i], eval=twice)

kernel = tilelang.compile(main, target="sim:sm_80")
a, b = np.ones(64, "f4"), np.zeros(64, "f4")
daemons(lambda: kernel(a, b))
"""


@pytest.fixture
def run(tmp_path):
    def run(text):
        script = tmp_path / "script.py"
        script.write_text(HEAD + text)
        return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)

    return run


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)"])
@pytest.mark.parametrize("target", ["cpu", "reference", "sim:sm_80"])
def test_calls(run, target, end):
    done = run(CALL.format(target=target) + end)
    assert (done.returncode, done.stderr) == (3 if end else 0, "")


@pytest.mark.parametrize("target", ["cpu", "cuda -arch=sm_80", "sim:sm_90a"])
def test_compilations(run, target):
    done = run(COMPILE.format(target=target))
    assert (done.returncode, done.stderr) == (0, "")


def test_code_of_python_inside_a_call(run):
    """The first call of each form traces and compiles, called from C++."""
    done = run(PYTHON)
    assert (done.returncode, done.stderr) == (0, "")


def test_callbacks(run):
    done = run(CALLBACK)
    assert (done.returncode, done.stderr) == (0, "")
