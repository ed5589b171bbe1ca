"""Finds dynamic lengths whose values follow from the nodes of the model.

A Conv with weights for 3 channels requires an input with 3 channels, a MatMul with a constant
determines the length of the sum, a Reshape to a fixed shape the number of elements.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import onnx

from myops.onnx.graph import scopes, structure
from myops.onnx.graph.weights import without_weights

_PASSES = 4  # because a length that was found may determine others
Shape = list[Any]


def symbol(name: str, axis: int) -> str:
    """The name of a dynamic axis without a name, as on the command line."""
    return f"{name}:{axis}"


def named(model: onnx.ModelProto, known: Mapping[str, int]) -> onnx.ModelProto:
    """The model without weights in which every dynamic length has a name, or its known value."""
    light = onnx.ModelProto()
    light.CopyFrom(without_weights(model))
    del light.graph.value_info[:]
    for item in light.graph.input:
        for axis, dim in enumerate(item.type.tensor_type.shape.dim):
            if dim.HasField("dim_value"):
                continue
            title = dim.dim_param or symbol(item.name, axis)
            length = evaluated(title, known)
            if length is None:
                dim.dim_param = title
            else:
                dim.dim_value = length
    return light


def evaluated(text: str, known: Mapping[str, int]) -> int | None:
    """A length from its name, or from a formula of names such as "past + 1"; None if unknown."""
    if text in known:
        return known[text]
    try:
        return _value(ast.parse(text, mode="eval").body, known)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr, known: Mapping[str, int]) -> int:
    signs: dict[type, Callable[[int, int], int]] = {
        ast.Add: int.__add__, ast.Sub: int.__sub__, ast.Mult: int.__mul__,
        ast.FloorDiv: int.__floordiv__, ast.Div: int.__floordiv__, ast.Mod: int.__mod__,
    }  # fmt: skip
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in signs:
        return signs[type(node.op)](_value(node.left, known), _value(node.right, known))
    raise ValueError(ast.dump(node))


def solve(model: onnx.ModelProto, given: Mapping[str, int]) -> dict[str, int]:
    """The lengths that nodes require, by the name of the length, including the given ones."""
    known = dict(given)
    for _ in range(_PASSES):
        light = named(model, known)
        try:
            scope = next(scopes.all_scopes(light))
        except ValueError:  # the model is invalid, which a run will report
            return known
        found = {
            name: length
            for node in light.graph.node
            if not structure.is_custom(node.domain)
            for name, length in _demands(node, scope)
            if name not in known and length > 0
        }
        if not found:
            break
        known.update(found)
    return known


def _demands(node: onnx.NodeProto, scope: scopes.Scope) -> Iterator[tuple[str, int]]:
    """Names of lengths, and the values that a node requires."""
    shapes = [scope.shape(name) if name else None for name in node.input]
    x = shapes[0] if shapes else None
    other = shapes[1] if len(shapes) > 1 else None
    if x is None or other is None:
        return
    options = {item.name: item.i for item in node.attribute}
    pairs: list[tuple[Shape, int, Any]] = []  # a shape, an axis of it, the length that it must have
    kind = node.op_type
    if kind in ("Conv", "ConvInteger") and len(x) > 1 and _number(other, 1):
        pairs = [(x, 1, other[1] * options.get("group", 1))]
    elif kind == "QLinearConv" and len(shapes) > 3 and shapes[3] and _number(shapes[3], 1):
        pairs = [(x, 1, shapes[3][1] * options.get("group", 1))]
    elif (kind == "ConvTranspose" and len(x) > 1) or (
        kind in ("BatchNormalization", "InstanceNormalization") and len(x) > 1
    ):
        pairs = [(x, 1, other[0])]
    elif kind == "LayerNormalization" and len(other) == 1 and options.get("axis", -1) == -1:
        pairs = [(x, -1, other[0])]
    elif kind in ("LSTM", "GRU", "RNN") and len(x) == 3 and len(other) == 3:
        pairs = [(x, 2, other[2])]
    elif kind in ("MatMul", "MatMulInteger") and x and other:
        inner = -2 if len(other) > 1 else -1
        pairs = [(x, -1, other[inner]), (other, inner, x[-1])]
    elif kind == "Gemm" and len(x) == len(other) == 2:
        mine, theirs = 0 if options.get("transA") else 1, 1 if options.get("transB") else 0
        pairs = [(x, mine, other[theirs]), (other, theirs, x[mine])]
    elif kind in ("Add", "Sub", "Mul", "Div", "PRelu"):
        for axis in range(1, min(len(x), len(other)) + 1):
            pairs += [(x, -axis, other[-axis]), (other, -axis, x[-axis])]
        pairs = [item for item in pairs if item[2] != 1]
    elif kind == "Reshape":
        yield from _reshape(x, scope.value(node.input[1]), options.get("allowzero", 0))
    for shape, axis, length in pairs:
        if isinstance(shape[axis], str) and isinstance(length, int):
            yield shape[axis], length


def _reshape(shape: Shape, target: Any, allowzero: int) -> Iterator[tuple[str, int]]:
    """One open length, and a target without -1."""
    unknown = [dim for dim in shape if not isinstance(dim, int)]
    if target is None or len(unknown) != 1 or not isinstance(unknown[0], str):
        return
    wanted = [int(dim) for dim in target.reshape(-1)]
    if not allowzero:
        wanted = [shape[i] if dim == 0 and i < len(shape) else dim for i, dim in enumerate(wanted)]
    if not all(isinstance(dim, int) and dim > 0 for dim in wanted):
        return
    rest = math.prod(dim for dim in shape if isinstance(dim, int))
    if rest and math.prod(wanted) % rest == 0:
        yield unknown[0], math.prod(wanted) // rest


def _number(shape: Shape, axis: int) -> bool:
    return len(shape) > axis and isinstance(shape[axis], int)
