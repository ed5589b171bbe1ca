"""The opset matrix in Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from myops._text import printable
from myops.onnx.matrix import layout
from myops.onnx.matrix.cells import EXPORTERS, MEANINGS

if TYPE_CHECKING:
    from myops.onnx.matrix.report import Matrix


def render(matrix: Matrix) -> str:
    """Makes a page: notes, a table for each exporter, the legend, the reasons."""
    lines = [f"# Opset matrix: {matrix.title}" if matrix.title else "# Opset matrix", ""]
    if matrix.notes:
        lines += [matrix.notes.rstrip(), ""]
    if matrix.command:
        lines += ["Make this page again with", "", *_fenced(matrix.command), ""]
    lines += [f"Measured with {matrix.software()}. {matrix.summary()}.", ""]
    for verdict, count in matrix.counts().items():
        if count:
            lines.append(f"- `{layout.SYMBOLS[verdict]}` **{verdict}**: {MEANINGS[verdict]}")
    lines += ["", "The number is the largest absolute difference from PyTorch, over all sizes and "
              "opsets of the cell; opsets in which no row changes share a column.", ""]  # fmt: skip
    for exporter in matrix.exporters:
        lines += [f"## {exporter}", "", f"`{EXPORTERS.get(exporter, exporter)}`", ""]
        lines += _table(matrix, exporter)
    reasons = layout.reasons(matrix.cells)
    if reasons:
        lines += [
            "## Why",
            "",
            "| verdict | exporter | opsets | rows | why |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {item.verdict} | {item.exporter} | {item.opsets} | {_cell(', '.join(item.cases))} "
            f"| {_cell(item.reason)} |"
            for item in reasons
        ]
        lines.append("")
    return "\n".join(lines)


def _fenced(text: str) -> list[str]:
    """A fenced block of code; the text may contain backticks."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, printable(text), fence]


def _table(matrix: Matrix, exporter: str) -> list[str]:
    rows = matrix.rows(exporter)
    merged = layout.columns(list(rows.values()))
    heads = [layout.ranges([matrix.opsets[place] for place in places]) for places in merged]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for case, row in rows.items():
        cells = [layout.text(layout.worst(row, places)) for places in merged]
        marked = [f"**{item}**" if item[:1] in ("✗", "≈") else item for item in cells]
        lines.append(f"| {_cell(case)} | " + " | ".join(marked) + " |")
    return [*lines, ""]


def _cell(text: str) -> str:
    for mark in "\\|<*_`[":
        text = text.replace(mark, "\\" + mark)
    return text
