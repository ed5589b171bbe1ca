"""Finds the first module whose results differ, and the node inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from myops.onnx.comparison import fresh, torch_side
from myops.onnx.comparison.graph import Graph
from myops.onnx.comparison.metrics import ArrayDifference, Tolerance, coarser, difference
from myops.onnx.comparison.ort_side import RunError, Runner
from myops.onnx.comparison.result import FirstMismatch, Value
from myops.onnx.comparison.ties import Ties
from myops.onnx.comparison.torch_side import Recording
from myops.onnx.module_paths import Region

_REFERENCE_LIMIT = 4_000_000  # elements; onnx.reference is slow
_SLOW_LIMIT = 2_000  # for operators that it computes element by element
_SLOW = ("DeformConv", "GridSample", "Resize", "RoiAlign", "NonMaxSuppression", "MaxPool")


@dataclass
class SearchContext:
    """The data of the search."""

    model: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    run: Recording
    graph: Graph
    regions: Sequence[Region]
    feeds: Mapping[str, np.ndarray]
    runner: Runner
    tolerance: Tolerance
    ties: Ties
    exporter: str
    export_again: bool


def find(context: SearchContext, values: Sequence[Value], name: str) -> FirstMismatch:
    """The first mismatch of the value at which a difference starts."""
    graph = context.graph
    value = next(v for v in values if v.name == name and v.status == "fail")
    trusted = {v.name: v.expected for v in values if v.status in ("ok", "order")}
    for wrong in [v for v in values if v.status not in ("ok", "order")]:
        trusted.pop(wrong.name, None)
    places, ends = graph.between(name, trusted)
    arrays = {end: context.feeds.get(end, trusted.get(end)) for end in ends}
    module = owner(context, places)
    labels = [graph.label(place) for place in places]
    mismatch = FirstMismatch(
        "nodes", *module, name, labels, labels, [], inputs=ends, expected=value.expected
    )
    if value.role == "output" and value.path == mismatch.path:
        mismatch.fused = value.fused
    missing = [end for end, array in arrays.items() if array is None]
    if missing:
        mismatch.evidence.append(f"inputs without a counterpart in PyTorch: {', '.join(missing)}")
        return mismatch
    mismatch.arrays = {end: array for end, array in arrays.items() if array is not None}
    mismatch.submodel = graph.submodel(places, ends, [name], mismatch.arrays)
    inner = [out for place in places for out in graph.nodes[place].output if out]
    try:
        results = context.runner.run(mismatch.submodel, mismatch.arrays, [name, *inner])
    except RunError as error:
        mismatch.evidence.append(f"Given PyTorch's inputs: {error}")
        return mismatch
    mismatch.alone = _difference(value.expected, value.dtype, results[name], context.tolerance)
    if mismatch.alone is not None and mismatch.alone.agrees:
        chosen = [v for v in values if v.name in ends and v.status == "order"]
        if chosen:
            _follows(mismatch, [v.name for v in chosen])
            return mismatch
        mismatch.cause, mismatch.nodes = "rounding", []
        mismatch.evidence.append(
            "Given PyTorch's own inputs, these nodes agree: the difference has grown over the "
            "modules before. Look at the plot, or allow more with rtol."
        )
        return mismatch
    made = _operators(context, mismatch) if len(places) > 1 else []
    near = context.ties.near(places)
    choices = context.ties.choices(places, made) if near else {}
    if choices and _agrees_with(context, value, choices, trusted):
        _follows(mismatch, list(choices))
        return mismatch
    if near:
        mismatch.evidence.append(f"{near[0]} had to choose among equal values.")
    places = _narrowed(context, mismatch, places, results, made)
    _judge(context, mismatch, places, results)
    if near and mismatch.cause == "nodes":
        mismatch.cause = "tie"
    return mismatch


def _follows(mismatch: FirstMismatch, names: Sequence[str]) -> None:
    mismatch.cause, mismatch.nodes = "order", []
    listed = ", ".join(map(repr, names))
    mismatch.evidence.append(
        f"follows from a choice among equal values: given PyTorch's {listed}, it agrees"
    )


def _agrees_with(
    context: SearchContext,
    value: Value,
    choices: Mapping[str, np.ndarray],
    trusted: Mapping[str, np.ndarray],
) -> bool:
    """Whether the value agrees with PyTorch's if PyTorch's choices among equal values are used."""
    known = {**trusted, **choices}
    places, ends = context.graph.between(value.name, known)
    arrays = {end: known[end] if end in known else context.feeds.get(end) for end in ends}
    given = {end: array for end, array in arrays.items() if array is not None}
    if len(given) < len(ends):
        return False
    model = context.graph.submodel(places, ends, [value.name], given)
    got = context.runner.run(model, given, [value.name])[value.name]
    found = _difference(value.expected, value.dtype, got, context.tolerance)
    return found is not None and found.agrees


def owner(context: SearchContext, places: Sequence[int]) -> tuple[str, int, str]:
    """The innermost module that contains all of these nodes."""
    inside = [r for r in context.regions if set(places) <= set(r.nodes) and r.path]
    if inside:
        region = min(inside, key=lambda r: (len(r.nodes), -len(r.path)))
        call = context.run.find(region.path, region.call)
        return region.path, region.call, call.kind if call else "?"
    return "", 0, context.run.calls[0].kind


def _difference(
    expected: np.ndarray, dtype: str, got: Any, tolerance: Tolerance
) -> ArrayDifference | None:
    if not isinstance(got, np.ndarray) or got.shape != expected.shape:
        return None
    bounds = tolerance.of(expected, coarser(dtype, str(got.dtype)))
    return difference(expected, got, *bounds)


def _operators(context: SearchContext, mismatch: FirstMismatch) -> list[np.ndarray]:
    """The results of PyTorch's operators in the module that differs first."""
    try:
        made = torch_side.record_operators(
            context.model, context.args, context.kwargs, mismatch.path, mismatch.call
        )
    except Exception as error:  # a model that runs may fail while it is observed
        mismatch.evidence.append(f"The operators of PyTorch could not be observed: {error}")
        return []
    return [array for _, array in made]


def _narrowed(
    context: SearchContext,
    mismatch: FirstMismatch,
    places: list[int],
    results: Mapping[str, Any],
    made: Sequence[np.ndarray],
) -> list[int]:
    """The nodes after the last inner values that agree with a result of an operator of PyTorch."""
    by_shape: dict[tuple[int, ...], list[np.ndarray]] = {}
    for array in made:
        by_shape.setdefault(_plain_shape(array), []).append(array)
    good = set()
    for name, got in results.items():
        if name == mismatch.value or not isinstance(got, np.ndarray) or got.size < 2:
            continue
        for array in by_shape.get(_plain_shape(got), []):
            found = _difference(array.reshape(got.shape), str(array.dtype), got, context.tolerance)
            same_kind = (array.dtype.kind in "fc") == (got.dtype.kind in "fc")
            if same_kind and found is not None and found.agrees:
                good.add(name)
                break
    if good:
        places, _ = context.graph.between(mismatch.value, {*good, *mismatch.inputs})
        mismatch.evidence.append(
            f"{len(good)} values inside agree with results of PyTorch's operators; "
            f"{len(places)} of {len(mismatch.suspects)} nodes come after them."
        )
    return places


def _plain_shape(array: np.ndarray) -> tuple[int, ...]:
    return tuple(length for length in array.shape if length != 1)


def _judge(
    context: SearchContext, mismatch: FirstMismatch, places: list[int], results: Mapping[str, Any]
) -> None:
    graph = context.graph
    mismatch.nodes = [graph.label(place) for place in places]
    mismatch.cause = "node" if len(places) == 1 else "nodes"
    changed = list(fresh.changes(context, mismatch, places)) if context.export_again else []
    for place, words in changed:
        mismatch.evidence.append(f"{graph.label(place)}: {words}.")
    if changed:
        mismatch.cause = "node"
        mismatch.nodes = list(dict.fromkeys(graph.label(place) for place, _ in changed))
        return
    known = {**results, **mismatch.arrays}
    checked = 0
    for place in places:
        found = _against_reference(context, place, known)
        if found is None:
            continue
        checked += 1
        if not found.agrees:
            mismatch.cause, mismatch.nodes = "kernel", [graph.label(place)]
            mismatch.evidence.append(
                f"ONNX Runtime computes {graph.label(place)} otherwise than onnx.reference, by up "
                f"to {found.max_abs:.3g}."
            )
            return
    if checked == len(places):
        one = "this node" if checked == 1 else "these nodes"
        mismatch.evidence.append(
            f"ONNX Runtime computes {one} as onnx.reference does: the file says something else "
            "than PyTorch does."
        )


def _against_reference(
    context: SearchContext, place: int, known: Mapping[str, Any]
) -> ArrayDifference | None:
    """The difference of ONNX Runtime's result of a node from that of onnx.reference; None:
    unknown."""
    from onnx.reference import ReferenceEvaluator

    node = context.graph.nodes[place]
    names = [name for name in node.input if name and name not in context.graph.constants]
    outputs = [name for name in node.output if isinstance(known.get(name), np.ndarray)]
    arrays = {name: known.get(name) for name in names}
    if not outputs or any(not isinstance(array, np.ndarray) for array in arrays.values()):
        return None
    limit = _SLOW_LIMIT if node.op_type in _SLOW else _REFERENCE_LIMIT
    if sum(known[name].size for name in (*names, *outputs)) > limit:
        return None
    single = context.graph.submodel([place], names, outputs, known)
    try:
        found = ReferenceEvaluator(single).run(outputs, arrays)
    except Exception:  # onnx.reference cannot run every node
        return None
    worst = None
    for name, expected in zip(outputs, found, strict=True):
        compared = _difference(expected, str(known[name].dtype), known[name], context.tolerance)
        if compared is not None and (worst is None or compared.wrong > worst.wrong):
            worst = compared
    return worst
