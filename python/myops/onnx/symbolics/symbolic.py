"""Writes every op as one node for the TorchScript exporter, derived from its description."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.onnx import symbolic_helper

from myops import _description, _shape_rule
from myops._description import OpInfo
from myops._op_parts import AttributeInfo
from myops.onnx.symbolics import complex_numbers
from myops.onnx.symbolics.attribute_text import FollowsLengthError

_SUFFIX = {"bool": "i", "int": "i", "float": "f", "string": "s", "ints": "i", "floats": "f",
           "strings": "s", "double": "t", "doubles": "t"}  # fmt: skip

# How symbolic_helper reads a constant of each type.
_PARSE: dict[str, Any] = {
    "bool": "b",
    "int": "i",
    "float": "f",
    "string": "s",
    "ints": "is",
    "floats": "fs",
    "double": "f",
    "doubles": "fs",
}


def emit(g: Any, info: OpInfo, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """Adds the op's node to the graph.

    Args:
        g: The graph context that the exporter hands to a symbolic function.
        info: Description of the op.
        inputs: One graph value, list of numbers or None for each input; a list of graph values for
            a variadic one.
        attributes: Python values by name.
    """
    inputs = [None if _is_value(item) and symbolic_helper._is_none(item) else item
              for item in inputs]  # fmt: skip
    wanted = info.present(inputs, attributes)
    flat = info.flat(inputs)
    info = info.expanded(len(flat))
    complex_numbers.refuse(info, [_dtype(item) for item in flat])
    values = [_value(g, info, number, item) for number, item in enumerate(flat)]
    while values and values[-1] is None:
        values.pop()
    absent = [symbolic_helper._optional_input_placeholder_tensor(g) if v is None else v
              for v in values]  # fmt: skip
    keywords = {}
    for item in info.attributes:
        value = attributes.get(item.name)
        value = _constant(info, item, item.default if value is None else value)
        if not item.is_written(value):
            continue  # an empty list stands for "not given", as the ONNX default does
        if item.type in ("double", "doubles"):
            value = torch.tensor(value, dtype=torch.float64)
        keywords[f"{item.name}_{_SUFFIX[item.type]}"] = int(value) if item.type == "bool" else value
    if info.since_version > 1:
        keywords[f"{_description.VERSION}_i"] = info.since_version
    # An output that is left out has a name only where another follows it.
    count = max(number for number, given in enumerate(wanted) if given) + 1
    result = g.op(info.node, *absent, outputs=count, **keywords)
    results = [result] if count == 1 else list(result)
    for number, output in enumerate(results):
        _set_type(output, info, number, values, attributes)
    if len(info.outputs) == 1:
        return result
    for output in info.outputs[count:]:  # in the program, empty tensors stand for them
        pairs = zip(flat, info.inputs, strict=True)
        known = [_dtype(item) for item, declared in pairs if declared.type == output.type]
        dtype = next((name for name in known if name), info.types[output.type][0])
        results.append(g.op("Constant", value_t=torch.zeros(0, dtype=getattr(torch, dtype))))
    return tuple(results)


def _dtype(item: Any) -> str | None:
    """The dtype of a graph value, if the exporter knows it."""
    if not isinstance(item, torch._C.Value):
        return None
    kinds = symbolic_helper._type_utils.JitScalarType
    known = kinds.from_value(item, kinds.UNDEFINED)
    return None if known == kinds.UNDEFINED else str(known.dtype()).removeprefix("torch.")


def _constant(info: OpInfo, item: Any, value: Any) -> Any:
    """The Python value of an attribute.

    Raises:
        FollowsLengthError: It is computed at run time; in a trace this means, from the length of
            an input.
    """
    if isinstance(value, torch._C.Value):
        value = _known(value, item)
    listed = item.is_list and isinstance(value, (list, tuple))
    parts = list(value) if listed else [value]
    if any(isinstance(part, (torch._C.Value, torch.Tensor)) for part in parts):
        name = info.qualified.replace("::", ".")
        raise FollowsLengthError(
            name, item.name, more=" In the loops and branches of a scripted module no length is "
            f"known: there, call torch.ops.{name}(..., {item.name}=...) with numbers."
        )  # fmt: skip
    return parts if listed else value


def _known(value: Any, item: AttributeInfo) -> Any:
    """The Python value of a constant graph value; other values are returned unchanged."""
    if item.type != "strings":
        return symbolic_helper._maybe_get_const(value, _PARSE[item.type])
    node = value.node()
    if node.kind() == "prim::ListConstruct":
        texts = [symbolic_helper._maybe_get_const(text, "s") for text in node.inputs()]
        return value if any(isinstance(text, torch._C.Value) for text in texts) else texts
    return value.toIValue() if node.kind() == "prim::Constant" else value


def _value(g: Any, info: OpInfo, number: int, item: Any) -> Any:
    if item is None or (isinstance(item, torch._C.Value) and symbolic_helper._is_none(item)):
        return None
    if isinstance(item, torch._C.Value):
        return item
    integer = info.is_integer(info.inputs[number])
    return g.op("Constant", value_t=values_tensor(item, integer))


def values_tensor(numbers: Sequence[float], integer: bool) -> torch.Tensor:
    """The constant for a list of numbers: float32 if it represents them exactly, else float64."""
    if integer:
        return torch.tensor(list(numbers), dtype=torch.int64)
    exact = torch.tensor(list(numbers), dtype=torch.float64)
    single = exact.to(torch.float32)
    return single if torch.equal(single.to(torch.float64), exact) else exact


def _set_type(
    output: Any, info: OpInfo, number: int, values: Sequence[Any], attributes: dict[str, Any]
) -> None:
    """Gives the exporter dtype and shape, as far as the shape rule computes them."""
    padded = [*values, *[None] * (len(info.inputs) - len(values))]
    sizes = [None if v is None else symbolic_helper._get_tensor_sizes(v) for v in padded]
    for item, value, known in zip(info.inputs, padded, sizes, strict=True):
        if value is not None and known is None:
            if not item.values:
                return  # the rule needs every rank
            sizes[info.inputs.index(item)] = [None]
    kind = info.outputs[number].type
    like = next(
        (v for v, item in zip(padded, info.inputs, strict=True) if v is not None
         and item.type == kind), None,
    )  # fmt: skip
    dtypes = info.types[kind]
    dims = _shape_rule.infer(info, sizes, (), attributes)[number][1]
    if dims is None or (like is None and len(dtypes) > 1):
        return
    lengths = [dim if isinstance(dim, int) else None for dim in dims]
    if like is not None:
        known = like.type()
    else:  # such as indices: no input has their dtype
        dtype = getattr(torch, dtypes[0], None)
        if dtype is None:  # string
            return
        known = torch._C.TensorType.get().with_dtype(dtype)
    output.setType(known.with_sizes(lengths))


def register(info: OpInfo) -> None:
    """Makes scripted programs exportable: they contain the dispatcher op, not the Function."""
    # The name stands for all overloads.
    torch.onnx.register_custom_op_symbolic(info.qualified, _scripted(info), 9)


def _scripted(info: OpInfo) -> Any:
    """A symbolic function for the dispatcher op: every argument arrives as a graph value."""
    count = len(info.inputs)

    def symbolic(g: Any, *arguments: Any) -> Any:
        attributes = {}
        for item, value in zip(info.attributes, arguments[count:], strict=False):
            absent = isinstance(value, torch._C.Value) and symbolic_helper._is_none(value)
            known = None if absent else _known(value, item) if _is_value(value) else value
            if isinstance(known, torch._C.Value) and item.type == "int":
                known = _folded(known)
            attributes[item.name] = item.default if known is None else known
        inputs = [
            symbolic_helper._unpack_list(value)
            if item.variadic
            else _joined(g, value, info.is_integer(item))
            if item.values
            else value
            for item, value in zip(info.inputs, arguments[:count], strict=True)
        ]
        return emit(g, info, inputs, attributes)

    return symbolic


def _is_value(item: Any) -> bool:
    return isinstance(item, torch._C.Value)


def _folded(value: Any) -> Any:
    """The integer that a scripted program computes from constant lengths, such as the number of
    groups; `value` itself if a length in it is dynamic, or the computation is another one."""
    try:
        return int(_evaluate(value))
    except (_NotConstantError, ZeroDivisionError):
        return value


class _NotConstantError(Exception):
    pass


def _evaluate(value: Any) -> Any:
    node = value.node()
    kind = node.kind().removeprefix("onnx::")
    if kind == "Constant":
        return node.t("value").tolist()
    if kind == "Shape":
        sizes = symbolic_helper._get_tensor_sizes(next(node.inputs()))
        if sizes is None:
            raise _NotConstantError
        return sizes
    if kind not in ("Cast", "Floor", "Gather", "Mul", "Div", "Add", "Sub"):
        raise _NotConstantError
    first, *rest = [_evaluate(item) for item in node.inputs()]
    if kind == "Gather" and isinstance(first, list) and isinstance(rest[0], int):
        first = first[rest[0]]
        rest = []
    if any(not isinstance(item, (int, float)) for item in (first, *rest)):  # a dynamic length too
        raise _NotConstantError
    if kind == "Div":  # of lengths, which are not negative
        return first // rest[0] if isinstance(first, int) else first / rest[0]
    if kind == "Floor":
        return math.floor(first)
    operations = {"Mul": operator.mul, "Add": operator.add, "Sub": operator.sub}
    return operations[kind](first, rest[0]) if rest else first


def _joined(g: Any, value: Any, integer: bool) -> Any:
    """A list in the graph: as numbers if they are constant, else as one tensor."""
    if not isinstance(value.type(), torch._C.ListType):
        return value
    numbers = symbolic_helper._maybe_get_const(value, "is" if integer else "fs")
    if not isinstance(numbers, torch._C.Value):
        return numbers
    one = g.op("Constant", value_t=torch.tensor([1]))
    pieces = [g.op("Reshape", item, one) for item in symbolic_helper._unpack_list(value)]
    return g.op("Concat", *pieces, axis_i=0)
