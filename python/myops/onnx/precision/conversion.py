"""A conversion to half precision: uses definitions, then measurements, then writes the new
model."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx

from myops._names import choose
from myops._text import reason as short
from myops.onnx.comparison.ort_side import Runner
from myops.onnx.graph import files, inference, scopes, structure
from myops.onnx.precision import keeping, layers, losses, planning, rewriting, samples
from myops.onnx.precision.definitions import CONTROL, FOLLOWS, UnknownOpError, slots
from myops.onnx.precision.frames import frames_of
from myops.onnx.precision.plan import PrecisionPlan, Vertex

# What to do about nodes that stay float32, by the kind of the reason.
_ADVICE = {
    "kernel": 'runtime="any" (--runtime any), for GPUs and other runtimes that have the kernels',
    "range": 'dtype="bfloat16" (--dtype bfloat16), which has the range of float32',
    "accuracy": "a larger layer_loss (--layer-loss)",
    "bound": "a larger max_loss (--max-loss)",
    "kept": "fewer names in keep (--keep)",
}
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}


@dataclass(frozen=True)
class HalfNode:
    """The precision of a node and its reason: an entry of `Half.nodes`.

    Attributes:
        name: The node's name and type, as text.
        op_type: The type, with the domain if that is not the standard one.
        precision: "float16", "bfloat16" or "float32".
        kind: The reason why it is float32: "definition", "kernel", "constant", "range",
            "coordinates", "sizes", "accuracy", "bound", "casts" or "kept"; "" for half.
        reason: The reason in a sentence.
        loss: The relative L2 error of the node alone in half precision; None: not measured.

    Example:
        >>> result = myops.onnx.to_half("model.onnx", runtime="any")
        >>> result.nodes[0].op_type, result.nodes[0].precision
        ('Conv', 'float16')
    """

    name: str
    op_type: str
    precision: str
    kind: str = ""
    reason: str = ""
    loss: float | None = None


@dataclass
class Conversion:
    """One conversion to half precision: prepare, measure, finish.

    Attributes:
        base: The model without functions; it is not changed.
        for_cpu: Whether only nodes with a kernel on the CPU become half.
        limit: The relative L2 error above which a node stays float32.
        alone: The losses of nodes that run alone.
        lost: The losses of outputs.
    """

    base: onnx.ModelProto
    dtype: str
    for_cpu: bool
    keep_io_types: bool
    keep: Sequence[str]
    bound: losses.Bound
    limit: float
    libraries: list[Any]
    say: Callable[..., None]
    notes: list[str] = field(default_factory=list)
    alone: dict[Vertex, float] = field(default_factory=dict)
    feeds: list[dict[str, Any]] = field(default_factory=list)
    expected: list[dict[str, Any]] = field(default_factory=list)
    described: dict[str, Any] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)

    def prepare(self) -> None:
        """Decides by definitions, kernels and constants."""
        self.say("definitions and kernels")
        _refuse_unknown(self.base, self.libraries)
        self.frames = frames_of(self.base, self.libraries)
        kept: set[str] = set()

        def keep(node: onnx.NodeProto) -> bool:
            titles = {node.name, node.op_type, f"{node.domain}::{node.op_type}"} - {""}
            kept.update(titles)
            return bool(titles.intersection(self.keep))

        self.plan: PrecisionPlan = planning.make(
            self.base, self.frames, self.dtype, keep_io_types=self.keep_io_types,
            for_cpu=self.for_cpu, keep=keep,
        )  # fmt: skip
        for name in sorted(set(self.keep) - kept):
            where = "half: keep: among the nodes that could be half there is"
            choose(name, sorted(kept), where, "name or type")
        self.plan.choose()

    def measure(self, data: samples.Data, asked: Any) -> None:
        """Decides by runs."""
        if files.is_large(self.base):
            self.notes.append(
                "Not measured: the model is too large for one message, so only definitions, "
                "kernels and constants decided. myops compare of both files measures it."
            )
            return
        runner = Runner(self.libraries)
        run = runner.opened(self.base, None, "all")
        self.say("inputs")
        found = samples.of(self.base, data, asked, run)
        self.feeds, self.described, more = found.feeds, found.described, found.notes
        self.notes += more
        self.expected = [run(feed) for feed in self.feeds]
        self.say("layers")
        for feed in self.feeds[: samples.LAYERWISE]:
            values = layers.Values(self.base, self.frames, feed, self.libraries)
            self.notes += [text for text in values.notes if "compared" not in text]
            keeping.held_by(self.plan, values.ranges(self.plan), LARGEST[self.dtype])
            candidates = [vertex for vertex in self.plan.slots if self._may_lose(vertex)]
            found_losses, failed = layers.losses(
                self.base, self.plan, candidates, values, self.libraries
            )
            for vertex, loss in found_losses.items():
                self.alone[vertex] = max(loss, self.alone.get(vertex, 0.0))
                if loss > self.limit:
                    text = f"alone it loses {loss:.2g} (relative L2), more than {self.limit:.2g}"
                    self._pin(vertex, "accuracy", text)
            self._keep_before([v for v, loss in found_losses.items() if loss > self.limit], values)
            for vertex, text in failed.items():
                self._pin(vertex, "kernel", f"ONNX Runtime does not run it: {text}")
        self.plan.choose()
        self.say("outputs")
        self.lost = self._tried()
        worst = max(self.lost.values(), default=0.0)
        if self.bound.most is not None and not self.bound.holds(worst):
            self._until_it_holds()

    def _keep_before(self, lossy: Sequence[Vertex], values: layers.Values) -> None:
        """Keeps the nodes that compute the inputs of a node in float32, if rounding these inputs
        causes its loss."""
        found, _ = layers.losses(
            self.base, self.plan, lossy, values, self.libraries, only_inputs=True
        )
        for vertex, loss in found.items():
            if loss <= self.limit:
                continue
            frame, node = self.frames[vertex[1]], self.plan.node(vertex)
            for slot in self.plan.slots[vertex].inputs:
                key = frame.find(node.input[slot])
                maker = None if key is None else self.plan.makers.get(key)
                if maker is not None and maker[0] in ("node", "tie"):
                    text = f"rounding what it makes loses {loss:.2g} in {structure.label(node)}"
                    self._pin(maker, "accuracy", text)

    def _may_lose(self, vertex: Vertex) -> bool:
        made = self.plan.node(vertex).op_type in ("Cast", "ConstantOfShape", *CONTROL)
        return self._follows(vertex) and not made and vertex not in self.plan.reasons

    def _follows(self, vertex: Vertex) -> bool:
        found = self.plan.slots[vertex]
        return FOLLOWS in (*found.inputs.values(), *found.outputs.values())

    def _pin(self, vertex: Vertex, kind: str, text: str) -> None:
        self.plan.wanted.pop(vertex, None)
        self.plan.pin(vertex, kind, text)

    def _lacks(self, vertex: Vertex) -> bool:
        """Whether the CPU provider has no kernel for a node in half precision."""
        node = self.plan.node(vertex)
        if scopes.op_of(node) is not None or not self._follows(vertex):
            return False
        frame, found = self.frames[vertex[1]], self.plan.slots[vertex]
        return bool(planning.missing_kernel(self.dtype, frame, node, found, self.base))

    def converted(
        self, emulated: Sequence[Vertex] = ()
    ) -> tuple[onnx.ModelProto, rewriting.Written]:
        """A copy of the model, converted as planned."""
        copy = onnx.ModelProto()
        copy.CopyFrom(self.base)
        here = dataclasses.replace(self.plan, frames=frames_of(copy, self.libraries))
        written = rewriting.write(copy, here, emulated)
        return copy, written

    def _tried(self) -> dict[str, float]:
        emulated: list[Vertex] = []
        if not self.for_cpu:
            # The CPU provider refuses bfloat16. Between float16 nodes without a kernel it does not
            # round, so that results would be better than on other processors.
            emulated = [v for v in self.plan.slots if self.plan.is_half(v) and self._lacks(v)]
            if emulated:
                self.notes.append(
                    f"Measured with float32 between roundings to {self.dtype} where ONNX Runtime's "
                    "CPU provider has no kernel: as other processors compute."
                )
        copy, _ = self.converted(emulated)
        run = Runner(self.libraries).opened(copy, None, "all")
        try:
            got = [run(feed) for feed in self.feeds]
        except RuntimeError as error:
            self.notes.append(f"The new model does not run on the CPU: {short(error, 200)}")
            return {}
        return losses.of_outputs(self.bound, self.expected, got)

    def _until_it_holds(self) -> None:
        """Keeps as few nodes in float32 as a bisection finds, those that lose most first."""
        ranked = sorted((vertex for vertex in self.plan.slots
                         if self.plan.is_half(vertex) and self._has_float(vertex)),
                        key=lambda vertex: -self.alone.get(vertex, 0.0))  # fmt: skip
        start = dict(self.plan.reasons), dict(self.plan.wanted)
        low, high = 0, len(ranked)
        best: tuple[int, dict[str, float]] | None = None

        def attempt(count: int) -> dict[str, float]:
            self.say(f"{count} more nodes in float32")
            self.plan.reasons, self.plan.wanted = dict(start[0]), dict(start[1])
            for vertex in ranked[:count]:
                loss = self.alone.get(vertex)
                said = "not measured alone" if loss is None else f"alone it loses {loss:.2g}"
                self._pin(vertex, "bound", f"{said}, and max_loss did not hold")
            self.plan.choose()
            return self._tried()

        while low < high:
            middle = (low + high) // 2
            found = attempt(middle)
            if found and self.bound.holds(max(found.values(), default=0.0)):
                best, high = (middle, found), middle
            else:
                low = middle + 1
        self.lost = attempt(low)
        worst = max(self.lost.values(), default=0.0)
        if best is None and not self.bound.holds(worst):
            where = " and keep_io_types" if not self.keep_io_types else ""
            self.notes.append(
                f"max_loss does not hold with any node in half: {self.bound.text(worst)}. What is "
                f"lost is lost by rounding weights, inputs and outputs; try a larger one{where}."
            )

    def finish(self) -> tuple[onnx.ModelProto, rewriting.Written]:
        """The new model."""
        model, written = self.converted()
        reason = inference.problem(model)
        if reason and not inference.problem(self.base):
            raise RuntimeError(
                f"half: got an invalid model from the conversion, a bug in myops: {reason}"
            )
        vertices = [vertex for vertex in self.plan.slots if self._has_float(vertex)]
        if not any(map(self.plan.is_half, vertices)):
            self.notes.append(self._why_no_node(vertices, written))
        if any(v[0] in ("in", "out") and kind != "kept"
               for v, (kind, _) in self.plan.reasons.items()):  # fmt: skip
            names = ", ".join(repr(v[1]) for v in self.plan.reasons if v[0] in ("in", "out"))
            self.notes.append(f"These inputs and outputs stay float32: {names}.")
        return model, written

    def _why_no_node(self, vertices: Sequence[Vertex], written: rewriting.Written) -> str:
        """What to do if no node became half."""
        if not vertices:
            return "No node became half: none has float32 values."
        kinds = Counter(self.plan.reasons.get(vertex, ("casts", ""))[0] for vertex in vertices)
        advice = [text for kind, text in _ADVICE.items() if kind in kinds and text]
        weights = " Weights are stored in half, so that the file is smaller." * bool(
            written.weight_casts
        )
        todo = f" To convert more: {'; '.join(advice)}." if advice else ""
        return f"No node became half; see the reasons.{weights}{todo}"

    def _has_float(self, vertex: Vertex) -> bool:
        found = self.plan.slots[vertex]
        others = [kind for place, kind in found.inputs.items() if place not in found.coordinates]
        return bool(others or found.outputs)

    def nodes(self) -> list[HalfNode]:
        found = []
        for vertex in sorted((v for v in self.plan.slots if self._has_float(v)),
                             key=lambda v: v[1:]):  # fmt: skip
            node = self.plan.node(vertex)
            custom = structure.is_custom(node.domain)
            op_type = f"{node.domain}::{node.op_type}" if custom else node.op_type
            half = self.plan.is_half(vertex)
            default = "casts", "half precision would need additional casts"
            kind, text = ("", "") if half else self.plan.reasons.get(vertex, default)
            found.append(HalfNode(
                structure.label(node), op_type, self.dtype if half else "float32", kind, text,
                self.alone.get(vertex),
            ))  # fmt: skip
        return found


def _refuse_unknown(model: onnx.ModelProto, libraries: Iterable[Any]) -> None:
    """Raises ValueError for nodes that nothing defines, if no library was given for them."""
    imports = {item.domain: item.version for item in model.opset_import}
    usual = imports.get("", imports.get("ai.onnx", 1))
    for node in scopes.all_nodes(model.graph.node):
        custom = structure.is_custom(node.domain)
        version = imports.get(node.domain, 1) if custom else usual
        try:
            slots(node, lambda name: False, version, "float16")
        except UnknownOpError:
            label = structure.label(node)
            if not custom:
                raise ValueError(
                    f"node {label}: opset {version} of ai.onnx has no such op"
                ) from None
            if not list(libraries):
                raise ValueError(
                    f"node {label}: got an op of the domain {node.domain!r}, which neither ONNX, "
                    "ONNX Runtime nor an installed op library defines; expected one that says what "
                    "its op takes. Install the package that describes it (myops.op_library), or "
                    "give its library (libraries=, --library): its nodes then stay float32"
                ) from None
