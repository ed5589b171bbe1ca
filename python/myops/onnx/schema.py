"""OpSchemas of the nodes of op libraries, for onnx.checker, shape inference and graph tools."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx.defs import OpSchema

from myops import _description, _libraries, _shape_rule
from myops._checked import checked
from myops._description import OpInfo
from myops._op_parts import AttributeInfo, DecidedLength, Dim, InputInfo, OutputInfo

ONNX_TYPE_NAMES = {  # the others are called the same
    "float32": "float", "float64": "double", "float8_e4m3fn": "float8e4m3fn",
    "float8_e5m2": "float8e5m2",
}  # fmt: skip
ELEMENT_TYPES: dict[str, int] = {
    "float16": onnx.TensorProto.FLOAT16,
    "bfloat16": onnx.TensorProto.BFLOAT16,
    "float32": onnx.TensorProto.FLOAT,
    "float64": onnx.TensorProto.DOUBLE,
    "uint8": onnx.TensorProto.UINT8,
    "int32": onnx.TensorProto.INT32,
    "int64": onnx.TensorProto.INT64,
    "bool": onnx.TensorProto.BOOL,
    "int8": onnx.TensorProto.INT8,
    "int16": onnx.TensorProto.INT16,
    "uint16": onnx.TensorProto.UINT16,
    "uint32": onnx.TensorProto.UINT32,
    "uint64": onnx.TensorProto.UINT64,
    "complex64": onnx.TensorProto.COMPLEX64,
    "complex128": onnx.TensorProto.COMPLEX128,
    "float8_e4m3fn": onnx.TensorProto.FLOAT8E4M3FN,
    "float8_e5m2": onnx.TensorProto.FLOAT8E5M2,
    "string": onnx.TensorProto.STRING,
}
DTYPES: dict[int, str] = {number: name for name, number in ELEMENT_TYPES.items()}

_ATTRIBUTE_TYPES = {
    "bool": onnx.AttributeProto.INT,  # ONNX has no bool attributes
    "int": onnx.AttributeProto.INT,
    "float": onnx.AttributeProto.FLOAT,
    "string": onnx.AttributeProto.STRING,
    "ints": onnx.AttributeProto.INTS,
    "floats": onnx.AttributeProto.FLOATS,
    "strings": onnx.AttributeProto.STRINGS,
    "double": onnx.AttributeProto.TENSOR,  # an ONNX float has 32 bits
    "doubles": onnx.AttributeProto.TENSOR,
}
# Other kinds that are also read: a float that was written before its op used 64 bits, and strings
# in a tensor, for versions of ONNX Runtime that do not pass lists of strings to libraries.
_ALSO_READ = {
    "double": onnx.AttributeProto.FLOAT,
    "doubles": onnx.AttributeProto.FLOATS,
    "strings": onnx.AttributeProto.TENSOR,
}
_TENSORS = {"double": ("float64", 0), "doubles": ("float64", 1), "strings": ("string", 1)}
# With the same names as in csrc/adapters/ort/node_attributes.cpp.
_KINDS = {
    "bool": "an int (0 or 1)", "int": "an int", "float": "a float", "string": "a string",
    "ints": "a list of ints", "floats": "a list of floats", "strings": "a list of strings",
    "double": "a tensor of one float64, without axes",
    "doubles": "a list of float64, as a tensor with one axis",
}  # fmt: skip
_FOUND = {
    onnx.AttributeProto.INT: "an int",
    onnx.AttributeProto.FLOAT: "a float",
    onnx.AttributeProto.STRING: "a string",
    onnx.AttributeProto.INTS: "a list of ints",
    onnx.AttributeProto.FLOATS: "a list of floats",
    onnx.AttributeProto.STRINGS: "a list of strings",
    onnx.AttributeProto.TENSOR: "a tensor",
}


@checked()
def register_schemas(model: onnx.ModelProto | None = None) -> None:
    """Registers the schema of every op that has a node with the onnx package; once is enough.

    Afterwards `onnx.checker`, `onnx.shape_inference` (strict mode too) and
    `onnx.utils.extract_model` know the nodes of the domain "myops", and those of every other op
    library that is known so far (`myops.op_library`).

    Args:
        model: A model; the op libraries of installed packages whose domains it imports are loaded.
            Default: none.

    Example:
        >>> myops.onnx.register_schemas()
        >>> onnx.defs.has("Resize", "myops")
        True
    """
    # When it is imported, it makes a table of schemas and refuses two of the same name, such as our
    # Resize and that of ai.onnx. Schemas that are registered later are not checked.
    import onnx.reference.op_run

    for item in () if model is None else model.opset_import:
        _libraries.find(item.domain)
    for info in _libraries.nodes():
        if not _is_registered(info):
            onnx.defs.register_schema(schema_for(info))


def _is_registered(info: OpInfo) -> bool:
    try:
        found = onnx.defs.get_schema(info.onnx_type, info.since_version, info.domain)
    except onnx.defs.SchemaError:
        return False
    return found.since_version == info.since_version


@functools.cache
def _schema(domain: str, onnx_type: str, version: int) -> OpSchema:
    info = _libraries.find_node(domain, onnx_type, version)
    assert info is not None  # schema_for was given it
    schema = _of_description(info)
    schema.set_type_and_shape_inference_function(_inference(info))
    return schema


def _of_description(info: OpInfo) -> OpSchema:
    return OpSchema(
        info.onnx_type,
        info.domain,
        info.since_version,
        info.doc,
        inputs=[_formal_input(item) for item in info.inputs],
        outputs=[_formal_output(item) for item in info.outputs],
        type_constraints=[
            (parameter, [f"tensor({ONNX_TYPE_NAMES.get(name, name)})" for name in dtypes], "")
            for parameter, dtypes in info.types.items()
        ],
        attributes=[*map(_attribute, info.attributes), *_stated_version(info)],
    )


def schema_for(info: OpInfo) -> OpSchema:
    """The OpSchema that follows from a description; the same object at every call."""
    return _schema(info.domain, info.onnx_type, info.since_version)


def schema_of_node(info: OpInfo, inputs: int, outputs: int) -> OpSchema:
    """The schema for writing a node with this number of inputs and outputs: it has one input for
    each tensor of a variadic input, and no optional outputs after the last one of the node.

    With the full schema, torch's exporter would repeat the inputs before a variadic input, and
    write every output of the schema.
    """
    if not info.is_variadic and outputs == len(info.outputs):
        return schema_for(info)
    expanded = info.expanded(inputs)
    return _of_description(replace(expanded, outputs=expanded.outputs[:outputs]))


def attribute_proto(item: AttributeInfo, value: Any) -> onnx.AttributeProto:
    """The attribute of a node that carries `value`."""
    kind = _ATTRIBUTE_TYPES[item.type]
    if kind == onnx.AttributeProto.TENSOR:
        value = onnx.numpy_helper.from_array(np.array(value, np.float64))
    value = int(value) if item.type == "bool" else value
    return onnx.helper.make_attribute(item.name, value, attr_type=kind)


def refuse_kind(owner: str, item: AttributeInfo, proto: onnx.AttributeProto) -> None:
    """Refuses an attribute of another kind, with the same text as the library for ONNX Runtime.

    Args:
        owner: What the message begins with: the name of the op, or a text for the node.

    Raises:
        ValueError: Names the owner, the attribute, its kind, and the one expected.
    """
    got = _FOUND.get(proto.type, "something else")
    if proto.type in (_ATTRIBUTE_TYPES[item.type], _ALSO_READ.get(item.type)):
        if proto.type != onnx.AttributeProto.TENSOR:
            return
        dtype, rank = _TENSORS[item.type]
        if proto.t.data_type == ELEMENT_TYPES[dtype] and len(proto.t.dims) == rank:
            return
        got += f" of {DTYPES.get(proto.t.data_type, 'another dtype')} of shape {[*proto.t.dims]}"
    raise ValueError(f"{owner}: {item.name}: got {got}, expected {_KINDS[item.type]}")


def attribute_value(owner: str, item: AttributeInfo, proto: onnx.AttributeProto) -> Any:
    """The Python value in the attribute of a node.

    Raises:
        ValueError: It is of another kind, or cannot be read; begins with `owner`.
    """
    refuse_kind(owner, item, proto)
    try:
        value = onnx.helper.get_attribute_value(proto)
        if isinstance(value, onnx.TensorProto):
            value = onnx.numpy_helper.to_array(value).tolist()
        if item.type == "string":
            return value.decode()
        if item.type == "strings":
            return [text.decode() if isinstance(text, bytes) else text for text in value]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{owner}: {item.name}: got bytes that are no UTF-8, expected {_KINDS[item.type]}"
        ) from error
    except Exception as error:  # what onnx raises for a broken attribute has no common base
        raise ValueError(
            f"{owner}: {item.name}: got a value that cannot be read ({error}), expected "
            f"{_KINDS[item.type]}"
        ) from error
    if item.type == "bool":
        return bool(value)
    return list(value) if item.is_list else value


def node_attributes(info: OpInfo, node: onnx.NodeProto, owner: str = "") -> dict[str, Any]:
    """The value of every attribute: that of the node, or the default; None where it has none.

    Raises:
        ValueError: One is of another kind; begins with `owner`, by default the name of the op.
    """
    given = {proto.name: proto for proto in node.attribute}
    return {
        item.name: attribute_value(owner or info.name, item, given[item.name])
        if item.name in given
        else item.default
        for item in info.attributes
    }


def _stated_version(info: OpInfo) -> list[OpSchema.Attribute]:
    """The attribute that tells ONNX Runtime the version of a node; version 1 has none."""
    if info.since_version == 1:
        return []
    doc = f"{info.since_version}, the version of the domain whose meaning the node has."
    return [OpSchema.Attribute(_description.VERSION, OpSchema.AttrType.INT, doc, required=True)]


def _formal_input(item: InputInfo) -> OpSchema.FormalParameter:
    options = OpSchema.FormalParameterOption
    if item.variadic:
        return OpSchema.FormalParameter(
            item.name, item.type, item.doc, param_option=options.Variadic, is_homogeneous=True,
            min_arity=1,
        )  # fmt: skip
    option = options.Optional if item.optional else options.Single
    return OpSchema.FormalParameter(item.name, item.type, item.doc, param_option=option)


def _formal_output(item: OutputInfo) -> OpSchema.FormalParameter:
    options = OpSchema.FormalParameterOption
    option = options.Optional if item.only_if else options.Single
    return OpSchema.FormalParameter(item.name, item.type, item.doc, param_option=option)


def _attribute(item: AttributeInfo) -> OpSchema.Attribute:
    doc = item.doc
    if item.choices:
        doc += " One of " + ", ".join(map(json.dumps, item.choices)) + "."
    # With an empty list as the default, torch's exporter would write it into every node, and tools
    # such as onnx-graphsurgeon, which find a list's kind in its elements, could not write the node.
    if not item.is_written(item.default):
        kind = onnx.AttributeProto.AttributeType.Name(_ATTRIBUTE_TYPES[item.type])
        return OpSchema.Attribute(
            item.name, getattr(OpSchema.AttrType, kind), doc, required=item.required
        )
    return OpSchema.Attribute(item.name, attribute_proto(item, item.default), doc)


def dims_of(tensor: onnx.TypeProto.Tensor) -> list[Dim] | None:
    """Lengths, names and None from a tensor type; None when not even the rank is known."""
    if not tensor.HasField("shape"):
        return None
    return [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
        for dim in tensor.shape.dim
    ]


_decided = itertools.count()
DECIDED = "_unk"  # between the name and the number of a length that the data decides


class _DecidedNames:
    """Names for the lengths of one node that the data decides: equal only if the op says so, and
    different from those of other nodes."""

    def __init__(self, info: OpInfo) -> None:
        self._op = info.name
        self._made: dict[str, str] = {}

    def __call__(self, item: DecidedLength, output: str) -> str:
        if item.name in self._made:
            return self._made[item.name]
        name = f"{self._op}_{item.name or output}{DECIDED}{next(_decided)}"
        if item.name:
            self._made[item.name] = name
        return name


def _inference(described: OpInfo) -> Callable[[Any], None]:
    """Type and shape inference for onnx: the op's own shape rule behind onnx's context."""

    def infer(context: Any) -> None:
        info = described.expanded(context.get_num_inputs())
        protos = [_input_type(context, number) for number in range(len(info.inputs))]
        shapes: list[list[Dim] | None] = []
        dtypes: list[str | None] = []
        values: list[list[float] | None] = []
        ranks_known = True
        for number, (item, proto) in enumerate(zip(info.inputs, protos, strict=True)):
            tensor = None if proto is None else proto.tensor_type
            dims = None if tensor is None else dims_of(tensor)
            if tensor is not None and dims is None:
                dims = [None] if item.values else None
                ranks_known = ranks_known and item.values
            shapes.append(dims)
            dtypes.append(None if tensor is None else DTYPES.get(tensor.elem_type))
            values.append(None if tensor is None or not item.values else _values(context, number))
        results: list[list[Dim] | None] = [None] * len(info.outputs)
        attributes = {}
        for attribute in info.attributes:
            given = context.get_attribute(attribute.name)
            if given is not None:
                attributes[attribute.name] = attribute_value(info.name, attribute, given)
        if ranks_known:
            inferred = _shape_rule.infer_decided(info, shapes, dtypes, attributes, values)
            name = _DecidedNames(info)
            results = [
                dims and [name(d, o.name) if isinstance(d, DecidedLength) else d for d in dims]
                for o, (_, dims) in zip(info.outputs, inferred, strict=True)
            ]
        # What a function body returns for an output that the call leaves out has another shape.
        wanted = info.present(protos, attributes)
        results = [
            dims if is_wanted else None for dims, is_wanted in zip(results, wanted, strict=True)
        ]
        for number, (output, dims) in enumerate(zip(info.outputs, results, strict=True)):
            if number < context.get_num_outputs():
                _set_output(context, number, _like(info, output.type, dtypes), dims)

    return infer


def _input_type(context: Any, number: int) -> onnx.TypeProto | None:
    if number >= context.get_num_inputs() or not context.has_input(number):
        return None
    return context.get_input_type(number) or onnx.TypeProto()


def _values(context: Any, number: int) -> list[float] | None:
    """The numbers of a list that is a constant, or that shape inference has computed."""
    constant = context.get_input_data(number)
    if constant is not None:
        try:
            return onnx.numpy_helper.to_array(constant).reshape(-1).tolist()
        except Exception:  # of an unknown dtype, or damaged; the checker names it
            return None
    followed = context.get_symbolic_input(number)
    if followed is None or not all(dim.HasField("dim_value") for dim in followed.dim):
        return None
    return [dim.dim_value for dim in followed.dim]


def _like(info: OpInfo, kind: str, dtypes: list[str | None]) -> str | None:
    """The dtype of the first input of type parameter `kind` whose dtype is known."""
    for item, dtype in zip(info.inputs, dtypes, strict=True):
        if item.type == kind and dtype is not None:
            return dtype
    return info.types[kind][0] if len(info.types[kind]) == 1 else None


def _set_output(context: Any, number: int, dtype: str | None, dims: list[Dim] | None) -> None:
    if dtype is None:
        return
    shape = None if dims is None else [None if isinstance(d, int) and d < 0 else d for d in dims]
    proto = onnx.helper.make_tensor_type_proto(ELEMENT_TYPES[dtype], shape)
    context.set_output_type(number, proto)
