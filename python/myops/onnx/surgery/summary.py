"""`inspect`: lists the contents of a model."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from myops import _libraries
from myops._checked import checked
from myops._text import number_of
from myops.onnx import module_paths
from myops.onnx.graph import files, inference, scopes, storage, structure
from myops.onnx.graph.weights import SMALL
from myops.onnx.schema import dims_of

if TYPE_CHECKING:
    from rich.console import Console

_STANDARD = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training")
_PROVIDERS = {  # prefixes of domains, and what runs such nodes
    "ai.onnx.contrib": "onnxruntime-extensions",
    "com.microsoft.extensions": "onnxruntime-extensions",
    "com.microsoft": "ONNX Runtime contrib ops, built in",
    "com.ms.internal": "ONNX Runtime, written by its own optimiser",
    "ai.onnx.preview": "ONNX standard, preview",
    "pkg.onnxscript": "functions of torch's exporter, which this file lacks",
    "pkg.torch": "functions of torch's exporter, which this file lacks",
    "mmdeploy": "mmdeploy's library of ops for ONNX Runtime",
    "mmcv": "mmcv's library of ops, up to mmcv 1.x",
    "trt.plugins": "a TensorRT plugin",
    "org.openvinotoolkit": "OpenVINO",
}


@dataclass(frozen=True)
class GraphValue:
    """An input or output of a graph."""

    name: str
    dtype: str  # "float32"; "sequence(...)" and the like as ONNX writes them; "?" when unknown
    shape: list[int | str | None] | None  # None: not even the rank is known

    def __str__(self) -> str:
        """The dtype and the lengths: "float32 [n, 3]"; only the dtype if the rank is not known."""
        if self.shape is None:
            return self.dtype
        dims = ", ".join("?" if dim is None else str(dim) for dim in self.shape)
        return f"{self.dtype} [{dims}]"


@dataclass(frozen=True)
class Domain:
    """A domain of operators that a model uses or imports."""

    name: str
    version: int | None  # None: the model does not import it, which is an error
    provider: str
    ops: dict[str, int]  # how many nodes of each type; calls inside functions do not count


@dataclass(frozen=True)
class Node:
    name: str
    op_type: str
    domain: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, str]
    where: str  # "" in the main graph, else the node whose body holds it


@dataclass(frozen=True)
class Module:
    """One call of a PyTorch module; `extract` and `add_outputs` accept its path and call."""

    path: str
    call: int
    nodes: int  # constants included
    inputs: list[str]
    outputs: list[str]


@dataclass(frozen=True)
class Summary:
    """The result of `inspect`; `print()` shows it, and so does a notebook.

    Example:
        >>> summary = myops.onnx.inspect("upscale.onnx")
        >>> summary.opsets, summary.node_count
        ({'ai.onnx': 18, 'myops': 1}, 1)
    """

    path: str
    ir_version: int
    opsets: dict[str, int]
    producer: str
    graph: str
    inputs: list[GraphValue]
    outputs: list[GraphValue]
    domains: list[Domain]  # other than the ONNX standard's own
    op_counts: dict[str, int]
    node_count: int
    in_bodies: int  # how many of the nodes are in bodies of If, Loop, Scan
    functions: dict[str, int]  # domain::name and how many nodes it has
    initializers: int
    initializer_bytes: int
    constants: int  # weights in Constant nodes, which many tools write instead
    constant_bytes: int
    external_files: list[str]
    metadata: dict[str, str]
    nodes: list[Node] = field(repr=False)
    modules: list[Module] = field(default_factory=list, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    def print(
        self, console: Console | None = None, *, nodes: bool = False, modules: bool = False
    ) -> None:
        """Prints the summary.

        Args:
            console: A `rich.console.Console`. Default: stdout.
            nodes: Whether every node is listed too, with its attributes.
            modules: Whether the PyTorch modules that the file records are listed too.
        """
        from myops._terminal import Console as Terminal
        from myops.onnx.surgery import _printing

        _printing.show_summary(self, console or Terminal(), nodes, modules)

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from myops import _pages
        from myops.onnx.surgery import _printing

        return _pages.fragment("summary.html", summary=self, words=_printing, most=500)


@checked()
def inspect(model: files.Model) -> Summary:
    """Lists the contents of a model; external weights are not read.

    Args:
        model: A path, the bytes of a file, or a ModelProto.

    Returns:
        Inputs, outputs, opsets, custom domains and who provides them, node counts, weights.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no ONNX model.

    Example:
        >>> summary = myops.onnx.inspect("upscale.onnx")
        >>> summary.op_counts
        {'myops::Resize': 1}
    """
    folder = storage.folder_of(model)
    path = "" if folder is None else str(model)
    proto = onnx.ModelProto()
    proto.CopyFrom(files.load(model, weights=False, expanded=False))
    sizes, constants = (
        [storage.tensor_bytes(tensor) for tensor in found]
        for found in (storage.initializers(proto), storage.constants(proto))
    )
    external = sorted({file for t in storage.tensors(proto) if (file := _file(t))})
    with contextlib.suppress(FileNotFoundError):  # shapes follow from small constants
        storage.attach(proto, folder, SMALL)
    nodes = list(_nodes(proto.graph, ""))
    known = {t.name for t in proto.graph.initializer}
    stated = inference.types(proto)
    counts = Counter(_title(node.domain, node.op_type) for node in nodes)
    return Summary(
        path=path,
        ir_version=proto.ir_version,
        opsets={item.domain or "ai.onnx": item.version for item in proto.opset_import},
        producer=" ".join(filter(None, (proto.producer_name, proto.producer_version))),
        graph=proto.graph.name,
        inputs=[value_of(item) for item in proto.graph.input if item.name not in known],
        outputs=[value_of(stated.get(item.name, item)) for item in proto.graph.output],
        domains=_domains(proto, nodes),
        op_counts=dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))),
        node_count=len(nodes),
        in_bodies=sum(bool(node.where) for node in nodes),
        functions={_title(f.domain, f.name): len(f.node) for f in proto.functions},
        initializers=len(sizes),
        initializer_bytes=sum(sizes),
        constants=len(constants),
        constant_bytes=sum(constants),
        external_files=external,
        metadata={item.key: item.value for item in proto.metadata_props},
        nodes=nodes,
        modules=_modules(proto),
    )


def _modules(model: onnx.ModelProto) -> list[Module]:
    """The calls of PyTorch modules, without the whole model; empty if nodes do not record them."""
    return [
        Module(item.path, item.call, len(item.nodes), list(item.inputs), list(item.outputs))
        for item in module_paths.regions(model)
        if item.path
    ]


def value_of(item: onnx.ValueInfoProto) -> GraphValue:
    """Name, dtype and shape of a value, for readers."""
    kind = item.type.WhichOneof("value")
    if kind == "tensor_type":
        tensor = item.type.tensor_type
        return GraphValue(item.name, dtype_name(tensor.elem_type), dims_of(tensor))
    if kind is None:
        return GraphValue(item.name, "?", None)
    return GraphValue(item.name, onnx.helper.printable_type(item.type), None)


def dtype_name(number: int) -> str:
    """ "float32" for the number of an ONNX element type."""
    if number == onnx.TensorProto.STRING:
        return "string"
    try:
        return str(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number)))
    except (KeyError, ValueError, TypeError):
        return "?"


def _nodes(graph: Any, where: str) -> Any:
    for node in graph.node:
        attributes = {item.name: _shown(item) for item in node.attribute}
        yield Node(node.name, node.op_type, "" if node.domain == "ai.onnx" else node.domain,
                   list(node.input), list(node.output), attributes, where)  # fmt: skip
        for inner in structure.subgraphs(node):
            yield from _nodes(inner, node.name or next(iter(node.output), "") or node.op_type)


def _shown(item: onnx.AttributeProto) -> str:
    kinds = onnx.AttributeProto
    if item.ref_attr_name:
        return f"@{item.ref_attr_name}"
    if item.type == kinds.TENSOR:
        return f"tensor {dtype_name(item.t.data_type)} {list(item.t.dims)}"
    if item.type in (kinds.GRAPH, kinds.GRAPHS):
        graphs = [item.g] if item.type == kinds.GRAPH else item.graphs
        return f"body of {number_of(sum(len(graph.node) for graph in graphs), 'node')}"
    if item.type == kinds.STRING:
        return item.s.decode("utf-8", "replace")
    if item.type == kinds.STRINGS:
        return str([text.decode("utf-8", "replace") for text in item.strings])
    if item.type in (kinds.INT, kinds.FLOAT, kinds.INTS, kinds.FLOATS):
        value = onnx.helper.get_attribute_value(item)
        return str(list(value) if item.type in (kinds.INTS, kinds.FLOATS) else value)
    return onnx.AttributeProto.AttributeType.Name(item.type).lower()


def _title(domain: str, op_type: str) -> str:
    return f"{domain}::{op_type}" if structure.is_custom(domain) else op_type


def _domains(model: onnx.ModelProto, nodes: list[Node]) -> list[Domain]:
    imported = {item.domain: item.version for item in model.opset_import}
    found = []
    for name in sorted({node.domain for node in nodes} | set(imported)):
        if name in _STANDARD:
            continue
        ops = Counter(node.op_type for node in nodes if node.domain == name)
        found.append(Domain(name, imported.get(name), _provider(name, model, ops), dict(ops)))
    return found


def _provider(name: str, model: onnx.ModelProto, ops: Counter[str]) -> str:
    local = {f.name for f in model.functions if f.domain == name}
    if library := _libraries.find(name):
        known = {info.onnx_type for info in library.ops.values()}
        bodies = {f.name for f in model.functions if f.domain == name and scopes.is_body(f)}
        text = name if ops else f"{name}, but no node of it is used"
        if ops and bodies >= set(ops):
            text += "; without it, the function bodies in this file"
        if strange := set(ops) - known - local:
            text += f". This version of {name} has no {', '.join(sorted(strange))}"
        return text
    if local and local >= set(ops):
        return "model-local functions in this file"
    if not ops:
        return "no node of it is used"
    beginning = max((d for d in _PROVIDERS if f"{name}.".startswith(f"{d}.")), key=len, default="")
    text = _PROVIDERS.get(beginning, "unknown: a custom-op library that you must have")
    return f"{text}; {', '.join(sorted(local))} model-local" if local else text


def _file(tensor: onnx.TensorProto) -> str:
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return ""
    return next((item.value for item in tensor.external_data if item.key == "location"), "?")
