"""What is multiplied: shapes, types and layouts of B; a run does all of these in turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

# m, n, k: those of the paper's Table 2, which are also in gemm_gpu.py
LARGE = {
    "M0": (4096, 1024, 8192),
    "M1": (4096, 8192, 8192),
    "M2": (4096, 28672, 8192),
    "M3": (4096, 8192, 28672),
    "M4": (8192, 1024, 8192),
    "M5": (8192, 8192, 8192),
    "M6": (8192, 28672, 8192),
    "M7": (8192, 8192, 28672),
}
# Small, ragged and thin ones
SMALL = {
    "S512": (512, 512, 512),
    "S1024": (1024, 1024, 1024),
    "S2048": (2048, 2048, 2048),
    "S4096": (4096, 4096, 4096),
    "R1304": (1000, 1304, 704),
    "R1300": (1000, 1300, 700),
    "m16": (16, 8192, 8192),
    "m32": (32, 8192, 8192),
    "m64": (64, 8192, 8192),
    "m128": (128, 8192, 8192),
    "k64": (4096, 4096, 64),
    "k128": (8192, 8192, 128),
}
SHAPES = LARGE | SMALL
DTYPES = ("f16", "bf16", "fp8")
LAYOUTS = ("nt", "nn")  # B as (N, K), as (K, N)
BYTES = {"f16": 2, "bf16": 2, "fp8": 1}  # of an element of A and B; one of C has 2
ROTATED = 400_000_000  # bytes that the sets of operands have together, so that no set stays in L2


@dataclass(frozen=True)
class Case:
    shape: str
    dtype: str
    layout: str

    @property
    def name(self) -> str:
        return f"{self.shape} {self.dtype} {self.layout}"

    @property
    def size(self) -> tuple[int, int, int]:
        return SHAPES[self.shape]

    @property
    def gflop(self) -> float:
        m, n, k = self.size
        return 2e-9 * m * n * k

    @property
    def sets(self) -> int:
        """How many sets of operands the launches take in turn."""
        m, n, k = self.size
        return max(1, min(64, ROTATED // (BYTES[self.dtype] * (m * k + n * k) + 2 * m * n)))

    @property
    def transposed(self) -> bool:
        return self.layout == "nt"

    @property
    def by_tma(self) -> bool:
        """Whether the rows of A, B and C begin at whole 16 bytes, as TMA demands."""
        _, n, k = self.size
        size = BYTES[self.dtype]
        return (k * size) % 16 == 0 and (n * 2) % 16 == 0 and (self.transposed or (n * size) % 16 == 0)

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def parts(shapes: list[str], dtypes: list[str], layouts: list[str]) -> Iterator[Case]:
    """The cases of a run.  Tensor cores take 8-bit B only as (N, K), and small shapes are measured in f16."""
    for group, names in ((LARGE, DTYPES), (SMALL, ("f16",))):
        for dtype in names:
            for layout in LAYOUTS:
                if dtype not in dtypes or layout not in layouts or (dtype, layout) == ("fp8", "nn"):
                    continue
                yield from (Case(shape, dtype, layout) for shape in group if shape in shapes)
