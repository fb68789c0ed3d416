"""`python -m tilelang sim`: scripts of every kind run as they are, each kernel simulated."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
NO_GPU = not torch.cuda.is_available()

HEAD = """
import numpy as np
import tilelang
import tilelang.language as T


def adder(N, bN=64):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, bN), threads=64) as bx:
            for i in T.Parallel(bN):
                C[bx * bN + i] = A[bx * bN + i] + B[bx * bN + i]
    return main


a, b = np.random.rand(200).astype("f4"), np.random.rand(200).astype("f4")
"""


def sim(folder, text, *options, args=(), head=HEAD):
    """Run a script so: the finished process."""
    path = Path(folder) / "script.py"
    path.write_text(head + textwrap.dedent(text))
    command = [sys.executable, "-m", "tilelang", "sim", *options, str(path), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=dict(os.environ))


def test_every_way_to_make_a_kernel(tmp_path):
    done = sim(tmp_path, """
        import sys
        sm_89 = {"kind": "cuda", "arch": "sm_89"}
        for target in ("cuda -arch=sm_80", "cuda", "auto", "cpu", sm_89, "sim:sm_86"):
            kernel = tilelang.compile(adder(200), out_idx=-1, target=target)
            print("compile", kernel.target)
            assert np.allclose(kernel(a, b), a + b)

        lazy = tilelang.jit(adder, out_idx=[-1], target="cuda -arch=sm_80")
        assert np.allclose(lazy(200)(A=a, B=b), a + b)
        print("lazy", lazy(200).target)

        @tilelang.jit(target="cuda -arch=sm_80")
        def eager(A, B, bN: int = 32):
            N = T.const("N")
            A: T.Tensor((N,), "float32")
            B: T.Tensor((N,), "float32")
            C = T.empty((N,), "float32")
            with T.Kernel(T.ceildiv(N, bN), threads=32) as bx:
                for i in T.Parallel(bN):
                    C[bx * bN + i] = A[bx * bN + i] * B[bx * bN + i]
            return C, A

        for _ in range(2):
            c, same = eager(a, b)
            assert np.allclose(c, a * b) and same is a

        tuned = tilelang.autotune(lazy, configs=[{"bN": 64}, {"bN": 128}])
        kernel = tuned(200)
        assert np.allclose(kernel(a, b), a + b) and kernel.config
        print(type(kernel.get_profiler().do_bench(quantiles=[0.5, 0.9])).__name__, sys.argv[1:], __name__)
        assert kernel.get_profiler().do_bench(return_mode="min") > 0
    """, args=["x", "--seed"])  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = [f"compile sim:{chip}" for chip in ("sm_80", "sm_90a", "sm_90a", "sm_90a", "sm_89", "sm_86")]
    assert done.stdout.splitlines() == [*said, "lazy sim:sm_80", "list ['x', '--seed'] __main__"]
    assert "do_bench: one simulated run each" in done.stderr
    assert "eager for sim:sm_80: 2 calls, 14 blocks, 2 schedules: nothing found" in done.stderr
    # twice by the tuner, once for the answer, twice measured: on 64 elements four blocks, on 128 two
    assert "main for sim:sm_90a: 3 calls, 12 blocks, 3 schedules: nothing found" in done.stderr
    assert done.stderr.count("nothing found") == 5


def test_options(tmp_path):
    text = """
        kernel = tilelang.compile(adder(2000), out_idx=-1, target="cuda -arch=sm_80")
        x, y = a.repeat(10), b.repeat(10)
        right = int(np.isclose(kernel(x, y), x + y).sum())
        print(kernel.target, vars(tilelang.tools.simulation.defaults), right)
    """
    done = sim(tmp_path, text, "--target", "sim:sm_86", "--seed", "3", "--schedules", "2", "--blocks", "0,5")
    assert done.stdout.startswith("sim:sm_86 {'seed': 3, 'schedules': 2, 'blocks': [0, 5]} 128"), done.stderr
    assert "main for sim:sm_86: 1 call, 2 blocks, 2 schedules" in done.stderr or "4 blocks" in done.stderr
    done = sim(tmp_path, text, "--blocks", "3")
    assert "'blocks': 3" in done.stdout and "3 blocks" in done.stderr
    for options, message in [
        (["--target", "sim:sm_70"], "this version has sm_75, sm_80, sm_86, sm_89, sm_90"),
        (["--blocks", "x"], "'x' is neither a number of blocks nor a list of them"),
        (["--schedules", "0"], "--schedules and --blocks are at least 1"),
    ]:
        done = sim(tmp_path, text, *options)
        assert done.returncode == 2 and message in done.stderr


RACE = """
def reverse(N=256):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), n: T.int32):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            S = T.alloc_shared((N,), "float32")
            if tx < n:
                S[tx] = A[tx]
                B[tx] = S[n - 1 - tx]
    return main


kernel = tilelang.compile(reverse(), target="cuda -arch=sm_80")
print("before")
x = np.arange(256, dtype="f4")
"""


@pytest.mark.parametrize("call", [
    "kernel(x, x.copy(), 256)",
    "try:\n    kernel(x, x.copy(), 256)\nexcept Exception:\n    pass",
    "import threading\nt = threading.Thread(target=lambda: kernel(x, x.copy(), 256))\nt.start()\nt.join()",
    "kernel.get_profiler().do_bench(input_tensors=[x, x.copy(), 256])",
])  # fmt: skip
def test_a_finding_ends_the_script(tmp_path, call):
    done = sim(tmp_path, RACE + call + ("\n" if "thread" in call else "\nprint('after')\n"))
    assert done.returncode == 1
    assert done.stdout == "before\n"
    race = r"data race on S\[\d+\]: thread \d+ of block \(0\) of main writes it, thread \d+ read it"
    assert re.search(race, done.stderr)
    assert "B[tx] = S[n - 1 - tx]" in done.stderr and "Traceback" not in done.stderr


def test_other_ends(tmp_path):
    assert sim(tmp_path, "import sys; sys.exit(7)").returncode == 7
    done = sim(tmp_path, "print(1)")
    assert done.returncode == 0 and "the script ran no kernel that could be simulated" in done.stderr
    done = sim(tmp_path, "def f():\n    raise ValueError('mine')\nf()")
    assert done.returncode == 1 and "ValueError: mine" in done.stderr
    assert "runpy" not in done.stderr and "tilelang/tools/script.py" not in done.stderr
    command = [sys.executable, "-m", "tilelang", "sim", "nowhere.py"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "no file 'nowhere.py'" in done.stderr


def test_what_the_chip_refuses_stays_on_the_cpu(tmp_path):
    """A CPU has room for tiles that no GPU has: the kernel runs where its target says, and this is said."""
    done = sim(
        tmp_path,
        """
        @T.prim_func
        def large(A: T.Tensor((512, 512), "float32"), B: T.Tensor((512, 512), "float32")):
            with T.Kernel(1):
                S = T.alloc_shared((512, 512), "float32")
                T.copy(A, S)
                T.copy(S, B)
        x, y = np.random.rand(512, 512).astype("f4"), np.zeros((512, 512), "f4")
        tilelang.compile(large, target="cpu")(x, y)
        assert (x == y).all()
        assert tilelang.compile(adder(200), target="reference").target == "reference"
        try:
            tilelang.compile(large, target="cuda")
        except tilelang.CompileError as error:
            print("refused")
    """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "refused\n"
    assert "large: not simulated, runs on the CPU as its target says; for sim:sm_90a: " in done.stderr


@pytest.mark.skipif(not NO_GPU, reason="PyTorch has a GPU, and uses it")
def test_pytorch_scripts_for_a_gpu(tmp_path):
    done = sim(tmp_path, """
        import threading
        import torch
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1
        torch.cuda.manual_seed(0)
        x, y = torch.randn(200, device="cuda"), torch.randn(200).cuda()
        assert x.is_cuda and y.is_cuda and x.device == y.device == torch.device("cuda", 0)
        assert x[:3].is_cuda and (x + 1).is_cuda and x.half().is_cuda and torch.cat([x, y]).is_cuda
        assert not y.cpu().is_cuda and y.is_cuda and not y.to("cpu").is_cuda and y.to("cpu").cuda().is_cuda
        assert torch.empty_like(x).is_cuda and torch.zeros(3, device=x.device).is_cuda
        assert not torch.zeros(3).is_cuda
        kernel = tilelang.compile(adder(200), out_idx=-1, target="cuda")
        z = kernel(x, y)
        torch.cuda.synchronize()
        assert z.is_cuda
        torch.testing.assert_close(z, x + y)
        out = torch.full((200,), float("nan"), device="cuda")
        tilelang.compile(adder(200), target="cuda -arch=sm_80")(x, y, out)
        torch.testing.assert_close(out, z)
        with torch.device("cuda"):
            assert torch.ones(2).is_cuda
        torch.set_default_device("cuda")
        assert torch.ones(2).is_cuda
        torch.set_default_device("cpu")
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.ones(2, device="cuda").is_cuda))
        thread.start(); thread.join()
        assert seen == [True]
        net = torch.nn.Linear(3, 3).cuda()
        assert net(torch.ones(2, 3, device="cuda")).is_cuda
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record(); end.record(); end.synchronize()
        assert begin.elapsed_time(end) >= 0
        assert torch.rand(3, generator=torch.Generator(device="cuda").manual_seed(1), device="cuda").is_cuda
        print(torch.cuda.get_device_capability(), tilelang.profiler.do_bench(lambda: kernel(x, y)) > 0)
        kernel.get_profiler().assert_allclose(lambda a, b: a + b)
    """, "--target", "sim:sm_80")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "(8, 0) True\n"
    assert "main for sim:sm_80: 4 calls, 16 blocks, 4 schedules: nothing found" in done.stderr


@pytest.mark.skipif(not NO_GPU, reason="PyTorch has a GPU, and uses it")
def test_machinery_of_pytorch(tmp_path):
    """torch._dynamo, which all of these import, refuses to know one function by two names."""
    done = sim(tmp_path, """
        import torch
        kernel = tilelang.compile(adder(200), out_idx=-1, target="cuda")
        add = tilelang.custom_op("of_a_script::add", kernel)
        x, y = torch.rand(200, requires_grad=True), torch.rand(200)
        torch.testing.assert_close(add(x.detach(), y), x + y)

        compiled = torch.compile(lambda a, b: add(a, b) * 2, backend="eager")
        torch.testing.assert_close(compiled(x.detach(), y), (x + y) * 2)

        step = torch.optim.SGD([x], lr=1.0)
        x.sum().backward()
        step.step()
        step.zero_grad()
        assert x.grad is None

        replaced = {}
        for name in dir(torch.cuda):
            value = getattr(torch.cuda, name)
            if "host_torch" in getattr(getattr(value, "__code__", None), "co_filename", ""):
                assert value.__name__ == name and id(value) not in replaced
                replaced[id(value)] = value
        print(len(replaced) > 15)
    """)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert "main for sim:sm_90a: 2 calls, 8 blocks, 2 schedules: nothing found" in done.stderr


def test_an_example_as_it_is():
    """Its own options are its own, and its own idea of the target is the simulator's."""
    example = Path(__file__).resolve().parents[2] / "examples" / "softmax.py"
    command = [sys.executable, "-m", "tilelang", "sim", str(example), "--rows", "7", "--columns", "203"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "sim:sm_90a: " in done.stdout and "main for sim:sm_90a: " in done.stderr
