"""Names beside the points of a plot, without overlaps."""

from __future__ import annotations

from typing import Any

from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox

# Where a name may stand, in points from its own: beside it at first, then ever further away.
_PLACES = sorted(
    ((dx, dy) for dx in (5, -5, 24, -24) for dy in range(-42, 43, 3)),
    key=lambda place: abs(place[0]) - (place[0] > 0) + 1.5 * abs(place[1]),
)


def place(axes: Any, labels: list[tuple[str, float, float, Any]]) -> None:
    """Writes (text, x, y, colour) beside each x, y; a thin line leads to a name that stands far.

    Call it last: what is drawn, the limits of the axes and the layout of the figure must be known.
    """
    figure = axes.figure
    renderer = figure.canvas.get_renderer()
    taken = [_around(*axes.transData.transform(point)) for point in _points(axes)]
    taken += [text.get_window_extent(renderer) for text in axes.texts]
    for name, x, y, colour in sorted(labels, key=lambda label: -label[2]):
        note = axes.annotate(
            name, (x, y), (0, 0), textcoords="offset points", fontsize=6, color=colour, va="center",
            path_effects=[withStroke(linewidth=1.5, foreground="white")],  # over the roofs
        )  # fmt: skip
        for dx, dy in _PLACES:
            note.set(position=(dx, dy), horizontalalignment="left" if dx > 0 else "right")
            box = note.get_window_extent(renderer)
            if axes.bbox.contains(box.x0, box.y0) and not box.count_overlaps(taken):
                break
        taken.append(box)
        if abs(dx) > 5 or abs(dy) > 6:
            axes.annotate(
                "", (x, y), (dx, dy), textcoords="offset points",
                arrowprops={"arrowstyle": "-", "lw": 0.4, "color": colour, "shrinkA": 0},
            )  # fmt: skip


def _points(axes: Any) -> list[tuple[float, float]]:
    """The middles of all marks."""
    marked = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
    return [point for line in marked for point in zip(*line.get_data(), strict=True)]


def _around(x: float, y: float) -> Bbox:
    return Bbox([[x - 3, y - 3], [x + 3, y + 3]])
