"""The data flow of a graph, for all graph tools: which node makes a value, which ones read it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

import onnx

from myops._names import near_misses

Graph = Any  # onnx.GraphProto
FREE_WEIGHTS = 4  # the first IR version in which weights need not be inputs as well


class GraphError(ValueError):
    """A name or an edit does not fit the graph.

    Example:
        >>> try:
        ...     myops.onnx.extract("model.onnx", outputs=["relu3"])
        ... except myops.onnx.GraphError as error:
        ...     print(error)
        outputs: the model has no value 'relu3'. Did you mean 'relu1' or 'relu2'?
    """


def subgraphs(node: onnx.NodeProto) -> Iterator[Graph]:
    """The bodies of a node: branches of If, loop and scan bodies."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def graphs_of(graph: Graph) -> Iterator[Graph]:
    """A graph and every graph inside it."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from graphs_of(inner)


def defined(graph: Graph) -> set[str]:
    """The names of the values of a graph, without those of graphs around it."""
    found = {item.name for item in graph.input}
    found.update(tensor.name for tensor in graph.initializer)
    found.update(tensor.values.name for tensor in graph.sparse_initializer)
    found.update(name for node in graph.node for name in node.output if name)
    return found


def inputs_with_default(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """The inputs that a caller may leave out, because an initializer has the same name.

    Before IR version 4 every weight had to be such an input, which says nothing; then there are
    none.
    """
    if model.ir_version < FREE_WEIGHTS:
        return {}
    have = {tensor.name for tensor in model.graph.initializer}
    have.update(tensor.values.name for tensor in model.graph.sparse_initializer)
    return {item.name: item for item in model.graph.input if item.name in have}


def constants_note(before: onnx.ModelProto, after: onnx.ModelProto) -> list[str]:
    """A sentence about inputs that became constants; empty if there are none."""
    left = {item.name for item in after.graph.input}
    lost = [name for name in inputs_with_default(before) if name not in left]
    if not lost:
        return []
    listed = ", ".join(repr(name) for name in lost[:5]) + (", ..." if lost[5:] else "")
    return [f"{len(lost)} inputs with a default became constants, which a caller can no longer "
            f"replace: {listed}." if lost[1:] else
            f"The input {listed} had a default and became a constant, which a caller can no "
            "longer replace."]  # fmt: skip


def reads(node: onnx.NodeProto) -> list[str]:
    """All values that a node needs: its inputs, then the outer values that its bodies read."""
    found = dict.fromkeys(name for name in node.input if name)
    for graph in subgraphs(node):
        own = defined(graph)
        used = [name for inner in graph.node for name in reads(inner)]
        used += [item.name for item in graph.output]
        found.update(dict.fromkeys(name for name in used if name not in own))
    return list(found)


def sort_nodes(graph: Graph) -> None:
    """Sorts nodes so that each follows the nodes whose results it reads; otherwise the order
    stays."""
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    needs = [{makers[name] for name in reads(node) if name in makers} for node in graph.node]
    if all(place > max(before, default=-1) for place, before in enumerate(needs)):
        return
    readers: dict[int, list[int]] = {}
    for place, before in enumerate(needs):
        for maker in before:
            readers.setdefault(maker, []).append(place)
    ready = [place for place, before in enumerate(needs) if not before]
    heapq.heapify(ready)
    order = []
    while ready:
        place = heapq.heappop(ready)
        order.append(place)
        for reader in readers.get(place, ()):
            needs[reader].discard(place)
            if not needs[reader]:
                heapq.heappush(ready, reader)
    nodes = [graph.node[place] for place in order]
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def label(node: onnx.NodeProto) -> str:
    """The text for a node in messages: its name, or its first output, and its type."""
    kind = f"{node.domain}::{node.op_type}" if is_custom(node.domain) else node.op_type
    if node.name:
        return f"{node.name!r} ({kind})"
    made = next((name for name in node.output if name), "")
    return f"that makes {made!r} ({kind})" if made else f"without a name ({kind})"


def is_custom(domain: str) -> bool:
    return domain not in ("", "ai.onnx")


class Index:
    """The values of a model's main graph."""

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        self.graph = graph
        self.producers: dict[str, int] = {}
        for number, node in enumerate(graph.node):
            for name in node.output:
                if name:
                    self.producers[name] = number
        self.constants = {tensor.name for tensor in graph.initializer}
        self.constants.update(tensor.values.name for tensor in graph.sparse_initializer)
        self.inputs = [item.name for item in graph.input]
        self.outputs = [item.name for item in graph.output]

    def names(self) -> list[str]:
        """All values, in the order in which they are computed."""
        return list(dict.fromkeys([*self.inputs, *self.constants, *self.producers]))

    def check(self, name: str, what: str) -> str:
        """Returns the name if the main graph has such a value.

        Raises:
            GraphError: It has none; the message says where it is, or which names are similar.
        """
        if name in self.producers or name in self.constants or name in self.inputs:
            return name
        for node in self.graph.node:
            for outer in subgraphs(node):
                if any(name in defined(graph) for graph in graphs_of(outer)):
                    raise GraphError(
                        f"{what}: {name!r} is inside a body of node {label(node)}, where it comes "
                        "into being anew each time the body runs; only values of the main graph "
                        f"can be reached. Take an output of that node: "
                        f"{', '.join(filter(None, node.output))}."
                    )
        listed = [*self.inputs, *self.producers]
        hint = near_misses(name, [*listed, *sorted(self.constants)])
        some = ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")
        raise GraphError(f"{what}: the model has no value {name!r}.{hint or f' It has {some}.'}")


def find_node(graph: Graph, name: str, what: str) -> onnx.NodeProto:
    """The node of that name, or, because names are optional, the node that makes this value.

    Raises:
        GraphError: There is none, or several.
    """
    named = [node for node in graph.node if name and node.name == name]
    if len(named) == 1:
        return named[0]
    if len(named) > 1:
        made = ", ".join(repr(node.output[0]) for node in named[:4])
        raise GraphError(
            f"{what}: {len(named)} nodes are called {name!r}; name the one you mean by one of its "
            f"outputs: {made}{', ...' if len(named) > 4 else ''}."
        )
    for node in graph.node:
        if name and name in node.output:
            return node
    for node in graph.node:
        for inner in [g for outer in subgraphs(node) for g in graphs_of(outer)]:
            if any(name and (name == n.name or name in n.output) for n in inner.node):
                raise GraphError(
                    f"{what}: {name!r} is inside a body of node {label(node)}; only nodes of the "
                    "main graph can be edited."
                )
    known = [node.name for node in graph.node if node.name]
    known += [made for node in graph.node if not node.name for made in node.output if made]
    some = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
    hint = near_misses(name, known) or (f" It has {some}." if known else "")
    raise GraphError(f"{what}: the model has no node {name!r}.{hint}")


def used_functions(model: onnx.ModelProto) -> list[onnx.FunctionProto]:
    """The model-local functions that the graph calls, directly or through each other."""
    known = {(f.domain, f.name, f.overload): f for f in model.functions}
    wanted: set[tuple[str, str, str]] = set()
    queue = [node for graph in graphs_of(model.graph) for node in graph.node]
    while queue:
        node = queue.pop()
        key = (node.domain, node.op_type, node.overload)
        if key in known and key not in wanted:
            wanted.add(key)
            for inner in known[key].node:
                queue.append(inner)
                queue.extend(n for g in subgraphs(inner) for h in graphs_of(g) for n in h.node)
    return [function for key, function in known.items() if key in wanted]


def set_functions(model: onnx.ModelProto, functions: Sequence[onnx.FunctionProto]) -> None:
    kept = [onnx.FunctionProto.FromString(item.SerializeToString()) for item in functions]
    del model.functions[:]
    model.functions.extend(kept)
