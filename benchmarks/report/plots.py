"""The roofline plot, the scaling plot and that of random configurations, as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.limits import memory_roof
from benchmarks.random_shapes.draw import KINDS
from benchmarks.random_shapes.result import Measured
from benchmarks.report import labels
from benchmarks.report.document import Document
from benchmarks.result import Result
from benchmarks.scaling import Point

STYLE = {
    "svg.hashsalt": "myops",  # equal numbers give an equal file
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
}
MARKS = {"torch": "o", "onnxruntime": "s", "peer": "x"}
LABELS = {"torch": "torch op", "onnxruntime": "in ONNX Runtime", "peer": "best peer"}


def write(document: Document, folder: Path, prefix: str = "") -> None:
    """The plots of what was measured: roofline.svg, scaling.svg, random.svg."""
    if document.random:
        random(document.random, folder / f"{prefix}random.svg")
    if document.results and any("fma" in found for found in document.limits.values()):
        roofline(document.results, document.limits, folder / f"{prefix}roofline.svg")
    if document.scaling:
        scaling(document.scaling, folder / f"{prefix}scaling.svg")


def roofline(
    results: Sequence[Result], limits: dict[int, dict[str, float]], path: str | Path
) -> None:
    """GFLOP/s against arithmetic intensity, a panel for each number of threads.

    A case without arithmetic (nearest) has no place here. A point above the line of the memory is
    a case whose data stay in the cache.
    """
    counts = sorted(count for count in limits if "fma" in limits[count])
    names = []
    colours = _colours(item.group for item in results if item.flops > 0)
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            1, len(counts), figsize=(6.2 * len(counts), 5), squeeze=False, sharey=True
        )
        for count, axes in zip(counts, panels[0], strict=True):
            axes.set(
                title=f"{count} thread{'s' * (count > 1)}",
                xlabel="operations for a byte that must be moved",
                xscale="log",
                yscale="log",
            )
            _roofs(axes, limits[count])
            here = [item for item in results if item.threads == count and item.flops > 0]
            names.append(_points(axes, here, colours))
        panels[0][0].set_ylabel("GFLOP/s")
        for group, colour in colours.items():
            panels[0][-1].plot([], [], "o", color=colour, label=group)
        for side, mark in MARKS.items():
            fill = "none" if side == "onnxruntime" else "grey"
            panels[0][-1].plot([], [], mark, color="grey", mfc=fill, label=LABELS[side])
        panels[0][-1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
        figure.tight_layout()
        figure.canvas.draw()
        for found, axes in zip(names, panels[0], strict=True):
            labels.place(axes, found)
        _save(figure, path)


def _roofs(axes: Any, limits: dict[str, float]) -> None:
    x = np.logspace(-1.2, 3.2, 200)
    peak = limits["fma"]
    for name, bandwidth, style, side, gap in (
        ("memory", memory_roof(limits), "-", "top", 1.1),
        ("cache", limits["triad in cache"], ":", "bottom", 0.95),
    ):
        axes.plot(x, np.minimum(x * bandwidth, peak), "k" + style, lw=1)
        axes.text(  # along its line, near the top, where there are no points
            0.8 * peak / bandwidth * gap,
            0.8 * peak,
            f"{name} {bandwidth:.0f} GB/s",
            fontsize=7,
            ha="right",
            va=side,
            rotation=np.degrees(np.arctan(bandwidth)),
            rotation_mode="anchor",
            transform_rotates_text=True,
        )
    axes.annotate(f"multiply-add {peak:.0f} GFLOP/s", (x[-1], peak * 1.05), fontsize=7, ha="right")


def _colours(groups: Iterable[str]) -> dict[str, Any]:
    """One for each group, the same in every panel."""
    return dict(zip(dict.fromkeys(groups), plt.get_cmap("tab10").colors, strict=False))


def _points(
    axes: Any, results: Sequence[Result], colours: dict[str, Any]
) -> list[tuple[str, float, float, Any]]:
    """Draws them; returns the names of our candidates, with their positions."""
    names = []
    for item in results:
        best = {
            "torch": item.best("torch", output="given") or item.best("torch"),
            "onnxruntime": item.best("onnxruntime", output="given"),
            "peer": item.best("peer"),
        }
        intensity = item.flops / item.bytes
        for side, found in best.items():
            if found is not None:
                axes.plot(
                    intensity,
                    item.flops / found.seconds / 1e9,
                    MARKS[side],
                    color=colours[item.group],
                    alpha=0.45 if side == "peer" else 0.9,
                    ms=5,
                    mfc="none" if side == "onnxruntime" else None,
                )
        ours = best["torch"]
        if ours is not None:
            place = (intensity, item.flops / ours.seconds / 1e9)
            names.append((item.name, *place, colours[item.group]))
    return names


def scaling(points: Sequence[Point], path: str | Path) -> None:
    """Cost for one unit along each axis, relative to the largest size: a flat line is linear."""
    axes_names = list(dict.fromkeys(point.axis for point in points))
    colours = _colours(point.group for point in points)
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            1, len(axes_names), figsize=(4.2 * len(axes_names), 3.6), squeeze=False, sharey=True
        )
        for name, axes in zip(axes_names, panels[0], strict=True):
            for group, colour in colours.items():
                line = sorted(
                    (point for point in points if (point.group, point.axis) == (group, name)),
                    key=lambda point: point.size,
                )
                if line:
                    last = line[-1].seconds / line[-1].size
                    costs = [point.seconds / point.size / last for point in line]
                    sizes = [point.size for point in line]
                    axes.plot(sizes, costs, "o-", ms=3, color=colour, label=group)
            axes.axhline(1, color="black", lw=0.8, ls=":")
            axes.set(xlabel=name, xscale="log", yscale="log")
            axes.set_yticks([0.5, 1, 2, 4, 8, 16], ["0.5", "1", "2", "4", "8", "16"])
            axes.minorticks_off()
        panels[0][0].set_ylabel("cost for one, relative to the largest size")
        handles = panels[0][0].get_legend_handles_labels()
        panels[0][-1].legend(*handles, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
        _save(figure, path)


def random(results: Sequence[Measured], path: str | Path) -> None:
    """The ratios of random configurations in ascending order: a line for each kind, a row of panels
    for each number of threads, a column for each group of dtypes."""
    counts = sorted({item.threads for item in results})
    widths = [width for width in ("float32", "16-bit") if any(r.width == width for r in results)]
    colours = _colours(KINDS)
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            len(counts), len(widths), figsize=(5 * len(widths), 3.2 * len(counts)),
            squeeze=False, sharex=True, sharey=True,
        )  # fmt: skip
        for row, count in zip(panels, counts, strict=True):
            for axes, width in zip(row, widths, strict=True):
                here = [item for item in results if (item.threads, item.width) == (count, width)]
                for kind, colour in colours.items():
                    line = sorted(item.ratio for item in here if item.kind == kind)
                    if line:
                        share = (np.arange(len(line)) + 0.5) / len(line) * 100
                        axes.plot(share, line, color=colour, lw=1.3, label=kind)
                axes.axhline(1, color="black", lw=0.8, ls=":")
                axes.set(title=f"{width}, {count} thread{'s' * (count > 1)}", yscale="log")
        ticks = [0.25, 0.5, 1, 2, 4, 8, 16, 32]
        panels[0][0].set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        panels[0][0].minorticks_off()
        for axes in panels[-1]:
            axes.set_xlabel("% of the configurations, the slowest first")
        for row in panels:
            row[0].set_ylabel("times the fastest peer's speed")
        handles = {
            label: handle
            for axes in panels.flat
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        panels[0][-1].legend(
            handles.values(), handles, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8
        )
        _save(figure, path)


def _save(figure: Any, path: str | Path) -> None:
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
