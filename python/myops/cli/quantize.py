"""`myops quantize`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from myops.cli import _console, _graphs

VERDICT = "an output loses more than --max-loss, or became infinite or NaN, or no node became int8"
OPTIONS = {
    "data": "--data", "check": "--check", "most": "--most", "method": "--method",
    "activations": "--activations", "reduce_range": "--full-range", "keep": "--keep",
    "max_loss": "--max-loss", "metric": "--metric", "mean": "--mean", "std": "--std",
    "libraries": "--library", "per_channel": "--per-tensor",
}  # fmt: skip


def quantize(
    model: _graphs.Model,
    output: _graphs.Output,
    data: Annotated[
        Path,
        typer.Option(
            help="Inputs for the calibration: .npz, .npy or images, or a folder for each.",
            metavar="FOLDER",
        ),
    ],
    check: Annotated[
        Path | None,
        typer.Option(
            help="Inputs to measure losses on. Default: those of --data.", metavar="FOLDER"
        ),
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="How many inputs are used at most.")] = 100,
    method: Annotated[
        str, typer.Option(help='How ranges are found: "minmax", "entropy" or "percentile".')
    ] = "minmax",
    activations: Annotated[str, typer.Option(help='"uint8" or "int8".')] = "uint8",
    per_tensor: Annotated[
        bool, typer.Option("--per-tensor", help="One scale for a weight, not for each channel.")
    ] = False,
    full_range: Annotated[
        bool | None,
        typer.Option(
            "--full-range/--reduce-range",
            help="Weights of 8 or of 7 bits. Default: 8 where this CPU has VNNI, else 7.",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A node, op type or domain::Type that stays float.", metavar="NAME"),
    ] = None,
    max_loss: Annotated[
        float | None,
        typer.Option(min=0, help="The largest loss of an output; layers stay float for it."),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(help='The measure: "relative-l2", "max" or "sqnr" (dB, as a minimum).'),
    ] = "relative-l2",
    mean: Annotated[
        str, typer.Option(help="Subtracted from images of 0 to 1.", metavar="0.485,0.456,0.406")
    ] = "",
    std: Annotated[
        str, typer.Option(help="Then they are divided by this.", metavar="0.229,0.224,0.225")
    ] = "",
    library: Annotated[
        list[Path] | None,
        typer.Option(help="A custom-op library that the file needs; may be given several times."),
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="List every node.")] = False,
    json: _graphs.Json = False,
) -> None:
    """Quantize a model to int8 by ONNX Runtime's own quantizer, custom nodes included.

    Custom nodes stay float, or run on the integers where their op declares it. Layers that lose
    most stay float until --max-loss holds.

    Example: myops quantize model.onnx int8.onnx --data images --max-loss 0.02
    """
    from myops.onnx.precision.int8 import quantize as quantize_
    from myops.onnx.precision.printing import show_quantized

    writing = _graphs.Writing(model, output, json)
    means, stds = _numbers("--mean", mean), _numbers("--std", std)
    with _console.progress("quantize") as advance, _graphs.warned() as warnings:
        result = quantize_(
            writing.source, writing.file, data=data, check=check, most=most, method=method,
            activations=activations, per_channel=not per_tensor,
            reduce_range=None if full_range is None else not full_range, keep=keep or (),
            max_loss=max_loss, metric=metric, mean=means, std=stds, libraries=library or (),
            progress=advance,
        )  # fmt: skip
    if json:
        found = {"output": str(output), **result.to_dict(), "warnings": warnings}
        _console.print_json(found)
    else:
        show_quantized(result, writing.console, writing.name, all_nodes=all)
    if not (result.holds and result.converted):
        raise typer.Exit(1)


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError(f"{option}: got {text!r}, expected numbers with commas") from None
