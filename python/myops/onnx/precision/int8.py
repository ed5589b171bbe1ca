"""`quantize`: a model with int8 weights and activations, custom nodes included."""

from __future__ import annotations

import os
import platform
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from myops._checked import checked
from myops._names import choose
from myops.onnx.bodies import add_function_bodies
from myops.onnx.graph import files, scopes, storage, structure, writing
from myops.onnx.precision import calibration, losses, samples
from myops.onnx.precision.quantization import OLDEST, Quantization, QuantizedNode
from myops.onnx.precision.result import Result
from myops.onnx.schema import register_schemas
from myops.onnx.two_files.backends import flattened

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Quantized(Result):
    """The result of `quantize`; `print()` shows it, and so does a notebook.

    Attributes:
        model: The new model.
        activations: "uint8" or "int8"; weights are int8.
        per_channel: Whether each channel of a weight has its own scale.
        reduce_range: Whether weights have 7 bits.
        method: How ranges were found: "minmax", "entropy" or "percentile".
        nodes: The precision of each node, and the reason.
        losses: The loss of each output, in `metric`; empty if the model could not be run.
        metric: The metric of the losses.
        max_loss: The largest loss that was allowed; None: there was no limit.
        bytes_before: Size of the model's file and of the files with its external weights; of a
            ModelProto, that of the file that it would become.
        bytes_after: The same afterwards.
        inputs: dtype and shape of the inputs of the first run.
        calibrated: The number of inputs from which the ranges were found.
        runs: The number of inputs with which the losses were measured.
        notes: Further remarks, in sentences.

    Example:
        >>> result = myops.onnx.quantize("model.onnx", data=[{"x": image}])
        >>> result.holds, result.activations, result.calibrated
        (True, 'uint8', 1)
    """

    model: onnx.ModelProto = field(repr=False)
    activations: str
    per_channel: bool
    reduce_range: bool
    method: str
    nodes: list[QuantizedNode] = field(repr=False)
    losses: dict[str, float]
    metric: str
    max_loss: float | None
    bytes_before: int
    bytes_after: int
    inputs: dict[str, Any] = field(repr=False)
    calibrated: int = 0
    runs: int = 0
    notes: tuple[str, ...] = ()

    @property
    def converted(self) -> bool:
        """Whether any node is in int8. If not, the new model computes in float as the old one."""
        return any(item.precision == "int8" for item in self.nodes)

    @property
    def worst(self) -> list[QuantizedNode]:
        """The nodes whose loss alone was measured, those that lose most first."""
        known = [item for item in self.nodes if item.loss is not None]
        return sorted(known, key=lambda item: -(item.loss or 0.0))

    def print(self, console: Console | None = None, *, all_nodes: bool = False) -> None:
        """Prints sizes, losses, the layers that lose most and the nodes that stayed float.

        Args:
            console: A `rich.console.Console`. Default: stdout.
            all_nodes: Whether every node is listed.
        """
        from myops._terminal import Console as Terminal
        from myops.onnx.precision import printing

        printing.show_quantized(self, console or Terminal(), all_nodes=all_nodes)

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from myops import _pages
        from myops.onnx.precision import printing

        return _pages.fragment("quantized.html", result=self, words=printing)


@checked()
def quantize(
    model: files.Model,
    f: files.Target = None,
    *,
    data: samples.Data,
    check: samples.Data = None,
    most: int = 100,
    method: str = "minmax",
    activations: str = "uint8",
    per_channel: bool = True,
    reduce_range: bool | None = None,
    keep: Sequence[str] = (),
    max_loss: float | None = None,
    metric: str = "relative-l2",
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    libraries: Sequence[str | os.PathLike[str]] = (),
    progress: Callable[..., None] | None = None,
) -> Quantized:
    """Quantizes a model, which may have custom nodes, to int8 by ONNX Runtime's own quantizer.

    The new model has QuantizeLinear and DequantizeLinear nodes (QDQ) with static ranges. Custom
    nodes stay float, except those whose op declares how it works on integers
    (`Library.define(quantized=...)`): our Resize in "nearest" and "linear" then runs on the
    integers themselves.

    With `max_loss`, layers return to float until no output loses more. A bisection finds how many:
    first in the order of what the layers lose alone, then in the order of what the outputs lose if
    only that layer is on integers.

    Args:
        model: A path, the bytes of a file, or a ModelProto of opset 11 or later. It is not changed.
        f: File to write. None: only return.
        data: Inputs from which the ranges are found: a folder, or a sequence of dicts of arrays. A
            folder contains .npz files with the inputs of one run each; .npy files or images, each
            the only input; or a folder for each input.
        check: Inputs with which the losses are measured, in the same form. Default: those of
            `data`.
        most: How many inputs of each are used.
        method: "minmax", "entropy" or "percentile".
        activations: "uint8" or "int8".
        per_channel: Whether each channel of a weight has a scale; opset 13 or later.
        reduce_range: Whether weights have 7 bits, so that sums of products of 8-bit integers fit
            into 16 bits. Default: if this machine's CPU has no VNNI and would saturate.
        keep: Nodes that stay float: names, op types or "domain::Type".
        max_loss: The largest loss of an output. None: the loss is only measured.
        metric: The metric of the loss of an output: "relative-l2", "max" or "sqnr" (decibels; then
            `max_loss` is the smallest).
        mean, std: For images that are float inputs, whose values from 0 to 1 become
            (value - mean) / std; one number, or one for each channel.
        libraries: Custom-op libraries that ONNX Runtime needs in addition to those of op libraries.
        progress: Called with the name of each step, and for each input of the calibration.

    Returns:
        The new model and the report. `holds` says whether no output loses more than `max_loss`,
        `converted` whether any node became int8; the file is written in any case.

    Raises:
        ValueError: An argument is wrong, the inputs do not fit, the opset is too old, or the model
            is quantized already.
        FileNotFoundError: No such file or folder.
        RuntimeError: A model does not run.

    Example:
        >>> result = myops.onnx.quantize("model.onnx", "int8.onnx", data=[{"x": image}])
        >>> [item.precision for item in result.nodes]
        ['int8', 'int8', 'int8', 'int8']
    """
    choose(method, calibration.METHODS, "quantize: method: there is")
    choose(activations, calibration.TYPES, "quantize: activations: there is")
    bound = losses.Bound(metric, max_loss)
    if data is None:
        raise ValueError("quantize: data: got none, expected inputs of the model's own kind")
    writing.refuse_target(f)
    if most < 1:
        raise ValueError(f"quantize: most: got {most}, expected at least 1")
    before = storage.file_bytes(model)
    source = storage.load(model)
    storage.attach(source, storage.folder_of(model))
    register_schemas(source)
    opset = scopes.onnx_opset(source)
    needed = 13 if per_channel else OLDEST
    if opset < needed:
        raise ValueError(
            f"quantize: got a model of opset {opset}, expected {needed} or later"
            f"{' for per_channel' if per_channel else ''}: export it with a newer opset_version"
        )
    _refuse_quantized(source)
    had_bodies = any(map(scopes.is_body, source.functions))
    narrow = not _has_vnni() if reduce_range is None else reduce_range
    work = Quantization(
        flattened(source), activations, per_channel, narrow, keep, bound, list(libraries),
        progress or (lambda *text: None),
    )  # fmt: skip
    if reduce_range is None and narrow:
        work.notes.append(
            "Weights have 7 bits, because this CPU has no VNNI and would saturate: "
            "reduce_range=False (--full-range) takes 8, for CPUs that have it."
        )
    work.prepare()
    work.measure(data, most, (mean, std), method, check)
    result, nodes = work.result, work.nodes()
    if had_bodies:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            result = add_function_bodies(result)
    if not any(item.precision == "int8" for item in nodes):
        work.notes.append("No node became int8; see the reasons.")
    work.notes += structure.constants_note(source, result)
    storage.finish(result, model, f)
    after = storage.file_bytes(result, f)
    runs = len(work.tried) if work.lost else 0
    return Quantized(
        result, activations, per_channel, narrow, method, nodes, work.lost, metric, max_loss,
        before, after, work.described, len(work.feeds), runs, tuple(dict.fromkeys(work.notes)),
    )  # fmt: skip


def _refuse_quantized(model: onnx.ModelProto) -> None:
    """Raises ValueError for a model with quantized values: no ranges can be found again."""
    lists = [model.graph.node, *(f.node for f in model.functions if not scopes.is_body(f))]
    found = Counter(
        node.op_type
        for nodes in lists
        for node in scopes.all_nodes(nodes)
        if node.op_type in ("QuantizeLinear", "DequantizeLinear")
    )
    if found:
        shown = " and ".join(f"{count} {name}" for name, count in sorted(found.items()))
        noun = "node" if sum(found.values()) == 1 else "nodes"
        raise ValueError(
            f"quantize: got a model with {shown} {noun}, which is quantized already; expected a "
            "float model: quantize the file from which this one was made"
        )


def _has_vnni() -> bool:
    """Whether 8-bit products are summed in 32 bits by this CPU; other CPUs than x86 do so."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return True
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_vnni" in text or "avx_vnni" in text
