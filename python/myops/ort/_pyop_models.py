"""Rewrites a model so that PyOps can run its nodes: see myops.ort.pyops for what they cannot do.

A node `myops::Resize(X, "", scales) {mode = "linear"}` of float16 becomes

    X_wide       = Cast(X)                                      float32
    Y_wide       = myops.pyop.resize::Resize(X_wide, empty, scales, empty) {call = "..."}
    Y            = Cast(Y_wide)                                 float16

where `call` says in JSON which inputs are there, their true dtypes, and all attributes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import onnx
import onnx.inliner

from myops import _description, _dtypes, _libraries
from myops._description import OpInfo
from myops._op_parts import AttributeInfo, InputInfo
from myops.onnx import schema
from myops.onnx.graph import calls

CALL = "call"  # the one attribute of a rewritten node

# What PyOps cannot have, and what they get.
_WIDE = dict.fromkeys(("float16", *_dtypes.NARROW_FLOATS), "float32")
_EMPTY = "myops_pyop_empty_"  # the initializers that stand for inputs left out


@dataclass(frozen=True)
class Request:
    """What a rewritten node asks of the kernel."""

    session: int
    dtypes: list[str | None]  # of the inputs, before they were widened; None: left out
    attributes: dict[str, Any]

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def loads(text: str) -> Request:
        return Request(**json.loads(text))


def wide_dtype(dtype: str) -> str:
    """The dtype in which a PyOp sees a tensor of `dtype`."""
    return _WIDE.get(dtype, dtype)


def signatures(info: OpInfo) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The dtypes of inputs and outputs, for each combination that PyOps can have: none with complex
    numbers, of which ONNX Runtime has no tensors."""
    widened = [
        list(dict.fromkeys(wide_dtype(item) for item in dtypes if item not in _dtypes.COMPLEX))
        for dtypes in info.types.values()
    ]
    found = []
    for choice in itertools.product(*widened):
        chosen = dict(zip(info.types, choice, strict=True))
        inputs = tuple(chosen[item.type] for item in info.inputs)
        outputs = tuple(chosen[item.type] for item in info.outputs)
        found.append((inputs, outputs))
    return list(dict.fromkeys(found))


def truth(info: OpInfo, item: AttributeInfo, value: int) -> bool:
    """An ONNX int as a bool."""
    if value not in (0, 1):
        raise ValueError(f"{info.name}: {item.name}: got {value}, expected 0 or 1")
    return value == 1


def private_domain(info: OpInfo, count: int | None = None) -> str:
    """The domain of the PyOps of one op; of a variadic op, those for nodes of `count` inputs.

    A domain of its own, because onnxruntime-extensions keeps the PyOps of a domain in one list
    that sessions point into: it must not grow when an op is defined later.
    """
    return f"{info.domain}.pyop.{info.name}" + ("" if count is None else f".{count}")


# The numbers of inputs that nodes of variadic ops have had, by domain and name: a PyOp has one.
counts: dict[tuple[str, str], set[int]] = {}


def rewrite(model: onnx.ModelProto, session: int) -> onnx.ModelProto:
    """The model for PyOps; `session` is the number that its nodes will report failures under.

    `model` may be changed.
    """
    calls.refuse_endless(model)
    ours = [(f.domain, f.name) for f in model.functions if _libraries.find_node(f.domain, f.name)]
    if len(ours) < len(model.functions):  # nodes of ours may be inside
        model = onnx.inliner.inline_selected_functions(model, ours, exclude=True)
    del model.functions[:]  # only bodies of our own ops are left
    for node in _nodes(model.graph):
        info = _libraries.op_of(node)
        if info is not None:
            _attributes(info, node)  # shape inference takes them as they come
    schema.register_schemas(model)
    model = onnx.shape_inference.infer_shapes(model)
    _Rewriter(session).model(model)
    return model


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for inner in _subgraphs(node):
            yield from _nodes(inner)


class _Rewriter:
    def __init__(self, session: int) -> None:
        self.session = session
        self.names = itertools.count()
        self.empties: set[str] = set()  # the dtypes of the fillers that nodes refer to
        self.domains: set[str] = set()

    def model(self, model: onnx.ModelProto) -> None:
        self.graph(model.graph, {})
        for dtype in sorted(self.empties):
            empty = np.empty(0, _dtypes.numpy_dtype(dtype))
            model.graph.initializer.append(onnx.numpy_helper.from_array(empty, _EMPTY + dtype))
        for domain in sorted(self.domains):
            model.opset_import.append(onnx.helper.make_opsetid(domain, 1))

    def graph(self, graph: onnx.GraphProto, outer: dict[str, int]) -> None:
        """Rewrites the nodes of a graph and of the graphs inside them."""
        types = outer | dict(_element_types(graph))
        nodes = list(graph.node)
        del graph.node[:]
        for node in nodes:
            for inner in _subgraphs(node):
                self.graph(inner, types)
            info = _libraries.op_of(node)
            graph.node.extend([node] if info is None else self.node(info, node, types))

    def node(
        self, info: OpInfo, node: onnx.NodeProto, types: dict[str, int]
    ) -> Iterator[onnx.NodeProto]:
        """The nodes that take the place of `node`."""
        count = len(node.input) if info.is_variadic else None
        if count is not None:
            counts.setdefault((info.domain, info.name), set()).add(count)
            info = info.expanded(count)
        names = [*node.input, *[""] * (len(info.inputs) - len(node.input))]
        given = [
            _dtype(info, item, types.get(name)) if name else None
            for item, name in zip(info.inputs, names, strict=True)
        ]
        chosen = {kind: dtypes[0] for kind, dtypes in info.types.items()}
        for item, dtype in zip(info.inputs, given, strict=True):
            chosen[item.type] = dtype or chosen[item.type]

        inputs = []
        for item, name, dtype in zip(info.inputs, names, given, strict=True):
            if dtype is None:
                filler = wide_dtype(chosen[item.type])
                self.empties.add(filler)
                inputs.append(_EMPTY + filler)
            elif wide_dtype(dtype) != dtype:
                inputs.append(self.fresh(name))
                yield _cast(name, inputs[-1], wide_dtype(dtype))
            else:
                inputs.append(name)
        outputs, after = [], []
        named = [*node.output, *[""] * (len(info.outputs) - len(node.output))]
        for output, name in zip(info.outputs, named, strict=True):
            name = name or self.fresh(f"{node.output[0]}_{output.name}")  # a PyOp has all outputs
            dtype = chosen[output.type]
            narrow = wide_dtype(dtype) != dtype
            outputs.append(self.fresh(name) if narrow else name)
            if narrow:
                after.append(_cast(outputs[-1], name, dtype))
        request = Request(self.session, given, _attributes(info, node))
        domain = private_domain(info, count)
        self.domains.add(domain)
        yield onnx.helper.make_node(
            info.onnx_type, inputs, outputs, node.name, domain=domain, **{CALL: request.dumps()}
        )
        yield from after

    def fresh(self, name: str) -> str:
        return f"{name}_myops_pyop_{next(self.names)}"


def _cast(source: str, target: str, dtype: str) -> onnx.NodeProto:
    # Infinity stays, which the standard would make the largest number of 8 bits.
    keeping: dict[str, Any] = {"saturate": 0} if dtype.startswith("float8") else {}
    number = schema.ELEMENT_TYPES[dtype]
    return onnx.helper.make_node("Cast", [source], [target], to=number, **keeping)


def _element_types(graph: onnx.GraphProto) -> Iterator[tuple[str, int]]:
    for value in (*graph.value_info, *graph.output, *graph.input):
        if value.type.tensor_type.elem_type:
            yield value.name, value.type.tensor_type.elem_type
    for tensor in graph.initializer:
        yield tensor.name, tensor.data_type


def _dtype(info: OpInfo, item: InputInfo, element_type: int | None) -> str:
    if element_type is None:
        raise ValueError(
            f"{info.name}: {item.name}: got a tensor of unknown type, expected one that "
            "onnx.shape_inference can tell (PyOps need it before the model runs)"
        )
    dtype = schema.DTYPES.get(element_type)
    legal = info.types[item.type]
    if dtype not in legal:
        name = dtype or onnx.TensorProto.DataType.Name(element_type).lower()
        raise ValueError(
            f"{info.name}: {item.name}: got dtype {name}, expected {_dtypes.one_of(legal)}"
        )
    return dtype


def _attributes(info: OpInfo, node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes that the node gives; the kernel knows the defaults of the others.

    A name that the op does not have is refused, as ONNX Runtime does for standard operators. (It
    cannot do so for ours, and does not tell our library: docs/onnxruntime.md.)
    """
    protos = {attribute.name: attribute for attribute in node.attribute}
    known = [item.name for item in info.attributes]
    for name in protos:
        if name not in known and name != _description.VERSION:
            raise ValueError(
                f"{info.name}: got the attribute {name!r}, expected "
                f"{'one of ' + ', '.join(known) if known else 'none'}"
            )
    values = {}
    for item in info.attributes:
        if item.name not in protos:
            continue
        proto = protos[item.name]
        value = schema.attribute_value(info.name, item, proto)
        values[item.name] = truth(info, item, proto.i) if item.type == "bool" else value
    missing = info.missing(values)
    if missing:
        raise ValueError(missing)
    return values
