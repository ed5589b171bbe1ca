"""The opset matrix as one self-contained HTML page, and in a notebook."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from myops import _pages
from myops._pages import markdown
from myops._text import Lines, printable
from myops.onnx.matrix import layout
from myops.onnx.matrix.cells import EXPORTERS, MEANINGS, Cell

if TYPE_CHECKING:
    from myops.onnx.matrix.report import Matrix


def render(matrix: Matrix) -> str:
    """Makes the page. All text from models and exporters is escaped."""
    title = f"Opset matrix: {matrix.title}" if matrix.title else "Opset matrix"
    return _pages.page("matrix.html", title=title, command=matrix.command,
                       versions=matrix.versions, notes=markdown.html(matrix.notes),
                       **_values(matrix, "why-"))  # fmt: skip


def fragment(matrix: Matrix) -> str:
    """The same for a notebook, without the notes."""
    mark = zlib.crc32(matrix.to_json().encode())  # a notebook may show several
    return _pages.fragment("matrix.html", notes="", **_values(matrix, f"why-{mark:08x}-"))


def _values(matrix: Matrix, anchor: str) -> dict[str, Any]:
    reasons = layout.reasons(matrix.cells)
    return {
        "matrix": matrix,
        "anchor": anchor,
        "symbols": layout.SYMBOLS,
        "meanings": MEANINGS,
        "exporters": EXPORTERS,
        "reasons": list(enumerate(reasons)),
        "listed": {item.exporter for item in reasons},
        "places": {cell: number for number, item in enumerate(reasons) for cell in item.cells},
        "css": lambda verdict: verdict.replace(",", "").replace(" ", "-"),
        "text": layout.text,
        "tip": _tip,
    }


def _tip(cell: Cell) -> Lines:
    lines = [f"{cell.case}, {cell.exporter}, opset {cell.opset}: {cell.verdict}"]
    if cell.error is not None:
        lines.append(f"largest difference {cell.error:.3g} over {cell.sizes} size(s)")
    if cell.reason:
        lines.append(cell.reason)
    for item in cell.others:
        lines.append(f"{item.label or 'one size'}: {item.verdict}" + (
            f" ({item.error:.3g})" if item.error is not None else "") + (
            f", {item.reason}" if item.reason else ""))  # fmt: skip
    return Lines("\n".join(map(printable, lines)))
