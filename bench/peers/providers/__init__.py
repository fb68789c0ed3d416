"""Who multiplies.  A provider is an object of:

name                           as in the tables
variants(case)                 what may be tried, as lists of plain values; Unsupported where nothing may
compile(case, variant)         puts what it compiles into the disk cache, and launches nothing
launches(case, variant, sets)  for each set of operands a function that launches, and its C

They run in a process that has one package of the name tilelang: ours, or the published one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from peers.shapes import Case

Variant = list[Any]
Launch = tuple[Callable[[], object], Any]
OURS, PUBLISHED = "ours", "published"


class Unsupported(Exception):
    """Why a provider does not take a case."""


class Provider(Protocol):
    name: str

    def variants(self, case: Case) -> list[Variant]: ...

    def compile(self, case: Case, variant: Variant) -> None: ...

    def launches(self, case: Case, variant: Variant, sets: list[Any]) -> list[Launch]: ...


# The names of the providers of each package's process, in the order of the tables.
NAMES = {OURS: ("cuBLAS", "Triton", "ours, tiles", "ours, by hand"), PUBLISHED: ("published",)}


def providers(package: str) -> dict[str, Provider]:
    from peers.providers import tiles

    if package == PUBLISHED:
        found: list[Provider] = [tiles.Tiles(*NAMES[PUBLISHED], tiles.PUBLISHED, "auto")]
    else:
        from peers.providers import by_hand, cublas, triton_gemms

        found = [
            cublas.CuBLAS(NAMES[OURS][0]),
            triton_gemms.Triton(NAMES[OURS][1]),
            tiles.Tiles(NAMES[OURS][2], tiles.OURS, "cuda", panels=0),
            by_hand.ByHand(NAMES[OURS][3]),
        ]
    return {provider.name: provider for provider in found}
