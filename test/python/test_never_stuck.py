"""What takes long hears Ctrl-C, shows that it goes on, and ends by itself where it would not."""

import os
import pty
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang.tools import simulation

HEAD = """
import numpy as np
import tilelang
import tilelang.language as T

tilelang.disable_cache()


def sines(count):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            acc = T.alloc_fragment((64, 64), "float32")
            T.copy(A, acc)
            for i, j in T.Parallel(64, 64):
                x = T.alloc_var("float32", 0.0)
                for u in T.unroll(count):
                    x += T.sin(acc[i, j] * (u + 1.5)) * T.exp(acc[i, j]) / (u + 1)
                acc[i, j] = x
            T.copy(acc, B)
    return main


@T.prim_func
def statements(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        for i in range(60000):
            A[tx] = A[tx] * 2 + i


@T.prim_func
def spins(A: T.Tensor((64,), "float32")):
    with T.Kernel(2, threads=64) as b:
        while A[0] < 10.0:
            A[1 + b] = A[1 + b] + 1.0


@T.prim_func
def counts(A: T.Tensor((64,), "float32")):
    with T.Kernel(4, threads=64) as b:
        for i in T.serial(1 << 20):
            for j in T.serial(1 << 30):
                A[b] = T.sin(A[b] + i * j)


def run(func, target):
    kernel = tilelang.compile(func, target=target)
    a = np.zeros(64, "f4")
    print("begin", flush=True)
    kernel(a)
"""
COMPILE = "print('begin', flush=True)\ntilelang.compile({func}, target={target!r})\n"
LONG = [  # what takes minutes, or for ever
    *[COMPILE.format(func="sines(1200)", target=t) for t in ("cpu", "cuda -arch=sm_90a")],
    *[f"run(spins, {target!r})\n" for target in ("cpu", "reference", "sim:sm_80")],
    *[f"run(counts, {target!r})\n" for target in ("cpu", "reference", "sim:sm_80")],
]
NO_LIMITS = {"TILELANG_SIM_TIMEOUT": "0", "TILELANG_SIM_ITERATIONS": "0"}


def start(tmp_path, text, *words, stderr=subprocess.PIPE):
    script = tmp_path / "script.py"
    script.write_text(HEAD + text)
    return subprocess.Popen(
        [sys.executable, *words, str(script)],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**os.environ, **NO_LIMITS},
    )


def interrupt(process):
    """After a while of work: how it ended.  That it does is what is tested; the guard is not a limit."""
    assert process.stdout.readline() == "begin\n"
    time.sleep(1)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.parametrize("text", LONG)
def test_ctrl_c_ends_the_script(tmp_path, text):
    """A shell sees 130: the process ends by the signal, as Python's do."""
    code, _, said = interrupt(start(tmp_path, text))
    assert code == -signal.SIGINT and said.splitlines()[-1] == "KeyboardInterrupt"


@pytest.mark.parametrize("text", ["run(spins, 'sim:sm_80')\n", "run(counts, 'cpu')\n"])
def test_ctrl_c_ends_the_command(tmp_path, text):
    code, _, said = interrupt(start(tmp_path, text, "-m", "tilelang", "sim"))
    assert code == -signal.SIGINT and said.splitlines()[-1] == "KeyboardInterrupt"


@pytest.mark.parametrize("text", [LONG[0], *[t for t in LONG if "run(" in t]])
def test_a_script_goes_on_after_ctrl_c(tmp_path, text):
    """Another kernel runs, whatever the first one's threads still do, and the script ends as it says."""
    begin, call = text.rsplit("\n", 2)[-3:-1] if "print" in text else ("", text.strip())
    caught = f"""
{begin}
try:
    {call}
except KeyboardInterrupt:
    kernel = tilelang.compile(sines(2), target="cpu")
    a, b = np.ones((64, 64), "f4"), np.zeros((64, 64), "f4")
    kernel(a, b)
    kernel(a, b)
    wanted = np.e * (np.sin(1.5) + np.sin(2.5) / 2)
    print("right" if np.allclose(b, wanted, rtol=1e-5) else b)
    raise SystemExit(5)
"""
    code, out, said = interrupt(start(tmp_path, caught))
    assert (code, out) == (5, "right\n"), said


def test_a_handler_of_its_own_is_heard(tmp_path):
    """One that raises nothing lets the kernel go on."""
    code, out, _ = interrupt(start(tmp_path, """
import signal
seen = []
def heard(*args):
    seen.append(args)
    print("heard", flush=True)
    if len(seen) == 1:
        signal.raise_signal(signal.SIGINT)
    else:
        raise ValueError("enough")
signal.signal(signal.SIGINT, heard)
try:
    run(spins, "cpu")
except ValueError as error:
    print(error)
    raise SystemExit(3)
"""))  # fmt: skip
    assert (code, out) == (3, "heard\nheard\nenough\n")


@pytest.mark.parametrize("text", ["run(spins, 'sim:sm_80')\n", "run(spins, 'cpu')\n", LONG[0]])
def test_a_line_of_progress(tmp_path, text):
    """On a terminal, from the third second on; gone at the end."""
    ours, theirs = pty.openpty()
    process = start(tmp_path, text, stderr=theirs)
    os.close(theirs)
    said = ""
    while not re.search(r"tilelang: (compiling|running|simulating) \w+: .*, [3-9] s|\w+, [3-9] s", said):
        said += os.read(ours, 1000).decode()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert os.read(ours, 1000).decode().rsplit("tilelang: ", 1)[-1].count("\r\x1b[K") >= 1
    os.close(ours)


# ── runs that end by themselves ───────────────────────────────────────────────────────────────────────
@T.prim_func
def spins(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=1):
        while A[0] < 10.0:
            A[1] = A[1] + 1.0


@T.prim_func
def long_loop(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=1):
        for i in T.serial(1 << 40):
            A[0] = A[0] + i


CURE = (
    "let it change what its condition asks for, or raise the limit where so many are meant "
    "(TILELANG_SIM_ITERATIONS; 0: none)"
)


def line_of(text):
    """The last line of this file that begins so."""
    with open(__file__, encoding="utf-8") as file:
        return max(i for i, line in enumerate(file, 1) if line.strip().startswith(text))


def set_limits(monkeypatch, iterations=None, seconds=None):
    if iterations is not None:
        monkeypatch.setattr(tilelang.env, "TILELANG_SIM_ITERATIONS", str(iterations))
    if seconds is not None:
        monkeypatch.setattr(tilelang.env, "TILELANG_SIM_TIMEOUT", str(seconds))


def test_a_loop_that_spins_is_a_finding(monkeypatch):
    set_limits(monkeypatch, iterations=1000)
    with pytest.raises(simulation.SimulationError) as caught:
        tilelang.compile(spins, target="sim:sm_80")(np.zeros(64, "f4"))
    (finding,) = caught.value.report.findings
    assert finding.kind == "livelock" and finding.line == line_of("while A[0] < 10.0")
    assert finding.text == (
        "thread 0 of block (0) of spins does not leave this loop: it has run 1000 iterations; " + CURE
    )


def test_a_loop_that_spins_ends_the_reference(monkeypatch):
    set_limits(monkeypatch, iterations=1000)
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(spins, target="reference")(np.zeros(64, "f4"))
    assert caught.value.line == line_of("while A[0] < 10.0")
    assert caught.value.text == (
        "block (0) of spins does not leave this loop: it has run 1000 iterations; " + CURE
    )


@pytest.mark.parametrize("target", ["sim:sm_80", "reference"])
def test_a_call_has_its_time(monkeypatch, target):
    set_limits(monkeypatch, seconds=0.05)
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(long_loop, target=target)(np.zeros(64, "f4"))
    assert re.search(
        r" of long_loop is here: the run has taken 0\.05 seconds, the limit of one call; take a smaller case "
        r"or fewer blocks, or raise the limit \(TILELANG_SIM_TIMEOUT, or --timeout of `tilelang sim`; "
        r"0: none\)",
        caught.value.text,
    )
    if target.startswith("sim"):
        assert caught.value.report.findings[0].kind == "timeout"


@pytest.mark.parametrize("target", ["sim:sm_80", "reference"])
def test_a_limit_is_a_number(monkeypatch, target):
    set_limits(monkeypatch, seconds="soon")
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(spins, target=target)(np.zeros(64, "f4"))
    assert caught.value.text == "TILELANG_SIM_TIMEOUT is a number of seconds, 0 for no limit, not 'soon'"


@T.prim_func
def walks(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=1):
        for k in T.serial(3):
            while A[0] < 900.0 * (k + 1):
                A[0] = A[0] + 1.0


@pytest.mark.parametrize("target", ["sim:sm_80", "reference"])
def test_each_run_of_a_loop_counts_anew(monkeypatch, target):
    set_limits(monkeypatch, iterations=1000)
    a = np.zeros(64, "f4")
    tilelang.compile(walks, target=target)(a)
    assert a[0] == 2700


def test_the_command_takes_a_timeout(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(HEAD + "run(counts, 'cuda -arch=sm_80')\n")
    done = subprocess.run(
        [sys.executable, "-m", "tilelang", "sim", "--timeout", "0.05", str(script)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    assert "is here: the run has taken 0.05 seconds, the limit of one call" in done.stderr
