"""In which order blocks run, as words: programs compare a hint's plan with these."""

from __future__ import annotations

__all__ = ["NoRasterization", "Rasterization2DColumn"]


class NoRasterization:
    """Blocks run in the order of the grid."""


class Rasterization2DColumn:
    """Blocks run in panels of columns, T.use_swizzle(panel_width)."""

    def __init__(self, panel_width: int) -> None:
        self.panel_width = panel_width
