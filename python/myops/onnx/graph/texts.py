"""The texts in a model file: names, domains, metadata.

protobuf gives a text that is no UTF-8 as bytes, which no function that takes a name expects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import onnx


def refuse_bytes(model: onnx.ModelProto) -> None:
    """Refuses a model with a name that is no UTF-8.

    Raises:
        ValueError: Says where the name is.
    """
    for what, text in _of_model(model):
        if isinstance(text, bytes):
            shown = repr(text[:60]) + ("..." if len(text) > 60 else "")
            raise ValueError(
                f"{what}: got {shown}, expected UTF-8: the file is damaged, or the program that "
                "wrote it used another encoding"
            )


def _of_model(model: onnx.ModelProto) -> Iterator[tuple[str, Any]]:
    for name in ("producer_name", "producer_version", "domain"):
        yield f"model: {name}", getattr(model, name)
    for item in model.opset_import:
        yield "opset_import: domain", item.domain
    for entry in model.metadata_props:
        yield "metadata: key", entry.key
        yield "metadata: value", entry.value
    yield from _of_graph(model.graph)
    for function in model.functions:
        for text in (function.domain, function.name, function.overload):
            yield "function: name", text
        for text in (*function.input, *function.output, *function.attribute):
            yield "function: name of an input, output or attribute", text
        for item in function.opset_import:
            yield "function: opset_import: domain", item.domain
        yield from _of_attributes(function.attribute_proto)
        yield from _of_nodes(function.node)


def _of_graph(graph: Any) -> Iterator[tuple[str, Any]]:
    yield "graph: name", graph.name
    for item in (*graph.input, *graph.output, *graph.value_info):
        yield "graph: name of a value", item.name
        yield from _of_type(item.type)
    for tensor in graph.initializer:
        yield from _of_tensor(tensor)
    for sparse in graph.sparse_initializer:
        yield from _of_tensor(sparse.values)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for node in nodes:
        kinds = node.name, node.op_type, node.domain, node.overload
        try:
            "".join((*kinds, *node.input, *node.output))
        except TypeError:  # joined, because that is several times as fast as one by one
            for what, text in zip(("name", "op_type", "domain", "overload"), kinds, strict=True):
                yield f"node: {what}", text
            for text in (*node.input, *node.output):
                yield "node: name of an input or output", text
        for entry in node.metadata_props:
            yield "node: metadata", entry.key
            yield "node: metadata", entry.value
        yield from _of_attributes(node.attribute)


def _of_attributes(attributes: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for item in attributes:
        yield "attribute: name", item.name
        if item.ref_attr_name:
            yield "attribute: ref_attr_name", item.ref_attr_name
        if item.HasField("t"):
            yield from _of_tensor(item.t)
        if item.HasField("g"):
            yield from _of_graph(item.g)
        for graph in item.graphs:
            yield from _of_graph(graph)


def _of_tensor(tensor: Any) -> Iterator[tuple[str, Any]]:
    yield "tensor: name", tensor.name
    for entry in tensor.external_data:
        yield "tensor: external_data", entry.key
        yield "tensor: external_data", entry.value


def _of_type(kind: Any) -> Iterator[tuple[str, Any]]:
    found = kind.WhichOneof("value")
    if found in ("tensor_type", "sparse_tensor_type"):
        for dim in getattr(kind, found).shape.dim:
            yield "graph: name of a length", dim.dim_param
    elif found in ("sequence_type", "optional_type"):
        yield from _of_type(getattr(kind, found).elem_type)
    elif found == "map_type":
        yield from _of_type(kind.map_type.value_type)
