"""The inputs of nodes of one type, which one function has to serve."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import onnx

from myops._description import OpInfo
from myops.onnx.body_cases import BodyCase
from myops.onnx.builder import Builder, LoweringError, Site
from myops.onnx.graph import scopes
from myops.onnx.lowering import write
from myops.onnx.schema import ELEMENT_TYPES


def case_nodes(
    site: Site, full: Site, opset: int, fresh: Callable[[str], str], outputs: list[str]
) -> list[onnx.NodeProto]:
    """The nodes of one case. `full` also has lengths and numbers, as hints for a faster form."""
    hints = Builder(full, opset, fresh, "")
    return write(Builder(site, opset, fresh, "", hints), outputs)


def with_optional_inputs(sites: list[Site], opset: int) -> tuple[list[Site], set[int]]:
    """The sites, and the numbers of the optional inputs that a function only passes on to an
    optional input of a standard operator.

    A runtime leaves such an input out of the operator where the node leaves it out, so nodes with
    and without it are of one kind: all sites that are returned have it.
    """
    passed_on = set()
    for number, item in enumerate(sites[0].info.inputs):
        having = next((site for site in sites if site.inputs[number]), None)
        if not item.optional or item.values or having is None:
            continue
        like = [place for place, other in enumerate(having.info.inputs) if other.type == item.type]
        dtypes = {site.dtypes[i] for site in sites for i in like if site.inputs[i]}
        if all(site.inputs[number] for site in sites) or len(dtypes) > 1 or None in dtypes:
            continue
        filled = [_with_input(site, number, having) for site in sites]
        if all(_only_names(full, number, opset) for full in filled):
            sites = filled
            passed_on.add(number)
    return sites, passed_on


def _with_input(site: Site, number: int, having: Site) -> Site:
    """The site with that input of another."""
    if site.inputs[number]:
        return site
    inputs, dtypes, shapes = list(site.inputs), list(site.dtypes), list(site.shapes)
    inputs[number], dtypes[number] = having.inputs[number], having.dtypes[number]
    dims = having.shapes[number]
    shapes[number] = None if dims is None else [None] * len(dims)
    return dataclasses.replace(site, inputs=inputs, dtypes=dtypes, shapes=shapes)


def _only_names(site: Site, number: int, opset: int) -> bool:
    """Whether the nodes for the site are those for the site without this input, but for its
    name."""
    blank = list(site.inputs)
    blank[number] = ""
    name = site.info.inputs[number].name
    try:
        nodes = _nodes(site, opset)
        others = _nodes(dataclasses.replace(site, inputs=blank), opset)
    except LoweringError:
        return False
    for node in nodes:
        kept = ["" if item == name else item for item in node.input]
        while kept and not kept[-1]:
            kept.pop()
        del node.input[:]
        node.input.extend(kept)
    return nodes == others


def _nodes(site: Site, opset: int) -> list[onnx.NodeProto]:
    count = iter(range(10**9))
    outputs = [item.name for item in site.info.outputs]
    case = BodyCase(site)

    def fresh(hint: str) -> str:
        return f"{hint}/{next(count)}"

    return case_nodes(case.without_numbers(), site, opset, fresh, outputs)


def state_lengths(info: OpInfo, entries: list[Any]) -> None:
    """Writes the lengths of lists into the model where they follow from the op's shape rule only.

    ONNX Runtime then selects the cases while it loads the model, and no If remains. (Up to 1.22 it
    crashes when it fuses a Conv whose only reader is inside an If.)
    """
    for _, scope, site in entries:
        for item, name, dtype, dims in zip(
            info.inputs, site.inputs, site.dtypes, site.shapes, strict=True
        ):
            if not item.values or not scope.owns(name) or not dtype or scope.shape(name) == dims:
                continue
            known = [*scope.graph.input, *scope.graph.value_info]
            stated = [value for value in known if value.name == name] or [
                scope.graph.value_info.add(name=name)
            ]
            stated[0].CopyFrom(onnx.helper.make_tensor_value_info(name, ELEMENT_TYPES[dtype], dims))


def make_uniform(
    info: OpInfo, entries: list[Any], cases: list[BodyCase], passed_on: set[int]
) -> None:
    """Gives each node every input that any of them has, because the function reads them all, but
    for those that are only `passed_on`.

    An input that a node leaves out becomes an empty list, which the kernel treats as left out.
    """
    present = [any(case.site.inputs[i] for case in cases) for i in range(len(info.inputs))]
    for node, scope, _ in entries:
        inputs = [*node.input, *[""] * (len(info.inputs) - len(node.input))]
        for number, item in enumerate(info.inputs):
            if present[number] and not inputs[number] and number not in passed_on:
                dtype = next(c.site.dtypes[number] for c in cases if c.site.inputs[number])
                inputs[number] = _empty_list(node, scope, item.name, dtype or "float32")
        while inputs and not inputs[-1]:
            inputs.pop()
        del node.input[:]
        node.input.extend(inputs)


def _empty_list(node: onnx.NodeProto, scope: scopes.Scope, name: str, dtype: str) -> str:
    """An empty constant in the graph of the node."""
    title = f"{node.output[0]}/no_{name}"
    # Without a name of its own, as onnx.parser does not read names of tensors that have a slash.
    tensor = onnx.helper.make_tensor("", ELEMENT_TYPES[dtype], [0], [])
    constant = onnx.helper.make_node("Constant", [], [title], name=title, value=tensor)
    scope.graph.node.insert(0, constant)
    return title
