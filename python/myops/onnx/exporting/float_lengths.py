"""Python floats made of lengths: in float64, as Python computes them.

torch's newer exporter writes them in float32, so that a factor of 64 / h can make an axis one
element shorter than in PyTorch. Most of the graph needs such a number in float32; where it becomes
an integer or a tensor of float64, it is computed again.
"""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

import numpy as np
import torch

_ARITHMETIC: dict[Any, str] = {
    operator.truediv: "Div",
    operator.mul: "Mul",
    operator.add: "Add",
    operator.sub: "Sub",
    operator.neg: "Neg",
    operator.pow: "Pow",
    torch.sym_max: "Max",
    torch.sym_min: "Min",
}
# Functions that give an integer, and the node that rounds before the cast (which truncates).
_ROUNDING: dict[Any, str] = {
    math.trunc: "",
    torch.sym_int: "",
    math.floor: "Floor",
    math.ceil: "Ceil",
    builtins.round: "Round",
}


def widen(program: torch.onnx.ONNXProgram) -> None:
    """Computes the numbers of a program in float64 where float32 is not enough."""
    exported = program.exported_program
    if exported is None:
        return
    nodes = list(exported.graph.nodes)
    if any(_is_float(node) for node in nodes):
        _Numbers(program.model.graph).widen(nodes)


def _is_float(item: Any) -> bool:
    return isinstance(item, torch.fx.Node) and isinstance(item.meta.get("val"), torch.SymFloat)


class _Numbers:
    """The numbers of a graph, whose values have the names of the program's nodes."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._values = {out.name: out for node in graph for out in node.outputs}
        self._wide: dict[str, Any] = {}  # in float64, by name

    def widen(self, nodes: list[torch.fx.Node]) -> None:
        for node in nodes:
            old = self._values.get(node.name)
            if old is None or old.producer() is None:
                continue
            if node.target in _ROUNDING and len(node.args) == 1 and _is_float(node.args[0]):
                self._round_again(node, old)
            elif _is_float(node):
                self._replace_casts(node, old)

    def _round_again(self, node: torch.fx.Node, old: Any) -> None:
        import onnx_ir as ir

        place, kind = old.producer(), _ROUNDING[node.target]
        wide = self._float64(node.args[0], place)
        if wide is None or not old.uses():
            return
        if kind:
            wide = self._add(kind, [wide], place)
        whole = self._add("Cast", [wide], place, to=ir.DataType.INT64)
        whole.dtype, whole.shape = ir.DataType.INT64, old.shape
        for user, number in list(old.uses()):
            user.replace_input_with(number, whole)
        self._values[node.name] = whole

    def _replace_casts(self, node: torch.fx.Node, old: Any) -> None:
        for user, _ in list(old.uses()):
            if _gives_float64(user) and user.inputs[0] is old:
                wide = self._float64(node, user)
                if wide is not None:
                    user.replace_input_with(0, wide)

    def _float64(self, item: Any, place: Any) -> Any:
        """A number in float64; None if a part of it is not known. `place`: a node that uses it."""
        import onnx_ir as ir

        if isinstance(item, (int, float)):
            number = ir.tensor(np.array(item, np.float64))
            return self._add("Constant", [], place, value=number)
        value = self._values.get(item.name) if isinstance(item, torch.fx.Node) else None
        if value is None:
            return None
        if not _is_float(item):  # a length
            is_length = isinstance(item.meta.get("val"), torch.SymInt)
            double = ir.DataType.DOUBLE
            return self._add("Cast", [value], place, to=double) if is_length else None
        if item.name not in self._wide:
            self._wide[item.name] = self._computed(item, value)
        return self._wide[item.name]

    def _computed(self, item: torch.fx.Node, value: Any) -> Any:
        """The number in float64, computed just before the node that computes it in float32."""
        import onnx_ir as ir

        place = value.producer()
        if place is None:
            return None
        if item.target is torch.sym_float:
            return self._float64(item.args[0], place)
        if item.target in _ARITHMETIC:
            parts = [self._float64(one, place) for one in item.args]
            known = all(part is not None for part in parts)
            return self._add(_ARITHMETIC[item.target], parts, place) if known else None
        if item.target is torch.ops.aten._local_scalar_dense.default:
            assert isinstance(item.args[0], torch.fx.Node)
            tensor = self._values.get(item.args[0].name)
            if tensor is not None and tensor.dtype == ir.DataType.DOUBLE:
                shape = self._add("Constant", [], place, value=ir.tensor(np.array([], np.int64)))
                return self._add("Reshape", [tensor, shape], place)
        cast = ir.node("Cast", [value], {"to": ir.DataType.DOUBLE})
        place.graph.insert_after(place, cast)
        cast.outputs[0].dtype = ir.DataType.DOUBLE
        return cast.outputs[0]

    def _add(self, kind: str, inputs: list[Any], place: Any, **attributes: Any) -> Any:
        import onnx_ir as ir

        node = ir.node(kind, inputs, attributes or None)
        place.graph.insert_before(place, node)
        output = node.outputs[0]
        output.dtype = attributes.get("to", ir.DataType.DOUBLE)
        return output


def _gives_float64(node: Any) -> bool:
    import onnx_ir as ir

    if node.domain == "" and node.op_type == "Cast":
        return bool(node.attributes["to"].as_int() == ir.DataType.DOUBLE)
    is_like = node.domain == "" and node.op_type == "CastLike"
    return is_like and node.inputs[1] is not None and node.inputs[1].dtype == ir.DataType.DOUBLE
