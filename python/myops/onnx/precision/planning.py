"""Makes the plan of a conversion from definitions, kernels and the inputs and outputs of bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import onnx

from myops.onnx.graph import scopes, structure
from myops.onnx.precision import definitions, keeping, kernels
from myops.onnx.precision.definitions import FIXED, FOLLOWS, FREE, Slots, UnknownOpError
from myops.onnx.precision.frames import Frame, nodes_of
from myops.onnx.precision.plan import ANY, FLOAT32, PrecisionPlan, Read, Vertex


def make(
    model: onnx.ModelProto,
    frames: list[Frame],
    half: str,
    *,
    keep_io_types: bool,
    for_cpu: bool,
    keep: Callable[[onnx.NodeProto], bool],
) -> PrecisionPlan:
    """A plan from definitions, kernels and constants; nothing is measured yet."""
    plan = PrecisionPlan(frames, half)
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
    keeping.refuse_constants(plan)
    keeping.keep_coordinates(plan)
    return plan


def _slots(frame: Frame, node: onnx.NodeProto, version: int, half: str) -> Slots:
    """The slots from a node's definition; the node stays float32 if something about it is
    unknown."""
    unknown = [name for name in node.input if name and frame.find(name)
               and not frame.elem_type(name) and not frame.is_other(name)]  # fmt: skip
    reason = f"the type of {unknown[0]!r} is not known" if unknown else ""
    if any(frame.is_other(name) for name in (*node.input, *node.output) if name):
        # Elements of a sequence have one type, and several nodes write and read them.
        reason = "it takes or makes sequences or optional values"
    if not frame.converted:
        reason = "it is in the body of a node other than If, Loop and Scan"
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


def _read(
    plan: PrecisionPlan, frame: Frame, name: str, vertex: Vertex, node: int, slot: int
) -> None:
    key = frame.find(name)
    if key is not None:
        plan.reads.append(Read(key, vertex, frame.number, node, slot))


def _settle(
    plan: PrecisionPlan, vertex: Vertex, frame: Frame, node: onnx.NodeProto, found: Slots,
    model: onnx.ModelProto, for_cpu: bool, keep: Callable[[onnx.NodeProto], bool],
) -> None:  # fmt: skip
    """Adds one node to the plan."""
    if not found.can_be_half:
        plan.pin(vertex, "definition", found.reason)
        return
    if keep(node):
        plan.pin(vertex, "kept", "it was asked for")
        return
    if node.op_type == "ConstantOfShape" and node.attribute:
        reason = keeping.unholdable(onnx.numpy_helper.to_array(node.attribute[0].t), plan.half)
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
    """The reason why ONNX Runtime's CPU provider cannot run a node in half precision; "" if it
    can."""
    if node.op_type == "Cast":
        return ""  # it supports all types
    number = kernels.HALVES[half]
    types: list[dict[int, int]] = []
    for names, kinds in ((node.input, found.inputs), (node.output, found.outputs)):
        types.append({place: number if kinds.get(place) == FOLLOWS else frame.elem_type(name)
                      for place, name in enumerate(names) if name})  # fmt: skip
    known = {place: kind for place, kind in types[1].items() if kind}
    return kernels.missing(node, types[0], known, model.opset_import, model.ir_version)


@dataclass
class _Border:
    """A value that is passed into or out of a body: where it is read, and where it is made."""

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
    # The first inputs of a Loop are the number of iterations and the condition; the first result of
    # its body is a condition. The last inputs of a Scan are not carried from one iteration to the
    # next.
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


def _ties(plan: PrecisionPlan, frame: Frame, place: int) -> None:
    """Joins values that are passed into or out of a body to one vertex, because they have one
    type."""
    bodies = frame.inner(plan.frames, place)
    try:
        borders = _borders(frame, place, bodies)
    except (IndexError, KeyError):
        raise ValueError(
            f"node {structure.label(frame.graph.node[place])}: got no body, or one with fewer "
            "inputs or outputs than the node, expected a valid model; `myops doctor` says more"
        ) from None
    for number, border in enumerate(borders):
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


def _interface(plan: PrecisionPlan, keep_io_types: bool) -> None:
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
