"""Finds the PyTorch tensor for a value of the graph, by the path of the module around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from myops.onnx import module_paths
from myops.onnx.comparison.graph import Graph
from myops.onnx.comparison.metrics import Tolerance, coarser, difference
from myops.onnx.comparison.torch_side import ModuleCall, Recording, Tensor
from myops.onnx.graph import scopes
from myops.onnx.module_paths import Region

Values = Mapping[str, Any]  # arrays by name; a string gives the reason why there is none


@dataclass(frozen=True, eq=False)
class Pair:
    """A value of the graph and the tensor of PyTorch that it should equal.

    role: "output" or "input" of the module.
    place: Which output or input, such as "[0]"; "" for the only one.
    fused: Path of a module that is part of the same node.
    """

    name: str
    tensor: Tensor
    path: str
    call: int
    kind: str
    role: str
    place: str
    fused: str = ""


@dataclass(frozen=True)
class UnmatchedCall:
    """A call of a module without values that can be compared, and the reason."""

    path: str
    call: int
    kind: str
    reason: str


def pair_all(
    graph: Graph,
    regions: Sequence[Region],
    run: Recording,
    values: Values,
    tolerance: Tolerance,
    outputs: Sequence[Pair],
) -> tuple[list[Pair], list[UnmatchedCall]]:
    """All pairs, outputs of the model first, and the calls without any."""
    calls = {(call.path, call.call): call for call in run.calls}
    counts: dict[str, int] = {}
    regions = [region for region in regions if not _lengths_only(graph, region, calls, values)]
    for region in regions:
        counts[region.path] = counts.get(region.path, 0) + 1
    made = {path: _different(run, path) for path in counts}
    pairs = list(outputs)
    matched = {("", 0)}
    for region in regions:
        call = calls.get((region.path, region.call))
        if not region.path or call is None or counts[region.path] != made[region.path]:
            continue
        for name, tensor in pair_up(graph.leaving(region), call.outputs, values, tolerance):
            after = _fused_after(tensor, name, run, counts, values, tolerance)
            other = after or _fused_before(call, run, counts)
            kept, where = (after.outputs[0], "") if after else (tensor, tensor.place)
            matched |= {(other.path, other.call)} if other else set()
            title = other.path if other else ""
            pairs.append(Pair(name, kept, call.path, call.call, call.kind, "output", where, title))
    known = {pair.name for pair in pairs}
    for region in regions:
        call = calls.get((region.path, region.call))
        if not region.path or call is None or counts[region.path] != made[region.path]:
            continue
        for name, tensor in pair_up(region.inputs, call.inputs, values, tolerance):
            if name not in known and name in graph.producers:
                known.add(name)
                at = (call.path, call.call, call.kind, "input", tensor.place)
                pairs.append(Pair(name, tensor, *at))
    matched |= {(pair.path, pair.call) for pair in pairs}
    missing = [
        UnmatchedCall(c.path, c.call, c.kind, _reason(graph, c, counts, made))
        for c in run.calls
        if (c.path, c.call) not in matched
    ]
    known_paths = {call.path for call in run.calls}
    for path, reason in _nested(graph).items():
        if path not in known_paths:  # calls inside torch.cond cannot be recorded in PyTorch either
            missing.append(UnmatchedCall(path, 0, "", reason))
    return pairs, missing


def _lengths_only(
    graph: Graph,
    region: Region,
    calls: Mapping[tuple[str, int], ModuleCall],
    values: Values,
) -> bool:
    """Whether all that is left of a module is the arithmetic of its lengths, because its own node
    was fused into that of another one, such as a convolution with the normalisation behind it."""
    call = calls.get((region.path, region.call))
    names = graph.leaving(region)
    found = [values.get(name) for name in names]
    numbers = [
        array
        for array in found
        if isinstance(array, np.ndarray) and not array.ndim and array.dtype.kind in "iu"
    ]
    return (
        bool(region.path and names)
        and len(numbers) == len(names)
        and call is not None
        and not any(_alike(item.array, numbers[0]) for item in call.outputs)
    )


def _different(run: Recording, path: str) -> int:
    """The number of calls of a module that an exporter must keep: one, if all had equal inputs and
    results."""
    calls = [call for call in run.calls if call.path == path]
    first = [tensor.array for tensor in (*calls[0].inputs, *calls[0].outputs)] if calls else []
    for call in calls[1:]:
        arrays = [tensor.array for tensor in (*call.inputs, *call.outputs)]
        if len(arrays) != len(first) or not all(map(_identical, first, arrays)):
            return len(calls)
    return min(len(calls), 1)


def _identical(one: np.ndarray, other: np.ndarray) -> bool:
    same = one.shape == other.shape and one.dtype == other.dtype
    return same and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")


def pair_up(
    names: Sequence[str], tensors: Sequence[Tensor], values: Values, tolerance: Tolerance
) -> list[tuple[str, Tensor]]:
    """Pairs values and tensors that belong together.

    A single value and a single tensor are a pair. Among several, those that agree are pairs; of the
    rest, a single value and a single tensor, or the only ones with a shape, are a pair.
    """
    left = [name for name in dict.fromkeys(names) if isinstance(values.get(name), np.ndarray)]
    rest = list({tensor.counterpart: tensor for tensor in tensors}.values())
    if len(left) == len(rest) == 1:
        return [(left[0], rest[0])]
    chosen = []
    for tensor in list(rest):
        for name in left:
            if agree(tensor, values[name], tolerance):
                chosen.append((name, tensor))
                left.remove(name)
                rest.remove(tensor)
                break
    for tensor in rest:
        fitting = [name for name in left if _alike(values[name], tensor.array)]
        rivals = [other for other in rest if _alike(other.array, tensor.array)]
        if len(fitting) == len(rivals) == 1:
            chosen.append((fitting[0], tensor))
    if len(left) == len(rest) == 1 and chosen and left[0] not in [name for name, _ in chosen]:
        chosen.append((left[0], rest[0]))
    return chosen


def agree(tensor: Tensor, array: np.ndarray, tolerance: Tolerance) -> bool:
    if tensor.array.shape != array.shape or tensor.array.dtype.kind not in "fciub":
        return False
    if (tensor.array.dtype.kind in "fc") != (array.dtype.kind in "fc"):
        return False
    bounds = tolerance.of(tensor.array, coarser(tensor.dtype, str(array.dtype)))
    return difference(tensor.array, array, *bounds).agrees


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and (one.dtype.kind in "fc") == (other.dtype.kind in "fc")


def _fused_after(
    tensor: Tensor,
    name: str,
    run: Recording,
    counts: Mapping[str, int],
    values: Values,
    tolerance: Tolerance,
) -> ModuleCall | None:
    """The module after this one, if the exporter fused it into the same node, such as batch
    normalisation into a convolution. Then the value is the output of that module."""
    for other in run.calls:
        if other.path in counts or not any(
            item.counterpart == tensor.counterpart for item in other.inputs
        ):
            continue
        if len(other.outputs) != 1 or other.outputs[0].counterpart == tensor.counterpart:
            continue
        if "BatchNorm" in other.kind:  # before training it hardly changes anything
            nearer = _distance(other.outputs[0], values[name]) <= _distance(tensor, values[name])
            return other if nearer or not agree(tensor, values[name], tolerance) else None
        if agree(tensor, values[name], tolerance):
            return None
        if agree(other.outputs[0], values[name], tolerance):
            return other
    return None


def _distance(tensor: Tensor, array: np.ndarray) -> float:
    if tensor.array.shape != array.shape:
        return float("inf")
    return difference(tensor.array, array, 0.0, 0.0).relative_rms


def _fused_before(call: ModuleCall, run: Recording, counts: Mapping[str, int]) -> ModuleCall | None:
    """The convolution or linear layer before this batch normalisation, if both were fused into the
    same node."""
    if "BatchNorm" not in call.kind:
        return None
    twins = {item.counterpart for item in call.inputs}
    return next(
        (
            other
            for other in run.calls
            if other.path not in counts
            and any(item.counterpart in twins for item in other.outputs)
            and not any(item.counterpart in twins for item in other.inputs)
        ),
        None,
    )


def _nested(graph: Graph) -> dict[str, str]:
    """Modules inside the graphs of nodes, and why they are not compared."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        for inner in scopes.all_nodes([node]):
            if inner is not node:
                for path in module_paths.stack_of(inner) or ():
                    reason = f"inside {node.op_type} {node.name!r}, whose values are not reached"
                    found.setdefault(path, reason)
    return found


def _reason(
    graph: Graph, call: ModuleCall, counts: Mapping[str, int], made: Mapping[str, int]
) -> str:
    if call.path in counts:
        if call.call and made[call.path] == counts[call.path] == 1:
            return "the same as its first call"
        if counts[call.path] != made[call.path]:
            return f"called {made[call.path]} times, {counts[call.path]} times in the graph"
        return "none of its values is in the graph"
    nested = _nested(graph)
    if call.path in nested:
        return nested[call.path]
    twins = {item.counterpart for item in call.inputs}
    if call.outputs and all(
        item.counterpart in twins
        or any(_identical(item.array, given.array) for given in call.inputs)
        for item in call.outputs
    ):
        return "not in the graph: it changes nothing"
    if not call.outputs:
        return "it returns no tensor"
    return "not in the graph: folded, or fused into another node"
