"""The model as the doctor sees it: nodes with the places where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import onnx

from myops.onnx import module_paths

STANDARD = ("", "ai.onnx")


@dataclass
class LocatedNode:
    """A node, and where in the model it is."""

    node: onnx.NodeProto
    inside: str  # "" for the graph itself, else "function X" or "then_branch of node Y"
    opsets: dict[str, int]

    @property
    def domain(self) -> str:
        return "" if self.node.domain in STANDARD else self.node.domain

    @property
    def op(self) -> str:
        return op_name(self.domain, self.node.op_type)

    @property
    def label(self) -> str:
        """The node for a reader: its name, or that of an output, and its PyTorch module."""
        node = self.node
        named = f"{node.name}" if node.name else f"(no name; it makes {first_output(node)!r})"
        path = module_path(node)
        shown = f"{named} ({self.op})"
        shown += f", PyTorch module {path}" if path else ""
        return shown + (f", in {self.inside}" if self.inside else "")


@dataclass
class Provided:
    """The operators of the runtime and the libraries.

    version: The runtime's.
    builtin: {domain: {op: since which versions}}.
    kernels: {"domain:op": [(first version, last version, types)]} of the runtime itself.
    custom: {domain: {op: kernels}}, a kernel as tracing tells it.
    sources: {domain: library}.
    unlisted: Libraries whose ops could not be found out.
    refused: Libraries that do not load.
    """

    version: str = ""
    builtin: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    kernels: dict[str, list[tuple[int, int, list[str]]]] = field(default_factory=dict)
    custom: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    unlisted: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def knows(self, domain: str, op_type: str, opset: int | None = None) -> bool:
        """Whether there is an implementation or a definition for an op."""
        versions = self.builtin.get(domain, {}).get(op_type)
        if versions is not None and (opset is None or min(versions) <= opset):
            return True
        return op_type in self.custom.get(domain, {})


def op_name(domain: str, op_type: str) -> str:
    return op_type if domain in STANDARD else f"{domain}::{op_type}"


def first_output(node: onnx.NodeProto) -> str:
    return next((name for name in node.output if name), "nothing")


def opsets_of(entries: Any) -> dict[str, int]:
    return {"" if item.domain in STANDARD else item.domain: item.version for item in entries}


def functions(model: onnx.ModelProto) -> dict[tuple[str, str], onnx.FunctionProto]:
    """The model-local functions, by domain and name."""
    return {("" if f.domain in STANDARD else f.domain, f.name): f for f in model.functions}


def places(model: onnx.ModelProto) -> Iterator[LocatedNode]:
    """Every node: of the graph, of the graphs inside it, of functions."""
    opsets = opsets_of(model.opset_import)
    yield from _places(model.graph.node, "", opsets)
    for function in model.functions:
        name = op_name(function.domain, function.name)
        own = {**opsets, **opsets_of(function.opset_import)}
        yield from _places(function.node, f"function {name}", own)


def _places(nodes: Any, inside: str, opsets: dict[str, int]) -> Iterator[LocatedNode]:
    for node in nodes:
        yield LocatedNode(node, inside, opsets)
        for name, graph in inner_graphs(node):
            place = f"{name} of {node.name or first_output(node)}"
            yield from _places(graph.node, f"{inside}, {place}" if inside else place, opsets)


def inner_graphs(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """The graphs in a node's attributes, with the attributes' names."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        for graph in attribute.graphs:
            yield attribute.name, graph


def module_path(node: onnx.NodeProto) -> str:
    """The PyTorch module that a node comes from, e.g. "layer1.0.conv1"; "" if it is not stated.

    The newer exporter writes it into the node's metadata, the older one into its name, where
    /layer1/layer1.0/conv/Conv is a node of the module layer1.0.conv.
    """
    stack = module_paths.stack_of(node)
    if stack is not None:
        return stack[-1] if stack else ""
    if not node.name.startswith("/"):
        return ""
    path, before = "", "/"
    for part in node.name[1:].split("/")[:-1]:
        path += part[len(before) :] if part.startswith(before + ".") else f".{part}"
        before = part
    return path.lstrip(".")


def find(model: onnx.ModelProto, name: str, op_type: str = "") -> LocatedNode | None:
    """The node that a message of ONNX Runtime names: by name, else the only one of its type."""
    found = [place for place in places(model) if name and place.node.name == name]
    if not found and name:  # names that ONNX Runtime derived from others
        near = [p for p in places(model) if p.node.name and name.startswith(p.node.name)]
        found = sorted(near, key=lambda place: len(place.node.name))[-1:]
    if not found and op_type:
        same = [place for place in places(model) if place.node.op_type == op_type]
        found = same if len(same) == 1 else []
    return found[0] if found else None


def values(model: onnx.ModelProto) -> set[str]:
    """The names of all values of the main graph."""
    graph = model.graph
    known = {item.name for item in graph.input} | {item.name for item in graph.initializer}
    known |= {item.values.name for item in graph.sparse_initializer}
    return known | {name for node in graph.node for name in node.output}


def facts(model: onnx.ModelProto) -> dict[str, Any]:
    """The facts about the file."""
    own = functions(model)
    every = list(places(model))
    custom: dict[str, int] = {}
    for place in every:
        if place.domain:
            custom[place.op] = custom.get(place.op, 0) + 1
    return {
        "ir_version": model.ir_version,
        "opsets": {domain or "ai.onnx": v for domain, v in opsets_of(model.opset_import).items()},
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "nodes": sum(not place.inside.startswith("function ") for place in every),
        "custom_nodes": custom,
        "functions": sorted(op_name(domain, name) for domain, name in own),
        "inputs": {item.name: type_text(item.type) for item in model.graph.input},
        "outputs": {item.name: type_text(item.type) for item in model.graph.output},
    }


def type_text(kind: onnx.TypeProto) -> str:
    """A type for a reader, e.g. "float32[N, 3, ?]"."""
    which = kind.WhichOneof("value")
    if which != "tensor_type":
        return (which or "unknown").replace("_type", "")
    tensor = kind.tensor_type
    name = dtype_name(tensor.elem_type)
    if not tensor.HasField("shape"):
        return name
    dims = [
        str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"
        for dim in tensor.shape.dim
    ]
    return f"{name}[{', '.join(dims)}]"


_NAMES = {"float": "float32", "double": "float64"}


def dtype_name(elem_type: int) -> str:
    """The name of an ONNX element type in NumPy's words."""
    try:
        name = onnx.TensorProto.DataType.Name(elem_type).lower()
    except ValueError:
        return f"type {elem_type}"
    return _NAMES.get(name, name)


def plain_type(text: str) -> str:
    """ "tensor(float)" -> "float32"."""
    name = text.removeprefix("tensor(").removesuffix(")")
    return _NAMES.get(name, name)
