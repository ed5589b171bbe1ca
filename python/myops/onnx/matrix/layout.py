"""What every output of a matrix shares: symbols, neighbouring opsets as one, reasons in groups."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence

from myops.onnx.matrix.cells import CHANGED, LOAD_ERROR, LOST, OK, REFUSED, WARNED, WRONG, Cell

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
    """An error in few characters: 0, 2e-6, 0.98, 12, inf."""
    if error is None:
        return ""
    if error == 0 or math.isinf(error):
        return "0" if error == 0 else "inf"
    if error >= 0.01:
        return f"{error:.2g}" if error < 1e4 else f"{error:.0e}".replace("e+0", "e")
    return f"{error:.0e}".replace("e-0", "e-")


def text(cell: Cell, symbols: dict[str, str] = SYMBOLS, short: bool = False) -> str:
    """A cell in few characters: a symbol, and the error or the opset of the file."""
    symbol = symbols[cell.verdict]
    if cell.verdict == CHANGED:
        return f"{symbol}{cell.written}"
    if short or cell.verdict in (REFUSED, LOAD_ERROR):
        return symbol
    # A file of another shape differs by more than a number.
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


def columns(rows: Sequence[Sequence[Cell]]) -> list[list[int]]:
    """Places of neighbouring opsets in which no row changes: one column of a table each."""
    merged: list[list[int]] = []
    for place in range(len(rows[0])):
        looks = [(row[place].verdict, row[place].written) for row in rows]
        if merged and looks == [(row[merged[-1][0]].verdict, row[merged[-1][0]].written)
                                for row in rows]:  # fmt: skip
            merged[-1].append(place)
        else:
            merged.append([place])
    return merged


def worst(cells: Sequence[Cell]) -> Cell:
    """The one with the largest error among cells of one verdict."""
    return max(cells, key=lambda cell: cell.error or 0.0)


@dataclasses.dataclass
class Reason:
    """Why some cells are what they are, told once."""

    verdict: str
    reason: str
    exporter: str
    opsets: str
    cases: list[str]


def reasons(cells: Sequence[Cell]) -> list[Reason]:
    """The reasons of all cells that are not ok, each with its cells; the worst verdicts first."""
    by_case: dict[tuple[str, str, str, str], list[Cell]] = {}
    for cell in cells:
        if cell.verdict != OK:
            said = _without_opset(cell)
            by_case.setdefault((cell.verdict, said, cell.exporter, cell.case), []).append(cell)
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for (verdict, said, exporter, case), group in by_case.items():
        key = (verdict, said, exporter, ranges([cell.opset for cell in group]))
        found.setdefault(key, []).append(case)
    order = (WRONG, WARNED, LOAD_ERROR, REFUSED, CHANGED)
    return sorted(
        (Reason(v, said, exporter, opsets, cases)
         for (v, said, exporter, opsets), cases in found.items()),
        key=lambda item: order.index(item.verdict),
    )  # fmt: skip


def _without_opset(cell: Cell) -> str:
    """The reason with the opset asked for out of it, so that neighbours are alike."""
    before = r"((?:opset|version|Opset|opset_version|opset_version: got|ONNX):? ?)"
    said = re.sub(rf"{before}{cell.opset}\b", r"\1N", cell.reason)
    if cell.verdict in (WRONG, WARNED):  # the largest error stands in the table
        said = re.sub(r"off by [\d.e+-]+", "off", said)
    return said
