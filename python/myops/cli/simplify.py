"""`myops simplify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from myops.cli import _console, _graphs


def simplify(
    model: _graphs.Model,
    output: _graphs.Output,
    shape: Annotated[
        list[str] | None,
        typer.Option(help="Shape of an input for the comparison.", metavar="INPUT=1,3,32,32"),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Inputs for the comparison by name.", metavar="FILE.npz")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="What an output may differ, relative to its largest element.")
    ] = 1e-4,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not compare the numbers.")
    ] = False,
    json: _graphs.Json = False,
) -> None:
    """Make a model smaller: fold constants, fuse and remove nodes. Custom nodes are kept.

    onnxslim does the work; then both models run on the same random inputs, and no file is written
    unless the outputs agree.

    Example: myops simplify model.onnx small.onnx --shape image=1,3,224,224
    """
    import numpy as np

    from myops.onnx import files
    from myops.onnx.surgery.slimming import simplify as simplify_

    known = _graphs.known_names(files.load(model, weights=False))
    shapes = {}
    for text in shape or ():
        name, lengths = _graphs.split(text, "=", known, "INPUT=1,3,32,32")
        try:
            shapes[name] = [int(length) for length in lengths.strip("[]()").split(",") if length]
        except ValueError as error:
            raise ValueError(f"got {text!r}, expected INPUT=1,3,32,32") from error
    inputs = {}
    if data is not None:
        with np.load(data, allow_pickle=False) as arrays:
            inputs = dict(arrays)
    with _console.progress("simplifying"), _graphs.warned() as warnings:
        result = simplify_(
            model, output, check=not no_check, inputs=inputs, shapes=shapes, tolerance=tolerance
        )
    if json:
        _console.print_json({
            "output": str(output), "before": result.before, "after": result.after,
            "difference": result.difference, "warnings": warnings,
        })  # fmt: skip
        return
    before, after = sum(result.before.values()), sum(result.after.values())
    said = "numbers not compared"
    if result.difference is not None:
        said = f"largest difference {result.difference:.2g}"
    _graphs.say(f"{output}: {before} nodes became {after}; {said}")
    for name in sorted({*result.before, *result.after}):
        counts = result.before.get(name, 0), result.after.get(name, 0)
        if counts[0] != counts[1]:
            _graphs.say(f"  {name:<24} {counts[0]:>5} -> {counts[1]}")
