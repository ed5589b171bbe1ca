"""The loss of each node in half precision, alone and on its inputs of the float32 run.

All nodes run in one session: each reads its inputs of the float32 run, rounded, so that the loss of
a node does not affect the nodes after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from myops._text import reason as short
from myops.onnx.comparison.graph import Graph
from myops.onnx.comparison.ort_side import Runner
from myops.onnx.graph import scopes
from myops.onnx.precision.definitions import FIXED, FOLLOWS
from myops.onnx.precision.frames import Frame, Key, constant_tensor
from myops.onnx.precision.kernels import HALVES
from myops.onnx.precision.losses import relative_l2
from myops.onnx.precision.plan import PrecisionPlan, Vertex
from myops.onnx.precision.planning import missing_kernel
from myops.onnx.two_files.backends import Backend
from myops.onnx.two_files.tracing import Trace, trace

Feed = Mapping[str, np.ndarray]


class Values:
    """All values of one run in float32; for a body, those of its first iteration."""

    def __init__(self, model: onnx.ModelProto, frames: list[Frame], feed: Feed,
                 libraries: Sequence[Any]) -> None:  # fmt: skip
        self._frames = frames
        found = trace(Backend("ort-no-optimization", libraries), Graph(model), feed)
        self.notes = found.notes
        self._inner = _first_iterations(found)
        self._main = found.values
        if found.stop is not None:
            raise RuntimeError(f"the model stops: {found.stop[1]}")

    def get(self, key: Key) -> np.ndarray | None:
        """The array of a value; None for a constant, or if it was not computed."""
        frame = self._frames[key[0]]
        found = self._inner.get((frame.path, key[1])) if key[0] else self._main.get(key[1])
        if found is None and key[0]:
            found = self._given(frame, key[1])
        return found if isinstance(found, np.ndarray) else None

    def _given(self, frame: Frame, name: str) -> np.ndarray | None:
        """The value of a body's input in its first iteration."""
        outer = frame.outer
        slot = next((n for n, item in enumerate(frame.graph.input) if item.name == name), None)
        if outer is None or slot is None:
            return None
        node = outer.graph.node[frame.path[-1][0]]
        if node.op_type == "Loop" and slot < 2:
            return np.array([0, True][slot])
        scanned = next((item.i for item in node.attribute if item.name == "num_scan_inputs"), 0)
        if slot >= len(node.input) - scanned and scanned:
            return None  # a slice of it, along an axis that an attribute states
        key = outer.find(node.input[slot])
        if key is None:
            return None
        tensor = _constant(self._frames[key[0]], key[1])
        return numpy_helper.to_array(tensor) if tensor is not None else self.get(key)

    def ranges(self, plan: PrecisionPlan) -> dict[Key, float]:
        """The largest finite magnitude of each float32 value."""
        found = {}
        for key in plan.makers:
            array = self.get(key)
            if array is not None and array.dtype.kind == "f":
                finite = np.abs(array[np.isfinite(array)])
                found[key] = float(finite.max(initial=0))
        return found


def _first_iterations(found: Trace) -> dict[Any, np.ndarray]:
    first: dict[Any, np.ndarray] = {}
    for (path, _, name), array in found.inner.items():
        first.setdefault((path, name), array)
    return first


@dataclass
class _Island:
    """A node that runs alone: the names of its outputs, and their values in float32."""

    vertex: Vertex
    outputs: dict[str, np.ndarray] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    constants: list[onnx.TensorProto] = field(default_factory=list)


def losses(
    model: onnx.ModelProto,
    plan: PrecisionPlan,
    candidates: Sequence[Vertex],
    values: Values,
    libraries: Sequence[Any] = (),
    *,
    only_inputs: bool = False,
) -> tuple[dict[Vertex, float], dict[Vertex, str]]:
    """The relative L2 error of nodes alone in half precision, and the reasons why nodes do not run.

    Nodes that did not run, such as those of the other branch of an If, are left out.

    Args:
        only_inputs: Whether nodes run in float32 on rounded inputs, which measures the loss that
            these cause.
    """
    made_alone = (_island(model, plan, vertex, values, f"n{number}", only_inputs)
                  for number, vertex in enumerate(candidates))  # fmt: skip
    islands = [item for item in made_alone if item is not None]
    runner = Runner(libraries)
    found: dict[Vertex, float] = {}
    failed: dict[Vertex, str] = {}
    if not islands:
        return found, failed
    try:
        together = [islands]
        made = _run(model, islands, runner)
    except RuntimeError:  # then one by one, to find the node that does not run
        together = [[item] for item in islands]
        made = {}
    for group in together:
        if not made or len(group) == 1:
            try:
                made = _run(model, group, runner)
            except RuntimeError as error:
                failed[group[0].vertex] = short(error, 160)
                continue
        for item in group:
            found[item.vertex] = max(
                (_loss(array, made[name]) for name, array in item.outputs.items()), default=0.0
            )
    return found, failed


def _loss(expected: np.ndarray, got: Any) -> float:
    return relative_l2(expected, got) if isinstance(got, np.ndarray) else math.inf


def _run(model: onnx.ModelProto, islands: Sequence[_Island], runner: Runner) -> dict[str, Any]:
    graph = onnx.GraphProto(name="nodes alone")
    feeds: dict[str, np.ndarray] = {}
    wanted = []
    for item in islands:
        graph.node.extend(item.nodes)
        graph.initializer.extend(item.constants)
        feeds.update(item.inputs)
        wanted += list(item.outputs)
    for name, array in feeds.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    for name in wanted:
        graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    alone = onnx.ModelProto(ir_version=max(model.ir_version, 4), graph=graph)
    alone.opset_import.extend(model.opset_import)
    return runner.run(alone, feeds)


def _island(
    model: onnx.ModelProto,
    plan: PrecisionPlan,
    vertex: Vertex,
    values: Values,
    title: str,
    only_inputs: bool,
) -> _Island | None:
    node, frame, slots = plan.node(vertex), plan.frames[vertex[1]], plan.slots[vertex]
    number = HALVES[plan.half]
    described = scopes.op_of(node) is not None
    # A node without a kernel runs in float32 between roundings, as other processors compute.
    real = described or not missing_kernel(plan.half, frame, node, slots, model)
    real = real and not only_inputs
    found = _Island(vertex)
    alone = onnx.NodeProto()
    alone.CopyFrom(node)
    alone.name = title
    for slot, name in enumerate(node.input):
        if not name:
            continue
        new = f"{title}_i{slot}"
        key = frame.find(name)
        tensor = None if key is None else _constant(plan.frames[key[0]], name)
        array = None if key is None else values.get(key)
        if tensor is not None:
            copy = onnx.TensorProto()
            copy.CopyFrom(tensor)
            copy.name = new
            found.constants.append(copy)
        elif array is not None:
            found.inputs[new] = array
        else:
            return None
        if slots.inputs.get(slot) == FOLLOWS:
            new = _rounded(found, new, number, back=not real)
        alone.input[slot] = new
    found.nodes.append(alone)
    for slot, name in enumerate(node.output):
        alone.output[slot] = f"{title}_o{slot}" if name else ""
        kind = slots.outputs.get(slot)
        array = values.get((frame.number, name)) if name else None
        if array is None or kind is None:
            continue
        made = alone.output[slot]
        if only_inputs:
            found.outputs[made] = array
            continue
        if kind == FOLLOWS and not real:
            made = _rounded(found, made, number, back=False)
        if kind == FOLLOWS:
            wide = f"{made}_wide"
            found.nodes.append(helper.make_node("Cast", [made], [wide], to=TensorProto.FLOAT))
            made = wide
        if kind in (FOLLOWS, FIXED):
            found.outputs[made] = array
    return found if found.outputs else None


def _rounded(item: _Island, name: str, number: int, *, back: bool) -> str:
    narrow = f"{name}_half"
    item.nodes.append(helper.make_node("Cast", [name], [narrow], to=number))
    if not back:
        return narrow
    wide = f"{name}_rounded"
    item.nodes.append(helper.make_node("Cast", [narrow], [wide], to=TensorProto.FLOAT))
    return wide


def _constant(frame: Frame, name: str) -> onnx.TensorProto | None:
    """An initializer or the tensor of a Constant node, of any type."""
    for tensor in frame.graph.initializer:
        if tensor.name == name:
            return tensor
    for node in frame.graph.node:
        if node.op_type == "Constant" and name in node.output and node.attribute:
            found = constant_tensor(node)
            if found is None and node.attribute[0].name in ("value_int", "value_ints"):
                value = onnx.helper.get_attribute_value(node.attribute[0])
                found = numpy_helper.from_array(np.array(value, np.int64))
            return found
    return None
