"""Layout that all formats of a matrix share: symbols, merged columns, grouped reasons."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence

from myops.onnx.matrix.cells import (
    CHANGED,
    LOAD_ERROR,
    LOST,
    OK,
    REFUSED,
    VERDICTS,
    WARNED,
    WRONG,
    Cell,
)

SYMBOLS = {OK: "✓", CHANGED: "→", LOST: "○", REFUSED: "-", LOAD_ERROR: "!", WARNED: "≈", WRONG: "✗"}
PLAIN_SYMBOLS = {
    OK: "+",
    CHANGED: ">",
    LOST: "o",
    REFUSED: "-",
    LOAD_ERROR: "!",
    WARNED: "~",
    WRONG: "X",
}


def number(error: float | None) -> str:
    """An error as a short text: 0, 2e-6, 0.98, 12, inf."""
    if error is None:
        return ""
    if error == 0 or math.isinf(error):
        return "0" if error == 0 else "inf"
    if error >= 0.01:
        return f"{error:.2g}" if error < 1e4 else f"{error:.0e}".replace("e+0", "e")
    return f"{error:.0e}".replace("e-0", "e-")


def text(cell: Cell | None, symbols: dict[str, str] = SYMBOLS, short: bool = False) -> str:
    """A cell as a short text: a symbol, and the error or the opset of the file; "" for none."""
    if cell is None:
        return ""
    symbol = symbols[cell.verdict]
    if cell.verdict == CHANGED:
        return f"{symbol}{cell.written}"
    if short or cell.verdict in (REFUSED, LOAD_ERROR):
        return symbol
    # If the shape of a result differs, there is no number.
    return symbol + (number(cell.error) if not math.isinf(cell.error or 0) else "size")


def ranges(opsets: Sequence[int]) -> str:
    """9, 10, 11, 13 as "9-11, 13"."""
    runs: list[list[int]] = []
    for opset in sorted(set(opsets)):
        if runs and opset == runs[-1][-1] + 1:
            runs[-1].append(opset)
        else:
            runs.append([opset])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


Row = Sequence["Cell | None"]  # by opset; None where nothing was measured


def columns(rows: Sequence[Row]) -> list[list[int]]:
    """Groups of neighbouring opsets in which no row changes; each group is one column of a
    table."""
    merged: list[list[int]] = []
    before: list[tuple[str, int | None] | None] = []
    for place in range(len(rows[0]) if rows else 0):
        looks = [(cell.verdict, cell.written) if (cell := row[place]) else None for row in rows]
        if merged and looks == before:
            merged[-1].append(place)
        else:
            merged.append([place])
        before = looks
    return merged


def worst(row: Row, places: Sequence[int]) -> Cell | None:
    """The cell with the largest error among those of one verdict; None if there is none."""
    cells = [cell for place in places if (cell := row[place])]
    return max(cells, key=lambda cell: cell.error or 0.0, default=None)


@dataclasses.dataclass
class Reason:
    """The common reason of several cells."""

    verdict: str
    reason: str
    exporter: str
    opsets: str
    cases: list[str]
    cells: list[Cell] = dataclasses.field(default_factory=list, repr=False)


def reasons(cells: Sequence[Cell]) -> list[Reason]:
    """The reasons of all cells that are not ok, each with its cells; the worst verdicts first."""
    by_case: dict[tuple[str, str, str, str], list[Cell]] = {}
    for cell in cells:
        if cell.verdict != OK:
            said = _without_opset(cell)
            by_case.setdefault((cell.verdict, said, cell.exporter, cell.case), []).append(cell)
    found: dict[tuple[str, str, str, str], Reason] = {}
    for (verdict, said, exporter, case), group in by_case.items():
        opsets = ranges([cell.opset for cell in group])
        reason = found.setdefault((verdict, said, exporter, opsets),
                                  Reason(verdict, said, exporter, opsets, []))  # fmt: skip
        reason.cases.append(case)
        reason.cells.extend(group)
    return sorted(found.values(), key=lambda item: -VERDICTS.index(item.verdict))


def _without_opset(cell: Cell) -> str:
    """The reason without the requested opset, so that neighbouring cells have equal reasons."""
    before = r"((?:opset|version|Opset|opset_version|opset_version: got|ONNX):? ?)"
    said = re.sub(rf"{before}{cell.opset}\b", r"\1N", cell.reason)
    if cell.verdict in (WRONG, WARNED):  # the largest error is in the table
        said = re.sub(r"off by [\d.e+-]+", "off", said)
    return said
