"""torch.export's decisions about lengths: at which lengths they hold, and as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from myops.onnx.exporting.inputs import Inputs
from myops.onnx.exporting.recorded import Axis, Condition, Recorded

_LONGEST = 200  # characters of a condition
Point = Mapping[Axis, int]
_FAR = (1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 128)


class Conditions:
    """The conditions of an exported program, over the lengths of its inputs."""

    def __init__(self, recorded: Recorded | None, program: Any, inputs: Inputs) -> None:
        self._symbols: dict[Any, tuple[Axis, int, int]] = {}  # symbol: axis == factor * it + offset
        self._names: dict[Any, str] = {}
        environment = None
        for name, tensor in _tensors(program, inputs) if recorded is not None else ():
            for axis, length in enumerate(tensor.shape):
                if isinstance(length, torch.SymInt):
                    environment = length.node.shape_env
                    self._add((name, axis), length.node.expr)
        given = recorded.conditions if recorded is not None else []
        self.all = [item for item in given if item.environment is environment]

    def _add(self, axis: Axis, expression: Any) -> None:
        symbols = list(expression.free_symbols)
        if len(symbols) != 1:
            return
        (symbol,) = symbols
        offset = expression.xreplace({symbol: 0})
        factor = expression.xreplace({symbol: 1}) - offset
        if (symbol * factor + offset - expression).expand() == 0 and factor != 0:
            self._symbols.setdefault(symbol, (axis, int(factor), int(offset)))
            if offset == 0:
                times = f"/{factor}" if factor != 1 else ""
                self._names.setdefault(symbol, f"{axis[0]}.shape[{axis[1]}]{times}")

    def broken(self, point: Point) -> list[Condition]:
        """The conditions that do not hold at these lengths."""
        values = self._values(point)
        return [item for item in self.all if item.holds(values) is False]

    def _values(self, point: Point) -> dict[Any, int]:
        return {
            symbol: (point[axis] - offset) // factor
            for symbol, (axis, factor, offset) in self._symbols.items()
            if axis in point
        }

    def breaking(
        self, example: Point, possible: Callable[[dict[Axis, int]], bool]
    ) -> Iterator[tuple[Condition, dict[Axis, int]]]:
        """For each condition, a few lengths at which it does not hold."""
        for condition in self.all:
            symbols = sorted(condition.relation.free_symbols & set(self._symbols), key=str)
            axes = [self._symbols[symbol][0] for symbol in symbols]
            found = 0
            for change in _changes(example, axes, condition.relation):
                if found == 4:
                    break
                point = {**example, **change}
                if possible(point) and condition.holds(self._values(point)) is False:
                    found += 1
                    yield condition, point

    def text(self, condition: Condition) -> str:
        """The condition with lengths by the names of the inputs."""
        relation = condition.relation.xreplace(getattr(condition.environment, "replacements", {}))
        words = _words(relation)
        for symbol, name in self._names.items():
            words = re.sub(rf"\b{symbol}\b", name, words)
        if len(words) > _LONGEST:
            names = [
                name for symbol, name in self._names.items() if symbol in relation.free_symbols
            ]
            return f"a relation between {', '.join(names)} holds"
        return words.replace("((", "(").replace("))", ")") if words.count("((") == 1 else words


def _words(relation: Any) -> str:
    sign = {"Equality": "==", "Unequality": "!="}.get(type(relation).__name__)
    return f"{relation.lhs} {sign} {relation.rhs}" if sign else str(relation)


def _changes(example: Point, axes: list[Axis], relation: Any) -> Iterator[dict[Axis, int]]:
    """Other lengths of one axis, then of two, the smallest changes first."""
    numbers = [int(n) for n in relation.atoms() if getattr(n, "is_Integer", False)]
    for axis in axes:
        old = example[axis]
        near = {old + sign * n for n in (*_FAR, *numbers) for sign in (1, -1)}
        near |= {2 * old, old // 2, 3 * old} | {n + d for n in numbers for d in (-1, 0, 1)}
        # a power of two that is not asked for, then the rest by distance
        for length in sorted(near - {old}, key=lambda item: (abs(item - old), item)):
            if length >= 1:
                yield {axis: length}
    for i, one in enumerate(axes):
        for other in axes[:i]:
            for n in _FAR:
                yield {one: example[one] + n, other: example[other] + 2 * n}


def _tensors(program: Any, inputs: Inputs) -> list[tuple[str, Any]]:
    """The inputs of the graph, and the values for them in torch.export's program."""
    if program is None:
        return []
    kinds = torch.export.graph_signature
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    given = [
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind == kinds.InputKind.USER_INPUT
        and not isinstance(spec.arg, kinds.ConstantArgument)
    ]
    if len(given) != len(inputs.slots):
        return []
    found = [(slot.name, nodes[name].meta.get("val")) for slot, name in
             zip(inputs.slots, given, strict=True)]  # fmt: skip
    return [(name, value) for name, value in found if isinstance(value, torch.Tensor)]
