"""Types and shapes of values, and whether a model is valid, for models of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from myops.onnx.graph import calls
from myops.onnx.graph.propagation import infer_shapes
from myops.onnx.graph.structure import graphs_of
from myops.onnx.graph.weights import without_weights
from myops.onnx.schema import register_schemas

_INVENTED = "unk__"  # the prefix of names that onnx gives to unknown lengths


def infer(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without weights, with inferred shapes, our nodes included.

    Without shapes where they cannot be inferred, as of a model whose functions call each other too
    often.
    """
    register_schemas(model)
    small = without_weights(model)
    try:
        calls.refuse_endless(model)
        inferred = infer_shapes(small)
    except Exception:  # onnx's errors share no base class but this
        return small
    for item in [*inferred.graph.value_info, *inferred.graph.output]:
        for dim in item.type.tensor_type.shape.dim if item.type.HasField("tensor_type") else ():
            if dim.dim_param.startswith(_INVENTED):
                dim.Clear()
    return inferred


def types(
    model: onnx.ModelProto, wanted: Sequence[str] = (), libraries: Sequence[Any] = ()
) -> dict[str, onnx.ValueInfoProto]:
    """The type of each value of the main graph, as far as it is known.

    Args:
        model: The model.
        wanted: Values for which ONNX Runtime is asked if shape inference fails, as it does after
            ops whose schema only ONNX Runtime or one of its libraries has.
        libraries: Custom-op libraries that ONNX Runtime needs for it.
    """
    inferred = infer(model).graph
    found: dict[str, onnx.ValueInfoProto] = {}
    for item in [*inferred.value_info, *inferred.output, *inferred.input]:
        if item.type.WhichOneof("value"):
            found[item.name] = item
    for tensor in model.graph.initializer:
        if tensor.name not in found:
            found[tensor.name] = onnx.helper.make_tensor_value_info(
                tensor.name, tensor.data_type, tensor.dims
            )
    unknown = [name for name in wanted if name not in found]
    if unknown:
        found.update(_types_in_runtime(model, unknown, libraries))
    return found


def _types_in_runtime(
    model: onnx.ModelProto, names: Sequence[str], libraries: Sequence[Any]
) -> dict[str, onnx.ValueInfoProto]:
    """The types of values according to ONNX Runtime; empty if it cannot load the model."""
    import onnxruntime

    small = without_weights(model)
    del small.graph.output[:]
    small.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        outputs = session(small, options, libraries).get_outputs()
    except Exception:  # ONNX Runtime's errors share no base class but this
        return {}
    found = {}
    for item in outputs:
        name = {"float": "float32", "double": "float64"}.get(item.type[7:-1], item.type[7:-1])
        number = _ELEMENTS.get(name)
        if item.type.startswith("tensor(") and number:
            shape = item.shape or None  # [] means rank 0 or an unknown rank
            found[item.name] = onnx.helper.make_tensor_value_info(item.name, number, shape)
    return found


_ELEMENTS = {name.lower(): number for name, number in onnx.TensorProto.DataType.items()} | {
    "float32": onnx.TensorProto.FLOAT,
    "float64": onnx.TensorProto.DOUBLE,
}


def session(model: onnx.ModelProto, options: Any, more_libraries: Sequence[Any] = ()) -> Any:
    """A session with our ops and, if the model needs them, those of onnxruntime-extensions."""
    from myops.ort import _extensions, _session

    domains = {node.domain for graph in graphs_of(model.graph) for node in graph.node}
    libraries = list(more_libraries)
    if domains & {"ai.onnx.contrib", "com.microsoft.extensions"}:
        try:
            onnxruntime_extensions = _extensions.load()
        except ImportError as error:
            raise ImportError(
                "the model has nodes of onnxruntime-extensions; get it with "
                "`pip install onnxruntime-extensions`"
            ) from error
        libraries.append(onnxruntime_extensions.get_library_path())
    return _session.session(model, session_options=options, libraries=libraries)


def problem(model: onnx.ModelProto) -> str:
    """The reason why the checker or strict shape inference refuse a model; "" if they accept it.

    Inputs of unknown rank and outputs of unknown type are accepted, because ONNX Runtime accepts
    them, although the checker does not.
    """
    register_schemas(model)
    small = without_weights(model)
    stated = onnx.ModelProto()
    stated.CopyFrom(small)
    for item in stated.graph.output:
        if not item.type.WhichOneof("value"):
            item.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for item in [*stated.graph.input, *stated.graph.output]:
        if item.type.WhichOneof("value") == "tensor_type":
            item.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(stated)
        infer_shapes(small, check_type=True, strict_mode=True)
    except Exception as error:  # as above
        return " ".join(str(error).split())
    return ""
