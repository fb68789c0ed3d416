"""Plans of the recommender of tile sizes, under the names that published programs import."""

from __future__ import annotations

from . import rasterization
from .rasterization import NoRasterization, Rasterization2DColumn

__all__ = ["NoRasterization", "Rasterization2DColumn", "rasterization"]
