"""The values of a model with all of its bodies: the maker and the type of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from myops.onnx.graph import inference, scopes
from myops.onnx.graph.structure import is_custom
from myops.onnx.precision.definitions import CONTROL

Key = tuple[int, str]  # of a value: the number of its frame, and its name
Path = tuple[tuple[int, str], ...]  # the nodes around a body, by index, and the attributes


@dataclass
class Frame:
    """A graph: that of the model, or a body of If, Loop or Scan.

    Attributes:
        number: Index among all frames of the model; 0 is the main graph.
        graph: The graph itself, which may be changed.
        path: The nodes and attributes around it.
        outer: The frame around it.
        constants: Initializers and Constant nodes of float32, by name.
        converted: Whether its nodes may be half. Not in the body of a SequenceMap, whose inputs
            and outputs are elements of sequences.
    """

    number: int
    graph: Any
    path: Path
    outer: Frame | None
    scope: scopes.Scope
    asked: dict[str, int] = field(default_factory=dict)  # types that only ONNX Runtime knows
    constants: dict[str, Any] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    converted: bool = True

    def find(self, name: str) -> Key | None:
        """The value of a name in this graph; None if nothing defines it."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.own:
                return frame.number, name
            frame = frame.outer
        return None

    def elem_type(self, name: str) -> int:
        """The element type of a value; 0 when unknown."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.own:
                return frame.scope.elem_type(name) or frame.asked.get(name, 0)
            frame = frame.outer
        return 0

    def is_float(self, name: str) -> bool:
        return self.elem_type(name) == TensorProto.FLOAT

    def is_other(self, name: str) -> bool:
        """Whether a value is known to be no tensor: a sequence, an optional, a map."""
        frame: Frame | None = self
        while frame is not None and name not in frame.own:
            frame = frame.outer
        return frame is not None and frame.scope.is_other(name)

    def inner(self, frames: list[Frame], place: int) -> dict[str, Frame]:
        """The bodies of a node, by attribute."""
        return {frame.path[-1][1]: frame for frame in frames
                if frame.outer is self and frame.path[-1][0] == place}  # fmt: skip


def frames_of(model: onnx.ModelProto, libraries: Sequence[Any] = ()) -> list[Frame]:
    """All graphs of a model without functions, outer ones first.

    Args:
        model: The model.
        libraries: Custom-op libraries for ONNX Runtime, which then finds the types of their values.

    Raises:
        ValueError: The model is not valid.
    """
    found: list[Frame] = []
    visited = iter(scopes.all_scopes(model))

    def enter(path: Path, outer: Frame | None) -> None:
        scope = next(visited)
        frame = Frame(len(found), scope.graph, path, outer, scope)
        if outer is not None:
            around = outer.graph.node[path[-1][0]]
            frame.converted = (outer.converted and around.op_type in CONTROL
                               and not is_custom(around.domain))  # fmt: skip
        _define(frame)
        found.append(frame)
        for place, node in enumerate(frame.graph.node):
            for item in node.attribute:
                if item.type == onnx.AttributeProto.GRAPH:
                    enter((*path, (place, item.name)), frame)

    enter((), None)
    main = found[0]
    unknown = [name for node in main.graph.node for name in node.output
               if name and not main.scope.elem_type(name)]  # fmt: skip
    if unknown:
        known = inference.types(model, unknown, libraries)
        main.asked = {name: known[name].type.tensor_type.elem_type
                      for name in unknown if name in known}  # fmt: skip
    return found


def _define(frame: Frame) -> None:
    graph = frame.graph
    given = {item.name for item in graph.input}
    frame.own = given | {name for node in graph.node for name in node.output if name}
    for tensor in graph.initializer:
        frame.own.add(tensor.name)
        if tensor.name not in given and tensor.data_type == TensorProto.FLOAT:
            frame.constants[tensor.name] = tensor
    frame.own.update(item.values.name for item in graph.sparse_initializer)
    for node in graph.node:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx") and node.attribute:
            tensor = constant_tensor(node)
            if tensor is not None and tensor.data_type == TensorProto.FLOAT:
                frame.constants[node.output[0]] = tensor


def constant_tensor(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor of a Constant node; None if it is no tensor of numbers."""
    item = node.attribute[0]
    if item.ref_attr_name:
        return None
    if item.name == "value":
        return item.t
    kinds: dict[str, Any] = {"value_float": np.float32, "value_floats": np.float32}
    if item.name not in kinds:
        return None
    value = np.array(onnx.helper.get_attribute_value(item), kinds[item.name])
    return onnx.numpy_helper.from_array(value, node.output[0])


def nodes_of(frames: list[Frame]) -> Iterator[tuple[Frame, int, onnx.NodeProto]]:
    """All nodes except Constant."""
    for frame in frames:
        for place, node in enumerate(frame.graph.node):
            if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
                yield frame, place, node
