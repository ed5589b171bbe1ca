"""Runs a case of the zoo: exports it, and compares the file with the model at all its sizes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch

import myops.onnx
import myops.ort
from myops import _libraries
from zoo.cases import Case

EXPORTERS = ("dynamo", "torchscript")
# Times (the size of the element + that of all): ONNX Runtime sums in another order than PyTorch.
TOLERANCE = 1e-3


@dataclass
class Row:
    """How a file of the zoo came out.

    refused: What the export said, in a sentence; empty where there is a file.
    nodes, custom: How many nodes there are, and how many of our domain; each of these gave
        PyTorch's bits at every size.
    sizes: How many sizes were compared.
    worst: The largest difference at any size, in units of the standard deviation of the output.
    seconds: What the export took.
    """

    name: str
    exporter: str
    refused: str = ""
    nodes: int = 0
    custom: int = 0
    sizes: int = 0
    worst: float = 0.0
    seconds: float = 0.0


def outputs(model: Any, inputs: Sequence[Any]) -> list[np.ndarray]:
    with torch.no_grad():
        result = model(*inputs)
    return [item.numpy() for item in (result if isinstance(result, tuple) else (result,))]


def feeds(model: onnx.ModelProto, inputs: Sequence[Any]) -> dict[str, np.ndarray]:
    names = [item.name for item in model.graph.input]
    return {name: np.asarray(value) for name, value in zip(names, inputs, strict=True)}


def export(case: Case, model: Any, exporter: str, target: str, **options: Any) -> onnx.ModelProto:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's trace, about each length that it reads
        return myops.onnx.export(
            model, case.made(case.example), dynamic_axes=case.axes, exporter=exporter,
            target=target, **options,
        )  # fmt: skip


def checked(case: Case, model: Any, exported: onnx.ModelProto, sizes: int = 12) -> Row:
    """Runs the file at every size; raises AssertionError where it differs."""
    found = Row(case.name, "", nodes=len(exported.graph.node))
    nodes = list(_custom_nodes(exported))
    found.custom = len(nodes)
    shown = _shown(exported, nodes)
    session = myops.ort.session(shown)
    count = len(exported.graph.output)
    for size in case.sizes[:sizes]:
        inputs = case.made(size)
        wanted, fed = outputs(model, inputs), feeds(exported, inputs)
        got = session.run(None, fed)
        apart = max(map(_apart, wanted, got[:count]))
        if not apart <= TOLERANCE:
            raise AssertionError(
                f"{case.name} at {size}: {apart}\n{_layers(model, inputs, exported)}"
            )
        names = [item.name for item in shown.graph.output]
        _same_bits(exported, nodes, {**dict(zip(names, got, strict=True)), **fed})
        found.sizes += 1
        found.worst = max(found.worst, apart)
    return found


def _apart(wanted: np.ndarray, got: np.ndarray) -> float:
    assert wanted.shape == got.shape, f"{got.shape}, PyTorch {wanted.shape}"
    assert wanted.dtype == got.dtype
    spread = max(float(wanted.std()), 1e-3 * float(np.abs(wanted).mean()), 1e-12)
    return float(np.abs(wanted - got).max()) / spread if wanted.size else 0.0


def _layers(model: Any, inputs: Sequence[Any], exported: onnx.ModelProto) -> str:
    """Which module differs first."""
    if isinstance(model, torch.jit.ScriptModule):
        return "a scripted module has no layers to look at"
    return str(myops.onnx.compare(model, tuple(inputs), exported).first_mismatch)


def _custom_nodes(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, Any]]:
    """Nodes of described ops in the main graph; those in loops run through the same kernel."""
    infos = {(info.domain, info.onnx_type): info for info in _libraries.nodes()}
    for node in model.graph.node:
        info = infos.get((node.domain, node.op_type))
        if info is not None:
            yield node, info


def _shown(model: onnx.ModelProto, nodes: Sequence[Any]) -> onnx.ModelProto:
    """The model with inputs and outputs of its custom nodes as outputs."""
    weights = {item.name for item in model.graph.initializer}
    known = weights | {item.name for item in (*model.graph.input, *model.graph.output)}
    wanted = {name for node, _ in nodes for name in (*node.input, *node.output)} - known - {""}
    return myops.onnx.add_outputs(model, sorted(wanted)) if wanted else model


def _same_bits(model: onnx.ModelProto, nodes: Sequence[Any], values: dict[str, np.ndarray]) -> None:
    """Each custom node computed what PyTorch's operator computes from the same inputs."""
    weights = {item.name: onnx.numpy_helper.to_array(item) for item in model.graph.initializer}
    values = {**weights, **values}
    for node, info in nodes:
        tensors = [
            torch.from_numpy(np.array(values[name])) if name else None for name in node.input
        ]
        tensors += [None] * (len(info.inputs) - len(tensors))
        attributes = {item.name: _attribute(item) for item in node.attribute}
        packet = getattr(getattr(torch.ops, info.namespace), info.name)
        wanted = packet.default(*tensors, **attributes).numpy()
        got = values[node.output[0]]
        assert got.shape == wanted.shape
        assert got.tobytes() == wanted.tobytes(), f"{node.name}: other bits than in PyTorch"


def _attribute(item: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(item)
    return value.decode() if isinstance(value, bytes) else value


def sentence(error: Exception) -> str:
    """Why an export was refused, in one sentence."""
    said = str(error).removeprefix("export: ")
    place = re.search(r"is built in at \S+/\w+\.py:\d+: (.*?)(?:, holds| \(No|, by|; at)", said)
    if place:
        return f"a length would be built in: `{place.group(1)}`"
    _, why, rest = said.partition("Why: ")
    text = re.split(r"(?<=[a-z)\]\"])[.:] ", rest if why else said)
    return " ".join((text[0] if why else ": ".join(text[:2])).split())
