"""`to_half`: a model in float16 or bfloat16, where that loses nothing that matters."""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx

from myops._names import choose
from myops.onnx.bodies import add_function_bodies
from myops.onnx.graph import files, scopes, storage
from myops.onnx.precision import losses, samples
from myops.onnx.precision.conversion import Conversion, HalfNode
from myops.onnx.precision.kernels import HALVES
from myops.onnx.schema import register_schemas
from myops.onnx.two_files.backends import flattened

if TYPE_CHECKING:
    from rich.console import Console

RUNTIMES = {
    "cpu": "ONNX Runtime's CPU provider",
    "any": "any runtime: what definitions allow",
}
# The relative L2 error of one node from which on it stays float32: eight units of rounding.
LAYER_LOSS = {"float16": 2.0**-8, "bfloat16": 2.0**-5}


@dataclass(frozen=True)
class Half:
    """What `to_half` did; `print()` shows it, and so does a notebook.

    Attributes:
        model: The new model.
        dtype: "float16" or "bfloat16".
        runtime: What the nodes were chosen for: "cpu" or "any".
        nodes: What became of each node with float32 values.
        casts: How many casts run each time.
        weight_casts: How many casts of weights run once, while a runtime loads the model.
        losses: The loss of each output on the inputs that were tried, in `metric`; empty when the
            model could not be run.
        metric: What the losses are.
        max_loss: What was allowed; None: nothing was asked for.
        bytes_before: Size of the model, weights in other files included.
        bytes_after: The same afterwards.
        inputs: dtype and shape of the inputs of the first run, and what of them was invented.
        runs: How many inputs were tried.
        notes: What is left to know, in sentences.

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
    def holds(self) -> bool:
        """Whether no output loses more than `max_loss`, and none became infinite or NaN."""
        bound = losses.Bound(self.metric, self.max_loss)
        return all(math.isfinite(x) and bound.holds(x) for x in self.losses.values())

    def to_dict(self) -> dict[str, Any]:
        """What `myops half --json` prints: everything but the model."""
        bound = losses.Bound(self.metric)
        found = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)
                 if item.name not in ("model", "nodes", "losses")}  # fmt: skip
        found["losses"] = {name: bound.shown(loss) for name, loss in self.losses.items()}
        found["holds"] = self.holds
        found["nodes"] = [dataclasses.asdict(item) for item in self.nodes]
        return found

    def print(self, console: Console | None = None, *, all_nodes: bool = False) -> None:
        """Sizes, losses and what stayed float32, in the terminal.

        Args:
            console: Where to, a `rich.console.Console`. Default: stdout.
            all_nodes: Whether each node is listed, and not only counts and the worst.
        """
        from myops._terminal import Console as Terminal
        from myops.onnx.precision import printing

        printing.show_half(self, console or Terminal(), all_nodes=all_nodes)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from myops import _pages
        from myops.onnx.precision import printing

        return _pages.fragment("half.html", result=self, words=printing)


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
    """Makes a model float16 or bfloat16, custom nodes included, and measures what that loses.

    A node becomes half where its definition (ONNX's, or the description of an op library) has the
    dtype, the runtime has a kernel, and nothing is lost that matters: scales, sizes, boxes, grids
    and what is computed from shapes alone stay float32; so do nodes whose constants or values half
    precision cannot hold, and nodes that lose more than `layer_loss` when they run alone in half
    on the values of the float32 run. Of the assignments that are left, the one with the fewest
    casts is taken (a minimum cut). Nodes in bodies of If, Loop and Scan are treated alike;
    functions of the file are inlined, those that are bodies of our nodes are made anew.

    Weights of nodes that run in float32 only because the runtime lacks a kernel are stored in
    half, with a cast that ONNX Runtime folds while it loads the model.

    Args:
        model: A path, the bytes of a file, or a ModelProto. It is not changed.
        f: File to write. None: only return.
        dtype: "float16" or "bfloat16".
        runtime: "cpu": a node is half only where this machine's ONNX Runtime has a kernel for it
            on the CPU, which is found out by trying. "any": wherever the definition allows, for
            runtimes that have all kernels.
        keep_io_types: Whether inputs and outputs stay float32.
        keep: Nodes that stay float32: names, op types or "domain::Type".
        data: Inputs to measure with: a folder (see `quantize`), or a sequence of dicts of arrays.
            Default: one invented input.
        inputs, dims, shapes: What the invented input is like, as for `compare_files`.
        max_loss: What an output may lose; nodes stay float32, those that lose most first, until
            that holds. None: only measured.
        metric: What the loss of an output is: "relative-l2", "max" or "sqnr" (decibels; then
            `max_loss` is the least).
        layer_loss: The relative L2 error from which on a node stays float32. Default: eight units
            of rounding, 0.0039 for float16 and 0.031 for bfloat16.
        libraries: Custom-op libraries that ONNX Runtime needs besides those of op libraries. Nodes
            that only they know stay float32.
        progress: Called with what is done now.

    Returns:
        The new model and the report. `holds` says whether `max_loss` was kept; the file is written
        in any case.

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
    source = storage.load(model)
    before = storage.size(source) + storage.light_bytes(source)
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
    after = storage.size(result) + storage.light_bytes(result)
    storage.finish(result, model, f)
    return Half(
        result, dtype, runtime, work.nodes(), written.casts, written.weight_casts, work.lost,
        metric, max_loss, before, after, work.described, len(work.feeds),
        tuple(dict.fromkeys(work.notes)),
    )  # fmt: skip
