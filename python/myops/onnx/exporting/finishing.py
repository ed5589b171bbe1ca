"""The last steps of an export: file format, shapes, weights as inputs."""

from __future__ import annotations

import re
from collections.abc import Callable

import onnx

from myops.onnx.graph import scopes
from myops.onnx.graph.structure import graphs_of
from myops.onnx.schema import DECIDED, attribute_value

_BFLOAT16 = onnx.TensorProto.BFLOAT16


class InvalidModelError(RuntimeError):
    """What torch's exporter or `standard` of an op wrote is no ONNX model.

    known: Whether the text says why.
    """

    known = False


def refuse_invalid(
    model: onnx.ModelProto, written: onnx.ModelProto, bfloat16: Callable[[], tuple[str, str]]
) -> None:
    """Refuses a model that onnx.checker refuses.

    Args:
        written: What torch's exporter made, before the nodes of op libraries were written in
            standard ones.
        bfloat16: Says why a model is in this type, and what to write instead.

    Raises:
        InvalidModelError: With what is wrong with it, and what to do where bfloat16 is the reason.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        said = lines[0].removeprefix("[ShapeInferenceError] ").rstrip(".")
        advice = _about_bfloat16(*bfloat16()) if _has_bfloat16(model) else ""
        by_torch = " that torch's exporter wrote" if _is_invalid(written) else ""
        refused = InvalidModelError(
            f"export: the model{by_torch} is not valid ONNX: {said}.{advice}"
        )
        refused.known = bool(advice)
        raise refused from error


def _is_invalid(model: onnx.ModelProto) -> bool:
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
        return True
    return False


def _has_bfloat16(model: onnx.ModelProto) -> bool:
    values = [*model.graph.input, *model.graph.value_info, *model.graph.output]
    types = {item.type.tensor_type.elem_type for item in values}
    types |= {item.data_type for item in model.graph.initializer}
    return _BFLOAT16 in types


def _about_bfloat16(cause: str, instead: str) -> str:
    return (
        f" Why: {cause}. Before opset 22 ONNX has no Conv, Pool and Gemm-like nodes in bfloat16, "
        "torch's fusion of Conv with BatchNorm makes weights of float32, and ONNX Runtime has few "
        f"kernels for it on CPUs. Write {instead}."
    )


def set_lowest_ir_version(model: onnx.ModelProto) -> None:
    """Sets the oldest file format that opset and functions allow, so that old runtimes load it."""
    opset = scopes.onnx_opset(model)
    versions = {row[2]: row[1] for row in onnx.helper.VERSION_TABLE}
    needed = versions.get(opset, model.ir_version)
    if opset <= 10:
        needed = max(needed, 4)  # before, every initializer had to be an input
    model.ir_version = max(needed, 8) if model.functions else needed


def drop_left_out(model: onnx.ModelProto) -> None:
    """Removes the names of optional outputs that a node leaves out, where nothing reads them."""
    read = {name for node in scopes.all_nodes(model.graph.node) for name in node.input}
    read |= {item.name for graph in graphs_of(model.graph) for item in graph.output}
    for node in scopes.all_nodes(model.graph.node):
        info = scopes.op_of(node)
        if info is None or not any(item.only_if for item in info.outputs):
            continue
        given = {proto.name: proto for proto in node.attribute}
        flags = {
            item.name: attribute_value(info.name, item, given[item.name])
            for item in info.attributes
            if item.name in given
        }
        wanted = info.present([name or None for name in node.input], flags)
        names = [
            name if is_wanted or name in read else ""
            for name, is_wanted in zip(node.output, wanted, strict=False)
        ]
        while not names[-1]:
            names.pop()
        node.output[:] = names


def add_shapes(model: onnx.ModelProto) -> None:
    """Adds the shapes of all values, as far as they can be inferred."""
    inferred = next(scopes.all_scopes(model)).inferred
    del model.graph.value_info[:]
    model.graph.value_info.extend(inferred.value_info)
    for output, known in zip(model.graph.output, inferred.output, strict=True):
        output.CopyFrom(known)
    _number_names(model)


def _number_names(model: onnx.ModelProto) -> None:
    """Numbers the names of lengths that the data decides from 1 in each model."""
    found: dict[str, str] = {}
    for item in [*model.graph.value_info, *model.graph.output]:
        for dim in item.type.tensor_type.shape.dim if item.type.HasField("tensor_type") else ():
            title = re.fullmatch(rf"(.+){DECIDED}\d+", dim.dim_param)
            if title:
                found.setdefault(dim.dim_param, f"{title[1]}_{len(found) + 1}")
                dim.dim_param = found[dim.dim_param]


def add_initializers_to_inputs(model: onnx.ModelProto) -> None:
    """Makes weights inputs too, with their values as defaults."""
    known = {item.name for item in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.name not in known:
            model.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
