"""The report as one self-contained HTML file, and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from myops import _pages
from myops.onnx.comparison import pictures, plot
from myops.onnx.comparison.meanings import CAUSES, STATUSES
from myops.onnx.comparison.metrics import QUANTILES

if TYPE_CHECKING:
    from myops.onnx.comparison.result import Value


@dataclass(frozen=True)
class Words:
    """The words of a page.

    sides, short, letters: The two sides in the title, in headings of columns, and in formulas.
    heading: The heading of the column with the names of values.
    outputs: The heading of the table with the outputs of the unchanged model.
    causes: The texts for the causes of a difference.
    """

    sides: tuple[str, str] = ("PyTorch", "ONNX Runtime")
    short: tuple[str, str] = ("PyTorch", "ONNX Runtime")
    letters: tuple[str, str] = ("torch", "onnx")
    heading: str = "module"
    outputs: str = "Outputs of the model as ONNX Runtime optimises it"
    causes: Mapping[str, str] = field(default_factory=lambda: CAUSES)


def render(report: Any, words: Words | None = None) -> str:
    """Makes the page; all text from the model is escaped.

    Args:
        report: A `Report`, or one with the same attributes.
        words: Default: those of a comparison with PyTorch.
    """
    words = words or Words()
    images = [(value, pictures.pictures(value, words.short)) for value in pictures.chosen(report)]
    title = f"myops compare: {'pass' if report.passed else 'fail'}"
    return _pages.page("compare.html", title=title, command=report.command,
                       versions=report.versions, images=images,
                       scale=pictures.scale() if images else "",
                       **_values(report, report.values, words))  # fmt: skip


def fragment(report: Any, rows: Sequence[Value], words: Words | None = None) -> str:
    """The same for a notebook: without pictures, and with these rows only."""
    return _pages.fragment("compare.html", images=[], scale="",
                           **_values(report, rows, words or Words()))  # fmt: skip


def _values(report: Any, rows: Sequence[Value], words: Words) -> dict[str, Any]:
    mismatches = [report.first_mismatch, getattr(report, "begins", None)]
    if mismatches[0] is None or (
        mismatches[1] is not None and mismatches[1].value == mismatches[0].value
    ):
        del mismatches[1]
    tables = [("Values", rows), (words.outputs, report.outputs)]
    return {
        "report": report,
        "words": words,
        "unpaired": getattr(report, "unpaired", ()),
        "mismatches": [mismatch for mismatch in mismatches if mismatch is not None],
        "quantiles": QUANTILES,
        "drawings": plot.drawings(report),
        "statuses": [name for name in STATUSES if any(v.status == name for v in report.values)],
        "meanings": STATUSES,
        "tables": [(heading, values) for heading, values in tables if values],
        "left_out": len(report.values) - len(rows),
        "number": lambda number: f"{number:.2e}",
        "dims": lambda shape: f"[{', '.join(map(str, shape))}]",
    }
