"""`myops bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from myops.cli import _console, _graphs, _inputs

OPTIONS = {
    "against": "--against", "threads": "--threads", "warmup": "--warmup", "repeat": "--repeat",
    "seconds": "--seconds", "libraries": "--library", **_inputs.OPTIONS,
}  # fmt: skip
EXTRA_ARGUMENT = "a model to compare with is given as --against OTHER.onnx"


def bench(
    model: _graphs.Model,
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Another model to measure in turn with it, or lowered: the model itself in "
            "standard operators. May be given several times.",
            metavar="FILE|lowered",
        ),
    ] = None,
    threads: Annotated[
        str, typer.Option(help="Threads of a session, one after the other.", metavar="1,2")
    ] = "1",
    warmup: Annotated[
        int, typer.Option(min=0, help="Runs of each model that are not measured.")
    ] = 3,
    repeat: Annotated[
        int | None,
        typer.Option(min=1, help="Measured runs of each model. Default: as --seconds allows."),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0, help="How long the runs of each model may take together.")
    ] = 2.0,
    input: _inputs.Input = None,
    shape: _inputs.Shape = None,
    dim: _inputs.Dim = None,
    library: Annotated[
        list[Path] | None,
        typer.Option(help="A custom-op library that a model needs; may be given several times."),
    ] = None,
    json: _graphs.Json = False,
) -> None:
    """Measure how long a model takes in ONNX Runtime: percentiles and throughput.

    Models are run in turn, in one process, on the same inputs.

    Example: myops bench model.onnx --threads 1,2

    Example: myops bench model.onnx --against lowered --dim batch=4
    """
    from myops.ort._bench import LOWERED
    from myops.ort._bench import bench as bench_

    inputs, dims, shapes = _inputs.asked(input, dim, shape)
    others = [item if item == LOWERED else _graphs.source(Path(item)) for item in against or ()]
    with _console.progress("bench") as advance:
        result = bench_(
            _graphs.source(model), others, inputs=inputs, dims=dims, shapes=shapes,
            threads=_numbers(threads), warmup=warmup, repeat=repeat, seconds=seconds,
            libraries=library or (), progress=advance,
        )  # fmt: skip
    if json:
        _console.print_json(result.to_dict())
    else:
        result.print(_console.out)


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ValueError(f"--threads: got {text!r}, expected numbers such as 1,2")
    return [int(part) for part in parts]
