"""`myops half`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from myops.cli import _console, _graphs, _inputs

VERDICT = (
    "an output loses more than --max-loss, or became infinite or NaN, or nothing became half "
    "precision"
)
OPTIONS = {
    "dtype": "--dtype", "runtime": "--runtime", "keep": "--keep", "data": "--data",
    "max_loss": "--max-loss", "metric": "--metric", "layer_loss": "--layer-loss",
    "libraries": "--library", **_inputs.OPTIONS,
}  # fmt: skip


def half(
    model: _graphs.Model,
    output: _graphs.Output,
    dtype: Annotated[str, typer.Option(help='"float16" or "bfloat16".')] = "float16",
    runtime: Annotated[
        str,
        typer.Option(
            help='"cpu": half where ONNX Runtime has a kernel on this machine\'s CPU; "any": '
            "wherever the definition of the op allows, for GPUs and other runtimes."
        ),
    ] = "cpu",
    keep_io_types: Annotated[
        bool, typer.Option("--keep-io-types", help="Inputs and outputs stay float32.")
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A node, op type or domain::Type that stays float32.", metavar="NAME"),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Inputs to measure with: .npz, .npy or images.", metavar="FOLDER"),
    ] = None,
    input: _inputs.Input = None,
    shape: _inputs.Shape = None,
    dim: _inputs.Dim = None,
    max_loss: Annotated[
        float | None,
        typer.Option(min=0, help="The largest loss of an output; nodes stay float32 for it."),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(help='The measure: "relative-l2", "max" or "sqnr" (dB, as a minimum).'),
    ] = "relative-l2",
    layer_loss: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="A node that alone loses more (relative L2) stays float32. Default: 0.0039 for "
            "float16, 0.031 for bfloat16.",
        ),
    ] = None,
    library: Annotated[
        list[Path] | None,
        typer.Option(help="A custom-op library that the file needs; may be given several times."),
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="List every node.")] = False,
    json: _graphs.Json = False,
) -> None:
    """Make a model float16 or bfloat16, custom nodes included, and measure what is lost.

    Scales, sizes, boxes and what loses accuracy stay float32, node by node, with a reason.
    Both models run on the same inputs: given ones, or an invented one.

    Example: myops half model.onnx half.onnx --keep-io-types --max-loss 0.001
    """
    from myops.onnx.precision.half import to_half
    from myops.onnx.precision.printing import show_half

    writing = _graphs.Writing(model, output, json)
    inputs, dims, shapes = _inputs.asked(input, dim, shape)
    with _console.progress("half", 5) as advance, _graphs.warned() as warnings:
        result = to_half(
            writing.source, writing.file, dtype=dtype, runtime=runtime,
            keep_io_types=keep_io_types, keep=keep or (), data=data, inputs=inputs, dims=dims,
            shapes=shapes, max_loss=max_loss, metric=metric, layer_loss=layer_loss,
            libraries=library or (), progress=advance,
        )  # fmt: skip
    if json:
        found = {"output": str(output), **result.to_dict(), "warnings": warnings}
        _console.print_json(found)
    else:
        show_half(result, writing.console, writing.name, all_nodes=all)
    if not (result.holds and result.converted):
        raise typer.Exit(1)
