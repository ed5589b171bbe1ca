"""Sets attributes and op types of nodes, in accordance with the schema of the op."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, numpy_helper

from myops import _libraries
from myops._names import near_misses
from myops._op_parts import AttributeInfo
from myops.onnx.graph.scopes import is_body
from myops.onnx.graph.structure import GraphError, is_custom, label
from myops.onnx.schema import attribute_proto, register_schemas

_KIND: dict[int, str] = {  # of attributes, in words
    AttributeProto.INT: "a whole number", AttributeProto.FLOAT: "a number",
    AttributeProto.STRING: "text", AttributeProto.INTS: "whole numbers, such as 2,2",
    AttributeProto.FLOATS: "numbers, such as 0.5,2", AttributeProto.STRINGS: "texts, such as a,b",
    AttributeProto.TENSOR: "numbers, as many as the tensor has",
}  # fmt: skip


@dataclass(frozen=True)
class OpSignature:
    """The inputs, outputs and attributes of an op, from its schema or the model-local function."""

    attributes: dict[str, int]  # name: AttributeProto type; 0 when the function states none
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    choices: dict[str, tuple[str, ...] | tuple[int, ...]]


def signature(model: onnx.ModelProto, domain: str, op_type: str) -> OpSignature | None:
    """The signature of a node's op; None if nothing is known about it."""
    domain = domain if is_custom(domain) else ""
    for function in model.functions:
        if (function.domain, function.name) == (domain, op_type) and not is_body(function):
            stated = dict.fromkeys(function.attribute, 0)
            stated |= {item.name: item.type for item in function.attribute_proto}
            counts = (len(function.input), len(function.output))
            return OpSignature(stated, (0, counts[0]), (0, counts[1]), {})
    register_schemas(model)
    version = _version(model, domain)
    if version is None or not _has(op_type, domain, version):
        return None
    schema = onnx.defs.get_schema(op_type, version, domain)
    info = _libraries.find_node(domain, op_type)
    choices = {item.name: item.choices for item in info.attributes if item.choices} if info else {}
    return OpSignature(
        {name: item.type.value for name, item in schema.attributes.items()},  # type: ignore[attr-defined]
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        choices,
    )


def _has(op_type: str, domain: str, version: int) -> bool:
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return False
    return not schema.deprecated


def _version(model: onnx.ModelProto, domain: str) -> int | None:
    for item in model.opset_import:
        if item.domain == domain or (not domain and item.domain == "ai.onnx"):
            return item.version
    return _libraries.newest_version(domain) if _libraries.find(domain) else None


def set_op_type(model: onnx.ModelProto, node: onnx.NodeProto, kind: str) -> None:
    """Changes the op of a node to one that accepts its numbers of inputs and outputs."""
    domain, _, op_type = kind.rpartition("::")
    domain = domain if is_custom(domain) else ""
    found = signature(model, domain, op_type)
    where = f"edit: op type of node {label(node)}"
    if found is None:
        known = _known_ops(model, domain)
        if known or not domain:
            text = near_misses(op_type, known)
            raise GraphError(
                f"{where}: no op {op_type!r} in domain {domain or 'ai.onnx'!r} at the model's "
                f"opset {_version(model, domain)}.{text}"
            )
    else:
        for what, given, (least, most) in (
            ("inputs", node.input, found.inputs),
            ("outputs", node.output, found.outputs),
        ):
            if not least <= len(given) <= most:
                wanted = str(least) if least == most else f"{least} to {most}"
                raise GraphError(
                    f"{where}: the node has {len(given)} {what}, but {kind} has {wanted}"
                )
    node.op_type, node.domain = op_type, domain
    if _version(model, domain) is None:
        raise GraphError(f"{where}: the model imports no version of the domain {domain!r}")
    if all(item.domain != domain for item in model.opset_import) and domain:
        model.opset_import.append(
            onnx.helper.make_opsetid(domain, _libraries.newest_version(domain))
        )


def check_attributes(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    """Refuses attributes of the former op type that the new one does not have."""
    found = signature(model, node.domain, node.op_type)
    if found is None:
        return
    for item in node.attribute:
        if item.name not in found.attributes:
            raise GraphError(
                f"edit: op type of node {label(node)}: the node has the attribute {item.name!r}, "
                f"which {node.op_type} does not have; remove it in the same edit "
                f"(attributes={{(node, {item.name!r}): None}}, --unset NODE:{item.name})"
                f".{near_misses(item.name, found.attributes)}"
            )


def _known_ops(model: onnx.ModelProto, domain: str) -> list[str]:
    version = _version(model, domain) or 0
    found = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == domain}
    found = {name for name in found if _has(name, domain, version)}
    return sorted(found | {f.name for f in model.functions if f.domain == domain})


def set_attribute(model: onnx.ModelProto, node: onnx.NodeProto, name: str, value: Any) -> None:
    """Sets an attribute with the type in the op's schema; None removes it."""
    found = signature(model, node.domain, node.op_type)
    present = {item.name: item for item in node.attribute}
    where = f"edit: attribute {name!r} of node {label(node)}"
    known = [*present, *(found.attributes if found else ())]
    hint = near_misses(name, known)
    listed = f" It has {', '.join(sorted(set(known)))}." if known else " It has none."
    if value is None:
        if name not in present:
            raise GraphError(f"{where}: the node does not have it.{hint}")
        node.attribute.remove(present[name])
        return
    if found is not None and name not in found.attributes:
        raise GraphError(f"{where}: {node.op_type} has no such attribute.{hint or listed}")
    if found is None and name not in present and hint:
        raise GraphError(f"{where}: the node has no such attribute.{hint}")
    kind = (found.attributes[name] if found else 0) or (
        present[name].type if name in present else 0
    )
    exact = _exact(node, name)
    if exact is not None:
        made = _exactly(where, exact, value)
    elif not kind:  # nothing is known about this op: the type is that of the value
        guessed = _guess(value) if isinstance(value, str) else value
        made = onnx.helper.make_attribute(name, guessed)
    else:
        made = _typed(where, name, kind, value, present.get(name))
    choices = found.choices.get(name, ()) if found else ()
    for element in _elements(made) if choices else ():
        if element not in choices:
            raise GraphError(
                f"{where}: got {element!r}, expected one of {', '.join(map(str, choices))}."
                f"{near_misses(str(element), list(map(str, choices)))}"
            )
    if name in present:
        present[name].CopyFrom(made)
    else:
        node.attribute.append(made)


def _elements(made: AttributeProto) -> list[Any]:
    value = onnx.helper.get_attribute_value(made)
    items = value if isinstance(value, (list, tuple)) or not isinstance(
        value, (str, bytes, int, float)
    ) else [value]  # fmt: skip
    return [item.decode() if isinstance(item, bytes) else item for item in items]


def _exact(node: onnx.NodeProto, name: str) -> AttributeInfo | None:
    """The description of an attribute of 64 bits, which is stored in a tensor."""
    info = _libraries.find_node(node.domain, node.op_type)
    declared = info.attributes if info is not None else ()
    return next((a for a in declared if a.name == name and a.type in ("double", "doubles")), None)


def _exactly(where: str, item: AttributeInfo, value: Any) -> AttributeProto:
    try:
        number = [float(one) for one in _items(value)] if item.is_list else float(value)
    except (ValueError, TypeError) as error:
        expected = "numbers" if item.is_list else "a number"
        raise GraphError(f"{where}: got {value!r}, expected {expected}") from error
    return attribute_proto(item, number)


def _typed(
    where: str, name: str, kind: int, value: Any, old: AttributeProto | None
) -> AttributeProto:
    kinds = AttributeProto
    if kind not in _KIND:
        word = AttributeProto.AttributeType.Name(kind).lower()
        raise GraphError(f"{where}: an attribute of type {word} cannot be set here")
    try:
        if kind == kinds.TENSOR:
            return onnx.helper.make_attribute(name, _tensor(value, old))
        if kind in (kinds.INTS, kinds.FLOATS, kinds.STRINGS):
            items = _items(value)
            ones: dict[int, Any] = {
                kinds.INTS: _whole, kinds.FLOATS: float, kinds.STRINGS: str,
            }  # fmt: skip
            one = ones[kind]
            return onnx.helper.make_attribute(name, [one(item) for item in items], attr_type=kind)
        if kind == kinds.STRING:
            if not isinstance(value, (str, bytes)):
                raise ValueError(value)
            return onnx.helper.make_attribute(name, value, attr_type=kind)
        number = _whole(value) if kind == kinds.INT else float(value)
        return onnx.helper.make_attribute(name, number, attr_type=kind)
    except (ValueError, TypeError, OverflowError, SyntaxError) as error:
        if isinstance(error, GraphError):
            raise
        raise GraphError(f"{where}: got {value!r}, expected {_KIND[kind]}") from error


def _whole(value: Any) -> int:
    if isinstance(value, str):
        lowered = value.strip().lower()
        value = {"true": 1, "false": 0}.get(lowered, lowered)
        return int(value)
    if int(value) != value:
        raise ValueError(value)
    return int(value)


def _items(value: Any) -> Sequence[Any]:
    if isinstance(value, str):
        inner = value.strip().strip("[]()")
        return [item.strip() for item in inner.split(",") if item.strip()]
    return list(value)


def _tensor(value: Any, old: AttributeProto | None) -> onnx.TensorProto:
    if isinstance(value, onnx.TensorProto):
        return value
    if isinstance(value, str):
        value = ast.literal_eval(value if value.strip()[:1] in "[(" else f"[{value}]")
    array = np.asarray(value)
    if old is not None and old.t.data_type:
        before = numpy_helper.to_array(old.t)
        array = array.astype(before.dtype)
        array = array.reshape(before.shape) if array.size == before.size else array
    return numpy_helper.from_array(array)


def _guess(text: str) -> Any:
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    found = list(found) if isinstance(found, tuple) else found
    return found if isinstance(found, (int, float, str, list)) else text
