"""Makes lengths of inputs dynamic or fixed, and updates everything that depended on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx

from myops.onnx.graph import inference, scopes, structure
from myops.onnx.graph.structure import GraphError, Index
from myops.onnx.graph.weights import without_weights

_FIXERS = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0}  # op: index of the shape input


def set_dims(proto: onnx.ModelProto, dims: Mapping[tuple[str, int], str | int]) -> list[str]:
    """Writes lengths into the inputs; warns of constants that still fix a dynamic one."""
    index = Index(proto)
    olds = {}
    for (name, axis), length in dims.items():
        where = f"edit: dimension {axis} of {name!r}"
        index.check(name, "edit: dimension")
        if name not in index.inputs:
            raise GraphError(
                f"{where}: it is no input of the model ({', '.join(index.inputs)}); lengths "
                "inside the model follow from those of the inputs"
            )
        if name in index.constants:
            raise GraphError(f"{where}: it is a weight, whose lengths are those of its numbers")
        item = next(item for item in proto.graph.input if item.name == name)
        kind = item.type.tensor_type
        if item.type.WhichOneof("value") != "tensor_type" or not kind.HasField("shape"):
            raise GraphError(f"{where}: the input's rank is unknown")
        rank = len(kind.shape.dim)
        if not -rank <= axis < rank:
            raise GraphError(f"{where}: got axis {axis}, expected {-rank} to {rank - 1}")
        dim = kind.shape.dim[axis]
        olds[name, axis % rank] = (dim.dim_value or dim.dim_param or None, length)
        dim.Clear()
        if isinstance(length, int):
            if not 0 <= length < 2**63:
                raise GraphError(
                    f"{where}: got {length}, expected a name, or a length from 0 to 2**63 - 1"
                )
            dim.dim_value = length
        elif length:
            dim.dim_param = length
    if not dims:
        return []
    names = {new for old, new in olds.values() if isinstance(new, str)}
    return _fixed(proto, names, olds)


def infer_anew(proto: onnx.ModelProto) -> None:
    """Removes types and lengths that may no longer be right, and infers them again.

    If inference fails, as after an op without a schema, dtype and rank are kept.
    """
    for graph in structure.graphs_of(proto.graph):
        if graph is not proto.graph:
            del graph.value_info[:]
            for item in [*graph.input, *graph.output]:
                _loosen(item)
    old = {item.name: item for item in [*proto.graph.value_info, *proto.graph.output]}
    old = {name: onnx.ValueInfoProto.FromString(item.SerializeToString()) for name, item in
           old.items()}  # fmt: skip
    del proto.graph.value_info[:]
    for item in proto.graph.output:
        item.ClearField("type")
    found = _inferred(proto)
    made = {name for node in proto.graph.node for name in node.output}
    outputs = {item.name for item in proto.graph.output}
    lost = [name for name in old if name not in found and name in made]
    for name in lost:
        _loosen(old[name])
        if name not in outputs:
            proto.graph.value_info.append(old[name])
    for item in proto.graph.output:
        item.type.CopyFrom((found.get(item.name) or old[item.name]).type)
    if lost:  # types after them follow from those that were kept
        found = _inferred(proto)
        for item in proto.graph.output:
            item.type.CopyFrom((found.get(item.name) or item).type)
        del proto.graph.value_info[:]
    inner = made - outputs
    inside = [item for name, item in found.items() if name in inner]
    proto.graph.value_info.extend(inside)


def _inferred(proto: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    graph = inference.infer(proto).graph
    known = [*graph.value_info, *graph.output]
    return {item.name: item for item in known if item.type.WhichOneof("value")}


def _loosen(item: onnx.ValueInfoProto) -> None:
    """Removes the lengths of a shape, but keeps its rank."""
    if item.type.WhichOneof("value") == "tensor_type":
        for dim in item.type.tensor_type.shape.dim:
            dim.Clear()


def _fixed(
    proto: onnx.ModelProto, names: set[str], olds: Mapping[tuple[str, int], Any]
) -> list[str]:
    """Nodes whose constant shape contains the old length of an axis that is now dynamic."""
    trial = onnx.ModelProto()
    trial.CopyFrom(without_weights(proto))
    infer_anew(trial)
    previous = {new: old for old, new in olds.values() if isinstance(new, str)}
    notes = []
    for scope in scopes.all_scopes(trial):
        for node in scope.graph.node:
            place = _FIXERS.get(node.op_type)
            if place is None or structure.is_custom(node.domain) or len(node.input) <= place:
                continue
            target = scope.value(node.input[place])
            if target is None:
                continue
            came = (scope.shape(node.input[0]) or []) if place else []
            wanted = [int(number) for number in target.reshape(-1)]
            for axis, length in enumerate(came):
                if length not in names or not _is_stuck(wanted, axis, previous[str(length)]):
                    continue
                notes.append(
                    f"edit: node {structure.label(node)} has the constant shape {wanted}, which "
                    f"does not follow {length!r}; the model will fail, or mix up axes, at other "
                    "lengths. Export it with dynamic axes, or change that constant."
                )
                break
    return notes


def _is_stuck(wanted: list[int], axis: int, old: Any) -> bool:
    if axis < len(wanted) and wanted[axis] == 0:
        return False
    if -1 not in wanted:
        return True
    return axis < len(wanted) and wanted[axis] == old
