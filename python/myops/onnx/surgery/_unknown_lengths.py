"""Names for lengths that a model does not state, while onnxslim works on it.

onnxslim takes two lengths without a name for equal, and removes a Reshape between such shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx

from myops.onnx.graph import structure

_NAME = "myops_unknown_length_"


def put_in(model: onnx.ModelProto) -> None:
    """Gives each of them a name of its own."""
    unknown = (dim for dim in _dims(model) if dim.WhichOneof("value") is None)
    for number, dim in enumerate(unknown):
        dim.dim_param = f"{_NAME}{number}"


def take_out(model: onnx.ModelProto) -> onnx.ModelProto:
    """Removes the names; also from names that were computed with them."""
    for dim in _dims(model):
        if _NAME in dim.dim_param:
            dim.Clear()
    return model


def _dims(model: onnx.ModelProto) -> Iterator[Any]:
    for graph in structure.graphs_of(model.graph):
        for item in (*graph.input, *graph.output, *graph.value_info):
            if item.type.WhichOneof("value") == "tensor_type":
                yield from item.type.tensor_type.shape.dim
