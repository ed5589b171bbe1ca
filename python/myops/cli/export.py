"""`myops export`."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from myops._text import number_of
from myops.cli import _console, _failures, _graphs, _targets

VERDICT = "the exporter wrote something else than the model, and no file was written"
OPTIONS = {
    "exporter": "--exporter", "opset_version": "--opset", "skip_checks": "--skip-check",
    "constants": "--constant", "dynamic_axes": "--dynamic", "libraries": "--library",
    "external_data": "--external-data", "register_torchvision": "--keep-torchvision",
    "register_interpolate": "--interpolate", "f": "OUTPUT",
}  # fmt: skip


def export(
    target: Annotated[str, typer.Argument(help=_targets.HELP)],
    output: Annotated[Path, typer.Argument(help="The file to write; - writes it to stdout.")],
    exporter: Annotated[
        str,
        typer.Option(
            help='"dynamo" (on top of torch.export), "torchscript", or "auto": the first whose '
            "file passes all checks."
        ),
    ] = "dynamo",
    opset: Annotated[int | None, typer.Option(help="Opset of the file. Default: 20.")] = None,
    lower: Annotated[
        bool, typer.Option("--lower", help="Standard operators only, no myops nodes.")
    ] = False,
    dynamic: Annotated[
        list[str] | None,
        typer.Option(
            help="An input with axes whose length may change, e.g. image:0,2,3 or "
            "image:0=batch,2=height; multiples as image:2=32*h. May be repeated.",
            metavar="INPUT:AXES",
        ),
    ] = None,
    constant: Annotated[
        list[str] | None,
        typer.Option(help="A parameter of forward that becomes a constant. May be repeated."),
    ] = None,
    external_data: Annotated[
        bool, typer.Option("--external-data", help="Weights in a file of their own.")
    ] = False,
    skip_check: Annotated[
        list[str] | None,
        typer.Option(
            help="A check to leave out: opset, lost_node, frozen_input, numbers, all. "
            "May be repeated."
        ),
    ] = None,
    library: Annotated[
        list[Path] | None,
        typer.Option(help="A custom-op library that the model needs. May be repeated."),
    ] = None,
    keep_torchvision: Annotated[
        bool,
        typer.Option(
            "--keep-torchvision", help="Do not write torchvision's deform_conv2d as our node."
        ),
    ] = False,
    interpolate: Annotated[
        bool | None,
        typer.Option(
            "--interpolate/--keep-interpolate",
            help="Write torch's interpolations as our node, or none of them. Default: those with "
            "antialias, which the exporters refuse or write wrongly.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Export a PyTorch model to ONNX and check that the file computes what the model computes.

    \b
    model.py:
        def small():
            return MyModel(), (torch.rand(2, 3, 32, 32),)

    \b
    myops export model.py:small small.onnx --dynamic x:0,2,3
    """
    writing = _graphs.Destination(output, "OUTPUT", Path(target.rpartition(":")[0]), json)
    if external_data and output == _graphs.STREAM:
        raise ValueError(
            "--external-data: got OUTPUT - as well, expected a file, beside which the weights are"
        )
    with writing.undisturbed():
        model, args, kwargs = _targets.load(target)
    import myops.onnx

    with (
        writing.undisturbed(),
        _console.progress("export"),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        try:
            proto = myops.onnx.export(
                model,
                args,
                writing.file,
                kwargs=kwargs,
                exporter=exporter,
                opset_version=opset,
                target="onnx" if lower else "myops",
                dynamic_axes=dict(map(_axes, dynamic)) if dynamic else None,
                constants=constant or (),
                external_data=external_data,
                skip_checks=skip_check or (),
                libraries=library or (),
                register_torchvision=not keep_torchvision,
                register_interpolate=interpolate,
            )
        except myops.onnx.ExportCheckError as error:
            if json:
                _console.print_json({"output": None, "check": error.check, "error": str(error)})
            else:
                text = _failures.in_options(_failures.without_colours(str(error)), OPTIONS)
                _console.message("error", text, "bold red")
            raise typer.Exit(1) from None
    notes = [str(w.message) for w in caught if issubclass(w.category, _told(myops.onnx))]
    if json:
        _console.print_json({"output": str(output), **_described(proto), "notes": notes})
        return
    for note in notes:
        _console.message("note", _failures.in_options(note, OPTIONS), "yellow")
    _report(proto, writing)


def _told(onnx: Any) -> tuple[type[Warning], ...]:
    return onnx.ExportCheckWarning, onnx.MissingBodyWarning


def _axes(text: str) -> tuple[str, Any]:
    """ "image:0=batch,2" as ("image", {0: "batch", 2: None})."""
    name, colon, rest = text.rpartition(":")
    try:
        pairs = [item.partition("=") for item in rest.split(",")]
        axes = {int(axis): title or None for axis, _, title in pairs}
    except ValueError:
        axes = {}
    if not (colon and name and axes):
        raise ValueError(f"--dynamic: got {text!r}, expected INPUT:AXES such as image:0=batch,2,3")
    return name, axes


def _described(proto: Any) -> dict[str, Any]:
    from myops.onnx.graph import scopes

    types = Counter(f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in proto.graph.node)
    return {
        "opset": scopes.onnx_opset(proto),
        "inputs": {item.name: _shape(item) for item in proto.graph.input},
        "outputs": {item.name: _shape(item) for item in proto.graph.output},
        "nodes": types,
    }


def _report(proto: Any, writing: _graphs.Destination) -> None:
    found = _described(proto)
    sides = (", ".join(f"{name} {shape}" for name, shape in found[side].items())
             for side in ("inputs", "outputs"))  # fmt: skip
    writing.say(f"{writing.name}: {' -> '.join(sides)}")
    types = found["nodes"]
    custom = [f"{count} {name}" for name, count in types.items() if "::" in name]
    text = f"opset {found['opset']}, {number_of(sum(types.values()), 'node')}"
    writing.say(text + "".join(f", {item}" for item in custom))


def _shape(item: Any) -> list[Any]:
    dims = item.type.tensor_type.shape.dim
    return [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in dims]
