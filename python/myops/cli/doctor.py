"""`myops doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from myops.cli import _console, _graphs, _inputs

VERDICT = "a problem was found"


def doctor(
    model: Annotated[
        Path | None,
        typer.Argument(help="The ONNX model. Left out: only the environment is examined.",
                       metavar="MODEL.onnx", show_default=False),
    ] = None,
    library: Annotated[
        list[Path] | None,
        typer.Option(help="A custom-op library that the model needs beside that of myops. May be "
                     "given several times.", metavar="FILE"),
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="Also run the model, with invented inputs.")
    ] = False,
    input: _inputs.Input = None,
    shape: _inputs.Shape = None,
    dim: _inputs.Dim = None,
    provider: Annotated[
        list[str] | None,
        typer.Option(help="Execution provider to request, in order of preference. Default: CPU.",
                     metavar="NAME"),
    ] = None,
    no_myops: Annotated[
        bool,
        typer.Option("--no-myops", help="Do not load the library of myops: what an ONNX Runtime "
                     "without myops does with the model."),
    ] = False,
    json: _graphs.Json = False,
) -> None:  # fmt: skip
    """Say why a model does not load or run in ONNX Runtime, and what to do about it.

    Everything is loaded in a process of its own, so that a crash does no harm.

    For each node of a custom domain it tells what really runs: a kernel or the function body.

    Without a model it reports what is installed here and whether it works together.

    Example: myops doctor model.onnx --library build/libmy_ops.so --run
    """
    from myops.ort._doctor import doctor as examine
    from myops.ort._doctor.terminal import show

    inputs, lengths, shapes = _inputs.asked(input, dim, shape)
    with _console.progress("doctor") as advance:
        report = examine(
            None if model is None else _graphs.source(model),
            [str(path) for path in library or ()],
            myops_library=not no_myops,
            providers=provider or ["CPUExecutionProvider"],
            run=run,
            inputs=inputs,
            dims=lengths,
            shapes=shapes,
            advance=advance,
        )
    if json:
        _console.print_json(report.to_dict())
    else:
        show(report, _console.out, "--json has them")
    if report.exit_status:
        raise typer.Exit(report.exit_status)
