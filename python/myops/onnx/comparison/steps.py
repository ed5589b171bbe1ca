"""The parts of `compare`: inputs for ONNX Runtime, verdicts, the optimised model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from myops.onnx.comparison import fresh
from myops.onnx.comparison.first_mismatch import SearchContext, find, owner
from myops.onnx.comparison.graph import Graph
from myops.onnx.comparison.metrics import (
    Tolerance,
    agrees_transposed,
    coarser,
    difference,
)
from myops.onnx.comparison.ort_side import LEVELS, Runner
from myops.onnx.comparison.pairing import Pair
from myops.onnx.comparison.propagation import settle
from myops.onnx.comparison.result import FirstMismatch, Value
from myops.onnx.comparison.ties import Ties
from myops.onnx.comparison.torch_side import Tensor
from myops.onnx.graph.structure import reads

_MOST_SEARCHES = 8


def feeds(graph: Graph, inputs: Mapping[str, Tensor]) -> tuple[dict[str, np.ndarray], list[str]]:
    """PyTorch's inputs for the inputs of the graph, matched by name, otherwise in order.

    Returns:
        The arrays, and notes about inputs that the graph does not have.
    """
    names = [item.name for item in graph.inputs]
    notes: list[str] = []
    if set(names) <= set(inputs):
        chosen = {name: inputs[name] for name in names}
        left = [name for name, item in inputs.items() if name not in chosen and not item.number]
        if left:
            notes.append(
                f"The file has no input {', '.join(map(repr, left))}: its value at export time is "
                "part of the file, unless the model does not use it."
            )
    else:
        tensors = [item for item in inputs.values() if not item.number]
        given = tensors if len(tensors) == len(names) else list(inputs.values())
        if len(given) != len(names):
            raise ValueError(
                f"compare: the file has the inputs {', '.join(names) or 'none'}, but the example "
                f"inputs of the model are {', '.join(inputs) or 'none'}. Give the inputs that it "
                "was exported with"
            )
        chosen = dict(zip(names, given, strict=True))
    for item in graph.inputs:
        dims = item.type.tensor_type.shape.dim if item.type.tensor_type.HasField("shape") else None
        array = chosen[item.name].array
        if dims is not None and (
            len(dims) != array.ndim
            or any(
                dim.HasField("dim_value") and dim.dim_value != length
                for dim, length in zip(dims, array.shape, strict=True)
            )
        ):
            stated = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in dims]
            raise ValueError(
                f"compare: input {item.name!r}: got an example of shape {list(array.shape)}, the "
                f"file expects {stated}"
            )
    return {name: tensor.array for name, tensor in chosen.items()}, notes


def stopped(
    context: SearchContext, values: Sequence[Value], place: int, reason: str
) -> FirstMismatch:
    """The first mismatch if ONNX Runtime stops at a node and everything before it agrees."""
    graph = context.graph
    trusted = {item.name for item in values if item.status in ("ok", "order")}
    before = {p for name in reads(graph.nodes[place]) for p in graph.between(name, trusted)[0]
              if name not in trusted}  # fmt: skip
    places = sorted({*before, place})
    made = next((name for name in graph.nodes[place].output if name), "")
    labels = [graph.label(p) for p in places]
    mismatch = FirstMismatch(
        "stops", *owner(context, places), made, labels[-1:], labels, [reason.strip()]
    )
    for node, words in fresh.changes(context, mismatch, places):
        mismatch.evidence.append(f"{graph.label(node)}: {words}.")
        mismatch.nodes = [graph.label(node)]
    return mismatch


def value(graph: Graph, pair: Pair, results: Mapping[str, Any], tolerance: Tolerance) -> Value:
    """One row of the report."""
    expected, got = pair.tensor.array, results[pair.name]
    if not isinstance(got, np.ndarray):
        raise ValueError(f"compare: output {pair.name!r} of the file: {got}")
    bounds = tolerance.of(expected, coarser(pair.tensor.dtype, str(got.dtype)))
    inner = pair.name not in graph.outputs
    detail, found, transposed = "", None, False
    if expected.shape == got.shape:
        found = difference(expected, got, *bounds)
    elif inner and expected.size == got.size and expected.size:
        flat = difference(expected.ravel(), got.ravel(), *bounds)
        if flat.agrees:
            found, detail = flat, "the same elements in another shape"
    if found is None:
        detail = f"shape {list(got.shape)}, in PyTorch {list(expected.shape)}"
    elif not found.agrees:
        detail = f"{found.wrong} of {found.size} elements"
    if inner and (found is None or not found.agrees):
        transposed = agrees_transposed(expected, got, *bounds)
    place = graph.depth(pair.name)
    return Value(
        path=pair.path,
        call=pair.call,
        kind=pair.kind,
        role=pair.role,
        place=pair.place,
        fused=pair.fused,
        name=pair.name,
        node=graph.label(place) if place >= 0 else "",
        depth=place,
        shape=expected.shape,
        dtype=pair.tensor.dtype,
        onnx_shape=got.shape,
        onnx_dtype=str(got.dtype),
        difference=found,
        status="ok" if found is not None and found.agrees else "fail",
        detail=detail,
        expected=expected,
        got=got,
        transposed=transposed,
    )


def mark_ties(ties: Ties, values: Sequence[Value]) -> None:
    """Finds the differences that are only another order."""
    agreeing = [v.name for v in values if v.status == "ok"]
    for item in values:
        if item.status == "fail" and item.difference is not None:
            why = ties.of_indices(item.name, item.expected, item.got)
            why = why or ties.of_rows(item.name, item.expected, item.got, agreeing)
            if why:
                item.status, item.detail = "order", why


def search(
    context: SearchContext, values: Sequence[Value], say: Callable[[str], None]
) -> tuple[FirstMismatch | None, list[str]]:
    """The first mismatch, and the values at which differences start.

    A difference that follows from a choice among equal values does not count, and one that is only
    due to rounding is returned only if there is no other.
    """
    mismatch: FirstMismatch | None = None
    starts = settle(context.graph, values)
    seen: set[str] = set()
    while starts and len(seen) < _MOST_SEARCHES:
        name = next((start for start in starts if start not in seen), None)
        if name is None:
            break
        say(f"searching {len(seen) + 1}")
        seen.add(name)
        found = find(context, values, name)
        if found.cause == "order":
            for item in values:
                if item.name == name and item.status == "fail":
                    item.status, item.detail = "order", found.evidence[-1]
            starts = settle(context.graph, values)
            continue
        if mismatch is None or found.cause != "rounding":
            mismatch = found
        if found.cause != "rounding":
            break
    return mismatch, starts


def follow(values: Sequence[Value], outputs: Sequence[Value]) -> None:
    """Optimised outputs that are equal to the others get the status "order" where the others have
    it."""
    known = {item.name: item for item in values if not item.path and item.status == "order"}
    for item in outputs:
        counterpart = known.get(item.name)
        if (
            item.status == "fail"
            and counterpart is not None
            and item.got.shape == counterpart.got.shape
        ):
            bounds = item.difference
            if bounds and difference(counterpart.got, item.got, bounds.rtol, bounds.atol).agrees:
                item.status, item.detail = "order", counterpart.detail


def optimised(
    graph: Graph,
    runner: Runner,
    model: onnx.ModelProto,
    inputs: Mapping[str, np.ndarray],
    pairs: Sequence[Pair],
    tolerance: Tolerance,
    level: str = "all",
) -> list[Value]:
    """The outputs of the unchanged model, with optimisations."""
    results = runner.run(model, inputs, level=level)
    mine = [pair for pair in pairs if not pair.path and pair.name in results]
    return [value(graph, pair, results, tolerance) for pair in mine]


def optimiser(
    context: SearchContext, model: onnx.ModelProto, outputs: Sequence[Value], pairs: Sequence[Pair]
) -> FirstMismatch:
    """The first mismatch if only the optimised model differs, with the lowest level that
    differs."""
    first = LEVELS[-1]
    for level in LEVELS[1:]:
        found = optimised(
            context.graph, context.runner, model, context.feeds, pairs, context.tolerance, level
        )
        mark_ties(context.ties, found)
        if any(item.status == "fail" for item in found):
            first = level
            break
    failed = next(item for item in outputs if item.status == "fail")
    text = (
        "All values agree without ONNX Runtime's optimisations. The outputs differ with the level "
        f"{first!r}. SessionOptions.graph_optimization_level sets it."
    )
    return FirstMismatch("optimiser", "", 0, failed.kind, failed.name, [], [], [text])
