"""The comparison of two files in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from myops._terminal import Console as Terminal
from myops._terminal import line
from myops._text import for_markup as escape
from myops._text import number_of
from myops.onnx.comparison import terminal
from myops.onnx.two_files.meanings import CAUSES

if TYPE_CHECKING:
    from myops.onnx.two_files.result import FileReport, FirstFileMismatch

_MOST_NODES = 6
_MOST_UNMATCHED = 4
_MOST_ODD = 6


def show(report: FileReport, console: Console | None, all_values: bool) -> None:
    """Prints the table of values, the differences with their reasons, and the verdict."""
    console = console or Terminal()
    line(console, f"first   {escape(report.sides[0])}")
    line(console, f"second  {escape(report.sides[1])}")
    for number, (name, item) in enumerate(report.inputs.items()):
        made = f"; invented: {item['invented']}" if item["invented"] else ""
        title = "inputs" if not number else ""
        line(console, escape(f"{title:<7} {name} {item['dtype']}{item['shape']}{made}"))
    rows = list(report.values)
    shown = rows if all_values else terminal.chosen(rows, report.first_mismatch)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("value", overflow="fold")
    table.add_column("shape", overflow="fold")
    for name in ("max abs", "max rel", "cosine"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("paired by", no_wrap=True)
    table.add_column("", no_wrap=True)
    before = -1
    for place, value in enumerate(rows):
        if value in shown:
            if place != before + 1:
                table.add_row(f"[dim]... {place - before - 1} more[/]")
            cells = terminal.row(value)
            cells[-1].append(f" {value.origin}" if value.origin else "")
            table.add_row(*cells[:-1], value.paired, cells[-1])
            before = place
    if before + 1 < len(rows):
        table.add_row(f"[dim]... {len(rows) - before - 1} more[/]")
    console.print(table)
    _show_outputs(report, console, all_values)
    _show_unmatched(report, console, all_values)
    for note in report.notes:
        line(console, f"[yellow]note[/] {escape(note)}")
    if report.first_mismatch is not None:
        _show_mismatch("First difference", report.first_mismatch, console)
    if report.begins is not None:
        _show_begins(report, report.begins, console)
    verdict = "[bold green]PASS[/]" if report.passed else "[bold red]FAIL[/]"
    inside = sum(bool(value.where) for value in rows)
    more = f", {inside} of them inside If, Loop or Scan" if inside else ""
    line(console, f"{verdict} {number_of(len(rows), 'value')} compared{more}")


def _show_outputs(report: FileReport, console: Console, all_values: bool) -> None:
    for value in report.outputs:
        if value.status != "ok":
            line(
                console,
                f"[red]{value.status}[/] output {escape(repr(value.name))} of the untouched file: "
                f"{escape(value.detail)}",
            )
    odd = [value for value in report.values if value.status in ("order", "absorbed")]
    for value in odd if all_values else odd[:_MOST_ODD]:
        text = escape(f"{value.title}: {value.detail}")
        line(console, f"[yellow]{value.status}[/] {text}")
    if len(odd) > _MOST_ODD and not all_values:
        line(console, f"[dim]... {len(odd) - _MOST_ODD} more such values (--all has them)[/]")


def _show_unmatched(report: FileReport, console: Console, all_values: bool) -> None:
    reasons: dict[str, list[str]] = {}
    for item in report.unmatched:
        reasons.setdefault(item.reason, []).append(f"{item.path} ({item.kind})")
    for reason, names in reasons.items():
        kept = names if all_values else names[:_MOST_UNMATCHED]
        more = f" and {len(names) - len(kept)} more" if len(names) > len(kept) else ""
        line(console, f"[dim]not compared: {escape(', '.join(kept))}{more}: {escape(reason)}[/]")


def _show_mismatch(title: str, mismatch: FirstFileMismatch, console: Console) -> None:
    line(console)
    line(console, f"[bold red]{title}[/] in {escape(mismatch.title)}")
    line(console, f"  cause: {CAUSES[mismatch.cause]}")
    for name, nodes in (("first", mismatch.nodes), ("second", mismatch.other_nodes)):
        kept = ", ".join(nodes[:_MOST_NODES])
        more = f" and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else ""
        if nodes:
            line(console, f"  nodes of the {name}: [bold]{escape(kept)}[/]{more}")
    for text in mismatch.evidence:
        line(console, f"  - {escape(text)}")


def _show_begins(report: FileReport, begins: FirstFileMismatch, console: Console) -> None:
    if report.first_mismatch is not None and report.first_mismatch.value == begins.value:
        line(console, "  The outputs begin to differ here as well.")
    else:
        _show_mismatch("The outputs begin to differ", begins, console)
