"""Models with inputs or outputs in bfloat16 or floats of 8 bits, for which ONNX Runtime's Python
functions have no arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from myops import _dtypes
from myops.onnx.schema import DTYPES, ELEMENT_TYPES

_NUMBERS = frozenset(ELEMENT_TYPES[name] for name in _dtypes.NARROW_FLOATS)


def outside(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float32 for every such input and output; the same model if it has none."""
    graph = model.graph
    if not any(map(_is_narrow, [*graph.input, *graph.output])):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    for number, item in enumerate(filter(_is_narrow, graph.input)):
        narrow = item.type.tensor_type.elem_type
        inner = f"{item.name}/{DTYPES[narrow]}"
        for node in graph.node:
            for place, name in enumerate(node.input):
                if name == item.name:
                    node.input[place] = inner
        item.type.tensor_type.elem_type = TensorProto.FLOAT
        graph.node.insert(number, cast(item.name, inner, narrow))
    for item in filter(_is_narrow, graph.output):
        outer = f"{item.name}/float32"
        graph.node.append(cast(item.name, outer, TensorProto.FLOAT))
        item.name = outer
        item.type.tensor_type.elem_type = TensorProto.FLOAT
    return copy


def _is_narrow(item: onnx.ValueInfoProto) -> bool:
    return item.type.tensor_type.elem_type in _NUMBERS


def cast(source: str, result: str, to: int) -> onnx.NodeProto:
    """A Cast that keeps infinity; by default it becomes the largest number of 8 bits."""
    keeping: dict[str, Any] = (
        {"saturate": 0} if to in _NUMBERS and to != TensorProto.BFLOAT16 else {}
    )
    return onnx.helper.make_node("Cast", [source], [result], name=result, to=to, **keeping)


def fed(array: np.ndarray) -> np.ndarray:
    """An array for such a model: in float32, which represents these numbers exactly."""
    return array.astype(np.float32) if array.dtype.name in _dtypes.NARROW_FLOATS else array
