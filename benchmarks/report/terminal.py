"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.report import text
from benchmarks.result import Result

STYLES = {
    "peer": "",
    "torch": "bold green",
    "onnxruntime": "bold green",
    "beside": "dim",
    "yardstick": "dim italic",
}
WORDS = {"aim": "green", "least": "yellow", "behind": "red"}


def show_case(console: Console, result: Result) -> None:
    """Every candidate of one case, fastest first."""
    title = f"{result.title}: {result.shape}, {result.threads} thread(s)"
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("candidate", "output", "median", "x best peer", "+-", "faults", "clean"):
        table.add_column(heading, justify="left" if heading in ("candidate", "output") else "right")
    best = result.best("peer")
    for item in sorted(result.measurements, key=lambda item: item.seconds):
        table.add_row(
            item.name,
            item.output,
            text.duration(item.seconds),
            f"{item.seconds / best.seconds:.2f}" if best else "-",
            f"{100 * item.spread:.0f}%",
            f"{item.faults:.0f}" if item.faults >= 1 else "",
            f"{item.clean}/{item.taken}" + " ~" * item.disturbed,
            style=STYLES[item.side],
        )
    console.print(table)
    for name, error in result.wrong.items():
        console.print(f"[red]left out, wrong result:[/] {name}, error {error:.1e} of the largest")
    for name, reason in result.missing.items():
        console.print(f"[yellow]could not run:[/] {name}: {reason}")


def show_summary(console: Console, results: Sequence[Result]) -> None:
    """One line a case."""
    table = Table(title="Summary", title_justify="left", title_style="bold", caption=text.LEGEND)
    for heading in text.SUMMARY:
        table.add_column(heading)
    for result in results:
        cells = text.summary_row(result)
        words = [verdict.word for side in text.OURS if (verdict := result.verdict(side))]
        worst = next((name for name in ("behind", "least", "aim") if name in words), "")
        table.add_row(*cells, style=WORDS.get(worst, ""))
    console.print(table)


def show_facts(console: Console, facts: dict[str, str], absent: dict[str, str]) -> None:
    """The machine, the versions, and which peers are not there."""
    for name, value in facts.items():
        console.print(f"[bold]{name}[/] {value}", highlight=False)
    for name, reason in absent.items():
        console.print(f"[yellow]peer absent:[/] {name}: {reason}", highlight=False)
