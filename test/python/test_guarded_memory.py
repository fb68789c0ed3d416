"""No kernel reads or writes outside of its tensors, also where only a condition keeps it inside."""

import re
import subprocess
import sys

import guarded_look_ups
import guarded_memory
import numpy as np
import pytest
import tilelang
import tilelang.language as T


@pytest.mark.parametrize("kernels", [guarded_memory, guarded_look_ups])
def test_on_the_cpu(kernels):
    """In a process of its own, which an access outside ends."""
    done = subprocess.run([sys.executable, kernels.__file__], capture_output=True, text=True)
    assert done.stdout.endswith("no access outside\n"), done.stdout[-300:] + done.stderr[-2000:]


@pytest.mark.parametrize("target", ["reference", "sim:sm_80"])
@pytest.mark.parametrize("form", guarded_memory.FORMS)
def test_elsewhere(form, target):
    a = np.random.default_rng(0).standard_normal(1001).astype(np.float32)
    b = np.full((1001, 41), np.nan, np.float32)
    tilelang.compile(form(1001, 41), target=target)(a, b)
    assert np.array_equal(b, np.repeat(2 * a[:, None], 41, 1))


@pytest.mark.parametrize("target", ["reference", "sim:sm_80"])
def test_look_ups_elsewhere(target):
    guarded_look_ups.check(target)


def test_loads_of_a_gpu_stand_under_the_condition_of_their_lane():
    """Vectors are loaded whole in the part that lies inside; in the rest each lane loads for itself."""
    N = 1001

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 512), threads=128) as bx:
            for i in T.Parallel(512):
                if bx * 512 + i < N:
                    B[bx * 512 + i] = A[bx * 512 + i] * 2

    text = tilelang.compile(main, target="cuda -arch=sm_80").get_kernel_source()
    assert text.count("tl_load<4>(&A[") == 1 and len(re.findall(r"\w+( \+ \d)? < \d+ \? A\[", text)) == 4
