"""Finds where the difference between two files starts, and where it begins to change the
outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from myops.onnx.comparison.graph import Graph
from myops.onnx.comparison.metrics import Tolerance
from myops.onnx.comparison.propagation import settle
from myops.onnx.comparison.ties import Ties
from myops.onnx.two_files import diffing
from myops.onnx.two_files.backends import Backend
from myops.onnx.two_files.matching import Match
from myops.onnx.two_files.result import FileValue, FirstFileMismatch
from myops.onnx.two_files.rows import differs
from myops.onnx.two_files.tracing import Trace

_MOST_SEARCHES = 8
_MOST_JUDGED = 300  # values for which the search finds out whether their difference arises there


@dataclass
class Pairing:
    """The data of the search; in each pair, the first file's item comes first.

    Attributes:
        match: The pairs of the main graphs.
        rows: The values of the main graphs that were compared, in the order of the first.
        inner: The values in bodies that were compared.
        inputs: Names of inputs, first to second.
    """

    match: Match
    graphs: tuple[Graph, Graph]
    backends: tuple[Backend, Backend]
    traces: tuple[Trace, Trace]
    tolerance: Tolerance
    rows: Sequence[FileValue]
    inner: Sequence[FileValue]
    inputs: Mapping[str, str]


def mark_ties(found: Pairing) -> None:
    """Marks differences that are only a choice among equal values."""
    graph, trace = found.graphs[1], found.traces[1]
    ties = Ties(graph, trace.values, found.tolerance)
    agreeing = [row.other for row in found.rows if row.status == "ok"]
    for row in found.rows:
        if row.status == "fail" and row.difference is not None:
            why = ties.of_indices(row.other, row.expected, row.got)
            why = why or ties.of_rows(row.other, row.expected, row.got, agreeing)
            if why:
                row.status, row.detail = "order", why


def first_difference(found: Pairing) -> tuple[FirstFileMismatch | None, list[str]]:
    """The first mismatch, and all values at which differences arise.

    A difference that follows from a choice among equal values does not count; an inherited one is
    named only if no difference arises anywhere.
    """
    mismatch: FirstFileMismatch | None = None
    seen: set[str] = set()
    starts = settle(found.graphs[0], found.rows, deep=True)
    while len(seen) < _MOST_SEARCHES:
        name = next((start for start in starts if start not in seen), None)
        if name is None:
            break
        seen.add(name)
        judged = _judge(found, next(row for row in found.rows if row.name == name))
        if judged.cause != "order":
            mismatch = mismatch or judged
            continue
        for row in found.rows:
            if row.name == name:
                row.status, row.detail = "order", judged.evidence[-1]
        starts = settle(found.graphs[0], found.rows, deep=True)
    failing = [row for row in found.rows if row.status == "fail"]
    arising = []
    for row in failing[:_MOST_JUDGED]:
        judged = _judge(found, row, found.rows)
        row.origin = "inherited" if judged.cause in ("rounding", "order") else "arises"
        if row.origin == "arises":
            arising.append(row.name)
            if mismatch is None or mismatch.cause == "rounding":
                mismatch = judged
    return mismatch, arising


def _judge(
    found: Pairing, row: FileValue, trusted: Sequence[FileValue] | None = None
) -> FirstFileMismatch:
    """Runs the nodes before a value of the second file on the values of the first: a difference
    that remains arises in these nodes, otherwise it is inherited.

    Args:
        trusted: Values that are taken from the first file. Default: those that agree.
    """
    one, two = found.graphs
    if trusted is None:
        trusted = [item for item in found.rows if item.status in ("ok", "order")]
    mine = {item.name: item for item in trusted if item.name != row.name}
    theirs = {item.other: item for item in mine.values()}
    places, ends = one.between(row.name, mine)
    other_places, other_ends = two.between(row.other, theirs)
    mismatch = FirstFileMismatch(
        "nodes", row.name, row.other, [one.label(place) for place in places],
        [two.label(place) for place in other_places], [], ends,
    )  # fmt: skip
    feeds = found.traces[1].values
    arrays = {end: theirs[end].expected if end in theirs else feeds.get(end) for end in other_ends}
    mismatch.alone, reason = _alone(found, row, other_places, arrays)
    if reason:
        mismatch.evidence.append(f"From the values of the first, the nodes of the second: {reason}")
    elif mismatch.alone is not None and mismatch.alone.agrees:
        chosen = [item.name for item in mine.values()
                  if item.status == "order" and item.other in other_ends]  # fmt: skip
        if chosen:
            mismatch.cause = "order"
            listed = ", ".join(map(repr, chosen))
            mismatch.evidence.append(
                f"follows from a choice among equal values: given {listed} of the first, it agrees"
            )
        else:
            mismatch.cause = "rounding"
            mismatch.evidence.append(
                "From the values of the first file, the nodes of the second agree: what differs "
                "is inherited from the values before. Look at the table, or allow more with rtol."
            )
        return mismatch
    _explain(found, mismatch, places, other_places)
    return mismatch


def _alone(
    found: Pairing, row: FileValue, places: Sequence[int], arrays: Mapping[str, Any]
) -> tuple[Any, str]:
    """The difference if nodes of the second file get these arrays, or the reason why there is
    none."""
    lost = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
    if lost:
        return None, f"no numbers of {', '.join(map(repr, lost))}."
    model = found.graphs[1].submodel(places, list(arrays), [row.other], arrays)
    try:
        got = found.backends[1].opened(model, [row.other])(arrays)[row.other]
    except (RuntimeError, ValueError) as error:
        return None, str(error)
    return differs(row.expected, got, found.tolerance), ""


def _explain(
    found: Pairing, mismatch: FirstFileMismatch, places: Sequence[int], other_places: Sequence[int]
) -> None:
    """Adds the differences between these nodes, or says that there are none."""
    changed = [text for place in places for text in diffing.node_changes(found.match, place)]
    alike = {place: pair[0] for place, pair in found.match.nodes.items()}
    unpaired = [p for p in places if p not in alike]
    unpaired_there = set(other_places) - {alike.get(place) for place in places}
    mismatch.evidence += changed
    inside = [row for row in found.inner if row.depth in places and row.status == "fail"]
    inner = min(inside, key=lambda row: row.order, default=None)
    if inner is not None:
        mismatch.evidence.append(
            f"Inside, the first value that differs is {inner.title}, which {inner.node} makes: "
            f"{inner.detail}."
        )
    if not changed and not unpaired and not unpaired_there and inner is None:
        sides = [backend.name for backend in found.backends]
        if sides[0] != sides[1]:
            mismatch.cause = "backends"
    elif not changed and len(places) + len(other_places) > 2 and inner is None:
        mismatch.evidence.append(
            f"{len(places)} nodes of the first stand against {len(other_places)} of the second."
        )


def begins(found: Pairing) -> FirstFileMismatch | None:
    """The bisection: the smallest cut at which the outputs begin to differ.

    At a cut, the second file computes the values before it, and the first file everything that
    follows from them. A cut before the first value gives the first file, a cut after the last value
    the second. In between, the outputs begin to differ at a value of the second file that changes
    them, whatever differs elsewhere.

    Returns:
        The first value after the smallest such cut; None if the outputs agree.
    """
    rows = [row for row in found.rows if isinstance(row.got, np.ndarray)]
    failing = [row for row in rows if row.role == "output" and row.status == "fail"]
    if not failing:
        return None
    low, high = 0, len(rows)  # with the first `low` of the second the outputs agree
    while high - low > 1:
        middle = (low + high) // 2
        if _differs_from(found, rows[:middle], failing):
            high = middle
        else:
            low = middle
    return _judge(found, rows[high - 1], rows[: high - 1])


def _differs_from(
    found: Pairing, before: Sequence[FileValue], outputs: Sequence[FileValue]
) -> bool:
    """Whether the first file has other outputs if it gets these values of the second."""
    graph = found.graphs[0]
    put = {row.name: row.got for row in before}
    if any(row.name in put and row.status == "fail" for row in outputs):
        return True
    wanted = [row for row in outputs if row.name not in put]
    cuts = [graph.between(row.name, put) for row in wanted]
    places = sorted({place for some, _ in cuts for place in some})
    ends = list(dict.fromkeys(end for _, some in cuts for end in some))
    known = found.traces[0].values
    arrays: dict[str, Any] = {end: put[end] if end in put else known.get(end) for end in ends}
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        return False  # a value that is no tensor: the first file computes it
    names = [row.name for row in wanted]
    model = graph.submodel(places, ends, names, arrays)
    try:
        results = found.backends[0].opened(model, names)(arrays)
    except (RuntimeError, ValueError):
        return True  # values of another shape, with which the first file cannot continue
    for row in wanted:
        apart = differs(row.expected, results[row.name], found.tolerance)
        if apart is None or not apart.agrees:
            return True
    return False
