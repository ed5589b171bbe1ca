"""`myops compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from myops._extras import require
from myops.cli import _console, _graphs, _inputs, _targets, _typed

VERDICT = "they differ"
OPTIONS = {
    "exporter": "--exporter", "opset_version": "--opset", "libraries": "--library",
    "rtol": "--rtol", "atol": "--atol", "optimization": "--optimization",
    "backend": "--backend", "against": "--against", **_inputs.OPTIONS,
}  # fmt: skip

_FOR_PYTORCH = ("--exporter", "--opset", "--optimization", "--repro")


def compare(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            help=f"{_targets.HELP} Or an ONNX file, - for stdin, which is compared with another."
        ),
    ],
    model: Annotated[
        Path | None,
        typer.Argument(
            help="The ONNX file that is checked. Left out: the PyTorch model is exported first; of "
            "an ONNX file, --against is another backend."
        ),
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
        str | None,
        typer.Option(
            help="With a PyTorch model, for inner values: disable (default), basic, extended, all."
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            help="The backend for two files: ort (default), ort-no-optimization, reference."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="The backend of the second file. Default: that of the first.")
    ] = None,
    input: _inputs.Input = None,
    shape: _inputs.Shape = None,
    dim: _inputs.Dim = None,
    html: Annotated[Path | None, typer.Option(help="Write a report with plots here.")] = None,
    repro: Annotated[
        Path | None, typer.Option(help="Write a stand-alone script of the difference here.")
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="Show every value.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare a PyTorch model with its ONNX file, or two ONNX files, layer by layer.

    Both run on the same inputs; the values of every submodule are compared. Of
    two files all values are, also inside If, Loop and Scan; PyTorch is not needed.

    When they differ, the command names the first module whose inputs agree and
    whose outputs differ, and the node in it. Choices among equal values (argmax
    of [0, 0, 0], boxes of one score) are reported as ties, not as faults.

    Example: myops compare net.py:example net.onnx --html report.html

    where net.py holds: example = (Net(), (torch.rand(1, 3, 32, 32),))

    Example: myops compare net.onnx simplified.onnx --dim batch=4

    Example: myops compare net.onnx --backend ort --against reference
    """
    given = {
        "--exporter": exporter, "--opset": opset, "--optimization": optimization, "--repro": repro,
        "--backend": backend, "--against": against, "--input": input, "--shape": shape,
        "--dim": dim,
    }  # fmt: skip
    if html is not None:  # refused before minutes of work, not after them
        _graphs.refuse_unwritable(html, "--html")
        require("matplotlib.image", "--html")
    two = _is_file(target)
    for name, value in given.items():
        if value is not None and (name in _FOR_PYTORCH) == two:
            got, expected = ("ONNX files", "a PyTorch model")[:: 1 if two else -1]
            raise ValueError(f"{name}: got {got} to compare, expected {expected} with this option")
    shared: dict[str, Any] = {"libraries": library or (), "rtol": rtol, "atol": atol}
    report: Any
    if two:
        inputs, dims, shapes = _inputs.asked(input, dim, shape)
        report = _files(
            Path(target), model, backend=backend or "ort", against=against, inputs=inputs,
            dims=dims, shapes=shapes, **shared,
        )  # fmt: skip
    else:
        report = _pytorch(target, model, exporter, opset, optimization or "disable", shared)
        if (
            repro is not None
            and report.first_mismatch is not None
            and report.first_mismatch.submodel is not None
        ):
            report.write_reproduction(repro)
    report.command = _typed.command(context)
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


def _is_file(target: str) -> bool:
    """Whether a target is an ONNX file; else it is `place:name` of a PyTorch model."""
    path = Path(target)
    known = target == str(_graphs.STREAM) or path.suffix == ".onnx"
    return known or (path.is_file() and path.suffix != ".py")


def _files(first: Path, second: Path | None, **options: Any) -> Any:
    from myops.onnx.two_files.comparing import compare_files

    with _console.progress("compare", 5) as advance:
        if second is None:
            report = compare_files(_graphs.source(first), progress=advance, **options)
        else:
            models = _graphs.sources(first, second)
            report = compare_files(*models, progress=advance, **options)
    return report


def _pytorch(
    target: str,
    model: Path | None,
    exporter: str | None,
    opset: int | None,
    optimization: str,
    shared: dict[str, Any],
) -> Any:
    import myops.onnx
    from myops.onnx.comparison import compare as run

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
                libraries=shared["libraries"],
                skip_checks="numbers",  # only these are compared
            )
            advance("export")
        return run(
            module, args, proto, kwargs=kwargs, optimization=optimization, progress=advance,
            **shared,
        )  # fmt: skip
