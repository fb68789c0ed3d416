"""Tools around kernels: pictures of layouts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .. import _core
from ..front.dtypes import as_dtype
from ..front.trace import fail
from ..language.maps import Fragment, Layout, ask

__all__ = ["plot_layout"]

_DRAWN = ("png", "pdf")  # by matplotlib: pip install tilelang[viz]


def plot_layout(layout: Layout | Fragment, save_directory: str | os.PathLike = "./tmp", name: str = "layout",
                formats: str | Sequence[str] = "svg", dtype: Any = None) -> list[str]:
    """Save pictures of a layout, a grid in which each element says where it lives; returns the files' names.

    formats: one or several of svg, txt (both need nothing), png, pdf (need matplotlib).  dtype: the colours
    of a Layout are then the banks of shared memory that elements of this type fall into.
    """
    if not isinstance(layout, (Layout, Fragment)):
        raise fail(f"plot_layout takes a T.Layout or a T.Fragment, not {type(layout).__name__}")
    wanted = formats.replace(",", " ").split() if isinstance(formats, str) else list(formats)
    bits = 0
    if dtype is not None:
        bits = as_dtype(dtype).bits
    for kind in wanted:
        if kind not in ("svg", "txt", *_DRAWN):
            raise fail(f"plot_layout: there is no format '{kind}'; choose from svg, txt, {', '.join(_DRAWN)}")
    os.makedirs(save_directory, exist_ok=True)
    files = []
    for kind in wanted:
        path = os.path.join(os.fspath(save_directory), f"{name}.{kind}")
        if kind in _DRAWN:
            _plot(ask(_core.draw_cells, layout._core, bits), path)
        else:
            draw = _core.draw_svg if kind == "svg" else _core.draw_text
            size = () if kind == "svg" else (1 << 16, 1 << 16)
            with open(path, "w", encoding="utf-8") as f:
                f.write(ask(draw, layout._core, bits, *size))
        files.append(path)
    return files


def _plot(drawing: tuple, path: str) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle
    except ImportError as e:
        raise ImportError(f"{path} needs matplotlib (pip install matplotlib, or tilelang[viz]); the formats "
                          "svg and txt need nothing") from e
    title, names, columns, cells = drawing
    rows = -(-len(cells) // max(1, columns))
    wide = max([3, *(len(text) for text, _ in cells)]) * 0.09 + 0.1
    figure = Figure(figsize=(min(columns * wide + 0.8, 200), min(rows * 0.28 + 0.8, 200)))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.9))
    axes.set_axis_off()
    axes.set_xlim(-0.6, columns)
    axes.set_ylim(rows, -0.8)
    axes.set_title(title, fontsize=8, family="monospace")
    for column in range(columns):
        axes.text(column + 0.5, -0.3, str(column), ha="center", va="center", fontsize=6, color="#666666")
    for row in range(rows):
        axes.text(-0.05, row + 0.5, names[row] if names else str(row * columns), ha="right", va="center",
                  fontsize=6, color="#666666")
    for at, (text, colour) in enumerate(cells):
        row, column = divmod(at, columns)
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="#888888", linewidth=0.4))
        axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=6, family="monospace")
    figure.savefig(path, dpi=120)
