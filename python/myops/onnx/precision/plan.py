"""Which nodes become half, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from myops.onnx.graph import scopes, structure
from myops.onnx.precision import definitions, kernels
from myops.onnx.precision.cut import least_casts
from myops.onnx.precision.definitions import FIXED, FOLLOWS, FREE, Slots, UnknownOpError
from myops.onnx.precision.frames import Frame, Key, nodes_of

DTYPES: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}

# A vertex of the plan: ("node", frame, place), ("in", name), ("out", name), or ("tie", key) for
# the values on both sides of the border of a body, which have one type.
Vertex = tuple[Any, ...]
FLOAT32: Vertex = ("float32",)
ANY: Vertex = ("any",)  # who reads a value in whatever precision it has


@dataclass(frozen=True)
class Read:
    """A place where a float32 value is read.

    Attributes:
        key: The value.
        vertex: Whose precision is wanted there; FLOAT32 and ANY besides those of the plan.
        frame: The graph of the place.
        node: The place of the node; -1 for an output of the graph.
        slot: The place among the node's inputs, or among the outputs of the graph.
    """

    key: Key
    vertex: Vertex
    frame: int
    node: int
    slot: int


@dataclass
class Plan:
    """What each node, input and output becomes.

    Attributes:
        frames: The graphs of the model.
        slots: Of each node that has float32 inputs or outputs.
        reasons: Why a vertex is float32: a kind and a sentence.
        makers: Who makes each float32 value.
        reads: Where float32 values are read, constants included.
        wanted: Vertices that become half unless something speaks against it.
        free: Vertices that follow their neighbours, and what float32 costs for each.
        chosen: Whether a vertex is half; filled by `choose`.
    """

    frames: list[Frame]
    half: str
    slots: dict[Vertex, Slots] = field(default_factory=dict)
    reasons: dict[Vertex, tuple[str, str]] = field(default_factory=dict)
    makers: dict[Key, Vertex] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    wanted: dict[Vertex, bool] = field(default_factory=dict)
    free: dict[Vertex, int] = field(default_factory=dict)
    chosen: dict[Vertex, bool] = field(default_factory=dict)

    def pin(self, vertex: Vertex, kind: str, reason: str) -> None:
        """Decides for float32."""
        if vertex not in self.reasons:
            self.reasons[vertex] = kind, reason

    def choose(self) -> None:
        """Decides about all that is left, with the fewest casts."""
        fixed: dict[Any, bool] = {FLOAT32: False}
        fixed.update((vertex, True) for vertex in self.wanted)
        fixed.update((vertex, False) for vertex in self.reasons)
        free: dict[Any, int] = {
            vertex: cost for vertex, cost in self.free.items() if vertex not in fixed
        }
        readers = self.readers()
        values = [(maker, *readers.get(key, ())) for key, maker in self.makers.items()]
        self.chosen = least_casts(fixed, free, values)

    def readers(self) -> dict[Key, list[Vertex]]:
        """Who reads each value; who takes any precision is left out."""
        found: dict[Key, list[Vertex]] = {}
        for item in self.reads:
            if item.vertex != ANY:
                found.setdefault(item.key, []).append(item.vertex)
        return found

    def is_half(self, vertex: Vertex) -> bool:
        return self.chosen.get(vertex, False)

    def node(self, vertex: Vertex) -> onnx.NodeProto:
        _, frame, place = vertex
        return self.frames[frame].graph.node[place]


def make(
    model: onnx.ModelProto,
    frames: list[Frame],
    half: str,
    *,
    keep_io_types: bool,
    for_cpu: bool,
    keep: Callable[[onnx.NodeProto], bool],
) -> Plan:
    """A plan from what definitions, kernels and constants say; nothing is measured yet."""
    plan = Plan(frames, half)
    imports = {item.domain: item.version for item in model.opset_import}
    for frame, place, node in nodes_of(frames):
        vertex = ("node", frame.number, place)
        if node.op_type in definitions.CONTROL and not structure.is_custom(node.domain):
            _ties(plan, frame, place)
            continue
        version = imports.get(node.domain, imports.get("", imports.get("ai.onnx", 1)))
        found = _slots(frame, node, version, half)
        plan.slots[vertex] = found
        for slot, name in enumerate(node.output):
            if slot in found.outputs and (key := frame.find(name)):
                plan.makers[key] = vertex if found.outputs[slot] == FOLLOWS else FLOAT32
        if found.inputs or found.outputs:
            _settle(plan, vertex, frame, node, found, model, for_cpu, keep)
    _interface(plan, keep_io_types)
    for frame, place, node in nodes_of(frames):
        vertex = ("node", frame.number, place)
        for slot, kind in (plan.slots[vertex].inputs if vertex in plan.slots else {}).items():
            wanted = {FOLLOWS: vertex, FREE: ANY}.get(kind, FLOAT32)
            _read(plan, frame, node.input[slot], wanted, place, slot)
    _refuse_constants(plan)
    _keep_coordinates(plan)
    return plan


def _slots(frame: Frame, node: onnx.NodeProto, version: int, half: str) -> Slots:
    """As its definition says; a node stays float32 when something about it is not known."""
    unknown = [name for name in node.input if name and frame.find(name)
               and not frame.elem_type(name) and not frame.is_other(name)]  # fmt: skip
    reason = f"the type of {unknown[0]!r} is not known" if unknown else ""
    try:
        found = definitions.slots(node, frame.is_float, version, half)
    except UnknownOpError:
        given, made = ({place: FIXED for place, name in enumerate(names)
                        if name and frame.is_float(name)}
                       for names in (node.input, node.output))  # fmt: skip
        return Slots(given, made, {}, "nothing describes its op")
    if not reason or not found.can_be_half:
        return found
    given, made = dict.fromkeys(found.inputs, FIXED), dict.fromkeys(found.outputs, FIXED)
    return Slots(given, made, found.coordinates, reason)


def _read(plan: Plan, frame: Frame, name: str, vertex: Vertex, node: int, slot: int) -> None:
    key = frame.find(name)
    if key is not None:
        plan.reads.append(Read(key, vertex, frame.number, node, slot))


def _settle(
    plan: Plan, vertex: Vertex, frame: Frame, node: onnx.NodeProto, found: Slots,
    model: onnx.ModelProto, for_cpu: bool, keep: Callable[[onnx.NodeProto], bool],
) -> None:  # fmt: skip
    """What one node says for itself."""
    if not found.can_be_half:
        plan.pin(vertex, "definition", found.reason)
        return
    if keep(node):
        plan.pin(vertex, "kept", "it was asked for")
        return
    if node.op_type == "ConstantOfShape" and node.attribute:
        reason = unholdable(onnx.numpy_helper.to_array(node.attribute[0].t), plan.half)
        if reason:
            plan.pin(vertex, "constant", f"its number {reason}")
            return
    described = scopes.op_of(node) is not None
    if for_cpu and not described and FOLLOWS in (*found.inputs.values(), *found.outputs.values()):
        reason = missing_kernel(plan.half, frame, node, found, model)
        if reason:
            plan.pin(vertex, "kernel", f"{reason} for {plan.half}")
            return
    if described or node.op_type in definitions.HEAVY:
        plan.wanted[vertex] = True
    else:
        plan.free[vertex] = 0 if node.op_type in {*definitions.MOVES, "Cast"} else 1


def missing_kernel(
    half: str, frame: Frame, node: onnx.NodeProto, found: Slots, model: onnx.ModelProto
) -> str:
    """Why ONNX Runtime's CPU provider cannot run a node in half precision; "" when it can."""
    if node.op_type == "Cast":
        return ""  # it knows all types
    number = kernels.HALVES[half]
    types: list[dict[int, int]] = []
    for names, kinds in ((node.input, found.inputs), (node.output, found.outputs)):
        types.append({place: number if kinds.get(place) == FOLLOWS else frame.elem_type(name)
                      for place, name in enumerate(names) if name})  # fmt: skip
    known = {place: kind for place, kind in types[1].items() if kind}
    return kernels.missing(node, types[0], known, model.opset_import, model.ir_version)


@dataclass
class _Border:
    """One value on both sides of the border of a body: where it is read, and where it is made."""

    read: list[tuple[Frame, str, int, int]] = field(default_factory=list)
    made: list[tuple[Frame, str]] = field(default_factory=list)


def _borders(frame: Frame, place: int, bodies: Mapping[str, Frame]) -> list[_Border]:
    node = frame.graph.node[place]
    outputs = [(frame, name) for name in node.output]
    if node.op_type == "If":
        return [
            _Border([(body, body.graph.output[slot].name, -1, slot) for body in bodies.values()],
                    outputs[slot : slot + 1])
            for slot in range(len(node.output))
        ]  # fmt: skip
    body = bodies["body"]
    # The first inputs of a Loop are the number of trips and the condition; its body gives back a
    # condition first. The last inputs of a Scan are not carried from one iteration to the next.
    loop = node.op_type == "Loop"
    first, skipped = (2, 1) if loop else (0, 0)
    scanned = next((item.i for item in node.attribute if item.name == "num_scan_inputs"), 0)
    carried = len(node.input) - first - scanned
    found = []
    for slot in range(max(len(node.input) - first, len(node.output))):
        border = _Border()
        if slot < len(node.input) - first:
            border.read.append((frame, node.input[first + slot], place, first + slot))
            border.made.append((body, body.graph.input[first + slot].name))
        if slot < carried:
            result = body.graph.output[skipped + slot].name
            border.read.append((body, result, -1, skipped + slot))
            border.made += outputs[slot : slot + 1]
        found.append(border)
    for slot in range(carried, len(node.output)):  # values of all iterations, put together
        result = body.graph.output[skipped + slot].name
        found.append(_Border([(body, result, -1, skipped + slot)], outputs[slot : slot + 1]))
    return found


def _ties(plan: Plan, frame: Frame, place: int) -> None:
    """Values on both sides of the border of a body have one type: they are one vertex."""
    bodies = frame.inner(plan.frames, place)
    for number, border in enumerate(_borders(frame, place, bodies)):
        border.made = [item for item in border.made if item[1]]
        sides = [*((item[0], item[1]) for item in border.read if item[1]), *border.made]
        if not any(where.is_float(name) for where, name in sides):
            continue
        tie = ("tie", frame.number, place, number)
        plan.free[tie] = 0
        if not all(where.is_float(name) for where, name in sides):
            plan.pin(tie, "definition", "the type of a value of its body is not known")
        for where, name, node, slot in border.read:
            if name:
                _read(plan, where, name, tie, node, slot)
        for where, name in border.made:
            if (key := where.find(name)) is not None:
                plan.makers[key] = tie


def _interface(plan: Plan, keep_io_types: bool) -> None:
    """The inputs and outputs of the model."""
    main = plan.frames[0]
    defaults = {tensor.name for tensor in main.graph.initializer}
    given = {item.name for item in main.graph.input}
    for item in main.graph.input:
        if not main.is_float(item.name):
            continue
        vertex = ("in", item.name)
        plan.makers[0, item.name] = vertex
        if keep_io_types:
            plan.pin(vertex, "kept", "it was asked for")
        elif item.name in defaults:
            plan.pin(vertex, "definition", "it has a default in the file")
        else:
            plan.wanted[vertex] = True
    for slot, item in enumerate(main.graph.output):
        if not main.is_float(item.name):
            continue
        vertex = ("out", item.name)
        _read(plan, main, item.name, vertex, -1, slot)
        if keep_io_types:
            plan.pin(vertex, "kept", "it was asked for")
        elif item.name in main.constants or item.name in given:
            plan.pin(vertex, "definition", "it is an input or a constant of the file")
            if item.name in given:
                plan.pin(("in", item.name), "definition", "it is an output, too")
        else:
            plan.wanted[vertex] = True


def _refuse_constants(plan: Plan) -> None:
    """A node stays float32 when half precision cannot hold a constant that it reads."""
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
    """What half precision would make of numbers that it cannot hold; "" when it holds them."""
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


def _keep_coordinates(plan: Plan) -> None:
    """Coordinates and sizes are computed in float32, and what comes from shapes alone is."""
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
    while waiting:
        key, what = waiting.pop()
        if key in seen or key not in plan.makers:
            continue
        seen.add(key)
        vertex = plan.makers[key]
        if vertex[0] == "in":
            plan.wanted.pop(vertex, None)
            plan.pin(vertex, "coordinates", f"it becomes {what}")
        if vertex[0] != "node":
            continue
        node, frame = plan.node(vertex), plan.frames[vertex[1]]
        if vertex in plan.wanted or node.op_type in definitions.HEAVY:
            continue
        plan.pin(vertex, "coordinates", f"it computes {what}")
        for slot in plan.slots[vertex].inputs:
            inner = frame.find(node.input[slot])
            if inner is not None:
                waiting.append((inner, what))


def _to_integer(node: onnx.NodeProto) -> bool:
    kind = next((item.i for item in node.attribute if item.name == "to"), 0)
    tensor = onnx.TensorProto
    return kind in (tensor.INT32, tensor.INT64, tensor.UINT32, tensor.UINT64, tensor.INT16)


def _is_output(plan: Plan, frame: Frame, node: onnx.NodeProto) -> bool:
    return frame.number == 0 and any(
        item.name == node.output[0] for item in plan.frames[0].graph.output
    )


def _without_data(plan: Plan) -> Iterable[Vertex]:
    """Nodes that no input of the model reaches but by its shape."""
    data: set[Key] = {(0, item.name) for item in plan.frames[0].graph.input}
    for frame in plan.frames[1:]:
        data.update((frame.number, item.name) for item in frame.graph.input)
    found = []
    for frame, place, node in nodes_of(plan.frames):
        vertex = ("node", frame.number, place)
        keys = [key for name in structure.reads(node) if (key := frame.find(name)) is not None]
        if node.op_type in ("Shape", "Size") and not structure.is_custom(node.domain):
            continue
        if any(key in data for key in keys) or node.op_type.startswith("Random"):
            data.update((frame.number, name) for name in node.output if name)
        elif vertex in plan.slots:
            found.append(vertex)
    return found


def held_by(plan: Plan, ranges: Mapping[Key, float], limit: float) -> int:
    """Keeps what makes and reads values beyond a limit in float32; how many nodes that are."""
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
