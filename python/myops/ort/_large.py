"""Models whose weights ONNX Runtime gets as arrays: those that are too large for one protobuf
message, and those of which each copy counts."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx  # a session of a file needs no onnx

SMALL = 4096  # elements: ONNX Runtime reads shapes and the like while it loads the model

# The weights that SessionOptions hold. ONNX Runtime reads this memory and does not own it.
_held: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


def refuse_held(session_options: Any) -> None:
    """ONNX Runtime would give another model these weights, wherever a name is the same.

    Raises:
        ValueError: The options hold the weights of a model.
    """
    if session_options in _held:
        raise ValueError(
            "session_options: got those of a session whose ModelProto has 2 GiB or more, which "
            "hold its weights; expected new ones"
        )


def without_weights(model: onnx.ModelProto, session_options: Any) -> onnx.ModelProto:
    """A copy of the model whose large weights are in the options instead."""
    light, values = detached(model)
    give(session_options, values)
    _held[session_options] = list(values.values())
    return light


def give(session_options: Any, weights: Mapping[str, Any]) -> None:
    """Gives the weights of `detached` to the next session of the options. They have to live as long
    as it."""
    if weights:
        values = [value for _, value in weights.values()]
        session_options.add_external_initializers(list(weights), values)


def detached(model: onnx.ModelProto, most: int = SMALL) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A copy of the model without its weights of more than `most` elements, and these by name."""
    import onnx
    import onnxruntime

    light = onnx.ModelProto(ir_version=model.ir_version)
    for name in ("opset_import", "functions", "metadata_props"):
        getattr(light, name).extend(getattr(model, name))
    graph, source = light.graph, model.graph
    graph.name = source.name
    for name in ("node", "input", "output", "value_info", "sparse_initializer",
                 "quantization_annotation"):  # fmt: skip
        getattr(graph, name).extend(getattr(source, name))
    values: dict[str, Any] = {}
    for tensor in source.initializer:
        array = _array(tensor) if np.prod(tensor.dims) > most else None
        if array is None:
            graph.initializer.add().CopyFrom(tensor)
            continue
        values[tensor.name] = array, onnxruntime.OrtValue.ortvalue_from_numpy(array)
        stated = graph.initializer.add(name=tensor.name, data_type=tensor.data_type)
        stated.dims.extend(tensor.dims)
        stated.data_location = onnx.TensorProto.EXTERNAL
        where = {"location": "in memory", "offset": "0", "length": str(array.nbytes)}
        for key, text in where.items():
            stated.external_data.add(key=key, value=text)
    return light, values


def _array(tensor: onnx.TensorProto) -> np.ndarray | None:
    """Its numbers; None for types that NumPy itself does not have."""
    import onnx

    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    if kind.isbuiltin != 1 or kind.kind not in "biuf":
        return None
    return np.ascontiguousarray(onnx.numpy_helper.to_array(tensor))
