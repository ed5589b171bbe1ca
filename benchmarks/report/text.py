"""Numbers as words, the same in the terminal and on the pages; tables of the pages."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.random_shapes.result import LEAST, Summary
from benchmarks.result import OURS, Result, Verdict


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of a Markdown page."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def duration(seconds: float) -> str:
    """Three digits with a unit: 2.41 us, 18.2 ms."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{digits(seconds / size)} {unit}"
    return f"{digits(seconds / 1e-9)} ns"


def digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(verdict: Verdict | None) -> str:
    """2.13x, with the word when there is a target."""
    if verdict is None:
        return "-"
    return f"{verdict.ratio:.2f}x {verdict.word}".rstrip()


def counted(result: Result) -> str:
    """How many samples of all candidates counted: 148/150."""
    clean = sum(item.clean for item in result.measurements)
    return f"{clean}/{sum(item.taken for item in result.measurements)}"


def score(results: Sequence[Result]) -> str:
    """How many of the numbers are within their limits."""
    counts = {"aim": 0, "least": 0, "behind": 0}
    for result in results:
        for side in OURS:
            verdict = result.verdict(side)
            if verdict is not None and verdict.word:
                counts[verdict.word] += 1
    total = sum(counts.values())
    return (
        f"Of {total} numbers {counts['aim']} reach the aim, {counts['least']} lie between least "
        f"and aim, {counts['behind']} below."
    )


SUMMARY = (
    "case",
    "threads",
    "best peer",
    "torch op",
    "ratio",
    "in ORT",
    "ratio",
    "both allocating",
    "least / aim",
    "clean",
)


def summary_row(result: Result) -> list[str]:
    """The cells of the table with the columns SUMMARY."""
    peer = result.best("peer")
    target = result.target
    cells = [
        f"{result.group} {result.name}",
        str(result.threads),
        f"{peer.name} {duration(peer.seconds)}" if peer else "-",
    ]
    for side in OURS:
        verdict = result.verdict(side)
        mark = "~" if verdict and (verdict.ours.disturbed or verdict.peer.disturbed) else ""
        letter = "" if verdict is None else f" ({verdict.ours.output[0]})"
        cells.append(f"{duration(verdict.ours.seconds)}{letter}" if verdict else "-")
        cells.append(mark + ratio(verdict))
    allocating = result.allocating("torch")
    both = "-"
    if allocating is not None:
        both = f"{allocating.ratio:.2f}x"
        if max(allocating.ours.faults, allocating.peer.faults) >= 1:
            both += f" ({allocating.ours.faults:.0f} / {allocating.peer.faults:.0f} faults)"
    cells.append(both)
    cells.append(f"{target.least:g} / {target.aim:g}" if target else "-")
    cells.append(counted(result))
    return cells


RANDOM = ("", "threads", "configurations", "geometric mean", "below 1.0", f"below {LEAST}", "least")


def random_row(summary: Summary) -> list[str]:
    """The cells of the table with the columns RANDOM."""
    return [
        summary.kind,
        str(summary.threads),
        str(len(summary.results)),
        f"{summary.geometric_mean:.2f}x",
        str(summary.below(1.0)),
        str(summary.below(LEAST)),
        ", ".join(f"{item.ratio:.2f}" for item in summary.results[:4]),
    ]


LEGEND = (
    "ratio: how many times faster than the fastest peer of all. (g): into a given or bound output, "
    "(a): allocates its result. both allocating: the torch op and the fastest peer that returns "
    "new memory, with page faults of a call, ours / peer. ~: fewer than 3 samples were clean."
)
