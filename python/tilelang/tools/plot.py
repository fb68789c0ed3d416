"""Tools around kernels: pictures of layouts."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from .. import _core
from ..front.dtypes import as_dtype
from ..front.trace import fail
from ..language.maps import Fragment, Layout, ask

__all__ = ["plot_layout"]

_DRAWN = ("png", "pdf")  # by matplotlib: pip install tilelang[viz]


def plot_layout(
    layout: Layout | Fragment,
    save_directory: str | os.PathLike = "./tmp",
    name: str = "layout",
    colormap: str | None = None,
    verbose: bool = False,
    formats: str | Sequence[str] = "pdf",
    view: str = "input",
    grid_shape: Sequence[int] | None = None,
    *,
    dtype: Any = None,
) -> list[str]:
    """Save pictures of a layout, a grid in which each element says where it lives; returns the files' names.

    formats: one or several of pdf, png (need matplotlib), svg, txt (need nothing), or "all".  view: "output"
    draws the places instead, each of which says which element lives there.  grid_shape: the rows and columns
    of the grid.  colormap: the name of one of matplotlib's, or without it of colormaps.txt.  verbose: print
    the layout as well.  dtype: the colours of a Layout are the banks of shared memory that elements of this
    type fall into."""
    if not isinstance(layout, (Layout, Fragment)):
        raise fail(f"plot_layout takes a T.Layout or a T.Fragment, not {type(layout).__name__}")
    kinds = ("svg", "txt", *_DRAWN)
    wanted = formats.replace(",", " ").split() if isinstance(formats, str) else list(formats)
    wanted = list(kinds) if wanted == ["all"] else wanted
    for kind in wanted:
        if kind not in kinds:
            raise fail(f"plot_layout: there is no format '{kind}'; choose from svg, txt, {', '.join(_DRAWN)}")
    if view not in ("input", "output"):
        raise fail(f"plot_layout: view is 'input' or 'output', not {view!r}")
    if verbose:
        print(layout)
    bits = as_dtype(dtype).bits if dtype is not None else 0
    shown = layout if view == "input" else layout.inverse()
    shown = shown if grid_shape is None else shown.reshape(grid_shape)
    drawing = ask(_core.draw_cells, shown._core, bits)
    recolour = _recolouring(drawing, colormap)
    os.makedirs(save_directory, exist_ok=True)
    files = [os.path.join(os.fspath(save_directory), f"{name}.{kind}") for kind in wanted]
    for kind, path in zip(wanted, files, strict=True):
        if kind in _DRAWN:
            _plot(drawing, recolour, path)
        else:
            draw = _core.draw_svg if kind == "svg" else _core.draw_text
            text = ask(draw, shown._core, bits, *(() if kind == "svg" else (1 << 16, 1 << 16)))
            with open(path, "w", encoding="utf-8") as f:
                f.write(re.sub("#[0-9a-f]{6}", lambda m: recolour.get(m[0], m[0]), text))
    return files


def _recolouring(drawing: tuple, colormap: str | None) -> dict[str, str]:
    """The colours of a picture in the order in which they first appear -> those of a map."""
    if colormap is None:
        return {}
    colours = list(dict.fromkeys(colour for _, colour in drawing[3]))
    at = [i / max(1, len(colours) - 1) for i in range(len(colours))]
    try:
        import matplotlib
        from matplotlib.colors import to_hex

        found = [to_hex(matplotlib.colormaps[colormap](x)) for x in at]
    except (ImportError, KeyError) as error:
        table = os.path.join(os.path.dirname(__file__), "colormaps.txt")
        with open(table, encoding="utf-8") as rows:
            maps = {row.split()[0]: row.split()[1:] for row in rows if not row.startswith("#")}
        if colormap not in maps:
            raise fail(
                f"plot_layout: there is no colour map '{colormap}'; without matplotlib there are "
                f"{', '.join(maps)}"
            ) from error
        found = [_between(maps[colormap], x) for x in at]
    return dict(zip(colours, found, strict=True))


def _between(colours: list[str], x: float) -> str:
    place = x * (len(colours) - 1)
    low = min(int(place), len(colours) - 2)
    parts = [[int(colour[i : i + 2], 16) for i in (0, 2, 4)] for colour in colours[low : low + 2]]
    return "#" + "".join(f"{round(a + (b - a) * (place - low)):02x}" for a, b in zip(*parts, strict=True))


def _plot(drawing: tuple, recolour: dict[str, str], path: str) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle
    except ImportError as e:
        raise ImportError(
            f"{path} needs matplotlib (pip install matplotlib, or tilelang[viz]); the formats "
            "svg and txt need nothing"
        ) from e
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
        axes.text(
            -0.05,
            row + 0.5,
            names[row] if names else str(row * columns),
            ha="right",
            va="center",
            fontsize=6,
            color="#666666",
        )
    for at, (text, colour) in enumerate(cells):
        row, column = divmod(at, columns)
        colour = recolour.get(colour, colour)
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="#888888", linewidth=0.4))
        axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=6, family="monospace")
    figure.savefig(path, dpi=120)
