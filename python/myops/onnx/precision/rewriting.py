"""Writes a model in the precisions of a plan: casts, constants, types."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import onnx
from onnx import TensorProto, helper, numpy_helper

from myops.onnx.graph import scopes
from myops.onnx.graph.structure import is_custom
from myops.onnx.precision.definitions import FOLLOWS, HEAVY
from myops.onnx.precision.frames import Frame, Key
from myops.onnx.precision.keeping import unholdable
from myops.onnx.precision.kernels import HALVES
from myops.onnx.precision.plan import ANY, DTYPES, FLOAT32, PrecisionPlan, Read, Vertex

# Reasons for float32 that do not concern accuracy: the weights of such nodes are stored in half,
# and so are those of standard ops whose definition has bfloat16 in a later opset only.
_STORED_IN_HALF = ("kernel", "casts")
_SMALLEST = 1024  # bytes of float32; for smaller weights, a cast costs more than it saves


@dataclass
class Written:
    """What `write` added.

    Attributes:
        casts: Nodes that convert a value in each run.
        weight_casts: Nodes that convert a weight, once while a runtime loads the model.
    """

    casts: int = 0
    weight_casts: int = 0


def write(
    model: onnx.ModelProto, plan: PrecisionPlan, emulated: Collection[Vertex] = ()
) -> Written:
    """Changes `model`, whose graphs are the frames of the plan, in place.

    Args:
        model: The model.
        plan: The precisions of its nodes.
        emulated: Half nodes that should run in float32 between roundings, for a runtime without
            kernels; the results are those of a kernel that sums in float32.
    """
    writer = _Writer(model, plan)
    writer.emulated = list(emulated)
    return writer.run()


@dataclass
class _Writer:
    model: onnx.ModelProto
    plan: PrecisionPlan
    written: Written = field(default_factory=Written)
    # The name of a value in each precision in which it is read.
    called: dict[tuple[Key, bool], str] = field(default_factory=dict)
    made: dict[Key, str] = field(default_factory=dict)  # new names of values where they are made
    added: dict[int, list[tuple[int, onnx.NodeProto]]] = field(default_factory=dict)
    emulated: list[Vertex] = field(default_factory=list)

    def run(self) -> Written:
        self.names = scopes.Names(self.model)
        self.constants = {(frame.number, name) for frame in self.plan.frames
                          for name in frame.constants}  # fmt: skip
        needed: dict[Key, set[bool]] = {}
        for item in self.plan.reads:
            needed.setdefault(item.key, set()).add(self._wanted(item))
        weights = {key: needed.get(key, set()) for key in self.constants}
        for frame in self.plan.frames:
            self._write_constants(frame, weights)
        for key, precisions in needed.items():
            if key not in self.constants:
                self._write_value(key, precisions)
        local = self._local_copies()
        for item in self.plan.reads:
            self._write_read(item, local)
        for frame in self.plan.frames:
            self._write_types(frame)
        for frame in self.plan.frames:
            self._write_attributes(frame)
        for vertex in self.emulated:
            self._emulate(vertex)
        for frame in self.plan.frames:
            ordered = sorted(self.added.get(frame.number, ()), key=lambda item: item[0])
            for place, node in reversed(ordered):
                frame.graph.node.insert(place, node)
        return self.written

    def _half(self, key: Key) -> bool:
        """Whether the maker of a value makes it in half."""
        return self.plan.is_half(self.plan.makers.get(key, FLOAT32))

    def _wanted(self, item: Read) -> bool:
        if item.vertex == ANY:
            return self._half(item.key)
        return self.plan.is_half(item.vertex)

    def _fresh(self, name: str, half: bool) -> str:
        return self.names.fresh(f"{name}_{self.plan.half if half else 'float32'}")

    def _cast(self, frame: int, place: int, name: str, new: str, half: bool) -> None:
        kind = HALVES[self.plan.half] if half else TensorProto.FLOAT
        node = helper.make_node("Cast", [name], [new], new, to=kind)
        self.added.setdefault(frame, []).append((place, node))

    # ---- Constants: a copy for each precision in which they are read.

    def _write_constants(self, frame: Frame, weights: dict[Key, set[bool]]) -> None:
        for name in frame.constants:
            key = frame.number, name
            wanted = weights[key]
            tensor = frame.constants[name]
            stored = False in wanted and self._may_be_stored_in_half(key, tensor)
            if wanted == {False} and not stored:
                continue
            if not wanted:
                continue
            narrow = _as_half(tensor, self.plan.half)
            if wanted == {True}:
                self._replace(frame, name, narrow)
            elif stored:
                new = self._fresh(name, True)
                place = self._after(key)
                self._rename(frame, name, narrow, new)
                self._cast(frame.number, place, new, name, False)
                self.written.weight_casts += 1
                self.called[key, True] = new
            else:
                narrow.name = self._fresh(name, True)
                frame.graph.initializer.append(narrow)
                self.called[key, True] = narrow.name

    def _may_be_stored_in_half(self, key: Key, tensor: onnx.TensorProto) -> bool:
        count = 1
        for length in tensor.dims:
            count *= length
        if 4 * count < _SMALLEST:
            return False
        for item in self.plan.reads:
            if item.key != key:
                continue
            if item.node < 0:
                return False
            node = self.plan.frames[item.frame].graph.node[item.node]
            kind = self.plan.reasons.get(("node", item.frame, item.node), ("casts",))[0]
            sums = kind == "definition" and node.op_type in HEAVY and not is_custom(node.domain)
            follows = item.vertex not in (ANY, FLOAT32)
            if not (sums or (follows and (self._wanted(item) or kind in _STORED_IN_HALF))):
                return False
        return not unholdable(numpy_helper.to_array(tensor), self.plan.half)

    def _replace(self, frame: Frame, name: str, tensor: onnx.TensorProto) -> None:
        for item in frame.graph.initializer:
            if item.name == name:
                item.CopyFrom(tensor)
                item.name = name
                return
        for node in frame.graph.node:
            if node.op_type == "Constant" and name in node.output:
                del node.attribute[:]
                tensor.ClearField("name")
                node.attribute.append(helper.make_attribute("value", tensor))

    def _rename(self, frame: Frame, name: str, tensor: onnx.TensorProto, new: str) -> None:
        """Stores a constant in half under a new name."""
        self._replace(frame, name, tensor)
        for item in frame.graph.initializer:
            if item.name == name:
                item.name = new
        for node in frame.graph.node:
            if node.op_type == "Constant" and name in node.output:
                node.output[0] = new

    # ---- Values: a cast after their maker, if a reader needs the other precision.

    def _write_value(self, key: Key, precisions: set[bool]) -> None:
        half = self._half(key)
        name = key[1]
        shown = self._shown_output(key)
        own = name
        if shown is not None and shown != half:  # the output keeps the name
            own = self.made[key] = self._fresh(name, half)
            self.called[key, half] = own
            self.called[key, shown] = name
        other = not half
        if other in precisions:
            new = self.called.setdefault((key, other), name if shown == other else "")
            if not new:
                new = self.called[key, other] = self._fresh(name, other)
            self._cast(key[0], self._after(key), own, new, other)
            self.written.casts += 1

    def _shown_output(self, key: Key) -> bool | None:
        """The precision of an output of the model; None for any other value."""
        vertex: Vertex = ("out", key[1])
        known = key[0] == 0 and vertex in self.plan.chosen
        return self.plan.is_half(vertex) if known else None

    def _after(self, key: Key) -> int:
        graph = self.plan.frames[key[0]].graph
        for place, node in enumerate(graph.node):
            if key[1] in node.output:
                return place + 1
        return 0

    def _local_copies(self) -> dict[tuple[int, Key, bool], str]:
        """Repeats casts of outer values inside a body, because a body must make its outputs
        itself."""
        found: dict[tuple[int, Key, bool], str] = {}
        for item in self.plan.reads:
            wanted = self._wanted(item)
            if item.node >= 0 or item.frame == item.key[0]:
                continue
            if wanted == self._half(item.key) and item.key not in self.constants:
                continue
            where = item.frame, item.key, wanted
            if where not in found:
                outer = self._name(item.key, wanted)
                found[where] = self._fresh(item.key[1], wanted)
                node = helper.make_node("Identity", [outer], [found[where]], found[where])
                last = len(self.plan.frames[item.frame].graph.node)
                self.added.setdefault(item.frame, []).append((last, node))
        return found

    def _name(self, key: Key, half: bool) -> str:
        return self.called.get((key, half), key[1])

    def _write_read(self, item: Read, local: dict[tuple[int, Key, bool], str]) -> None:
        graph = self.plan.frames[item.frame].graph
        wanted = self._wanted(item)
        name = self._name(item.key, wanted)
        if item.node >= 0:
            graph.node[item.node].input[item.slot] = name
        elif item.frame:
            graph.output[item.slot].name = local.get((item.frame, item.key, wanted), name)

    # ---- Types.

    def _write_types(self, frame: Frame) -> None:
        number = HALVES[self.plan.half]
        graph = frame.graph
        for place, node in enumerate(graph.node):
            for slot, name in enumerate(node.output):
                new = self.made.get((frame.number, name))
                if new is not None:
                    graph.node[place].output[slot] = new
        halves = {name for (where, name), vertex in self.plan.makers.items()
                  if where == frame.number and self.plan.is_half(vertex)}  # fmt: skip
        kept = []
        for item in graph.value_info:
            if item.type.tensor_type.elem_type == TensorProto.FLOAT:
                if (frame.number, item.name) in self.made or item.name in frame.constants:
                    continue  # another value has the name now, or the constant has the type
                if item.name in halves:
                    item.type.tensor_type.elem_type = number
            kept.append(onnx.ValueInfoProto.FromString(item.SerializeToString()))
        del graph.value_info[:]
        graph.value_info.extend(kept)
        for item in graph.input:
            if item.name in halves:
                item.type.tensor_type.elem_type = number
        for item in self.plan.reads:
            if item.node < 0 and item.frame == frame.number and self._wanted(item):
                graph.output[item.slot].type.tensor_type.elem_type = number

    def _write_attributes(self, frame: Frame) -> None:
        """Writes the attributes that state the type of an output."""
        number = HALVES[self.plan.half]
        for place, node in enumerate(frame.graph.node):
            vertex = ("node", frame.number, place)
            if not self.plan.is_half(vertex) or node.domain not in ("", "ai.onnx"):
                continue
            if node.op_type == "Cast":
                for item in node.attribute:  # a cast of half numbers to float64 stays one
                    if item.name == "to" and item.i == TensorProto.FLOAT:
                        item.i = number
            elif node.op_type == "ConstantOfShape":
                tensor = node.attribute[0].t if node.attribute else _zero()
                narrow = _as_half(tensor, self.plan.half)
                del node.attribute[:]
                node.attribute.append(helper.make_attribute("value", narrow))

    def _emulate(self, vertex: Vertex) -> None:
        node, slots = self.plan.node(vertex), self.plan.slots[vertex]
        _, frame, place = vertex
        for slot, kind in slots.inputs.items():
            if kind == FOLLOWS:
                wide = self._fresh(node.input[slot], False)
                self._cast(frame, place, node.input[slot], wide, False)
                node.input[slot] = wide
        for slot, kind in slots.outputs.items():
            if kind == FOLLOWS:
                wide = self._fresh(node.output[slot], False)
                cast = helper.make_node("Cast", [wide], [node.output[slot]],
                                        to=HALVES[self.plan.half])  # fmt: skip
                self.added.setdefault(frame, []).insert(0, (place + 1, cast))
                node.output[slot] = wide


def _zero() -> onnx.TensorProto:
    return helper.make_tensor("value", TensorProto.FLOAT, [1], [0.0])


def _as_half(tensor: onnx.TensorProto, half: str) -> onnx.TensorProto:
    array: Any = numpy_helper.to_array(tensor).astype(DTYPES[half])
    return numpy_helper.from_array(array, tensor.name)
