"""GEMV on a GPU: float16, and packed int4, int2 and nf4 weights, beside cuBLAS and Triton in one process.

Of each kernel the best of several tiles counts.  Each launch reads another copy of the weights, of which
there are so many that the L2 cache cannot serve them; floors are bytes / 4.60 TB/s.  The shapes are those of
Table 2 of the paper.

    python bench/gemv_gpu.py [--cases V0 V5] [--kinds f16 int4 int2 nf4] [--repeats 8] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import tilelang
import torch
from timing import measure

sys.path.append(str(Path(__file__).parents[1] / "examples"))
import dequant_gemv as packed
from gemv import gemv

CASES = {
    "V0": (16384, 16384),
    "V1": (43008, 14336),
    "V2": (14336, 14336),
    "V3": (57344, 14336),
    "V4": (14336, 57344),
    "V5": (9216, 9216),
    "V6": (36864, 9216),
    "V7": (9216, 36864),
}
KINDS = ["f16", "int4", "int2", "nf4"]
READ = 4.60e12  # bytes a second that a kernel that only reads reaches on an H200
ROTATED = 400 << 20  # bytes of weights between two reads of one of them
GROUP = 128
# rows, columns, threads
F16 = [(4, 1024, 128), (2, 1024, 128), (4, 2048, 256), (2, 2048, 256)]
INT4 = [(4, 1024, 32), (4, 2048, 64), (8, 2048, 64)]
INT2 = [(4, 2048, 32), (4, 4096, 64), (8, 4096, 64)]
# … and blocks
NF4 = [
    (16, 2048, 256, 528),
    (16, 2048, 256, 660),
    (32, 2048, 512, 264),
    (8, 4096, 256, 528),
    (16, 4096, 512, 264),
]
TRITON = [(2, 1024, 4), (2, 2048, 8), (1, 2048, 4), (4, 512, 4)]


def copies(make, size):
    return [make() for _ in range(max(1, -(-ROTATED // size)))]


def turning(launch, weights):
    """A launch that takes another copy of the weights each time."""
    state = [0]

    def one():
        state[0] = (state[0] + 1) % len(weights)
        launch(weights[state[0]])

    return one


def relative_error(found, expected):
    return float((found.double() - expected).norm() / expected.norm())


def compiled(factory, *arguments):
    return tilelang.compile(factory.get_tir(*arguments), target="cuda")


def words(shape, device="cuda"):
    bits = torch.randint(-(2**31), 2**31, shape, dtype=torch.int32, device=device)
    return bits.view(torch.uint32)


def unpack(weights, bits, order, rows):
    """The codes of some rows, as float64: what examples/dequant_gemv.py's `pack` has packed."""
    shifts = torch.tensor([bits * place for place in order], device="cuda")
    taken = weights.view(torch.int32)[rows].reshape(len(rows), -1, 4, 4).transpose(2, 3)[..., None].long()
    return (taken >> shifts & 2**bits - 1).reshape(len(rows), -1).double()


class Case:
    """The providers of one kind of weights at one size, with the bytes that a launch reads."""

    def __init__(self, kind, n, k):
        self.kind, self.n, self.k = kind, n, k
        self.found = {}
        self.rows = torch.arange(0, n, max(1, n // 64), device="cuda")
        self.x = torch.randn(k, device="cuda", dtype=torch.float16)
        self.bits = {"f16": 16, "int4": 4, "nf4": 4, "int2": 2}[kind]
        x_and_y = k + 4 * n if kind == "int2" else 2 * k + (4 if kind == "f16" else 2) * n
        scales = 2 * n * k // GROUP if kind in ("int4", "nf4") else 0
        self.bytes = n * k * self.bits // 8 + scales + x_and_y

    def add(self, name, launch, weights, y, expected):
        y.zero_()
        launch(weights[0])
        self.found[name] = (turning(launch, weights), relative_error(y[self.rows], expected))

    def add_all(self, kernels, launch, weights, y, expected):
        for tile, make in kernels:
            try:
                kernel = make()
                name = "ours " + "x".join(map(str, tile))
                self.add(name, lambda w, kernel=kernel: launch(kernel, w), weights, y, expected)
            except tilelang.CompileError as error:
                print(self.kind, tile, "skipped:", str(error).splitlines()[0], file=sys.stderr)

    def cublas(self):
        weights = copies(
            lambda: torch.randn(self.n, self.k, device="cuda", dtype=torch.float16), 2 * self.n * self.k
        )
        y = torch.empty(self.n, device="cuda", dtype=torch.float16)
        expected = weights[0][self.rows].double() @ self.x.double()
        self.add("cublas nt", lambda w: torch.mv(w, self.x, out=y), weights, y, expected)
        return weights, y, expected

    def cublas_nn(self):
        """The weights as they lie for x @ W: packed weights are compared with the faster of the two."""
        weights = copies(
            lambda: torch.randn(self.k, self.n, device="cuda", dtype=torch.float16), 2 * self.n * self.k
        )
        y = torch.empty(1, self.n, device="cuda", dtype=torch.float16)
        x = self.x.reshape(1, -1)
        expected = self.x.double() @ weights[0][:, self.rows].double()
        y.zero_()
        torch.mm(x, weights[0], out=y)
        error = relative_error(y[0, self.rows], expected)
        self.found["cublas nn"] = (turning(lambda w: torch.mm(x, w, out=y), weights), error)

    def f16(self):
        import triton_gemv

        n, k = self.n, self.k
        weights, y, expected = self.cublas()
        sums = torch.empty(n, device="cuda", dtype=torch.float32)
        kernels = [(t, lambda t=t: compiled(gemv, n, k, *t)) for t in F16]
        self.add_all(kernels, lambda kernel, w: kernel(w, self.x, sums), weights, sums, expected)
        for bm, bk, warps in TRITON:

            def launch(w, bm=bm, bk=bk, warps=warps):
                triton_gemv.kernel[(-(-n // bm),)](w, self.x, y, n, k, bm, bk, num_warps=warps)

            self.add(f"triton {bm}x{bk}x{warps}", launch, weights, y, expected)

    def packed(self):
        n, k, kind = self.n, self.k, self.kind
        self.cublas()
        self.cublas_nn()
        if kind == "int2":
            weights = copies(lambda: words((n, k // 64, 4)), n * k // 4)
            x = torch.randint(-128, 128, (k,), dtype=torch.int8, device="cuda")
            y = torch.empty(n, device="cuda", dtype=torch.int32)
            expected = (unpack(weights[0], 2, packed.INT2_ORDER, self.rows) - 2) @ x.double()
            x = x.view(torch.uint32).reshape(-1, 16)
            kernels = [(t, lambda t=t: compiled(packed.int2_gemv, n, k, *t)) for t in INT2]
            return self.add_all(kernels, lambda kernel, w: kernel(w, x, y), weights, y, expected)
        weights = copies(lambda: words((n, k // 32, 4)), n * k // 2)
        scales = torch.rand(n, k // GROUP, device="cuda").half() + 0.5
        y = torch.empty(n, device="cuda", dtype=torch.float16)
        x = self.x.view(torch.uint32).reshape(-1, 16)
        wide = scales[self.rows].double().repeat_interleave(GROUP, 1)
        if kind == "int4":
            codes = unpack(weights[0], 4, packed.INT4_ORDER, self.rows) - 8
            kernels = [(t, lambda t=t: compiled(packed.int4_gemv, n, k, GROUP, *t)) for t in INT4]
            return self.add_all(
                kernels,
                lambda kernel, w: kernel(w, scales, x, y),
                weights,
                y,
                (codes * wide) @ self.x.double(),
            )
        values = torch.tensor(np.array(packed.NF4, np.float16), device="cuda")
        codes = values.double()[unpack(weights[0], 4, range(8), self.rows).long()]
        kernels = [(t, lambda t=t: compiled(packed.nf4_gemv, n, k, GROUP, *t)) for t in NF4]
        return self.add_all(
            kernels,
            lambda kernel, w: kernel(w, scales, values, x, y),
            weights,
            y,
            (codes * wide) @ self.x.double(),
        )


def report(case, name, results, worst):
    floor = case.bytes / READ * 1e3
    best = {}
    for provider, result in results.items():
        who = provider.split()[0]
        if who not in best or result.ms < results[best[who]].ms:
            best[who] = provider
        us, spread, error = 1e3 * result.ms, 100 * result.spread, case.found[provider][1]
        print(
            f"{name} {case.kind:4s} {provider:22s} {us:7.2f} us  {floor / result.ms:5.3f} of the read rate  "
            f"{spread:4.1f}%  {error:.1e}"
        )
        worst[0] = max(worst[0], error)
    ours = results[best["ours"]]
    said = ", ".join(f"{results[p].ms / ours.ms:.3f} of {p}" for w, p in best.items() if w != "ours")
    limit = f", at most {1e3 * floor * 1.03 + 3:.2f} us allowed" if case.kind == "f16" else ""
    print(f"{name} {case.kind:4s} best {best['ours']}: {1e3 * ours.ms:.2f} us{limit}; {said}", flush=True)
    return [
        [name, case.kind, p, 1e3 * r.ms, r.spread, floor / r.ms, case.found[p][1]] for p, r in results.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--json")
    options = parser.parse_args()
    print(
        f"GEMV on {torch.cuda.get_device_name()}, torch {torch.__version__}, tilelang {tilelang.__version__}"
    )
    rows, worst = [], [0.0]
    for name in options.cases:
        for kind in options.kinds:
            case = Case(kind, *CASES[name])
            case.f16() if kind == "f16" else case.packed()
            results = measure({p: launch for p, (launch, _) in case.found.items()}, options.repeats, 0.04)
            rows += report(case, name, results, worst)
            del case
            torch.cuda.empty_cache()
    if options.json:
        Path(options.json).write_text(json.dumps(rows))
    return 0 if worst[0] < 2e-3 else 1


if __name__ == "__main__":
    raise SystemExit(main())
