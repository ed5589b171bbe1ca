"""How many nodes the calls of a model's own functions stand for.

A call is replaced by the nodes of its function when types are inferred, a function is inlined, or
ONNX Runtime loads the model. Functions that each call the next one twice double the nodes at every
level, so that a file of a kilobyte may stand for 10^12 nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import onnx

from myops._text import shorten
from myops.onnx.graph.structure import graphs_of

MOST = 200_000  # nodes that calls may stand for, beside those that the graph itself has
DEEPEST = 100  # calls inside each other; newer versions of onnx have the same limit

_Key = tuple[str, str, str]


class CallsError(ValueError):
    """Functions call themselves, or their calls stand for too many nodes."""


def refuse_endless(model: onnx.ModelProto) -> None:
    """Refuses a model whose functions cannot be written out; takes time linear in the file's size.

    Raises:
        CallsError: A function calls itself, calls are nested too deeply, or they stand for too many
            nodes.
    """
    if not model.functions:
        return
    functions: dict[_Key, list[onnx.NodeProto]] = {}
    for item in model.functions:  # of equal names, which are invalid, all nodes are counted
        key = (_domain(item.domain), item.name, item.overload)
        functions.setdefault(key, []).extend(item.node)
    sizes: dict[_Key, _Size] = {}
    for key in _callees_first(functions):
        size = sizes[key] = _size(functions[key], sizes)
        if size.depth > DEEPEST:
            raise CallsError(
                f"functions: got more than {DEEPEST} calls inside each other, of {_title(key)} and "
                "those that it calls, expected fewer: inline them with the program that wrote the "
                "model"
            )
    own = sum(len(graph.node) for graph in graphs_of(model.graph))
    if _size(model.graph.node, sizes).nodes - own > MOST:
        raise CallsError(
            f"functions: got calls that stand for more than {MOST} nodes, since functions call "
            "each other several times, expected fewer: such a model needs more time and memory "
            "than there is; export it again with fewer functions"
        )


class _Size:
    """What a list of nodes stands for when all calls are replaced.

    nodes: How many nodes, not counting those of graphs that the caller passes as attributes.
    passed: How often each of these graphs is written, by the name of the attribute.
    depth: How many calls are inside each other.
    """

    def __init__(self) -> None:
        self.nodes = self.depth = 0
        self.passed: Counter[str] = Counter()

    def add(self, other: _Size, times: int = 1) -> None:
        # Limited, or the numbers of a long chain would have thousands of digits.
        self.nodes = min(self.nodes + times * other.nodes, 10**18)
        for name, count in other.passed.items():
            self.passed[name] = min(self.passed[name] + times * count, 10**18)
        self.depth = max(self.depth, other.depth)


def _size(nodes: Iterable[Any], sizes: dict[_Key, _Size]) -> _Size:
    total = _Size()
    for node in nodes:
        total.nodes += 1
        called = sizes.get(_called(node))
        times: Counter[str] = Counter()
        if called is not None:
            total.nodes = min(total.nodes + called.nodes, 10**18)
            total.depth = max(total.depth, called.depth + 1)
            times = called.passed
        for item in node.attribute:
            if item.ref_attr_name:
                total.passed[item.ref_attr_name] += 1 + times[item.name]
            for graph in _graphs(item):
                total.add(_size(graph.node, sizes), 1 + times[item.name])
    return total


def _callees_first(functions: dict[_Key, list[onnx.NodeProto]]) -> Iterator[_Key]:
    """The functions in an order in which each comes after those that it calls.

    Raises:
        CallsError: One calls itself.
    """
    calls = {key: _calls(nodes, functions) for key, nodes in functions.items()}
    done: set[_Key] = set()
    for first in functions:
        way = {} if first in done else {first: iter(calls[first])}
        while way:
            key = next(reversed(way))
            called = next((item for item in way[key] if item not in done), None)
            if called is None:
                del way[key]
                done.add(key)
                yield key
            elif called in way:
                cycle = [*way][[*way].index(called) :]
                through = ", ".join(map(_title, cycle[1:6])) + (", ..." if len(cycle) > 6 else "")
                raise CallsError(
                    f"functions: got {_title(called)}, which calls itself"
                    f"{f' through {through}' if through else ''}, expected functions that do not: "
                    "ONNX has no recursion"
                )
            else:
                way[called] = iter(calls[called])


def _calls(nodes: Iterable[Any], functions: Iterable[_Key]) -> list[_Key]:
    found: dict[_Key, None] = {}
    queue = [*nodes]
    while queue:
        node = queue.pop()
        key = _called(node)
        if key in functions:
            found[key] = None
        for item in node.attribute:
            for graph in _graphs(item):
                queue.extend(graph.node)
    return [*found]


def _graphs(item: onnx.AttributeProto) -> list[Any]:
    return [*item.graphs, item.g] if item.HasField("g") else [*item.graphs]


def _called(node: onnx.NodeProto) -> _Key:
    return _domain(node.domain), node.op_type, node.overload


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _title(key: _Key) -> str:
    return repr(shorten("::".join(filter(None, key)), 80))
