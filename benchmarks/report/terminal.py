"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.limits import MEANING
from benchmarks.random_shapes.result import LEAST, Measured, summaries
from benchmarks.report import text
from benchmarks.report.document import Document, Section
from benchmarks.result import OURS, Result
from benchmarks.scaling import Point, steepness

STYLES = {
    "peer": "",
    "beside": "dim",
    "torch": "bold green",
    "onnxruntime": "bold green",
    "partial": "dim italic",
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


def show_summary(console: Console, document: Document) -> None:
    """One line a case."""
    if not document.results:
        return
    table = Table(title="Summary", title_justify="left", title_style="bold", caption=text.LEGEND)
    for heading in text.SUMMARY:
        table.add_column(heading)
    for result in document.results:
        words = [verdict.word for side in OURS if (verdict := result.verdict(side))]
        worst = next((name for name in ("behind", "least", "aim") if name in words), "")
        table.add_row(*text.summary_row(result), style=WORDS.get(worst, ""))
    console.print(table)
    console.print(text.score(document.results))


def show_limits(console: Console, limits: dict[int, dict[str, float]]) -> None:
    """What the machine can do."""
    table = Table(title="Machine", title_justify="left", title_style="bold")
    for heading in ("", *[f"{count} thread(s)" for count in limits], "unit"):
        table.add_column(heading)
    for name, meaning in MEANING.items():
        values = [found.get(name) for found in limits.values()]
        table.add_row(name, *["-" if one is None else text.digits(one) for one in values], meaning)
    console.print(table)


def show_section(console: Console, section: Section) -> None:
    """The results of one module of `also/`."""
    table = Table(title=section.title, title_justify="left", title_style="bold")
    for heading in ("", "threads", "value", "limit", "", "measured"):
        table.add_column(heading)
    for row in section.rows:
        cells = [row.name, str(row.threads), f"{row.value:.2f} {row.unit}" + " ~" * row.disturbed]
        cells += ["" if row.limit is None else f"{row.sense} {row.limit:g}", row.word, row.detail]
        table.add_row(*cells, style="red" if row.word == "missed" else "")
    console.print(table, section.explanation)


def show_scaling(console: Console, points: Sequence[Point]) -> None:
    """Cost for one pixel, channel or image; "steepest" above 1 is worse than linear."""
    table = Table(title="Scaling", title_justify="left", title_style="bold")
    for heading in ("", "axis", "cost for one, small to large", "steepest"):
        table.add_column(heading)
    for group, axis in dict.fromkeys((point.group, point.axis) for point in points):
        line = [point for point in points if (point.group, point.axis) == (group, axis)]
        costs = " ".join(text.duration(point.seconds / point.size) for point in line)
        table.add_row(group, axis, costs, f"{steepness(line):.2f}")
    console.print(table)


def show_measured(console: Console, item: Measured) -> None:
    """One random configuration."""
    style = "red" if item.ratio < LEAST else "yellow" if item.ratio < 1 else ""
    console.print(
        f"{item.ratio:5.2f}x  {item.kind} {item.number}, {item.threads} thread(s): {item.text}; "
        f"{text.duration(item.ours)}, {item.peer} {text.duration(item.theirs)}"
        + " ~" * item.disturbed,
        style=style, highlight=False, soft_wrap=True,
    )  # fmt: skip
    for name, error in item.wrong.items():
        console.print(f"       left out, wrong result: {name}, error {error:.1e}", style="dim")


def show_random(console: Console, results: Sequence[Measured]) -> None:
    """What all random configurations say, and the slowest of each kind."""
    if not results:
        return
    found = list(summaries(results))
    table = Table(title="Random configurations", title_justify="left", title_style="bold")
    for heading in text.RANDOM:
        table.add_column(heading)
    for summary in found:
        table.add_row(*text.random_row(summary))
    console.print(table)
    for summary in found:
        console.print(f"[bold]slowest of {summary.kind}, {summary.threads} thread(s)[/]")
        for item in summary.results[:10]:
            show_measured(console, item)
            for step in item.plan:
                console.print(f"         {step}", style="dim", highlight=False, soft_wrap=True)


def show_facts(console: Console, facts: dict[str, str], absent: dict[str, str]) -> None:
    """The machine, the versions, and which peers are not there."""
    for name, value in facts.items():
        console.print(f"[bold]{name}[/] {value}", highlight=False)
    for name, reason in absent.items():
        console.print(f"[yellow]peer absent:[/] {name}: {reason}", highlight=False)
