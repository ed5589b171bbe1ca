"""`myops simplify`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from myops.cli import _console, _graphs

OPTIONS = {
    "check": "--no-check",
    "shapes": "--shape",
    "inputs": "--data",
    "tolerance": "--tolerance",
    "fixed": "--fix",
    "largest_constant": "--largest-constant",
}


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
        float,
        typer.Option(min=0, help="What an output may differ, relative to its largest element."),
    ] = 1e-4,
    fix: Annotated[
        list[str] | None,
        typer.Option(
            help="Shape of an input that becomes part of the model; ? leaves a length open.",
            metavar="INPUT=1,3,?,?",
        ),
    ] = None,
    largest_constant: Annotated[
        int | None,
        typer.Option(min=0, help="Fold nothing into a constant of more bytes.", metavar="BYTES"),
    ] = None,
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
    from myops._array_files import read_arrays
    from myops.onnx.graph import files
    from myops.onnx.surgery._printing import show_simplified
    from myops.onnx.surgery.slimming import simplify as simplify_

    writing = _graphs.Writing(model, output, json)
    known = _graphs.known_names(files.load(writing.source, weights=False))
    shapes = _shapes(shape, known, "--shape: got {!r}, expected INPUT=1,3,32,32")
    fixed = _shapes(fix, known, "--fix: got {!r}, expected INPUT=1,3,32,32; ? leaves a length open")
    inputs = {} if data is None else read_arrays(data, "--data: ")
    with _console.progress("simplifying"), _graphs.warned() as warnings:
        result = simplify_(
            writing.source,
            writing.file,
            check=not no_check,
            inputs=inputs,
            shapes=shapes,  # type: ignore[arg-type]
            tolerance=tolerance, fixed=fixed, largest_constant=largest_constant,
        )  # fmt: skip
    if json:
        _console.print_json({
            "output": str(output), "before": result.before, "after": result.after,
            "difference": result.difference, "bytes_before": result.bytes_before,
            "bytes_after": result.bytes_after, "notes": result.notes, "warnings": warnings,
        })  # fmt: skip
        return
    show_simplified(result, writing.console, writing.name, "--largest-constant")


def _shapes(
    texts: list[str] | None, known: Collection[str], form: str
) -> dict[str, list[int | None]]:
    found: dict[str, list[int | None]] = {}
    for text in texts or ():
        name, lengths = _graphs.split(text, "=", known, "INPUT=1,3,32,32")
        parts = [part.strip() for part in lengths.strip("[]()").split(",") if part.strip()]
        if not all(part.isdigit() or (part == "?" and "open" in form) for part in parts):
            raise ValueError(form.format(text))
        found[name] = [None if part == "?" else int(part) for part in parts]
    return found
