"""`myops compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from myops.cli import _console, _graphs, _targets

VERDICT = "they differ"
OPTIONS = {
    "exporter": "--exporter", "opset_version": "--opset", "libraries": "--library",
    "rtol": "--rtol", "atol": "--atol", "optimization": "--optimization",
}  # fmt: skip


def compare(
    target: Annotated[str, typer.Argument(help=_targets.HELP)],
    model: Annotated[
        Path | None, typer.Argument(help="The ONNX file. Left out: the model is exported first.")
    ] = None,
    exporter: Annotated[
        str | None,
        typer.Option(help='Without an ONNX file: "dynamo" (default) or "torchscript".'),
    ] = None,
    opset: Annotated[int | None, typer.Option(help="Without an ONNX file: its opset.")] = None,
    library: Annotated[
        list[Path] | None,
        typer.Option(help="A custom-op library that the file needs; may be given several times."),
    ] = None,
    rtol: Annotated[
        float | None,
        typer.Option(min=0, help="Relative tolerance. Default: by dtype, 1e-4 for float32."),
    ] = None,
    atol: Annotated[
        float | None,
        typer.Option(min=0, help="Absolute tolerance. Default: rtol times the scale of a value."),
    ] = None,
    optimization: Annotated[
        str, typer.Option(help="For inner values: disable, basic, extended or all.")
    ] = "disable",
    html: Annotated[Path | None, typer.Option(help="Write a report with plots here.")] = None,
    repro: Annotated[
        Path | None, typer.Option(help="Write a stand-alone script of the difference here.")
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="Show every value.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare a PyTorch model with its ONNX file, layer by layer.

    Both run on the same inputs; the values of every submodule are compared.

    When they differ, the first module is named that gets the same and gives
    something else, and the node in it. Choices among equal values (argmax of
    [0, 0, 0], boxes of one score) are told from faults.

    Example: myops compare net.py:example net.onnx --html report.html

    where net.py holds: example = (Net(), (torch.rand(1, 3, 32, 32),))
    """
    import myops.onnx
    from myops.onnx.comparison import compare as run
    from myops.onnx.comparison.result import Report

    if model is not None and (exporter or opset):
        raise ValueError("--exporter and --opset: got an ONNX file as well, expected one of both")
    module, args, kwargs = _targets.load(target)
    with _console.progress("compare", 5 if model else 6) as advance:
        proto: Any = None if model is None else _graphs.source(model)
        if model is None:
            advance("export", 0)
            proto = myops.onnx.export(
                module,
                args,
                kwargs=kwargs,
                exporter=exporter or "dynamo",
                opset_version=opset,
                libraries=library or (),
                skip_checks="numbers",  # these are what is compared
            )
            advance("export")
        report: Report = run(
            module,
            args,
            proto,
            kwargs=kwargs,
            libraries=library or (),
            rtol=rtol,
            atol=atol,
            optimization=optimization,
            progress=advance,
        )
    if repro is not None and report.blame is not None and report.blame.submodel is not None:
        report.write_reproduction(repro)
    if html is not None:
        report.write_html(html)
    if json:
        _console.print_json(report.to_dict())
    else:
        report.print(_console.out, all_values=all)
        if html is not None:
            _console.say(f"report: {html}")
    if not report.passed:
        raise typer.Exit(1)
