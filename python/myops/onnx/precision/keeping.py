"""Keeps nodes in float32 because of their numbers: constants, coordinates, sizes, ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx

from myops.onnx.graph import structure
from myops.onnx.graph.randomness import is_random
from myops.onnx.precision import definitions
from myops.onnx.precision.frames import Frame, Key, nodes_of
from myops.onnx.precision.plan import DTYPES, FLOAT32, PrecisionPlan, Vertex

_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)


def refuse_constants(plan: PrecisionPlan) -> None:
    """Keeps a node in float32 if half precision cannot represent a constant that it reads."""
    readers = plan.readers()
    for frame in plan.frames:
        for name, tensor in frame.constants.items():
            vertices = set(readers.get((frame.number, name), ())) - {FLOAT32}
            if not vertices:
                continue
            reason = unholdable(onnx.numpy_helper.to_array(tensor), plan.half)
            for vertex in vertices if reason else ():
                plan.pin(vertex, "constant", f"the constant {name!r} {reason}")


def unholdable(array: np.ndarray, half: str) -> str:
    """The reason why half precision cannot represent some numbers; "" if it can."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = array.astype(DTYPES[half]).astype(np.float32)
    finite = np.isfinite(array)
    if (finite & ~np.isfinite(rounded)).any():
        largest = float(np.abs(array[finite]).max())
        return f"reaches {largest:.3g}, which {half} does not"
    if array.size and ((array != 0) & (rounded == 0)).any() and array.size <= 16:
        smallest = float(np.abs(array[array != 0]).min())
        return f"is {smallest:.3g} somewhere, which {half} makes 0"
    return ""


def keep_coordinates(plan: PrecisionPlan) -> None:
    """Keeps the nodes in float32 that compute coordinates, sizes, or values from shapes only."""
    for vertex in _without_data(plan):
        if plan.node(vertex).op_type not in definitions.MOVES:
            plan.pin(vertex, "sizes", "it computes with shapes and constants alone")
    waiting: list[tuple[Key, str]] = []
    for frame, place, node in nodes_of(plan.frames):
        found = plan.slots.get(("node", frame.number, place))
        if found is None:
            continue
        for slot, what in found.coordinates.items():
            if (key := frame.find(node.input[slot])) is not None:
                waiting.append((key, f"{what} of {structure.label(node)}"))
        if node.op_type == "Cast" and 0 in found.inputs and _to_integer(node):
            key = frame.find(node.input[0])
            if key is not None and not _is_output(plan, frame, node):
                waiting.append((key, f"the integers of {structure.label(node)}"))
    seen: set[Key] = set()
    makers = _makers(plan)
    while waiting:
        key, what = waiting.pop()
        if key in seen or key not in makers:
            continue
        seen.add(key)
        vertex = makers[key]
        if vertex[0] == "in":
            plan.wanted.pop(vertex, None)
            plan.pin(vertex, "coordinates", f"it becomes {what}")
        if vertex[0] != "node":
            continue
        node, frame = plan.node(vertex), plan.frames[vertex[1]]
        if vertex in plan.wanted or node.op_type in definitions.HEAVY:
            continue
        if key in plan.makers:  # float32
            plan.pin(vertex, "coordinates", f"it computes {what}")
        for name in node.input:
            inner = frame.find(name)
            if inner is not None and frame.elem_type(name) in _FLOATS:
                waiting.append((inner, what))


def _makers(plan: PrecisionPlan) -> dict[Key, Vertex]:
    """The maker of each value in float32 or float64: coordinates are often computed in float64."""
    found = dict(plan.makers)
    for frame, place, node in nodes_of(plan.frames):
        vertex = ("node", frame.number, place)
        for name in node.output if vertex in plan.slots else ():
            if frame.elem_type(name) == onnx.TensorProto.DOUBLE:
                found[frame.number, name] = vertex
    return found


def _to_integer(node: onnx.NodeProto) -> bool:
    kind = next((item.i for item in node.attribute if item.name == "to"), 0)
    tensor = onnx.TensorProto
    return kind in (tensor.INT32, tensor.INT64, tensor.UINT32, tensor.UINT64, tensor.INT16)


def _is_output(plan: PrecisionPlan, frame: Frame, node: onnx.NodeProto) -> bool:
    return frame.number == 0 and any(
        item.name == node.output[0] for item in plan.frames[0].graph.output
    )


def _without_data(plan: PrecisionPlan) -> Iterable[Vertex]:
    """Nodes that depend on inputs of the model only through their shapes."""
    data: set[Key] = {(0, item.name) for item in plan.frames[0].graph.input}
    for frame in plan.frames[1:]:
        data.update((frame.number, item.name) for item in frame.graph.input)
    found = []
    for frame, place, node in nodes_of(plan.frames):
        vertex = ("node", frame.number, place)
        keys = [key for name in structure.reads(node) if (key := frame.find(name)) is not None]
        if node.op_type in ("Shape", "Size") and not structure.is_custom(node.domain):
            continue
        if any(key in data for key in keys) or is_random(node):
            data.update((frame.number, name) for name in node.output if name)
        elif vertex in plan.slots:
            found.append(vertex)
    return found


def held_by(plan: PrecisionPlan, ranges: Mapping[Key, float], limit: float) -> int:
    """Keeps the makers and readers of values beyond a limit in float32; returns how many."""
    count = 0
    readers = plan.readers()
    for key, largest in ranges.items():
        if largest <= limit or key not in plan.makers:
            continue
        reason = f"the value {key[1]!r} reaches {largest:.3g}, which {plan.half} does not"
        for vertex in (plan.makers[key], *readers.get(key, ())):
            if vertex != FLOAT32 and vertex not in plan.reasons:
                plan.wanted.pop(vertex, None)
                plan.pin(vertex, "range", reason)
                count += vertex[0] == "node"
    return count
