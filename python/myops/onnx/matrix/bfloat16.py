"""Models that take or give bfloat16, which ONNX Runtime's Python functions cannot hold."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto


def outside(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float32 for every bfloat16 input and output; itself when it has none."""
    graph = model.graph
    if not any(map(_is_bfloat16, [*graph.input, *graph.output])):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    for number, item in enumerate(filter(_is_bfloat16, graph.input)):
        inner = f"{item.name}/bfloat16"
        for node in graph.node:
            for place, name in enumerate(node.input):
                if name == item.name:
                    node.input[place] = inner
        item.type.tensor_type.elem_type = TensorProto.FLOAT
        graph.node.insert(number, _cast(item.name, inner, TensorProto.BFLOAT16))
    for item in filter(_is_bfloat16, graph.output):
        outer = f"{item.name}/float32"
        graph.node.append(_cast(item.name, outer, TensorProto.FLOAT))
        item.name = outer
        item.type.tensor_type.elem_type = TensorProto.FLOAT
    return copy


def _is_bfloat16(item: onnx.ValueInfoProto) -> bool:
    return bool(item.type.tensor_type.elem_type == TensorProto.BFLOAT16)


def _cast(source: str, result: str, to: int) -> onnx.NodeProto:
    return onnx.helper.make_node("Cast", [source], [result], name=result, to=to)


def fed(array: np.ndarray) -> np.ndarray:
    """An array as such a model takes it: float32 holds a bfloat16 exactly."""
    return array.astype(np.float32) if str(array.dtype) == "bfloat16" else array
