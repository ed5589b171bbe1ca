"""`myops explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from myops.cli import _console, _graphs, _inputs

OPTIONS = {
    "threads": "--threads", "libraries": "--library", "myops_library": "--no-myops",
    **_inputs.OPTIONS,
}  # fmt: skip


def explain(
    model: _graphs.Model,
    input: _inputs.Input = None,
    shape: _inputs.Shape = None,
    dim: _inputs.Dim = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the session.")] = 1,
    library: Annotated[
        list[Path] | None,
        typer.Option(help="A custom-op library that the model needs; may be given several times."),
    ] = None,
    no_myops: Annotated[
        bool,
        typer.Option("--no-myops", help="Do not load the libraries that myops knows: what an ONNX "
                     "Runtime without myops does with the model."),
    ] = False,
    json: _graphs.Json = False,
) -> None:  # fmt: skip
    """Run a model in ONNX Runtime and say what ran for each custom node, why, and how long.

    For nodes of op libraries it tells which kernels were chosen, for others their times. A node
    that ran through its function body, because no library for it is loaded, is marked.

    Example: myops explain model.onnx --shape x:1x3x320x320
    """
    from myops.ort._explain import explain as explain_

    inputs, dims, shapes = _inputs.asked(input, dim, shape)
    with _console.progress("explain") as advance:
        found = explain_(
            _graphs.source(model), inputs=inputs, dims=dims, shapes=shapes, threads=threads,
            libraries=library or (), myops_library=not no_myops, progress=advance,
        )  # fmt: skip
    if json:
        _console.print_json(found.to_dict())
    else:
        found.print(_console.out)
