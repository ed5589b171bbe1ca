"""`myops upgrade`."""

from __future__ import annotations

from typing import Annotated

import typer

from myops.cli import _console, _graphs


def upgrade(
    model: _graphs.Model,
    output: _graphs.Output,
    no_function_bodies: Annotated[
        bool,
        typer.Option(
            "--no-function-bodies", help="Leave out what lets the model run without our library."
        ),
    ] = False,
    json: _graphs.Json = False,
) -> None:
    """Let our kernels run a model's standard Resize, Upsample and DeformConv nodes.

    Nodes of op libraries in an earlier version are written with the newest one.

    A node becomes ours only if our op computes exactly the same; for the others the reason is
    given. myops lower does the reverse.

    Example: myops upgrade model.onnx ours.onnx
    """
    from myops.onnx.surgery.upgrading import upgrade_ops

    writing = _graphs.Writing(model, output, json)
    with _console.progress("upgrading"), _graphs.warned() as warnings:
        result = upgrade_ops(writing.source, writing.file, function_bodies=not no_function_bodies)
    if json:
        _console.print_json({"output": str(output), "upgraded": result.upgraded,
                             "raised": result.upgraded,  # the earlier name
                             "kept": result.kept, "warnings": warnings})  # fmt: skip
        return
    writing.say(f"{writing.name}: {len(result.upgraded)} upgraded, {len(result.kept)} kept")
    for name in result.upgraded:
        writing.say(f"  upgraded  {name}")
    for name, reason in result.kept.items():
        writing.say(f"  kept      {name}: {reason}")
