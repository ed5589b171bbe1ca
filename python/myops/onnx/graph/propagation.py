"""Shape inference that follows the values of shape computations, in bounded memory."""

from __future__ import annotations

from typing import Any

import onnx

from myops.onnx.graph.structure import graphs_of

# Elements of a value with one axis. onnx follows each of them through additions, casts and so on,
# with 150 bytes for each, whether or not it is used as a shape.
_LONGEST = 1 << 20


def infer_shapes(model: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
    """onnx.shape_inference.infer_shapes with data_prop=True, where no value of one axis is long.

    Args:
        model: The model, without large weights.
        **options: As of onnx's function.

    Raises:
        onnx.shape_inference.InferenceError: As onnx's function.
    """
    inferred = onnx.shape_inference.infer_shapes(model, **options)
    if _longest(inferred) > _LONGEST:
        return inferred
    return onnx.shape_inference.infer_shapes(model, data_prop=True, **options)


def _longest(model: onnx.ModelProto) -> int:
    """The most elements of a value with one axis."""
    longest = 0
    for graph in graphs_of(model.graph):
        for tensor in graph.initializer:
            if len(tensor.dims) == 1:
                longest = max(longest, tensor.dims[0])
        for item in [*graph.input, *graph.output, *graph.value_info]:
            dims = item.type.tensor_type.shape.dim
            if len(dims) == 1:
                longest = max(longest, dims[0].dim_value)
    return longest
