"""Models without their weights, for functions that need types and shapes only."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx

SMALL = 4096  # elements: shapes, factors and indices, whose numbers the tools read


def without_weights(
    model: onnx.ModelProto, functions: Iterable[onnx.FunctionProto] | None = None
) -> onnx.ModelProto:
    """A copy of the model with inputs of the same types and shapes instead of weights.

    The checker and shape inference get this copy, so that models of any size can be checked.

    Args:
        model: It is not changed. Constants of at most `SMALL` elements are kept.
        functions: The model's functions that the result has. Default: all.
    """
    copy = onnx.ModelProto(ir_version=model.ir_version)
    copy.opset_import.extend(model.opset_import)
    copy.functions.extend(model.functions if functions is None else functions)
    source, graph = model.graph, copy.graph
    graph.name = source.name or "graph"
    for field in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(graph, field).extend(getattr(source, field))
    given = {item.name for item in source.input}
    for tensor in source.initializer:
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if not external and np.prod(tensor.dims) <= SMALL:
            graph.initializer.add().CopyFrom(tensor)
        elif tensor.name not in given:
            stated = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            graph.input.append(stated)
    return copy
