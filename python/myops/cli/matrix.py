"""`myops matrix`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from myops._names import choose, near_misses
from myops.cli import _console, _targets, _typed

VERDICT = "cells that --fail-on asks for"
OPTIONS = {
    "opset_matrix": "matrix",
    "tolerance": "--tolerance",
    "opsets": "--opsets",
    "exporters": "--exporter",
}

# Names on the command line -> verdicts
_FAILURES = {
    "wrong": ("silently wrong", "wrong, with a warning"),
    "load": ("load error",),
    "refused": ("refused",),
    "changed": ("opset changed",),
    "lost": ("node lost",),
}


def matrix(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="interpolate (built in), or file.py:name or package.module:name. The name stands "
            "for a dict of cases, for one (model, args), or for a function that returns either.",
        ),
    ],
    opsets: Annotated[
        str, typer.Option(help="Opsets to ask for, e.g. 11-20 or 9,13,17-. Default: 9 and later.")
    ] = "",
    exporter: Annotated[
        list[str] | None,
        typer.Option(help="torchscript or dynamo; may be given twice. Default: both."),
    ] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(help="Only this row; may be given again. * stands for any text."),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0, help="Largest difference for values up to 1. Default: 1e-4 for float32."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Processes. Default: the cores, up to 4; 1 for a few cells."),
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Also say why cells are not ok.")
    ] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", help="Write .html, .md or .json; may be given again."),
    ] = None,
    fail_on: Annotated[
        str,
        typer.Option(
            help="Exit with status 1 for such cells: wrong, load, refused, changed, lost, any; "
            "several with commas."
        ),
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Export a model with each exporter and opset, run each file, and say which are right.

    A cell is ok, opset changed, node lost, refused, load error, wrong with a warning, or silently
    wrong: the export succeeds, the numbers are not PyTorch's, and there was no warning.

    \b
    Examples:
      myops matrix interpolate --opsets 9-20 --case 'bilinear*'
      myops matrix model.py:cases --exporter dynamo --output report.html --fail-on wrong
    with, in model.py,
      cases = {"my model": (model, (torch.rand(1, 3, 32, 32),)),
               "any size": Case(model, (torch.rand(1, 3, 32, 32),),
                                run_at=[(torch.rand(1, 3, 48, 40),)])}
    Case is myops.onnx.matrix.Case. run_at has inputs of other lengths, which become dynamic.
    """
    from myops.onnx import matrix as library
    from myops.onnx.matrix import parallel, report, selection
    from myops.onnx.matrix.cases import NOTES

    verdicts = _verdicts(fail_on)
    for path in output or []:
        report.check_path(path)
    wanted = selection.opsets(opsets, library.FIRST_OPSET, library.newest_opset())
    rows = selection.rows(load_rows(target), case or [])
    notes = NOTES.get(target)
    exporters = list(dict.fromkeys(exporter or library.EXPORTERS))
    for name in exporters:
        choose(name, library.EXPORTERS, "--exporter: there is")
    steps = len(rows) * len(exporters) * len(wanted)
    if jobs is None:  # a process takes seconds to start
        jobs = min(os.cpu_count() or 1, 4) if steps >= 100 else 1
    with _console.progress("measuring", steps) as advance:
        if jobs > 1:
            cells = parallel.in_processes(
                load_rows, target, list(rows), wanted, exporters, tolerance, jobs,
                lambda row, count: advance(row, count, total=steps),
            )  # fmt: skip
            found = library.Matrix(cells, target, tolerance)
        else:
            found = library.opset_matrix(
                rows, wanted, exporters, tolerance=tolerance, title=target,
                progress=lambda row: advance(row, total=steps),
            )  # fmt: skip
    found.notes = notes(found) if notes else ""
    found.command = _typed.command(context)
    for path in output or []:
        found.save(path)
    if json:
        _console.print_json(found.as_dict())
    else:
        found.print(_console.out, details=details)
        for path in output or []:
            _console.say(f"{path} written")
    if any(item.verdict in verdicts for item in found.cells):
        raise typer.Exit(1)


def load_rows(target: str) -> dict[str, Any]:
    """The rows that a target names. (A function of the module, because other processes call it.)"""
    from myops.onnx.matrix.cases import BUILT_IN
    from myops.onnx.matrix.cells import Case

    if ":" not in target:
        if target not in BUILT_IN:
            raise ValueError(
                f"matrix: got {target!r}, expected file.py:name, package.module:name or what is "
                f"built in: {', '.join(BUILT_IN)}.{near_misses(target, BUILT_IN)}"
            )
        return dict(BUILT_IN[target]())
    found = _targets.attribute(target)
    if callable(found) and not _targets.is_module(found) and not isinstance(found, Case):
        found = _targets.called(target, found)
    return dict(found) if isinstance(found, Mapping) else {target.rpartition(":")[2]: found}


def _verdicts(fail_on: str) -> set[str]:
    chosen: set[str] = set()
    for word in filter(None, (part.strip() for part in fail_on.split(","))):
        if word == "any":
            chosen.update(verdict for group in _FAILURES.values() for verdict in group)
        else:
            chosen.update(_FAILURES[choose(word, [*_FAILURES, "any"], "--fail-on has")])
    return chosen
