"""What an exported model gets at the end: file format, shapes, weights as inputs."""

from __future__ import annotations

import onnx

from myops.onnx.graph import scopes


def set_lowest_ir_version(model: onnx.ModelProto) -> None:
    """The file format that opset and functions need and no newer, for the sake of old runtimes."""
    opset = scopes.onnx_opset(model)
    versions = {row[2]: row[1] for row in onnx.helper.VERSION_TABLE}
    needed = versions.get(opset, model.ir_version)
    if opset <= 10:
        needed = max(needed, 4)  # before, every initializer had to be an input
    model.ir_version = max(needed, 8) if model.functions else needed


def add_shapes(model: onnx.ModelProto) -> None:
    """The shapes of all values, as far as they can be inferred."""
    inferred = next(scopes.all_scopes(model)).inferred
    del model.graph.value_info[:]
    model.graph.value_info.extend(inferred.value_info)
    for output, known in zip(model.graph.output, inferred.output, strict=True):
        output.CopyFrom(known)


def add_initializers_to_inputs(model: onnx.ModelProto) -> None:
    """Weights become inputs too, with their values as defaults."""
    known = {item.name for item in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.name not in known:
            model.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
