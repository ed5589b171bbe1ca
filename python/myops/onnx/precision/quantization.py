"""A conversion to int8: calibration, the layers that lose most, and the bound on outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from myops._names import choose
from myops._text import reason as short
from myops.onnx.comparison.ort_side import Runner
from myops.onnx.graph import files, structure
from myops.onnx.precision import calibration, integer_ops, layers, losses, samples
from myops.onnx.precision.frames import frames_of
from myops.onnx.precision.integer_ops import DEQUANTIZE, QUANTIZE

_RENAMED = "_QuantizeLinear_Input"  # what the quantizer makes of the name of an output
OLDEST = 11  # opset with which the quantizer can work


@dataclass(frozen=True)
class QuantizedNode:
    """What became of a node: an entry of `Quantized.nodes`.

    Attributes:
        name: The node in words: its name and its type.
        op_type: The type, with the domain where that is not the standard one.
        precision: "int8" where its inputs or outputs are integers, else "float32".
        kind: Why it is float32: "custom", "quantizer" (ONNX Runtime's does not quantize it),
            "body" (of If, Loop or Scan), "bound" or "kept"; "" for int8.
        reason: The same in a sentence.
        loss: The relative L2 error of the node alone on integers; None: not measured.

    Example:
        >>> result = myops.onnx.quantize("model.onnx", data=[{"x": image}])
        >>> result.nodes[0].op_type, result.nodes[0].precision
        ('Conv', 'int8')
    """

    name: str
    op_type: str
    precision: str
    kind: str = ""
    reason: str = ""
    loss: float | None = None


@dataclass
class Quantization:
    """One conversion: prepare, calibrate, search, finish.

    Attributes:
        base: The model without functions; it stays as it is.
        alone: What nodes lose when they run alone on integers, by name.
        lost: What outputs lose.
    """

    base: onnx.ModelProto
    activations: str
    per_channel: bool
    reduce_range: bool
    keep: Sequence[str]
    bound: losses.Bound
    libraries: list[Any]
    advance: Callable[..., None]
    notes: list[str] = field(default_factory=list)
    alone: dict[str, float] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, tuple[str, str]] = field(default_factory=dict)
    places: dict[str, dict[int, int]] = field(default_factory=dict)

    def prepare(self) -> None:
        """Names for all nodes, and which custom nodes may run on integers."""
        self.model = calibration.prepared(self.base, self.libraries)
        known: set[str] = set()
        for node in self.model.graph.node:
            titles = {node.name, node.op_type, f"{node.domain}::{node.op_type}"}
            known |= titles
            custom = structure.is_custom(node.domain)
            if titles.intersection(self.keep):
                self.reasons[node.name] = "kept", "it was asked for"
            elif custom:
                places, why = integer_ops.declared(node, self.activations)
                if places:
                    self.places[node.name] = places
                else:
                    self.reasons[node.name] = "custom", why
        for name in set(self.keep) - known:
            choose(name, known, "quantize: keep: the model has")

    def measure(self, data: samples.Data, most: int, images: Any, method: str, check: Any) -> None:
        """Calibrates, and puts layers back to float until the bound holds."""
        runner = Runner(self.libraries)
        large = files.is_large(self.base)
        run = None if large else runner.opened(self.base, None, "all")
        nothing: Any = ({}, {}, {})
        found = samples.of(self.base, data, nothing, run or (lambda feed: {}), most, *images)
        self.described, self.feeds = found.described, found.feeds
        custom = sorted({node.op_type for node in self.model.graph.node
                         if node.name in self.places})  # fmt: skip
        if run is not None:
            run(self.feeds[0])  # so that what is wrong with the model is said of the model
        self.ranges = calibration.ranges(
            self.model, self.feeds, method, custom, self.libraries, self.advance
        )
        self.result, self.on_integers = self._quantized(())
        if run is None:
            self.notes.append(
                "Not measured: the model is too large for one message. myops compare of both "
                "files measures it."
            )
            return
        tried = self.feeds
        if check is not None:
            tried = samples.of(self.base, check, nothing, run, most, *images).feeds
        self.tried = tried
        self.expected = [run(feed) for feed in tried]
        self.advance("layers")
        self._measure_layers(tried[: samples.LAYERWISE])
        self.lost = self._losses(self.result)
        if not self._holds(self.lost):
            self._until_it_holds()

    def _quantized(self, more: Sequence[str]) -> tuple[onnx.ModelProto, list[str]]:
        excluded = [*self.reasons, *more]
        places = {name: pairs for name, pairs in self.places.items() if name not in more}
        self.pairs = calibration.quantized(
            self.model, self.ranges, excluded, places, activations=self.activations,
            per_channel=self.per_channel, reduce_range=self.reduce_range,
        )  # fmt: skip
        made = onnx.ModelProto()
        made.CopyFrom(self.pairs)
        return made, integer_ops.put_on_integers(made, places)

    def _losses(self, model: onnx.ModelProto) -> dict[str, float]:
        try:
            run = Runner(self.libraries).opened(model, None, "all")
            got = [run(feed) for feed in self.tried]
        except RuntimeError as error:
            raise RuntimeError(f"the quantized model does not run: {short(error, 300)}") from error
        return losses.of_outputs(self.bound, self.expected, got)

    def _holds(self, found: Mapping[str, float]) -> bool:
        return self.bound.holds(max(found.values(), default=0.0))

    def _measure_layers(self, feeds: Sequence[Mapping[str, Any]]) -> None:
        frames = frames_of(self.model, self.libraries)
        for feed in feeds:
            values = layers.Values(self.model, frames, feed, self.libraries)
            found = _alone(self.pairs, values, Runner(self.libraries))
            for name in found.keys() - self.reasons.keys():
                loss = found[name]
                self.alone[name] = max(loss, self.alone.get(name, 0.0))

    def _until_it_holds(self) -> None:
        """Keeps nodes in float, those that lose most alone first: as few as a bisection finds."""
        ranked = sorted(self.alone, key=lambda name: -self.alone[name])
        low, high = 1, len(ranked)
        best: Any = None
        while low <= high:
            middle = (low + high) // 2
            self.advance(f"{middle} layers in float")
            model, done = self._quantized(ranked[:middle])
            found = self._losses(model)
            if self._holds(found):
                best, high = (middle, model, done, found), middle - 1
            else:
                low = middle + 1
        if best is None:
            # Nothing is left on integers then; what was measured first is what the user gets.
            self.notes.append("max_loss does not hold with any layer on integers.")
            return
        count, self.result, self.on_integers, self.lost = best
        for name in ranked[:count]:
            text = f"alone it loses {self.alone[name]:.2g}, and max_loss did not hold"
            self.reasons[name] = "bound", text

    def nodes(self) -> list[QuantizedNode]:
        """What became of the nodes of the model that may have been quantized."""
        touched = _on_integers(self.result) | set(self.on_integers)
        left = {node.name for node in self.result.graph.node}
        found = []
        for node in self.model.graph.node:
            if node.op_type in ("Constant", QUANTIZE, DEQUANTIZE):
                continue
            folded = node.name not in left
            whole = (node.name in touched or folded) and node.name not in self.reasons
            default = "quantizer", "ONNX Runtime's quantizer leaves it in float"
            if any(structure.subgraphs(node)):
                default = "body", "ONNX Runtime's quantizer does not look into bodies"
            kind, text = ("", "") if whole else self.reasons.get(node.name, default)
            custom = structure.is_custom(node.domain)
            found.append(QuantizedNode(
                structure.label(node), f"{node.domain}::{node.op_type}" if custom else node.op_type,
                "int8" if whole else "float32", kind, text, self.alone.get(node.name),
            ))  # fmt: skip
        return found


def _on_integers(model: onnx.ModelProto) -> set[str]:
    """Nodes that read from dequantize nodes and are read by quantize nodes, or the first alone."""
    made = {name for node in model.graph.node if node.op_type == DEQUANTIZE for name in node.output}
    others = [item for item in model.graph.node if item.op_type not in (QUANTIZE, DEQUANTIZE)]
    return {item.name for item in others if made.intersection(item.input)}


def _alone(model: onnx.ModelProto, values: layers.Values, runner: Runner) -> dict[str, float]:
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
        twin = onnx.NodeProto()
        twin.CopyFrom(source)
        twin.input[0], twin.output[0], twin.name = name, made, made
        constants.update(item for item in source.input[1:] if item)
        nodes.append(twin)

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
