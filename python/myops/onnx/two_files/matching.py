"""Pairs the nodes and values of two files, whatever their names are.

The ways to find a pair, the most reliable first:

    same      it computes the same: the same operators, attributes and constants, from equal inputs
    place     the same operator between values that are paired; attributes or weights differ
    replaced  another operator in its place: it reads the same, and nothing else there is unpaired
    name      only the name is equal; the operators differ
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx

from myops.onnx.graph.structure import label
from myops.onnx.two_files.numbered_graph import NumberedGraph, Numbering, commutes, kind

SAME, PLACE, REPLACED, NAME = "same", "place", "replaced", "name"


@dataclass(eq=False)
class Match:
    """The pairs of one list of nodes in two files.

    Attributes:
        where: The nodes around it with their attributes, outermost first; () for the main graph.
        first, second: The two sides.
        nodes: Indices of nodes, first to second, and how the pair was found.
        values: Names of values, inputs included, first to second, and how. Several values of the
            first file that compute the same may belong to one of the second.
        constants: Names of constants, first to second.
        around: The match of the graph around it.
        path: The nodes around it by their indices in both files, and the attributes.
    """

    where: tuple[str, ...]
    first: NumberedGraph
    second: NumberedGraph
    around: Match | None = None
    path: tuple[tuple[int, int, str], ...] = ()
    nodes: dict[int, tuple[int, str]] = field(default_factory=dict)
    values: dict[str, tuple[str, str]] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._taken: set[int] = set()  # nodes of the second side
        self._used: set[str] = set()  # values of the second side

    def pair_nodes(self, one: int, two: int, how: str) -> None:
        """Pairs two nodes, and those of their outputs that are not paired yet."""
        self.nodes[one] = two, how
        self._taken.add(two)
        for left, right in zip(
            self.first.nodes[one].output, self.second.nodes[two].output, strict=False
        ):
            if left and right:
                self.pair_values(left, right, how)

    def pair_values(self, one: str, two: str, how: str) -> None:
        if one not in self.values and (two not in self._used or how == SAME):
            self.values[one] = two, how
            self._used.add(two)

    def is_free(self, two: int) -> bool:
        return two not in self._taken

    def is_unused(self, name: str) -> bool:
        """Whether a value of the second side has no partner."""
        return name not in self._used

    def number(self, name: str) -> int | None:
        """The number of a value of the first side; if it is paired, that of its partner."""
        if name in self.values:
            return self.second.numbers.get(self.values[name][0])
        if name in self.first.numbers:
            return self.first.numbers[name]
        return self.around.number(name) if self.around else None

    def partner(self, name: str) -> str | None:
        """The name in the second file of a value or constant, also of the graphs around."""
        if name in self.values:
            return self.values[name][0]
        if name in self.constants:
            return self.constants[name]
        known = name in self.first.numbers
        return self.around.partner(name) if self.around and not known else None


def match(first: onnx.ModelProto, second: onnx.ModelProto) -> list[Match]:
    """Pairs the nodes and values of two models, including those in bodies, outer graphs first."""
    return match_graphs(first.graph, second.graph, Numbering())


def match_graphs(first: Any, second: Any, numbering: Numbering) -> list[Match]:
    """The same for two graphs, or objects with nodes, inputs and outputs like a graph."""
    return list(_matched(first, second, numbering, (), None))


def interface(one: list[str], two: list[str]) -> dict[str, str]:
    """Pairs inputs or outputs of two graphs: by name, and the others in order if their numbers are
    equal."""
    found = {name: name for name in one if name in two}
    left = [name for name in one if name not in found]
    right = [name for name in two if name not in found]
    if len(left) == len(right):
        found.update(zip(left, right, strict=True))
    return found


def _matched(
    first: Any, second: Any, numbering: Numbering, where: tuple[str, ...], around: Match | None,
    path: tuple[tuple[int, int, str], ...] = (),
) -> Iterator[Match]:  # fmt: skip
    one, two = NumberedGraph(first), NumberedGraph(second)
    found = Match(where, one, two, around, path)
    if path:  # inputs and outputs of a body are paired by position
        inputs = dict(zip(one.inputs, two.inputs, strict=False))
    else:
        inputs = interface(one.inputs, two.inputs)
    numbers = {name: numbering.of("input", *where, place) for place, name in enumerate(two.inputs)}
    theirs = {left: numbers[right] for left, right in inputs.items()}
    for place, name in enumerate(one.inputs):
        theirs.setdefault(name, numbering.of("only in the first", *where, place))
    two.number(numbering, numbers, lambda name: _around(around, name))
    one.number(numbering, theirs, lambda name: around.number(name) if around else None)
    for left, right in inputs.items():
        found.pair_values(left, right, NAME if left == right else PLACE)
    _same(found)
    if path:
        ends = dict(zip(one.outputs, two.outputs, strict=False))
    else:
        ends = interface(one.outputs, two.outputs)
    _downwards(found)
    _upwards(found, ends)
    _by_name(found)
    _downwards(found)
    _upwards(found, ends)
    _downwards(found, replaced=True)
    _upwards(found, ends)
    for left, right in ends.items():
        found.pair_values(left, right, NAME if left == right else PLACE)
    _constants(found)
    yield found
    for left_place, (right_place, _) in sorted(found.nodes.items()):
        node, counterpart = one.nodes[left_place], two.nodes[right_place]
        bodies = {item.name: item.g for item in counterpart.attribute if item.HasField("g")}
        for item in node.attribute:
            if item.HasField("g") and item.name in bodies:
                step = f"{label(node)} {item.name}"
                yield from _matched(item.g, bodies[item.name], numbering, (*where, step), found,
                                    (*path, (left_place, right_place, item.name)))  # fmt: skip


def _around(around: Match | None, name: str) -> int | None:
    """The number of a value of the graphs around the second side."""
    while around is not None:
        if name in around.second.numbers:
            return around.second.numbers[name]
        around = around.around
    return None


def _same(found: Match) -> None:
    """Pairs values that compute the same: first those with equal names, then in order."""
    one, two = found.first, found.second
    theirs: dict[int, list[int]] = defaultdict(list)
    for place, key in two.keys.items():
        theirs[key].append(place)
    named = {place: _titles(node) for place, node in enumerate(two.nodes)}
    left: list[int] = []
    for place, key in one.keys.items():
        wanted = _titles(one.nodes[place])
        counterpart = next((p for p in theirs[key] if found.is_free(p) and wanted & named[p]), None)
        if counterpart is None:
            left.append(place)
        else:
            found.pair_nodes(place, counterpart, SAME)
    for place in left:
        counterpart = next((p for p in theirs[one.keys[place]] if found.is_free(p)), None)
        if counterpart is not None:
            found.pair_nodes(place, counterpart, SAME)
    values: dict[int, str] = {}
    for name, number in two.numbers.items():
        if name not in two.constants:
            values.setdefault(number, name)
    for name, number in one.numbers.items():
        if name not in one.constants and name not in found.values and number in values:
            found.pair_values(name, values[number], SAME)


def _titles(node: onnx.NodeProto) -> set[str]:
    return {node.name, *node.output} - {""}


def _data(scope: NumberedGraph, node: onnx.NodeProto) -> list[str]:
    """The inputs of a node, with "" for absent ones and for values computed from constants only."""
    return ["" if name in scope.fixed else name for name in node.input]


def _downwards(found: Match, *, replaced: bool = False) -> None:
    """Pairs nodes of one type that read paired values, beginning at the inputs.

    Args:
        replaced: Whether a node of another type may be paired, if no other node reads the same.
    """
    one, two = found.first, found.second
    theirs: dict[Any, list[int]] = defaultdict(list)
    for place, node in enumerate(two.nodes):
        read = _data(two, node)
        if found.is_free(place) and any(read):
            numbers = [_second(found, name) if name else -1 for name in read]
            theirs[_in_order(node, numbers)].append(place)
    titles = {title for node in one.nodes for title in _titles(node)}
    for place, node in enumerate(one.nodes):
        read = _data(one, node)
        if place in found.nodes or not any(read):
            continue
        numbers = [found.number(name) if name else -1 for name in read]
        free = [p for p in theirs.get(_in_order(node, numbers), ())
                if found.is_free(p) and len(two.nodes[p].output) == len(node.output)]  # fmt: skip
        alike = [p for p in free if kind(two.nodes[p]) == kind(node)]
        if alike:
            wanted = _titles(node)
            counterpart = next((p for p in alike if wanted & _titles(two.nodes[p])), None)
            if counterpart is None:  # prefer a node whose names no other candidate has
                others = (p for p in alike if not titles & _titles(two.nodes[p]))
                counterpart = next(others, alike[0])
            found.pair_nodes(place, counterpart, PLACE)
        elif replaced and len(free) == 1 and len(_rivals(found, read)) == 1:
            found.pair_nodes(place, free[0], REPLACED)


def _in_order(node: onnx.NodeProto, numbers: list[int | None]) -> tuple[int | None, ...]:
    """The inputs of a node; sorted if their order has no meaning."""
    if commutes(node):
        numbers = sorted(numbers, key=lambda number: -2 if number is None else number)
    return tuple(numbers)


def _rivals(found: Match, read: list[str]) -> list[int]:
    """The unpaired nodes of the first side that read the same."""
    first = next(name for name in read if name)
    places = found.first.readers[first]
    return [p for p in places if p not in found.nodes
            and _data(found.first, found.first.nodes[p]) == read]  # fmt: skip


def _second(found: Match, name: str) -> int | None:
    numbers = found.second.numbers
    return numbers[name] if name in numbers else _around(found.around, name)


def _upwards(found: Match, ends: Mapping[str, str]) -> None:
    """Pairs nodes of one type whose results are used in the same way, from the outputs and from
    pairs backwards."""
    one, two = found.first, found.second
    waiting = list(ends.items())
    for place, (other, _) in found.nodes.items():
        waiting += _read(found, place, other)
    while waiting:
        a, b = waiting.pop()
        if a not in one.makers or b not in two.makers:
            continue
        left, right = one.makers[a], two.makers[b]
        if left in found.nodes or not found.is_free(right):
            continue
        node, counterpart = one.nodes[left], two.nodes[right]
        if kind(node) == kind(counterpart) and list(node.output).index(a) == list(
            counterpart.output
        ).index(b):
            found.pair_nodes(left, right, PLACE)
            waiting += _read(found, left, right)


def _read(found: Match, left: int, right: int) -> list[tuple[str, str]]:
    """Pairs the inputs of two nodes that are not paired on either side."""
    pairs = zip(*aligned(found, left, right), strict=False)
    return [(a, b) for a, b in pairs if a not in found.values and found.is_unused(b)]


def aligned(found: Match, left: int, right: int) -> tuple[list[str], list[str]]:
    """The inputs of two nodes; those of the second are exchanged if that fits better."""
    one, two = found.first, found.second
    node, counterpart = one.nodes[left], two.nodes[right]
    read, other = list(node.input), list(counterpart.input)
    if commutes(node) and kind(node) == kind(counterpart):
        numbers = [found.number(name) for name in read]
        theirs = [_second(found, name) for name in other]
        met = [a is not None and a == b for a, b in zip(numbers, theirs, strict=True)]
        crossed = [a is not None and a == b for a, b in zip(numbers, theirs[::-1], strict=True)]
        written = [(name in one.fixed) for name in read]
        turned = [(name in two.fixed) for name in other]
        if sum(crossed) > sum(met) or (not any(met) and written != turned == written[::-1]):
            other.reverse()
    return read, other


def _by_name(found: Match) -> None:
    """Pairs the rest by equal names: first nodes of one type, then all values."""
    one, two = found.first, found.second
    for alike in (True, False):
        for name, left in one.makers.items():
            right = two.makers.get(name)
            if right is None or name in found.values or not found.is_unused(name):
                continue
            node, counterpart = one.nodes[left], two.nodes[right]
            if name in one.constants or name in two.constants:
                continue
            free = left not in found.nodes and found.is_free(right)
            at = list(node.output).index(name) == list(counterpart.output).index(name)
            if kind(node) == kind(counterpart):
                if free and at:
                    found.pair_nodes(left, right, PLACE)
            elif not alike:
                if free and len(node.output) == len(counterpart.output):
                    found.pair_nodes(left, right, NAME)
                else:
                    found.pair_values(name, name, NAME)


def _constants(found: Match) -> None:
    """Pairs constants by name and content, by the nodes that read them, by name, and by content."""
    one, two = found.first, found.second
    used: set[str] = set()

    def pair(left: str, right: str) -> None:
        both = left in one.constants and right in two.constants
        if both and left not in found.constants and right not in used:
            found.constants[left] = right
            used.add(right)

    found.constants.update({name: name for name in one.sparse if name in two.sparse})
    for name in one.constants:
        if one.numbers[name] == two.numbers.get(name):
            pair(name, name)
    for left, (right, _) in found.nodes.items():
        for a, b in zip(*aligned(found, left, right), strict=False):
            pair(a, b)
    for name in one.constants:
        pair(name, name)
    contents: dict[int, list[str]] = defaultdict(list)
    for name in two.constants:
        if name not in used:
            contents[two.numbers[name]].append(name)
    for name in one.constants:
        if name not in found.constants and contents.get(one.numbers[name]):
            pair(name, contents[one.numbers[name]].pop(0))
