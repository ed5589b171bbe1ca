"""Graphs in the attributes of a node: the branches of If, the bodies of Loop and Scan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx


def with_own_names(graph: onnx.GraphProto, fresh: Callable[[str], str]) -> onnx.GraphProto:
    """A copy of an inner graph whose own values have new names, because the names of the graphs
    around it may not be reused. Values that it reads from these graphs keep their names."""
    copy = onnx.GraphProto()
    copy.CopyFrom(graph)
    _rename(copy, {}, fresh)
    return copy


def _rename(graph: Any, outer: Mapping[str, str], fresh: Callable[[str], str]) -> None:
    own = [item.name for item in (*graph.input, *graph.initializer)]
    own += [name for node in graph.node for name in node.output if name]
    names = {**outer, **{name: fresh(name) for name in dict.fromkeys(own)}}
    for item in (*graph.input, *graph.initializer, *graph.output, *graph.value_info):
        item.name = names.get(item.name, item.name)
    for node in graph.node:
        for places in (node.input, node.output):
            places[:] = [names.get(name, name) for name in places]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename(attribute.g, names, fresh)
