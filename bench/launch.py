"""What a warm call costs: nanoseconds per call, for arrays of NumPy and PyTorch, 3 and 19 arguments.

On the CPU one block of 16 elements, all in all.  On a GPU also a bare cuLaunchKernel of the same kernel in a
loop of C, in the same process; the difference is what the call adds.  `python bench/launch.py [cpu] [cuda]`.
"""

import ctypes
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tilelang
import tilelang.language as T

SHIM = r"""
#include <stdint.h>
#include <time.h>
typedef int (*Load)(void**, const void*);
typedef int (*Get)(void**, void*, const char*);
typedef unsigned u;
typedef int (*Launch)(void*, u, u, u, u, u, u, u, void*, void**, void**);
static void* function;
int prepare(Load load, Get get, const void* cubin, const char* name) {
  void* module;
  return load(&module, cubin) || get(&function, module, name);
}
int64_t burst(Launch launch, unsigned threads, void* stream, uint64_t* slots, int n, int count) {
  void* parameters[64];
  struct timespec a, b;
  for (int i = 0; i < n; i++) parameters[i] = &slots[i];
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 0; i < count; i++)
    if (launch(function, 1, 1, 1, threads, 1, 1, 0, stream, parameters, 0)) return -1;
  clock_gettime(CLOCK_MONOTONIC, &b);
  return (b.tv_sec - a.tv_sec) * 1000000000ll + b.tv_nsec - a.tv_nsec;
}
"""


def add3():
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32"), C: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                C[i] = A[i] + B[i]

    return main


_SOURCE = """
import tilelang.language as T
@T.prim_func
def main({parameters}, C: T.Tensor((16,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(16):
            C[i] = {sum}
"""


def add19(tensors):
    """18 inputs, of which so many are tensors and the others numbers; and an output."""
    names = [f"A{i}" for i in range(18)]
    parameters = ", ".join(
        f'{n}: T.Tensor((16,), "float32")' if i < tensors else f"{n}: T.float32" for i, n in enumerate(names)
    )
    terms = " + ".join(f"{n}[i]" if i < tensors else n for i, n in enumerate(names))
    folder = tempfile.mkdtemp()
    path = Path(folder) / "kernel19.py"
    path.write_text(_SOURCE.format(parameters=parameters, sum=terms))
    scope = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope["main"]


def call_of(kernel, arguments):
    """A function of no arguments that calls with these, spelled out as a user would."""
    names = [f"x{i}" for i in range(len(arguments))]
    scope = {}
    exec(f"def make(k, {', '.join(names)}):\n    return lambda: k({', '.join(names)})", scope)
    return scope["make"](kernel, *arguments)


def median_ns(call, clock, count=10000, rounds=15):
    times = []
    for _ in range(rounds):
        begin = clock()
        for _ in range(count):
            call()
        times.append((clock() - begin) / count)
    return statistics.median(times)


KERNELS = {
    "3 tensors": (add3, 2),
    "19 tensors": (lambda: add19(18), 18),
    "10 tensors, 9 numbers": (lambda: add19(9), 9),
}


def arguments_for(tensors, total, new):
    return [*[new() for _ in range(tensors)], *[1.5] * (total - 1 - tensors), new()]


def cpu():
    """The time of the calling thread: one block runs on it, and another process's turn does not count."""
    torch = sys.modules.get("torch")
    libraries = {"numpy": lambda: np.ones(16, np.float32)}
    if torch is not None:
        libraries["torch"] = lambda: torch.ones(16)
    empty = median_ns(lambda: None, time.thread_time_ns)
    print(f"CPU: ns per call, of the thread (an empty lambda's {empty:.0f} subtracted)")
    for what, (make, tensors) in KERNELS.items():
        func = make()
        total = 3 if tensors == 2 else 19
        for library, new in libraries.items():
            kernel = tilelang.compile(func, target="cpu")
            ns = median_ns(call_of(kernel, arguments_for(tensors, total, new)), time.thread_time_ns) - empty
            print(f"  {what:22} {library:6} {ns:7.0f}")
            if total == 3:
                returning = tilelang.compile(func, out_idx=-1, target="cpu")
                ns = median_ns(call_of(returning, [new(), new()]), time.thread_time_ns) - empty
                print(f"  {'  and output allocated':22} {library:6} {ns:7.0f}")


def bare(kernel, slots, stream):
    """ns of a bare cuLaunchKernel of this kernel; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    folder = Path(tempfile.mkdtemp())
    (folder / "shim.c").write_text(SHIM)
    library = folder / "shim.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, folder / "shim.c"], check=True)
    shim, driver = ctypes.CDLL(str(library)), ctypes.CDLL("libcuda.so.1")
    shim.burst.restype = ctypes.c_int64
    (row,) = kernel.resource_usage
    launch = next(line for line in kernel.host_source.splitlines() if "launch" in line)
    name = launch.split()[1].split("(")[0].encode()
    address = lambda function: ctypes.cast(function, ctypes.c_void_p)
    status = shim.prepare(
        address(driver.cuModuleLoadData),
        address(driver.cuModuleGetFunction),
        ctypes.c_char_p(kernel.artifact.rt_mod),
        name,
    )
    if status:
        raise RuntimeError(f"the driver refused the cubin: {status}")
    packed = (ctypes.c_uint64 * len(slots))(*slots)
    launch = address(driver.cuLaunchKernel)
    return lambda n: shim.burst(launch, row["threads"], ctypes.c_void_p(stream), packed, len(slots), n) / n


def cuda():
    import torch

    burst, rounds = 200, 201  # fewer than the driver queues before it waits
    print(f"{torch.cuda.get_device_name()}: ns per launch, median of {rounds} bursts of {burst}")
    for what, (make, tensors) in KERNELS.items():
        kernel = tilelang.compile(make(), target="cuda")
        total = 3 if tensors == 2 else 19
        arguments = arguments_for(tensors, total, lambda: torch.ones(16, device="cuda"))
        call = call_of(kernel, arguments)
        call()
        bits = lambda value: int(np.float32(value).view(np.uint32))
        slots = [a.data_ptr() if torch.is_tensor(a) else bits(a) for a in arguments]
        shim = bare(kernel, slots, torch.cuda.current_stream().cuda_stream)
        ours, theirs = [], []
        for _ in range(rounds):
            torch.cuda.synchronize()
            ours.append(median_ns(call, time.perf_counter_ns, burst, 1))
            torch.cuda.synchronize()
            if shim:
                theirs.append(shim(burst))
        torch.cuda.synchronize()
        a, b = statistics.median(ours), statistics.median(theirs) if theirs else float("nan")
        print(f"  {what:22} call {a:7.0f}   bare {b:7.0f}   over it {a - b:7.0f}")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["cpu", "cuda"]
    try:
        import torch
    except ImportError:
        torch = None
    if "cpu" in wanted:
        cpu()
    if "cuda" in wanted and torch is not None and torch.cuda.is_available():
        cuda()
