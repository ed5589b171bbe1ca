"""The loss of each layer of a quantized model alone, on the values of the float run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from myops.onnx.comparison.ort_side import Runner
from myops.onnx.graph import structure
from myops.onnx.precision import layers, losses
from myops.onnx.precision.integer_forms import DEQUANTIZE, QUANTIZE

_RENAMED = "_QuantizeLinear_Input"  # the suffix that the quantizer adds to the name of an output


def alone(model: onnx.ModelProto, values: layers.Values, runner: Runner) -> dict[str, float]:
    """The relative L2 error of each node between dequantize and quantize nodes, alone."""
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    weights = {tensor.name: tensor for tensor in graph.initializer}
    part = onnx.GraphProto(name="layers alone")
    feeds: dict[str, np.ndarray] = {}
    wanted: dict[str, tuple[str, np.ndarray]] = {}
    used: set[str] = set()
    for number, node in enumerate(graph.node):
        if node.op_type in (QUANTIZE, DEQUANTIZE) or structure.is_custom(node.domain):
            continue
        if any(structure.subgraphs(node)):
            continue
        expected = values.get((0, node.output[0].removesuffix(_RENAMED)))
        pieces = _pieces(node, number, makers, readers, weights, values)
        if expected is None or expected.dtype.kind != "f" or pieces is None:
            continue
        nodes, given, constants, made = pieces
        part.node.extend(nodes)
        feeds.update(given)
        used |= constants
        wanted[made] = node.name, expected
    if not wanted:
        return {}
    part.initializer.extend(weights[name] for name in sorted(used))
    for name, array in feeds.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        part.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    for name in wanted:
        part.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    alone = onnx.ModelProto(ir_version=model.ir_version, graph=part)
    alone.opset_import.extend(model.opset_import)
    try:
        got = runner.run(alone, feeds)
    except RuntimeError:
        return {}
    return {title: losses.relative_l2(expected, np.asarray(got[name]))
            for name, (title, expected) in wanted.items()}  # fmt: skip


def _pieces(
    node: onnx.NodeProto,
    number: int,
    makers: Mapping[str, onnx.NodeProto],
    readers: Mapping[str, list[onnx.NodeProto]],
    weights: Mapping[str, Any],
    values: layers.Values,
) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray], set[str], str] | None:
    """A node with its own copies of the dequantize and quantize nodes around it."""
    nodes: list[onnx.NodeProto] = []
    given: dict[str, np.ndarray] = {}
    constants: set[str] = set()
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    rounded = False

    def through(source: onnx.NodeProto, name: str, made: str) -> None:
        counterpart = onnx.NodeProto()
        counterpart.CopyFrom(source)
        counterpart.input[0], counterpart.output[0], counterpart.name = name, made, made
        constants.update(item for item in source.input[1:] if item)
        nodes.append(counterpart)

    for slot, name in enumerate(node.input):
        if not name or name in weights:
            constants.update({name} - {""})
            continue
        maker = makers.get(name)
        new = f"n{number}_i{slot}"
        if maker is not None and maker.op_type == DEQUANTIZE:
            rounded = True
            inner = maker.input[0]
            if inner in weights:
                constants.add(inner)
                through(maker, inner, new)
            else:
                before = makers.get(inner)
                array = values.get((0, before.input[0])) if before is not None else None
                if before is None or before.op_type != QUANTIZE or array is None:
                    return None
                given[f"{new}_float"] = array
                through(before, f"{new}_float", f"{new}_integer")
                through(maker, f"{new}_integer", new)
        else:
            array = values.get((0, name))
            if array is None:
                return None
            given[new] = array
        copy.input[slot] = new
    made = f"n{number}_o"
    copy.output[0] = made
    del copy.output[1:]
    nodes.append(copy)
    after = [item for item in readers.get(node.output[0], ()) if item.op_type == QUANTIZE]
    if after:
        rounded = True
        back = next((item for item in readers.get(after[0].output[0], ())
                     if item.op_type == DEQUANTIZE), None)  # fmt: skip
        through(after[0], made, f"{made}_integer")
        if back is None:
            return None
        through(back, f"{made}_integer", f"{made}_back")
        made = f"{made}_back"
    return (nodes, given, constants, made) if rounded else None
