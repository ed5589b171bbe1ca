"""Gives every value of a graph a name of its own, in models of torch's newer exporter.

It names weights and buffers by the module, results by the operators that compute them, and inputs
and outputs last, as the caller wants. A buffer or an input with the name `index` or `mul` may then
share it with a result: the optimizer fails, or the file has two values with one name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """In this context, names are unique before torch's exporter optimizes a model."""
    optimize = torch.onnx.ONNXProgram.optimize

    def separating(program: Any) -> None:
        separate(program.model)
        optimize(program)

    with mock.patch.object(torch.onnx.ONNXProgram, "optimize", separating):
        yield


def separate(model: Any) -> None:
    """Renames values whose name another value has. Inputs keep theirs, then outputs, then weights.

    An output that has the name of an input, which forward returns unchanged, becomes NAME_output.
    """
    graph = model.graph
    inside = list(_values_inside(model))
    used = {value.name for value in (*graph.inputs, *graph.outputs, *inside)}
    used |= set(graph.initializers)
    owners: dict[str, Any] = {}

    def own(values: Any, suffix: str) -> None:
        for value in values:
            if not value.name or owners.setdefault(value.name, value) is value:
                continue
            number, name = 0, f"{value.name}{suffix}"
            while name in used:
                number += 1
                name = f"{value.name}{suffix}_{number}"
            used.add(name)
            value.name = name
            owners[name] = value

    own(graph.inputs, "_input")
    own(graph.outputs, "_output")
    own(list(graph.initializers.values()), "_weight")
    own(inside, "_result")


def _values_inside(model: Any) -> Iterator[Any]:
    """What the nodes of a graph compute, and the inputs and weights of the graphs inside it."""
    import onnx_ir as ir

    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for attribute in node.attributes.values():
            inner = (
                [attribute.value] if attribute.type == ir.AttributeType.GRAPH
                else attribute.value if attribute.type == ir.AttributeType.GRAPHS else []
            )  # fmt: skip
            for graph in inner:
                yield from graph.inputs
                yield from graph.initializers.values()
        yield from node.outputs
