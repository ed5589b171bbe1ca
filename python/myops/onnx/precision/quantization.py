"""A conversion to int8: calibration, the layers that lose most, and the bound on outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx

from myops._names import choose
from myops._text import reason as short
from myops.onnx.comparison.ort_side import Runner
from myops.onnx.graph import files, scopes, structure
from myops.onnx.precision import (
    calibration,
    integer_forms,
    integer_ops,
    keeping,
    layers,
    losses,
    planning,
    quantized_layers,
    samples,
)  # fmt: skip
from myops.onnx.precision.frames import Frame, frames_of
from myops.onnx.precision.integer_forms import DEQUANTIZE, QUANTIZE
from myops.onnx.precision.kernels import HALVES
from myops.onnx.surgery.summary import dtype_name

OLDEST = 11  # the oldest opset that the quantizer supports
_HALF_QUANTIZED = 19  # the oldest opset whose QuantizeLinear reads float16 and bfloat16
# Up to this number of layers, each is also tried as the only one on integers.
_TRIED_ALONE = 200


@dataclass(frozen=True)
class QuantizedNode:
    """The precision of a node and its reason: an entry of `Quantized.nodes`.

    Attributes:
        name: The node in words: its name and its type.
        op_type: The type, with the domain where that is not the standard one.
        precision: "int8" where its inputs or outputs are quantized, else the float dtype of its
            outputs or inputs, such as "float32"; of a node without floats, that of its output; "?"
            where the dtype is not known.
        kind: Why it is not int8: "custom", "quantizer" (ONNX Runtime's does not quantize it),
            "sizes" or "coordinates" (it computes lengths, factors or positions), "range" (a value
            of it is infinite or NaN), "body" (of If, Loop or Scan), "bound" or "kept"; "" for int8.
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
        base: The model without functions; it is not changed.
        alone: The losses of nodes that run alone on integers, by name.
        lost: The losses of outputs.
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
    forms: dict[str, integer_forms.Form] = field(default_factory=dict)

    def prepare(self) -> None:
        """Names all nodes, and finds the custom nodes that may run on integers."""
        self.model = calibration.prepared(self.base, self.libraries)
        known: set[str] = set()
        for node in self.model.graph.node:
            titles = {node.name, node.op_type, f"{node.domain}::{node.op_type}"}
            known |= titles
            custom = structure.is_custom(node.domain)
            if titles.intersection(self.keep):
                self.reasons[node.name] = "kept", "it was asked for"
            elif custom:
                found, why = integer_ops.declared(node, self.activations)
                if isinstance(found, integer_forms.Form):
                    why = integer_forms.lacks(found, node, self.model)
                if why:
                    self.reasons[node.name] = "custom", why
                elif isinstance(found, integer_forms.Form):
                    self.forms[node.name] = found
                else:
                    self.places[node.name] = found
        self._keep_coordinates()
        for name in sorted(set(self.keep) - known):
            where = "quantize: keep: among the model's nodes there is"
            choose(name, sorted(known), where, "name or type")

    def _keep_coordinates(self) -> None:
        """Keeps the nodes float that compute lengths, factors or positions, as `half` does: a range
        from the calibration would clip them to the sizes of its inputs. So do nodes in half
        precision that cannot be quantized."""
        frames = frames_of(self.model, self.libraries)
        if scopes.onnx_opset(self.model) < _HALF_QUANTIZED:
            for node in self.model.graph.node:
                kinds = {frames[0].elem_type(name) for name in (*node.input, *node.output)}
                if kinds & set(HALVES.values()):
                    self.reasons.setdefault(node.name, (
                        "quantizer", "QuantizeLinear has no half precision before opset 19",
                    ))  # fmt: skip
        plan = planning.make(
            self.model, frames, "float16", keep_io_types=False, for_cpu=False,
            keep=lambda node: False,
        )  # fmt: skip
        plan.reasons.clear()  # those of float16
        keeping.keep_coordinates(plan)
        for vertex, (kind, text) in plan.reasons.items():
            if vertex[0] == "node" and vertex[1] == 0:  # quantizers leave bodies alone
                self.reasons.setdefault(plan.node(vertex).name, (kind, text))

    def measure(self, data: samples.Data, most: int, images: Any, method: str, check: Any) -> None:
        """Calibrates, and returns layers to float until the bound holds."""
        runner = Runner(self.libraries)
        large = files.is_large(self.base)
        run = None if large else runner.opened(self.base, None, "all")
        nothing: Any = ({}, {}, {})
        found = samples.of(self.base, data, nothing, run or (lambda feed: {}), most, *images)
        self.described, self.feeds = found.described, found.feeds
        custom = sorted({node.op_type for node in self.model.graph.node
                         if node.name in self.places or node.name in self.forms})  # fmt: skip
        if run is not None:
            run(self.feeds[0])  # so that what is wrong with the model is said of the model
        self.ranges, unbounded = calibration.ranges(
            self.model, self.feeds, method, custom, self.libraries, self.advance
        )
        for node in self.model.graph.node:
            if unbounded.intersection([*node.input, *node.output]):
                text = "a value of it is infinite or NaN for one of the inputs"
                self.reasons.setdefault(node.name, ("range", text))
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
        forms = {name: form for name, form in self.forms.items() if name not in more}
        self.pairs = calibration.quantized(
            self.model, self.ranges, excluded, places, forms, activations=self.activations,
            per_channel=self.per_channel, reduce_range=self.reduce_range,
        )  # fmt: skip
        made = onnx.ModelProto()
        made.CopyFrom(self.pairs)
        done = integer_forms.replace(made, forms, self._limits())
        return made, done + integer_ops.put_on_integers(made, places)

    def _limits(self) -> dict[str, dict[str, float]]:
        """The attributes of forms that are largest magnitudes of the calibration."""
        found: dict[str, dict[str, float]] = {}
        for node in self.model.graph.node:
            form = self.forms.get(node.name)
            for name, place in form.limits.items() if form else ():
                if place < len(node.input) and node.input[place]:
                    most = calibration.magnitude(self.ranges, node.input[place])
                    if most is not None:
                        found.setdefault(node.name, {})[name] = most
        return found

    def _losses(self, model: onnx.ModelProto, most: int | None = None) -> dict[str, float]:
        """The losses of outputs, on the first `most` inputs."""
        try:
            run = Runner(self.libraries).opened(model, None, "all")
            got = [run(feed) for feed in self.tried[:most]]
        except RuntimeError as error:
            raise RuntimeError(f"the quantized model does not run: {short(error, 300)}") from error
        return losses.of_outputs(self.bound, self.expected[:most], got)

    def _holds(self, found: Mapping[str, float]) -> bool:
        return self.bound.holds(max(found.values(), default=0.0))

    def _measure_layers(self, feeds: Sequence[Mapping[str, Any]]) -> None:
        frames = frames_of(self.model, self.libraries)
        for feed in feeds:
            values = layers.Values(self.model, frames, feed, self.libraries)
            found = quantized_layers.alone(self.pairs, values, Runner(self.libraries))
            for name in found.keys() - self.reasons.keys():
                loss = found[name]
                self.alone[name] = max(loss, self.alone.get(name, 0.0))

    def _until_it_holds(self) -> None:
        """Keeps as few layers in float as a bisection finds, those that lose most first.

        The loss of a layer alone says little if the layers after it amplify or absorb it. So a
        second order is tried: by the losses of the outputs if the layer is the only one on
        integers.
        """
        candidates = self._candidates()
        alone = {name: f"alone it loses {self.alone[name]:.2g}" for name in candidates
                 if name in self.alone}  # fmt: skip
        ranked = sorted(candidates, key=lambda name: -self.alone.get(name, 0.0))
        best = self._fewest_in_float(ranked, alone)
        if len(candidates) <= _TRIED_ALONE and (best is None or best[0] > 1):
            effects = self._effects(candidates)
            said = {name: f"as the only one on integers it costs {self.bound.text(loss)}"
                    for name, loss in effects.items()}  # fmt: skip
            order = sorted(candidates, key=lambda name: -effects[name])
            other = self._fewest_in_float(order, said)
            if other is not None and (best is None or other[0] < best[0]):
                best = other
        if best is None:
            self.notes.append("max_loss does not hold, not even with all layers in float.")
            return
        _, self.result, self.on_integers, self.lost, reasons = best
        for name, text in reasons.items():
            self.reasons[name] = "bound", f"{text}, and max_loss did not hold"

    def _candidates(self) -> list[str]:
        """The nodes that are on integers now."""
        touched = _on_integers(self.result) | set(self.on_integers)
        quantized = {node.name for node in self.result.graph.node}
        return [node.name for node in self.model.graph.node
                if node.op_type not in ("Constant", QUANTIZE, DEQUANTIZE)
                and node.name not in self.reasons
                and (node.name in touched or node.name not in quantized)]  # fmt: skip

    def _fewest_in_float(self, ranked: Sequence[str], texts: Mapping[str, str]) -> Any:
        low, high = 1, len(ranked)
        best: Any = None
        while low <= high:
            middle = (low + high) // 2
            self.advance(f"{middle} layers in float")
            model, done = self._quantized(ranked[:middle])
            found = self._losses(model)
            if self._holds(found):
                reasons = {name: texts.get(name, "not measured alone") for name in ranked[:middle]}
                best, high = (middle, model, done, found, reasons), middle - 1
            else:
                low = middle + 1
        return best

    def _effects(self, candidates: Sequence[str]) -> dict[str, float]:
        """The losses of the outputs if only one layer is on integers, for each layer."""
        found = {}
        for place, name in enumerate(candidates):
            self.advance(f"layer {place + 1} of {len(candidates)} alone on integers")
            model, _ = self._quantized([other for other in candidates if other != name])
            found[name] = max(self._losses(model, samples.LAYERWISE).values(), default=0.0)
        return found

    def nodes(self) -> list[QuantizedNode]:
        """The precisions of the nodes of the model that could have been quantized."""
        touched = _on_integers(self.result) | set(self.on_integers)
        left = {node.name for node in self.result.graph.node}
        frame = frames_of(self.model, self.libraries)[0]
        found = []
        for node in self.model.graph.node:
            if node.op_type in ("Constant", QUANTIZE, DEQUANTIZE):
                continue
            folded = node.name not in left
            whole = (node.name in touched or folded) and node.name not in self.reasons
            default = "quantizer", "ONNX Runtime's quantizer leaves it in float"
            dtype = _dtype(frame, node)
            if dtype == "float64":
                default = "quantizer", "ONNX Runtime's quantizer quantizes no float64"
            if any(structure.subgraphs(node)):
                default = "body", "ONNX Runtime's quantizer does not look into bodies"
            kind, text = ("", "") if whole else self.reasons.get(node.name, default)
            custom = structure.is_custom(node.domain)
            found.append(QuantizedNode(
                structure.label(node), f"{node.domain}::{node.op_type}" if custom else node.op_type,
                "int8" if whole else dtype, kind, text, self.alone.get(node.name),
            ))  # fmt: skip
        return found


def _dtype(frame: Frame, node: onnx.NodeProto) -> str:
    """The dtype in which a node computes, as far as its values tell."""
    kinds = [frame.elem_type(name) for name in (*node.output, *node.input) if name]
    names = [dtype_name(kind) for kind in kinds if kind]
    return next((name for name in names if "float" in name), names[0] if names else "?")


def _on_integers(model: onnx.ModelProto) -> set[str]:
    """Nodes that read from dequantize nodes and are read by quantize nodes, or the first alone."""
    made = {name for node in model.graph.node if node.op_type == DEQUANTIZE for name in node.output}
    others = [item for item in model.graph.node if item.op_type not in (QUANTIZE, DEQUANTIZE)]
    return {item.name for item in others if made.intersection(item.input)}
