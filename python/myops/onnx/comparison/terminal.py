"""The report in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from myops._terminal import Console as Terminal
from myops._terminal import line
from myops._text import for_markup as escape
from myops._text import number_of, printable
from myops.onnx.comparison.meanings import CAUSES

if TYPE_CHECKING:
    from myops.onnx.comparison.result import FirstMismatch, Report, Value

Row = TypeVar("Row", bound="Value")

_STYLES = {"ok": "green", "order": "yellow", "absorbed": "yellow", "fail": "red"}
_MOST_ROWS = 40
_AROUND = 4


def show(report: Report, console: Console | None, all_values: bool) -> None:
    """Prints the table of values, the differences with their reasons, and the verdict."""
    console = console or Terminal()
    rows = list(report.values) if all_values else distinct(report.values)
    shown = rows if all_values else chosen(rows, report.first_mismatch)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("module", overflow="fold")
    table.add_column("shape", overflow="fold")
    for name in ("max abs", "max rel", "cosine"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    before = -1
    for place, value in enumerate(rows):
        if value in shown:
            if place != before + 1:
                table.add_row(f"[dim]... {place - before - 1} more[/]")
            table.add_row(*row(value))
            before = place
    if before + 1 < len(rows):
        table.add_row(f"[dim]... {len(rows) - before - 1} more[/]")
    console.print(table)
    _show_optimised(report, console)
    odd = [v for v in rows if v.status in ("order", "absorbed")]
    if report.first_mismatch is not None:  # values after the first difference do not matter
        at = next((v.depth for v in rows if v.name == report.first_mismatch.value), 0)
        odd = [v for v in odd if v.depth < at or v.status == "order"]
    for item in odd if all_values else odd[:_AROUND]:
        line(console, f"[yellow]{item.status}[/] {escape(item.title)}: {escape(item.detail)}")
    if report.unmatched:
        _show_unmatched(report, console, all_values)
    for text in report.unpaired:
        line(console, f"[red]fail[/] {escape(text)}")
    for note in report.notes:
        line(console, f"[yellow]note[/] {escape(note)}")
    if report.first_mismatch is not None:
        _show_mismatch(report.first_mismatch, console)
    modules = len({(v.path, v.call) for v in report.values if v.path})
    calls = modules + len({(item.path, item.call) for item in report.unmatched})
    verdict = "[bold green]PASS[/]" if report.passed else "[bold red]FAIL[/]"
    compared = f"{number_of(len(rows), 'value')} compared"
    line(console, f"{verdict} {compared}, of {modules} of {number_of(calls, 'module call')}")


def distinct(values: Sequence[Value]) -> list[Value]:
    """Keeps one row, that of the innermost module, for a value that is the output of several."""
    best: dict[tuple[str, str], Value] = {}
    for value in values:
        key = (value.name, value.status)
        if key not in best or len(value.path) > len(best[key].path):
            best[key] = value
    return [value for value in values if best[value.name, value.status] is value]


def chosen(rows: Sequence[Row], mismatch: Any) -> list[Row]:
    """The rows of a long list to show: the ends, those around the difference, and one row with each
    other status."""
    if len(rows) <= _MOST_ROWS:
        return list(rows)
    marks = [0, len(rows) - 1]
    if mismatch is not None:
        marks += [place for place, value in enumerate(rows) if value.name == mismatch.value]
    near = {p for mark in marks for p in range(mark - _AROUND, mark + _AROUND + 1)}
    odd = [place for place, value in enumerate(rows) if value.status in ("order", "absorbed")]
    near.update(odd[:_AROUND])
    return [value for place, value in enumerate(rows) if place in near]


def row(value: Value) -> list[Text]:
    """The cells of a value; the status is the last."""
    shape = f"{value.dtype}{_dims(value.shape)}"
    if value.onnx_shape != value.shape:
        shape += f" / {_dims(value.onnx_shape)}"
    status = Text(value.status, _STYLES[value.status])
    named = [Text(printable(value.title)), Text(printable(shape))]
    found = value.difference
    if found is None:
        return [*named, Text("-"), Text("-"), Text("-"), status]
    cosine = "-" if found.cosine is None else f"{found.cosine:.5f}"
    numbers = [f"{found.max_abs:.2e}", f"{found.max_rel:.2e}", cosine]
    return [*named, *map(Text, numbers), status]


def _dims(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _show_optimised(report: Report, console: Console) -> None:
    for value in report.outputs:
        if value.status != "ok":
            style = _STYLES[value.status]
            line(
                console,
                f"[{style}]{value.status}[/] {escape(value.title)} {escape(repr(value.name))}, "
                f"as ONNX Runtime optimises the model: {escape(value.detail)}",
            )


def _show_unmatched(report: Report, console: Console, all_values: bool) -> None:
    reasons: dict[str, list[str]] = {}
    for item in report.unmatched:
        reasons.setdefault(item.reason, []).append(item.path)
    for reason, paths in reasons.items():
        unique = list(dict.fromkeys(paths))
        kept = unique if all_values else unique[:4]
        more = f" and {len(unique) - len(kept)} more" if len(unique) > len(kept) else ""
        line(console, f"[dim]not compared: {escape(', '.join(kept))}{more}: {escape(reason)}[/]")


def _show_mismatch(mismatch: FirstMismatch, console: Console) -> None:
    line(console)
    line(console, f"[bold red]First difference[/] in {escape(mismatch.title)}")
    line(console, f"  cause: {CAUSES[mismatch.cause]}")
    if mismatch.nodes:
        word = "node" if len(mismatch.nodes) == 1 else f"{len(mismatch.nodes)} nodes, from"
        line(console, f"  {word}: [bold]{escape(mismatch.nodes[0])}[/]")
        if len(mismatch.nodes) > 1:
            line(console, f"  to: [bold]{escape(mismatch.nodes[-1])}[/]")
    line(console, f"  value: {escape(mismatch.value)}")
    for text in mismatch.evidence:
        line(console, f"  - {escape(text)}")
    if mismatch.reproduction:
        line(console, f"  reproduction: {escape(mismatch.reproduction)}/script.py")
