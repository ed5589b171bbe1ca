"""`diff`: the differences between two models."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import onnx
from onnx import AttributeProto

from myops._checked import checked
from myops.onnx.graph import files, structure
from myops.onnx.surgery import summary
from myops.onnx.two_files import tensors
from myops.onnx.two_files.difference import Change, Detail, Difference
from myops.onnx.two_files.matching import Match, interface, match_graphs
from myops.onnx.two_files.numbered_graph import (
    Numbering,
    array_of,
    attributes,
    commutes,
    digest,
    kind,
)
from myops.onnx.two_files.tensors import of_sides


@checked()
def diff(first: files.Model, second: files.Model) -> Difference:
    """Finds the differences between two models, whatever the names of their values are.

    Nodes are paired if they compute the same from the same inputs, also in the bodies of If, Loop
    and Scan and in functions; names only decide between equal candidates. A value or node that only
    has another name is listed as renamed and is no difference. Also no differences are the order of
    nodes, whether a constant is an initializer or a Constant node, an attribute with its default
    value, doc strings, value_info, and metadata of nodes.

    Args:
        first: The model before: a path, the bytes of a file, or a ModelProto.
        second: The model after, in the same forms.

    Returns:
        The changes; its property `equal` is True if there is none.

    Raises:
        FileNotFoundError: No such file, or a file with weights is missing.
        ValueError: One of them is no ONNX model.

    Example:
        >>> changed = onnx.load("linear.onnx")
        >>> changed.graph.node[1].op_type = "Sub"
        >>> found = myops.onnx.diff("linear.onnx", changed)
        >>> found.print()
        ~ node 'add' (Add): operator: Add -> Sub
        linear.onnx and the second differ: 1 node changed
        >>> [change.name for change in found.changes if change.what == "node"]
        ['add']
    """
    one, two = (files.load(model, expanded=False) for model in (first, second))
    found = Difference(_title(first, "the first"), _title(second, "the second"))
    found.changes += _of_models(one, two)
    numbering = Numbering()
    matches = match_graphs(one.graph, two.graph, numbering)
    found.changes += _of_interface(matches[0], one, two)
    _of_graphs(found, matches, "")
    found.changes += _of_functions(found, one, two, numbering)
    return found


def _title(model: files.Model, other: str) -> str:
    return os.fspath(model) if isinstance(model, (str, os.PathLike)) else other


def _of_models(one: onnx.ModelProto, two: onnx.ModelProto) -> Iterator[Change]:
    for name in ("ir_version", "producer_name", "producer_version", "domain", "model_version"):
        yield from _changed("model", name, getattr(one, name), getattr(two, name))
    yield from _changed("model", "graph name", one.graph.name, two.graph.name)
    opsets = [{item.domain or "ai.onnx": item.version for item in m.opset_import}
              for m in (one, two)]  # fmt: skip
    yield from _changed_items("opset", *opsets)
    yield from _changed_items("metadata", *(_properties(model) for model in (one, two)))


def _properties(model: Any) -> dict[str, str]:
    return {item.key: item.value for item in model.metadata_props}


def _changed(what: str, name: str, before: Any, after: Any) -> Iterator[Change]:
    if before != after:
        yield Change("changed", what, name, "", [Detail("", before, after)])


def _changed_items(what: str, one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[Change]:
    for name in sorted({*one, *two}):
        if name not in two:
            yield Change("removed", what, name, "", [Detail("", one[name], None)])
        elif name not in one:
            yield Change("added", what, name, "", [Detail("", None, two[name])])
        else:
            yield from _changed(what, name, one[name], two[name])


def _of_interface(found: Match, one: onnx.ModelProto, two: onnx.ModelProto) -> Iterator[Change]:
    for what in ("input", "output"):
        sides = []
        for scope, model in ((found.first, one), (found.second, two)):
            wanted = scope.inputs if what == "input" else scope.outputs
            items = {item.name: item for item in getattr(model.graph, what)}
            sides.append([summary.value_of(items[name]) for name in wanted])
        names = [[item.name for item in side] for side in sides]
        pairs = interface(*names)
        values = [{item.name: item for item in side} for side in sides]
        for place, name in enumerate(names[0]):
            before = values[0][name]
            if name not in pairs:
                yield Change("removed", what, name, "", [Detail("", str(before), None)])
                continue
            after = values[1][pairs[name]]
            details = [
                Detail(field, getattr(before, field), getattr(after, field))
                for field in ("name", "dtype", "shape")
                if getattr(before, field) != getattr(after, field)
            ]
            other = names[1].index(pairs[name])
            if place != other and len(names[0]) == len(names[1]):
                details.append(Detail("place", place, other))
            if details:
                yield Change("changed", what, name, "", details)
        for name in names[1]:
            if name not in pairs.values():
                after = values[1][name]
                yield Change("added", what, name, "", [Detail("", None, str(after))])
    if min(one.ir_version, two.ir_version) >= structure.FREE_WEIGHTS:
        defaults = [{name: f"{summary.value_of(item)}, with a default"
                     for name, item in structure.inputs_with_default(model).items()}
                    for model in (one, two)]  # fmt: skip
        # Their names and types are compared; their values are constants, which are paired.
        yield from _changed_items("input", *defaults)


def _of_graphs(found: Difference, matches: list[Match], prefix: str) -> None:
    for match in matches:
        where = " > ".join(filter(None, (prefix, *match.where)))
        found.changes += _of_nodes(match, where)
        found.changes += tensors.changes(match, where)
        found.renamed += _renamed(match, where)


def _of_nodes(match: Match, where: str) -> Iterator[Change]:
    one, two = match.first, match.second
    for left, node in enumerate(one.nodes):
        if _is_constant(node, one.constants):
            continue
        if left not in match.nodes:
            yield Change("removed", "node", _name(node), where, [Detail("", _shown(node), None)])
            continue
        right = match.nodes[left][0]
        details = list(_node_details(match, node, two.nodes[right]))
        if details:
            yield Change("changed", "node", _name(node), where, details, _type(node))
    for right, node in enumerate(two.nodes):
        if match.is_free(right) and not _is_constant(node, two.constants):
            yield Change("added", "node", _name(node), where, [Detail("", None, _shown(node))])
    # The results of a body or function; those of the main graph are its interface.
    if where and not _reads_alike(match, one.outputs, two.outputs):
        details = [Detail("outputs", list(one.outputs), list(two.outputs))]
        yield Change("changed", "node", where, where, details)


def node_changes(match: Match, place: int) -> Iterator[str]:
    """The differences in a node of the first file and in the constants that it reads."""
    if place not in match.nodes:
        return
    node, counterpart = match.first.nodes[place], match.second.nodes[match.nodes[place][0]]
    title = f"{_type(node)} {_name(node)!r}"
    for detail in _node_details(match, node, counterpart):
        yield f"{title}: {detail}."
    for name in node.input:
        if name in match.constants:
            pair = match.first.constants[name], match.second.constants[match.constants[name]]
            for detail in tensors.details(*pair):
                yield f"{title}: constant {name!r}: {detail}."


def _is_constant(node: onnx.NodeProto, constants: Mapping[str, Any]) -> bool:
    return node.op_type == "Constant" and any(name in constants for name in node.output)


def _name(node: onnx.NodeProto) -> str:
    return node.name or next((name for name in node.output if name), "")


def _type(node: onnx.NodeProto) -> str:
    domain, op_type, _ = kind(node)
    return f"{domain}::{op_type}" if domain else str(op_type)


def _shown(node: onnx.NodeProto) -> str:
    return f"{_type(node)}({', '.join(node.input)}) -> {', '.join(node.output)}"


def _node_details(
    match: Match, node: onnx.NodeProto, counterpart: onnx.NodeProto
) -> Iterator[Detail]:
    if kind(node) != kind(counterpart):
        yield Detail("operator", _type(node), _type(counterpart))
    before, after = attributes(node), attributes(counterpart)
    for name in sorted({*before, *after}):
        values = [_attribute(side[name]) if name in side else None for side in (before, after)]
        if values[0] != values[1]:
            yield of_sides(f"attribute {name}", [value and value[0] for value in values])
    alike = _reads_alike(match, node.input, counterpart.input)
    if not alike and commutes(node) and kind(node) == kind(counterpart):
        alike = _reads_alike(match, node.input, counterpart.input[::-1])
    if not alike:
        yield Detail("inputs", list(node.input), list(counterpart.input))
    if len(node.output) != len(counterpart.output):
        yield Detail("outputs", list(node.output), list(counterpart.output))


def _reads_alike(match: Match, one: Any, two: Any) -> bool:
    """Whether these are names of values that are paired with each other."""
    names = [list(one), list(two)]
    for side in names:
        while side and not side[-1]:
            side.pop()
    return len(names[0]) == len(names[1]) and all(
        _belong(match, left, right) for left, right in zip(*names, strict=True)
    )


def _belong(match: Match, left: str, right: str) -> bool:
    if not left or not right:
        return left == right
    if match.partner(left) == right:
        return True
    number = match.number(left)
    scope: Match | None = match
    while scope is not None:
        if right in scope.second.numbers:
            return number is not None and number == scope.second.numbers[right]
        scope = scope.around
    return number is None and left == right  # a name that neither file defines


def _attribute(item: AttributeProto) -> tuple[Any, Any]:
    """An attribute as text, and in a form for comparison."""
    if item.ref_attr_name:
        return f"@{item.ref_attr_name}", "reference"
    if item.type == AttributeProto.GRAPH:
        return "a graph", "graph"  # its changes are listed separately
    if item.type == AttributeProto.TENSOR:
        array = array_of(item.t)
        size = f"{summary.dtype_name(item.t.data_type)}{list(item.t.dims)}"
        small = array is not None and array.size <= tensors.LONGEST
        return f"{size} {array.tolist()}" if small and array is not None else size, digest(item.t)
    try:
        value = onnx.helper.get_attribute_value(item)
    except ValueError:  # a type that this onnx does not know
        return "unknown", item.SerializeToString(deterministic=True)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    elif not isinstance(value, (int, float)):
        value = [v.decode("utf-8", "backslashreplace") if isinstance(v, bytes) else v
                 for v in value] if hasattr(value, "__iter__") else str(value)  # fmt: skip
        value = value if all(isinstance(v, (int, float, str)) for v in value) else str(value)
    return value, repr(value)


def _renamed(match: Match, where: str) -> Iterator[tuple[str, str, str, str]]:
    """(what, where, before, after) of everything that only has another name."""
    one, two = match.first, match.second
    for left, right in match.constants.items():
        if left != right:
            yield "constant", where, left, right
    main = not match.where
    for left, (right, _) in match.values.items():
        made = one.makers.get(left)
        if made is None or (main and left in one.outputs):
            continue  # inputs and outputs of a model are its interface
        counterpart = match.nodes.get(made)
        if left != right and counterpart is not None and right in two.nodes[counterpart[0]].output:
            yield "value", where, left, right
    for place, (other, _) in match.nodes.items():
        before, after = one.nodes[place].name, two.nodes[other].name
        if before != after and not _is_constant(one.nodes[place], one.constants):
            yield "node", where, before, after


def _of_functions(
    found: Difference, one: onnx.ModelProto, two: onnx.ModelProto, numbering: Numbering
) -> Iterator[Change]:
    sides = [{(f.domain, f.name, f.overload): f for f in model.functions} for model in (one, two)]
    for key in sorted({*sides[0], *sides[1]}):
        title = "::".join(filter(None, key))
        before, after = sides[0].get(key), sides[1].get(key)
        if before is None or after is None:
            texts = [f and f"{len(f.node)} nodes" for f in (before, after)]
            made = "added" if before is None else "removed"
            yield Change(made, "function", title, "", [of_sides("", texts)])
            continue
        details = []
        for field in ("input", "output", "attribute"):
            names = [list(getattr(f, field)) for f in (before, after)]
            if field == "attribute":
                names = [sorted([*n, *(i.name for i in f.attribute_proto)])
                         for n, f in zip(names, (before, after), strict=True)]  # fmt: skip
                if names[0] != names[1]:
                    details.append(of_sides(field, names))
            elif len(names[0]) != len(names[1]):
                details.append(of_sides(f"{field}s", names))
        opsets = [{i.domain or "ai.onnx": i.version for i in f.opset_import}
                  for f in (before, after)]  # fmt: skip
        if opsets[0] != opsets[1]:
            details.append(of_sides("opsets", opsets))
        if details:
            yield Change("changed", "function", title, "", details)
        graphs = [_as_graph(f) for f in (before, after)]
        _of_graphs(found, match_graphs(graphs[0], graphs[1], numbering), f"function {title!r}")


def _as_graph(function: onnx.FunctionProto) -> onnx.GraphProto:
    graph = onnx.GraphProto(name=function.name)
    graph.node.extend(function.node)
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in function.input)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
    return graph
