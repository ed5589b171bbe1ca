"""Pairs the values of two runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from myops.onnx.comparison.graph import Graph
from myops.onnx.comparison.metrics import ArrayDifference, Tolerance, coarser, difference
from myops.onnx.graph.structure import label
from myops.onnx.two_files.matching import NAME, REPLACED, SAME, Match
from myops.onnx.two_files.result import FileValue
from myops.onnx.two_files.tracing import Trace

NUMBERS = "numbers"
_PROBE = 16  # elements that are compared before all are
_MOST_TRIED = 64  # values of equal shape that are tried as partners of one value


def compared(
    name: str, other: str, paired: str, expected: np.ndarray, got: np.ndarray, tolerance: Tolerance
) -> FileValue:
    """One row, without its place in the graph."""
    found, detail = differs(expected, got, tolerance), ""
    if found is None:
        detail = f"shape {list(got.shape)}, in the first {list(expected.shape)}"
    elif not found.agrees:
        detail = f"{found.wrong} of {found.size} elements"
    ok = found is not None and found.agrees
    return FileValue(
        path="", call=0, kind=f"paired by {paired}", role="value", place="", fused="", name=name,
        node="", depth=-1,
        shape=expected.shape, dtype=str(expected.dtype), onnx_shape=got.shape,
        onnx_dtype=str(got.dtype), difference=found, status="ok" if ok else "fail", detail=detail,
        expected=expected, got=got, other=other, paired=paired,
    )  # fmt: skip


def differs(expected: np.ndarray, got: Any, tolerance: Tolerance) -> ArrayDifference | None:
    """The difference of two arrays; None if their shapes differ. Texts are equal or not."""
    if not isinstance(got, np.ndarray) or expected.shape != got.shape:
        return None
    if expected.dtype.kind not in "biufc" or got.dtype.kind not in "biufc":
        apart = np.asarray(expected.astype(object) != got.astype(object), np.float64)
        return difference(np.zeros(apart.shape), apart, 0.0, 0.0)
    bounds = tolerance.of(expected, coarser(str(expected.dtype), str(got.dtype)))
    return difference(expected, got, *bounds)


def of_main_graph(
    match: Match, graphs: tuple[Graph, Graph], traces: tuple[Trace, Trace], tolerance: Tolerance
) -> list[FileValue]:
    """The values of the main graphs, in the order of the first."""
    first, second = (found.values for found in traces)
    outputs = set(graphs[0].outputs)
    wanted = {*graphs[0].producers, *outputs}
    pairs = {name: pair for name, pair in match.values.items() if name in wanted}
    rows: dict[str, FileValue] = {}
    for name, (other, how) in pairs.items():
        expected, got = first.get(name), second.get(other)
        if not isinstance(expected, np.ndarray) or not isinstance(got, np.ndarray):
            continue
        row = compared(name, other, how, expected, got, tolerance)
        if how in (NAME, REPLACED) and name not in outputs and _unlike(expected, got):
            continue  # equal names are not enough for values of different shapes
        rows[name] = row
    for row in _by_numbers(graphs, (first, second), rows, tolerance):
        rows[row.name] = row
    for name, row in rows.items():
        row.depth = graphs[0].depth(name)
        row.node = graphs[0].label(row.depth) if row.depth >= 0 else ""
        row.role = "output" if name in outputs else "value"
    return sorted(rows.values(), key=lambda row: row.depth)


def _unlike(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape != other.shape or (one.dtype.kind in "fc") != (other.dtype.kind in "fc")


def _by_numbers(
    graphs: tuple[Graph, Graph], values: tuple[Any, Any],
    rows: dict[str, FileValue], tolerance: Tolerance,
) -> Iterator[FileValue]:  # fmt: skip
    """Pairs values by their numbers, if they have no partner or one that certainly differs.

    In this way a convolution into which a normalisation was folded is compared with the
    normalisation.
    """
    weak = [row for row in rows.values() if row.status == "fail" and row.paired != SAME
            and row.name not in graphs[0].outputs]  # fmt: skip
    partners = {row.other for row in rows.values()} - {row.other for row in weak}
    settled = set(rows) - {row.name for row in weak}
    pools: list[dict[Any, list[str]]] = []
    for graph, arrays, used in zip(graphs, values, (settled, partners), strict=True):
        pool: dict[Any, list[str]] = defaultdict(list)
        for name in graph.producers:
            array = arrays.get(name)
            if name not in used and name not in graph.constants and _telling(array):
                pool[array.shape, array.dtype.kind].append(name)
        pools.append(pool)
    taken: dict[str, str] = {}
    for key, names in pools[0].items():
        candidates = pools[1].get(key, [])[:_MOST_TRIED]
        for name in names[:_MOST_TRIED]:
            fits = [other for other in candidates if _agree(values, name, other, tolerance)]
            if len(fits) == 1 and fits[0] not in taken.values():
                taken[name] = fits[0]
    for row in weak:
        if row.other in taken.values() or row.name in taken:
            del rows[row.name]
    for name, other in taken.items():
        yield compared(name, other, NUMBERS, values[0][name], values[1][other], tolerance)


def _telling(array: Any) -> bool:
    """Whether equality is significant: there are several numbers, and they are not all equal."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fc" or array.size < 4:
        return False
    return bool(np.isfinite(array).all() and array.min() != array.max())


def _agree(values: Sequence[Any], name: str, other: str, tolerance: Tolerance) -> bool:
    one, two = values[0][name], values[1][other]
    rtol, atol = tolerance.of(one, coarser(str(one.dtype), str(two.dtype)))
    few = slice(None, None, max(1, one.size // _PROBE))  # most pairs differ there already
    if not np.allclose(two.ravel()[few], one.ravel()[few], rtol=rtol, atol=atol):
        return False
    found = differs(one, two, tolerance)
    return found is not None and found.agrees


def of_bodies(
    matches: Sequence[Match], traces: tuple[Trace, Trace], tolerance: Tolerance
) -> tuple[list[FileValue], list[str]]:
    """The values inside If, Loop and Scan: for each, the run of its body that differs most.

    Returns:
        The rows, in the order of the data flow, and notes on values that could not be compared.
    """
    sides = [_by_body(found) for found in traces]
    rows: list[FileValue] = []
    notes: list[str] = []
    for match in matches:
        if not match.path:
            continue
        paths = [tuple((step[side], step[2]) for step in match.path) for side in (0, 1)]
        one, two = sides[0].get(paths[0], {}), sides[1].get(paths[1], {})
        ran = [{step for steps in side.values() for step in steps} for side in (one, two)]
        if ran[0] != ran[1]:
            where = " > ".join(match.where)
            notes.append(
                f"The body of {where} ran {len(ran[0])} times in the first and {len(ran[1])} "
                "times in the second."
            )
        for name, (other, how) in match.values.items():
            both = one.get(name, {}).keys() & two.get(other, {}).keys()
            if name not in match.first.makers or name in match.first.constants or not both:
                continue
            found = [
                (step, compared(name, other, how, one[name][step], two[other][step], tolerance))
                for step in sorted(both)
            ]
            step, row = next((item for item in found if item[1].status == "fail"), found[0])
            if row.status == "fail" and any(step):
                row.detail += f"; first in iteration {', '.join(str(i + 1) for i in step)}"
            row.where, row.iterations, row.depth = match.where, len(found), match.path[0][0]
            # In the order of a run: before the outputs of the node around it.
            places = [place for place, _, _ in match.path]
            row.order = (*step, *places, match.first.makers[name], math.inf)
            row.node = label(match.first.nodes[match.first.makers[name]])
            rows.append(row)
    return rows, notes


def _by_body(found: Trace) -> Mapping[Any, Mapping[str, Mapping[tuple[int, ...], np.ndarray]]]:
    sorted_: dict[Any, dict[str, dict[tuple[int, ...], np.ndarray]]] = {}
    for (path, steps, name), array in found.inner.items():
        sorted_.setdefault(path, {}).setdefault(name, {})[steps] = array
    return sorted_
