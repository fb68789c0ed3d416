"""What was measured as a picture: of each type, layout and regime the ratios to cuBLAS."""

from __future__ import annotations

from pathlib import Path

from peers import table

COLORS = {
    "Triton": "#8c8c8c",
    "published": "#d08a2e",
    "ours, tiles": "#7fb0d6",
    "ours, by hand": "#1f5fa8",
}


def draw(parts: table.Parts, path: Path) -> None:
    """PNG or SVG, as the name of the file says."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    groups = table.groups(parts)
    regimes = [r for r in table.REGIMES if any(r in f for p in parts.values() for f in p["found"].values())]
    size = (7.5 * len(regimes), 2.4 * len(groups) + 1.2)
    figure, axes = pyplot.subplots(len(groups), len(regimes), figsize=size, squeeze=False)
    who = [p for p in table.columns(parts) if p != table.BASE]
    for row, (group, cases) in zip(axes, groups.items(), strict=True):
        for ax, regime in zip(row, regimes, strict=True):
            bars(ax, parts, cases, who, regime)
            ax.set_title(f"{table.heading(group)}, {regime}", fontsize=9)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels) or 1, fontsize=9, frameon=False)
    title = ["GEMM: TFLOPS relative to cuBLAS", *table.machines(parts)]
    figure.suptitle("\n".join(title), fontsize=9)
    figure.tight_layout(rect=(0, 0.3 / size[1], 1, 1 - 0.17 * len(title) / size[1]))
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def bars(ax, parts: table.Parts, cases: list[table.Case], who: list[str], regime: str) -> None:
    width = 0.8 / max(1, len(who))
    for i, provider in enumerate(who):
        heights = [table.ratio(parts, case, provider, regime) or 0.0 for case in cases]
        at = [n + (i - (len(who) - 1) / 2) * width for n in range(len(cases))]
        ax.bar(at, heights, width, label=provider, color=COLORS[provider])
    ax.axhline(1.0, color="black", linewidth=0.8)
    ax.set_xticks(range(len(cases)), [case.shape for case in cases], fontsize=8)
    ax.tick_params(axis="y", labelsize=8)
    ax.set_ylim(bottom=0)
    ax.spines[["top", "right"]].set_visible(False)
