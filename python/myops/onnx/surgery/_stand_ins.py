"""Values that are no tensors, for onnxslim: it cannot write optional values, maps and sequences of
them, and forgets the shapes of the elements of others. Meanwhile they have another type."""

from __future__ import annotations

import onnx

from myops.onnx.graph import structure
from myops.onnx.surgery._errors import SimplifyError

_STAND_IN = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)


def needed(model: onnx.ModelProto) -> bool:
    """Whether a value has a type that onnxslim cannot write, stated or made by a node."""
    return any(
        any(_is_unknown(item.type) for item in (*graph.input, *graph.output, *graph.value_info))
        or any(node.op_type == "Optional" and not node.domain for node in graph.node)
        for graph in structure.graphs_of(model.graph)
    )


def put_in(model: onnx.ModelProto) -> None:
    """Gives such inputs and outputs a type that it can write; of other values it needs none."""
    for graph in structure.graphs_of(model.graph):
        for item in (*graph.input, *graph.output):
            if _is_unknown(item.type):
                item.type.CopyFrom(_STAND_IN)
        kept = [item for item in graph.value_info if not _is_unknown(item.type)]
        del graph.value_info[:]
        graph.value_info.extend(kept)


def take_out(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """Gives inputs and outputs that are no tensors the types that they had, in bodies too, and
    nodes the attributes that are types, which onnxslim drops.

    Raises:
        SimplifyError: Two values of one name had different types.
    """
    types: dict[str, onnx.TypeProto] = {}
    attributes: dict[tuple[str, ...], list[onnx.AttributeProto]] = {}
    for graph in structure.graphs_of(before.graph):
        for item in (*graph.input, *graph.output):
            if item.type.WhichOneof("value") in (None, "tensor_type"):
                continue
            if types.setdefault(item.name, item.type) != item.type:
                raise SimplifyError(
                    f"simplify: got two values {item.name!r} in different bodies, which are no "
                    "tensors and differ in type, expected different names; nothing was written"
                )
        for node in graph.node:
            stated = [
                item for item in node.attribute if item.type == onnx.AttributeProto.TYPE_PROTO
            ]
            if stated:
                attributes[tuple(node.output)] = stated
    for graph in structure.graphs_of(after.graph):
        for item in (*graph.input, *graph.output):
            if item.name in types:
                item.type.CopyFrom(types[item.name])
        for node in graph.node:
            have = {item.name for item in node.attribute}
            stated = attributes.get(tuple(node.output), [])
            node.attribute.extend(item for item in stated if item.name not in have)


def _is_unknown(kind: onnx.TypeProto) -> bool:
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return kind.sequence_type.elem_type.WhichOneof("value") != "tensor_type"
    return which in ("optional_type", "map_type", "opaque_type")
