"""The error of each value along the depth of the network, as SVG in a page.

Two drawings of different proportions are made; the stylesheet shows the one whose text is legible
at the width of the page. Colours are defined by the stylesheet, for its light and dark themes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from myops._text import printable

if TYPE_CHECKING:
    from myops.onnx.comparison.result import Value

_LEAST, _MOST = 1e-30, 1e30  # beyond, an error is drawn as 0 or as infinite
_MARGIN = {"left": 46, "right": 12, "top": 30, "bottom": 40}


@dataclass
class Drawing:
    """The positions of everything in one SVG.

    Attributes:
        name: Class in the stylesheet: "broad" or "narrow".
        letters: How many letters fit half of the width.
        width, height: Of the drawing; left, right, top, bottom: of the frame in it.
        marks: (x, y, status, text) of each value.
        path: The line through them, as SVG has it.
        rows, columns: Ticks: (position, text).
        first: x of the first difference; None where there is none, or it has no value.
        first_name: The module in which it is.
    """

    name: str
    width: int
    height: int
    letters: int
    marks: list[tuple[float, float, str, str]] = field(default_factory=list)
    path: str = ""
    rows: list[tuple[float, str]] = field(default_factory=list)
    columns: list[tuple[float, str]] = field(default_factory=list)
    first: float | None = None
    first_name: str = ""

    @property
    def left(self) -> int:
        return _MARGIN["left"]

    @property
    def right(self) -> int:
        return self.width - _MARGIN["right"]

    @property
    def top(self) -> int:
        return _MARGIN["top"]

    @property
    def bottom(self) -> int:
        return self.height - _MARGIN["bottom"]


def drawings(report: Any) -> list[Drawing]:
    """The same plot for broad and for narrow columns; none when no value was compared."""
    values = list(report.values)
    if not values:
        return []
    return [_draw(Drawing("broad", 720, 290, 44), report, values, 7),
            _draw(Drawing("narrow", 350, 280, 20), report, values, 5)]  # fmt: skip


def _draw(drawing: Drawing, report: Any, values: list[Value], most_ticks: int) -> Drawing:
    errors = [_error(value) for value in values]
    powers = [math.log10(size) for size in errors if 0 < size < math.inf] or [-7.0, 0.0]
    lowest, highest = math.floor(min(powers)), math.ceil(max(powers))
    highest = max(highest, lowest + 1)
    # A logarithmic axis has no 0 and no infinity; both are drawn beside it, with their own ticks.
    low, high = lowest - (0.0 in errors), highest + (math.inf in errors)
    step = max(1, math.ceil((highest - lowest) / most_ticks))
    span, last = drawing.right - drawing.left - 16, max(len(values) - 1, 1)

    def x(place: float) -> float:
        return round(drawing.left + 8 + span * place / last, 1)

    def y(power: float) -> float:
        part = (power - low) / (high - low)
        return round(drawing.bottom - 6 - part * (drawing.bottom - drawing.top - 12), 1)

    drawing.marks = [
        (x(place), y(_power(size, low, high)), value.status, f"{value.title}: {_said(value)}")
        for place, (value, size) in enumerate(zip(values, errors, strict=True))
    ]
    drawing.path = " ".join(f"{a} {b}" for a, b, *_ in drawing.marks)
    drawing.rows = [(y(power), f"1e{power}" if power else "1")
                    for power in range(lowest, highest + 1, step)]  # fmt: skip
    drawing.rows += [(y(low), "0")] * (low < lowest) + [(y(high), "inf")] * (high > highest)
    each = _round_up(last / most_ticks)
    drawing.columns = [(x(place), str(place)) for place in range(0, len(values), each)]
    if report.first_mismatch is not None:
        found = (p for p, value in enumerate(values) if value.name == report.first_mismatch.value)
        place = next(found, None)
        drawing.first = None if place is None else x(place)
        drawing.first_name = _cut(
            printable(report.first_mismatch.path or "the model"), drawing.letters
        )
    return drawing


def _error(value: Value) -> float:
    """The height of a value: RMS of its error over its own; infinite when shapes differ."""
    found = math.inf if value.difference is None else value.difference.relative_rms
    if math.isnan(found) or found > _MOST:
        return math.inf
    return found if found >= _LEAST else 0.0


def _power(size: float, low: int, high: int) -> float:
    return high if math.isinf(size) else math.log10(size) if size else low


def _cut(name: str, letters: int) -> str:
    """The beginning and the end of a name that is longer."""
    half = (letters - 3) // 2
    return name if len(name) <= letters else f"{name[:half]}...{name[-half:]}"


def _said(value: Value) -> str:
    if value.difference is None:
        return f"{value.status}, of another shape"
    return f"{value.status}, {value.difference.relative_rms:.2e}"


def _round_up(number: float) -> int:
    """Rounds up to 1, 2 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(max(number, 1)))
    return next(int(power * part) for part in (1, 2, 5, 10) if power * part >= number)
