"""The long tables: cases, candidates, other questions, the slowest configurations, limits."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.limits import MEANING
from benchmarks.random_shapes.result import Measured, summaries
from benchmarks.report import text
from benchmarks.report.document import Document, Section
from benchmarks.report.text import table
from benchmarks.result import Result
from benchmarks.scaling import Point, steepness

SIDES = ("torch op", "x", "in ONNX Runtime", "x", "both allocating")


def parts(document: Document) -> dict[str, str]:
    """The long bodies by name, of what was measured."""
    found = {}
    if document.results:
        found["results"] = _results(document.results)
        found["peers"] = _peers(document.results)
    if document.also:
        found["also"] = _also(document.also)
    if document.random:
        found["slowest"] = _slowest(document.random)
    if document.scaling:
        found["scaling"] = _scaling(document.scaling)
    if document.limits:
        found["limits"] = _limits(document.limits)
    return found


def _results(results: Sequence[Result]) -> str:
    blocks = []
    for group in dict.fromkeys(result.group for result in results):
        here = [result for result in results if result.group == group]
        here.sort(key=lambda result: result.threads)
        rows = [_result_row(result) for result in here]
        header = ["case", "threads", "best peer", "", *SIDES, "least / aim", "clean"]
        # An empty column is left out (backward cases have no node).
        kept = [i for i in range(len(header)) if any(row[i] != "-" for row in rows)]
        shapes = {result.name: result.shape for result in here if result.shape != result.name}
        note = "; ".join(f"{name}: {shape}" for name, shape in shapes.items())
        body = table([header[i] for i in kept], [[row[i] for i in kept] for row in rows])
        blocks.append(f"### {group}\n\n{note}\n\n{body}")
    return "\n\n".join([*blocks, text.LEGEND])


def _result_row(result: Result) -> list[str]:
    _, threads, _, *rest = text.summary_row(result)
    best = result.best("peer")
    cells = [result.name, threads, best.name if best else "-"]
    cells.append(text.duration(best.seconds) if best else "-")
    return [*cells, *[_bold(cell) for cell in rest]]


def _bold(cell: str) -> str:
    return f"**{cell}**" if cell.endswith(" behind") else cell


def _peers(results: Sequence[Result]) -> str:
    """Every candidate: milliseconds, and how many times the best peer's."""
    blocks = []
    for group, threads in dict.fromkeys((result.group, result.threads) for result in results):
        here = [item for item in results if (item.group, item.threads) == (group, threads)]
        names: dict[str, str] = {}
        for result in here:
            names |= {item.name: item.side for item in result.measurements}
        rows = [
            [f"*{name}*" if side in ("partial", "beside") else name]
            + [_cell(result, name) for result in here]
            for name, side in names.items()
        ]
        title = f"{group}, {threads} thread{'s' * (threads > 1)}"
        blocks.append(
            f"### {title}\n\n" + table(["", *[item.name for item in here]], rows) + _notes(here)
        )
    return "\n\n".join(blocks)


def _cell(result: Result, name: str) -> str:
    best = result.best("peer")
    for item in result.measurements:
        if item.name == name:
            ratio = f" ({item.seconds / best.seconds:.2f})" if best else ""
            faults = f", {item.faults:.0f} faults" if item.faults >= 10 else ""
            return f"{text.duration(item.seconds)}{ratio}{faults}" + " ~" * item.disturbed
    if name in result.wrong:
        return f"wrong, {result.wrong[name]:.0e}"
    return "-"


def _notes(results: Sequence[Result]) -> str:
    notes = {f"{name}: {reason}" for item in results for name, reason in item.missing.items()}
    return "".join(f"\n\nCould not run: {note}" for note in sorted(notes))


def _also(sections: Sequence[Section]) -> str:
    blocks = []
    for section in sections:
        rows = []
        for row in section.rows:
            limit = "" if row.limit is None else f"{row.sense} {row.limit:g}"
            word = f"**{row.word}**" if row.word == "missed" else row.word
            value = f"{row.value:.2f} {row.unit}" + " ~" * row.disturbed
            rows.append([row.name, str(row.threads), value, limit, word, row.detail])
        body = table(["", "threads", "value", "limit", "", "measured"], rows)
        blocks.append(f"### {section.title}\n\n{section.explanation}\n\n{body}")
    return "\n\n".join(blocks)


def _scaling(points: Sequence[Point]) -> str:
    rows = []
    for group, axis in dict.fromkeys((point.group, point.axis) for point in points):
        line = [item for item in points if (item.group, item.axis) == (group, axis)]
        sizes = [item.size for item in line]
        costs = " ".join(text.duration(item.seconds / item.size) for item in line)
        rows.append([group, axis, f"{min(sizes):,} to {max(sizes):,}", costs])
        rows[-1].append(f"{steepness(line):.2f}")
    return table(["", "axis", "from, to", "cost for one", "steepest"], rows)


def _slowest(measured: Sequence[Measured]) -> str:
    blocks = []
    for summary in summaries(measured):
        threads = f"{summary.threads} thread{'s' * (summary.threads > 1)}"
        rows = [
            [
                f"{item.ratio:.2f}" + " ~" * item.disturbed,
                f"{item.seed}/{item.number}", item.text,
                text.duration(item.ours), f"{item.peer} {text.duration(item.theirs)}",
                "; ".join(item.plan),
            ]
            for item in summary.results[:10]
        ]  # fmt: skip
        header = ["ratio", "seed/number", "configuration", "ours", "peer", "plan"]
        blocks.append(f"### The slowest of {summary.kind}, {threads}\n\n" + table(header, rows))
    return "\n\n".join(blocks)


def _limits(limits: dict[int, dict[str, float]]) -> str:
    header = ["", *[f"{count} thread{'s' * (count > 1)}" for count in limits], "unit"]
    rows = [
        [name, *[_number(found.get(name)) for found in limits.values()], meaning]
        for name, meaning in MEANING.items()
    ]
    return table(header, rows)


def _number(value: float | None) -> str:
    return "-" if value is None else text.digits(value)
