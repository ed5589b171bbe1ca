"""`to_half`: converts a model to float16 or bfloat16 where the loss of accuracy is small."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx

from myops._checked import checked
from myops._names import choose
from myops.onnx.bodies import add_function_bodies
from myops.onnx.graph import files, scopes, storage, writing
from myops.onnx.precision import losses, samples
from myops.onnx.precision.conversion import Conversion, HalfNode
from myops.onnx.precision.kernels import HALVES
from myops.onnx.precision.result import Result
from myops.onnx.schema import register_schemas
from myops.onnx.two_files.backends import flattened

if TYPE_CHECKING:
    from rich.console import Console

RUNTIMES = {
    "cpu": "ONNX Runtime's CPU provider",
    "any": "any runtime: what definitions allow",
}
# The relative L2 error of one node above which it stays float32: eight units of rounding.
LAYER_LOSS = {"float16": 2.0**-8, "bfloat16": 2.0**-5}


@dataclass(frozen=True)
class Half(Result):
    """The result of `to_half`; `print()` shows it, and so does a notebook.

    Attributes:
        model: The new model.
        dtype: "float16" or "bfloat16".
        runtime: The argument `runtime`: "cpu" or "any".
        nodes: The precision of each node with float32 values, and the reason.
        casts: The number of casts in each run.
        weight_casts: The number of casts of weights, which run once, while a runtime loads the
            model.
        losses: The loss of each output on the inputs that were tried, in `metric`; empty if the
            model could not be run.
        metric: The metric of the losses.
        max_loss: The largest loss that was allowed; None: there was no limit.
        bytes_before: Size of the model's file and of the files with its external weights; of a
            ModelProto, that of the file that it would become.
        bytes_after: The same afterwards.
        inputs: dtype and shape of the inputs of the first run, and whether they were generated.
        runs: The number of inputs that were tried.
        notes: Further remarks, in sentences.

    Example:
        >>> result = myops.onnx.to_half("model.onnx", runtime="any")
        >>> result.holds, max(result.losses.values()) < 1e-3
        (True, True)
    """

    model: onnx.ModelProto = field(repr=False)
    dtype: str
    runtime: str
    nodes: list[HalfNode] = field(repr=False)
    casts: int
    weight_casts: int
    losses: dict[str, float]
    metric: str
    max_loss: float | None
    bytes_before: int
    bytes_after: int
    inputs: dict[str, Any] = field(repr=False)
    runs: int = 0
    notes: tuple[str, ...] = ()

    @property
    def converted(self) -> bool:
        """Whether any node computes in half precision, or any weight is stored in it. If not, the
        new model computes exactly what the old one does, and `notes` say what to do."""
        half = any(item.precision != "float32" for item in self.nodes)
        return half or self.weight_casts > 0

    def print(self, console: Console | None = None, *, all_nodes: bool = False) -> None:
        """Prints sizes, losses and the nodes in float32.

        Args:
            console: A `rich.console.Console`. Default: stdout.
            all_nodes: True: every node; False: counts and the worst nodes.
        """
        from myops._terminal import Console as Terminal
        from myops.onnx.precision import printing

        printing.show_half(self, console or Terminal(), all_nodes=all_nodes)

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from myops import _pages
        from myops.onnx.precision import printing

        return _pages.fragment("half.html", result=self, words=printing)


@checked()
def to_half(
    model: files.Model,
    f: files.Target = None,
    *,
    dtype: str = "float16",
    runtime: str = "cpu",
    keep_io_types: bool = False,
    keep: Sequence[str] = (),
    data: samples.Data = None,
    inputs: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    max_loss: float | None = None,
    metric: str = "relative-l2",
    layer_loss: float | None = None,
    libraries: Sequence[str | os.PathLike[str]] = (),
    progress: Callable[..., None] | None = None,
) -> Half:
    """Converts a model, including custom nodes, to float16 or bfloat16, and measures the loss.

    A node becomes half if its definition (ONNX's, or the description of an op library) has the
    dtype, the runtime has a kernel, and the loss of accuracy is small. Scales, sizes, boxes, grids
    and values computed from shapes only stay float32; so do nodes whose constants or values half
    precision cannot represent, and nodes that lose more than `layer_loss` if they run alone in half
    on the values of the float32 run. Of the remaining assignments, the one with the fewest casts is
    used (a minimum cut). Nodes in bodies of If, Loop and Scan are treated in the same way;
    functions of the file are inlined, and bodies of our nodes are made again.

    Weights of nodes that run in float32 only because the runtime lacks a kernel are stored in
    half, with a cast that ONNX Runtime folds while it loads the model.

    Args:
        model: A path, the bytes of a file, or a ModelProto. It is not changed.
        f: File to write. None: only return.
        dtype: "float16" or "bfloat16".
        runtime: "cpu": a node is half only if this machine's ONNX Runtime has a kernel for it on
            the CPU, which is tested. "any": wherever the definition allows it, for runtimes that
            have all kernels.
        keep_io_types: Whether inputs and outputs stay float32.
        keep: Nodes that stay float32: names, op types or "domain::Type".
        data: Inputs to measure with: a folder (see `quantize`), or a sequence of dicts of arrays.
            Default: one generated input.
        inputs, dims, shapes: Properties of the generated input, as for `compare_files`.
        max_loss: The largest loss of an output; nodes stay float32, those that lose most first,
            until no output loses more. None: the loss is only measured.
        metric: The metric of the loss of an output: "relative-l2", "max" or "sqnr" (decibels; then
            `max_loss` is the smallest).
        layer_loss: The relative L2 error above which a node stays float32. Default: eight units of
            rounding, 0.0039 for float16 and 0.031 for bfloat16.
        libraries: Custom-op libraries that ONNX Runtime needs in addition to those of op libraries.
            Their nodes stay float32.
        progress: Called with the name of each step.

    Returns:
        The new model and the report. `holds` says whether no output loses more than `max_loss`,
        `converted` whether anything became half; the file is written in any case.

    Raises:
        ValueError: An argument is wrong, nothing defines the op of a node, or the model does not
            run on the inputs.
        FileNotFoundError: No such file.

    Example:
        >>> result = myops.onnx.to_half("model.onnx", "half.onnx", keep_io_types=True)
        >>> session = myops.ort.session("half.onnx")
        >>> session.get_inputs()[0].type
        'tensor(float)'
    """
    choose(dtype, HALVES, "half: dtype: there is")
    choose(runtime, RUNTIMES, "half: runtime: there is")
    bound = losses.Bound(metric, max_loss)
    limit = LAYER_LOSS[dtype] if layer_loss is None else layer_loss
    if not limit >= 0:
        raise ValueError(f"half: layer_loss: got {layer_loss}, expected a number >= 0")
    say = progress or (lambda text: None)
    writing.refuse_target(f)
    before = storage.file_bytes(model)
    source = storage.load(model)
    storage.attach(source, storage.folder_of(model))
    register_schemas(source)
    had_bodies = any(map(scopes.is_body, source.functions))
    base = flattened(source)
    work = Conversion(
        base, dtype, runtime == "cpu", keep_io_types, keep, bound, limit, list(libraries), say
    )
    work.prepare()
    work.measure(data, (inputs or {}, dims or {}, shapes or {}))
    result, written = work.finish()
    if had_bodies:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            result = add_function_bodies(result)
    storage.finish(result, model, f)
    after = storage.file_bytes(result, f)
    return Half(
        result, dtype, runtime, work.nodes(), written.casts, written.weight_casts, work.lost,
        metric, max_loss, before, after, work.described, len(work.feeds),
        tuple(dict.fromkeys(work.notes)),
    )  # fmt: skip
