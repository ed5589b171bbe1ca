"""Writes the measured parts of a page between markers; the text around them is written by hand.

A part stands between `<!-- begin NAME -->` and `<!-- end NAME -->`. A page has the parts that it
wants; a part of which nothing was measured stays as it is. The long tables have a page of their
own beside it: PAGE_tables.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.random_shapes.result import summaries
from benchmarks.report import plots, tables, text
from benchmarks.report.document import Document
from benchmarks.report.text import table
from benchmarks.result import OURS, Result


def write(document: Document, page: Path) -> None:
    """Replaces the parts of `page` and of PAGE_tables.md, if that exists; writes the plots."""
    found = parts(document) | tables.parts(document)
    for path in (page, page.with_name(f"{page.stem}_tables.md")):
        if path == page or path.exists():
            written = path.read_text()
            for name, body in found.items():
                written = replace_part(written, name, body)
            path.write_text(written)
    plots.write(document, page.parent, f"{page.stem}_")


def replace_part(page: str, name: str, body: str) -> str:
    """The page with another body between the markers of `name`; as it was without markers."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    if page.count(begin) != page.count(end) or page.count(begin) > 1:
        raise ValueError(f"{name}: expected its two markers once each, or neither")
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    return pattern.sub(lambda _: f"{begin}\n{body}\n{end}", page)


def parts(document: Document) -> dict[str, str]:
    """The short bodies by name, of what was measured."""
    found = {"machine": _machine(document)}
    if document.results:
        found["score"] = text.score(document.results)
        found["summary"] = _summary(document.results)
    if document.also:
        found["questions"] = _questions(document)
    if document.random:
        found["random"] = _random(document)
    return found


def _machine(document: Document) -> str:
    rows = [[name, value] for name, value in document.facts.items()]
    rows += [[f"peer {name}", f"absent: {reason}"] for name, reason in document.absent.items()]
    return table(["", ""], rows)


def _summary(results: Sequence[Result]) -> str:
    """A line for each group of cases and number of threads."""
    rows = []
    for group in dict.fromkeys(result.group for result in results):
        for threads in sorted({item.threads for item in results if item.group == group}):
            here = [item for item in results if (item.group, item.threads) == (group, threads)]
            rows.append([group, str(threads), str(len(here))])
            verdicts = {side: [v for item in here if (v := item.verdict(side))] for side in OURS}
            for side in OURS:
                rows[-1].append(_mean([verdict.ratio for verdict in verdicts[side]]))
            both = [verdict.ratio for item in here if (verdict := item.allocating("torch"))]
            rows[-1].append(_mean(both))
            words = [verdict.word for side in OURS for verdict in verdicts[side]]
            counts = [str(words.count(name)) for name in ("aim", "least", "behind")]
            rows[-1].append(" / ".join(counts))
    header = ["", "threads", "cases", "torch op", "in ONNX Runtime", "both allocating"]
    return table([*header, "aim / least / behind"], rows)


def _mean(ratios: Sequence[float]) -> str:
    """The geometric mean, with the lowest ratio in brackets."""
    if not ratios:
        return "-"
    mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    return f"{mean:.2f}x ({min(ratios):.2f})"


def _questions(document: Document) -> str:
    """How many rows of each section have a limit, and which exceed it."""
    rows = []
    for section in document.also:
        limited = [row for row in section.rows if row.limit is not None]
        missed = [
            f"{row.name}, {row.threads} thread{'s' * (row.threads > 1)}: {row.value:.2f} {row.unit}"
            f", {row.sense} {row.limit:g}"
            for row in limited
            if row.word == "missed"
        ]
        kept = f"{len(limited) - len(missed)} of {len(limited)}" if limited else "no limit"
        rows.append([section.title, kept, "; ".join(missed) or "-"])
    return table(["question", "within the limit", "not within it"], rows)


def _random(document: Document) -> str:
    found = summaries(document.random)
    return table(text.RANDOM, [text.random_row(summary) for summary in found])
