"""What a warm call costs: nanoseconds per call, for arrays of NumPy and PyTorch, 3 and 19 arguments.

On the CPU one block of 16 elements, all in all.  On a GPU also a bare cuLaunchKernel of the same kernel in a
loop of C, in the same process; the difference is what the call adds.  On a Hopper GPU also a kernel with
three tensor maps, examples/gemm_warpgroups.py with one tile of C: a call makes the maps, a bare launch has
them from the start, and what making them costs is shown, too.  `python bench/launch.py [cpu] [cuda]`.
"""

import ctypes
import re
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
typedef int (*Set)(void*, int, int);
typedef int (*Launch)(void*, u, u, u, u, u, u, u, void*, void**, void**);
typedef int (*Encode)(void*, int, u, void*, const uint64_t*, const uint64_t*, const u*, const u*, int, int,
                      int, int);
enum { dynamic_shared = 8, f16 = 6, swizzle_128 = 3, promotion_256 = 3 };
typedef struct { uint64_t data, extents[2], stride; u box[2]; } Map;  // of rows of f16, columns first
static void* function;
static _Alignas(64) char maps[8][128];
static int64_t since(struct timespec a) {
  struct timespec b;
  clock_gettime(CLOCK_MONOTONIC, &b);
  return (b.tv_sec - a.tv_sec) * 1000000000ll + b.tv_nsec - a.tv_nsec;
}
int prepare(Load load, Get get, Set set, const void* cubin, const char* name, int shared) {
  void* module;
  return load(&module, cubin) || get(&function, module, name) || set(function, dynamic_shared, shared);
}
int64_t encode(Encode encode, const Map* m, int n, int count) {
  u steps[2] = {1, 1};
  struct timespec a;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 0; i < count * n; i++) {
    const Map* map = &m[i % n];
    if (encode(maps[i % n], f16, 2, (void*)map->data, map->extents, &map->stride, map->box, steps, 0,
               swizzle_128, promotion_256, 0))
      return -1;
  }
  return since(a);
}
int64_t burst(Launch launch, u threads, u shared, void* stream, uint64_t* slots, int n, int n_maps,
              int count) {
  void* parameters[64];
  struct timespec a;
  for (int i = 0; i < n; i++) parameters[i] = &slots[i];
  for (int i = 0; i < n_maps; i++) parameters[n + i] = maps[i];
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 0; i < count; i++)
    if (launch(function, 1, 1, 1, threads, 1, 1, shared, stream, parameters, 0)) return -1;
  return since(a);
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


def gemm_by_hand(m, n, k):
    """Loads of A and B by tensor maps, and a store of C."""
    sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))
    import gemm_warpgroups

    return gemm_warpgroups.gemm.get_tir(m, n, k, True, blocks=1)


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


class Map(ctypes.Structure):
    """A tensor of f16 and the box that is copied, columns first, as the driver takes them."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("extents", ctypes.c_uint64 * 2),
        ("stride", ctypes.c_uint64),
        ("box", ctypes.c_uint * 2),
    ]


def maps_of(kernel, arguments):
    """The tensor maps of the kernel's parameters, in order; the name of each says its tensor and its box."""
    names = [parameter.name for parameter in kernel.params]
    found = re.findall(r"__grid_constant__ tensor_map (\w+)_(\d+)x(\d+)\b", kernel.kernel_source)
    tensors = [(arguments[names.index(name)], int(rows), int(columns)) for name, rows, columns in found]
    return [
        Map(t.data_ptr(), tuple(reversed(t.shape)), t.stride(0) * 2, (columns, rows))
        for t, rows, columns in tensors
    ]


class Bare:
    """A kernel that is launched by the driver alone; None in place of one without a C compiler."""

    def __init__(self, compiler, kernel, slots, maps, stream):
        folder = Path(tempfile.mkdtemp())
        (folder / "shim.c").write_text(SHIM)
        library = folder / "shim.so"
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, folder / "shim.c"], check=True)
        self.shim, self.driver = ctypes.CDLL(str(library)), ctypes.CDLL("libcuda.so.1")
        self.shim.burst.restype = self.shim.encode.restype = ctypes.c_int64
        (self.row,) = kernel.resource_usage
        kernel.export_library(folder / "kernel.cubin")
        status = self.shim.prepare(
            self._address("cuModuleLoadData"),
            self._address("cuModuleGetFunction"),
            self._address("cuFuncSetAttribute"),
            ctypes.c_char_p((folder / "kernel.cubin").read_bytes()),
            self.row["kernel"].encode(),
            self.row["shared_bytes"],
        )
        if status:
            raise RuntimeError(f"the driver refused the cubin: {status}")
        self.slots = (ctypes.c_uint64 * len(slots))(*slots)
        self.maps, self.stream = (Map * len(maps))(*maps), ctypes.c_void_p(stream)
        self.encode(1)

    def _address(self, name):
        return ctypes.cast(getattr(self.driver, name), ctypes.c_void_p)

    def encode(self, count):
        """ns of making all the maps."""
        ns = self.shim.encode(self._address("cuTensorMapEncodeTiled"), self.maps, len(self.maps), count)
        if ns < 0:
            raise RuntimeError("the driver refused a tensor map")
        return ns / count

    def burst(self, count):
        """ns of a launch."""
        launch, threads, shared = (
            self._address("cuLaunchKernel"),
            self.row["threads"],
            self.row["shared_bytes"],
        )
        counts = (len(self.slots), len(self.maps), count)
        ns = self.shim.burst(launch, threads, shared, self.stream, self.slots, *counts)
        if ns < 0:
            raise RuntimeError("the driver refused a launch")
        return ns / count


def beside_bare(what, kernel, arguments, burst=200, rounds=201):
    """One line.  A burst has fewer launches than the driver queues before it waits."""
    import torch

    call = call_of(kernel, arguments)
    call()
    bits = lambda value: int(np.float32(value).view(np.uint32))
    slots = [a.data_ptr() if torch.is_tensor(a) else bits(a) for a in arguments]
    compiler, stream = shutil.which("cc") or shutil.which("gcc"), torch.cuda.current_stream().cuda_stream
    maps = maps_of(kernel, arguments)
    bare = Bare(compiler, kernel, slots, maps, stream) if compiler else None
    ours, theirs = [], []
    for _ in range(rounds):
        torch.cuda.synchronize()
        ours.append(median_ns(call, time.perf_counter_ns, burst, 1))
        torch.cuda.synchronize()
        if bare:
            theirs.append(bare.burst(burst))
    torch.cuda.synchronize()
    a, b = statistics.median(ours), statistics.median(theirs) if theirs else float("nan")
    made = f"   of it making {len(maps)} maps {bare.encode(10000):5.0f}" if maps and bare else ""
    print(f"  {what:22} call {a:7.0f}   bare {b:7.0f}   over it {a - b:7.0f}{made}", flush=True)


def cuda():
    import torch

    print(f"{torch.cuda.get_device_name()}: ns per launch, median of 201 bursts of 200")
    for what, (make, tensors) in KERNELS.items():
        total = 3 if tensors == 2 else 19
        arguments = arguments_for(tensors, total, lambda: torch.ones(16, device="cuda"))
        beside_bare(what, tilelang.compile(make(), target="cuda"), arguments)
    if torch.cuda.get_device_capability() == (9, 0):
        m, n, k = 128, 256, 64
        half = {"device": "cuda", "dtype": torch.float16}
        a, b, c = torch.randn(m, k, **half), torch.randn(n, k, **half), torch.full((m, n), torch.nan, **half)
        kernel = tilelang.compile(gemm_by_hand(m, n, k), target="cuda -arch=sm_90a")
        beside_bare("3 tensors, 3 maps", kernel, [a, b, c])
        exact = a.double() @ b.double().T
        assert (c.double() - exact).norm() < 1e-3 * exact.norm(), "the bare launches computed something else"


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
