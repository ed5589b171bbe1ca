"""`myops doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from myops._text import for_markup, printable
from myops.cli import _console, _graphs, _inputs

if TYPE_CHECKING:
    from myops.ort._doctor import Finding, Report

VERDICT = "a problem was found"
_COLOURS = {"error": "red", "warning": "yellow"}
_MOST_NODES = 8  # of one finding, and of the table, in the terminal; JSON has all


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
        typer.Option(help="Execution provider to ask for, most wanted first. Default: the CPU.",
                     metavar="NAME"),
    ] = None,
    no_myops: Annotated[
        bool,
        typer.Option("--no-myops", help="Do not load the library of myops: the model as an ONNX "
                     "Runtime sees it that has never heard of myops."),
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
        _show(report)
    if report.exit_status:
        raise typer.Exit(report.exit_status)


def _show(report: Report) -> None:
    colour = "red" if report.exit_status else "yellow" if report.warnings else "green"
    _line(f"[bold {colour}]{for_markup(report.summary)}[/]")
    for finding in report.findings:
        _show_finding(finding)
    _console.out.print()
    if report.model is None:
        _show_environment(report.environment)
    else:
        _show_model(report)
    _show_libraries(report)
    _show_nodes(report)


def _line(text: str) -> None:
    _console.out.print(text, highlight=False)


def _show_finding(finding: Finding) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    _console.out.print()
    colour = _COLOURS[finding.severity]
    _line(f"[bold {colour}]{finding.severity}[/] [bold]{for_markup(finding.what)}[/]")
    rows = Table.grid(padding=(0, 1))
    rows.add_column(no_wrap=True, style="dim")
    rows.add_column(overflow="fold")
    if finding.why:
        rows.add_row("why", Text(printable(finding.why)))
    if finding.fix:
        rows.add_row("do", Text(printable(finding.fix)))
    for number, node in enumerate(finding.nodes[:_MOST_NODES]):
        rows.add_row("node" if not number else "", Text(printable(node)))
    if len(finding.nodes) > _MOST_NODES:
        rows.add_row("", f"and {len(finding.nodes) - _MOST_NODES} more (--json has them)")
    if finding.message:
        rows.add_row("says", Text(printable(finding.message), style="dim"))
    rows.add_row("code", Text(finding.code, style="dim"))
    _console.out.print(Padding(rows, (0, 0, 0, 2), expand=False))


def _facts(rows: list[tuple[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in rows:
        if value:
            table.add_row(name, Text(printable(value)))
    _console.out.print(table)


def _versions(facts: dict[str, Any]) -> str:
    found = {**facts["onnxruntime"], **facts["packages"]}
    return ", ".join(f"{name} {version or '-'}" for name, version in found.items())


def _show_environment(facts: dict[str, Any]) -> None:
    cpu = facts["cpu"]
    _facts([
        ("myops", facts["myops"]),
        ("library", facts["library"] or "missing"),
        ("python", facts["python"]),
        ("system", facts["system"]),
        ("cpu", f"{cpu['name']}, {cpu['cores']} cores"),
        ("cpu features", " ".join(cpu["features"])),
        ("kernels for", facts["kernels"]),
        *((name, version) for name, version in facts["onnxruntime"].items()),
        ("providers", ", ".join(facts["providers"])),
        *((name, version or "not installed") for name, version in facts["packages"].items()),
        *((name, value) for name, value in facts["environment"].items()),
    ])  # fmt: skip


def _show_model(report: Report) -> None:
    facts = report.model or {}
    opsets = ", ".join(f"{name} {version}" for name, version in facts["opsets"].items())
    custom = ", ".join(f"{count} {name}" for name, count in facts["custom_nodes"].items())
    placed = ", ".join(f"{count} on {name}" for name, count in report.providers.items())
    _facts([
        ("model", f"{facts['path']} ({facts['bytes'] / 1024:.0f} KiB)"),
        ("made by", facts["producer"]),
        ("versions", f"IR {facts['ir_version']}, {opsets}"),
        ("nodes", f"{facts['nodes']}" + (f", of them {custom}" if custom else "")),
        ("they run", placed),
        *(("" if number else "ran with", text) for number, text in enumerate(_ran_with(report))),
        ("functions", ", ".join(facts["functions"])),
        ("weights in", ", ".join(facts["weights"])),
        ("with", f"myops {report.environment['myops']}, {_versions(report.environment)}"),
    ])  # fmt: skip


def _ran_with(report: Report) -> list[str]:
    """What the model ran with, and what of it was invented."""
    return [
        f"{name} {item['dtype']}{item['shape']}"
        + (f"; invented: {item['invented']}" if item["invented"] else "")
        for name, item in report.inputs.items()
    ]


def _show_libraries(report: Report) -> None:
    for item in report.libraries:
        state = "" if item.loads else "does not load"
        if item.loads and item.listed:
            state = "; ".join(
                f"{domain}: {', '.join(ops) if len(ops) <= 8 else f'{len(ops)} ops'}"
                for domain, ops in item.domains.items()
            ) or "no op"  # fmt: skip
            state += f" (API version {item.api_version})" if item.api_version else ""
        elif item.loads:
            state = "loads; its ops could not be listed"
        _console.out.print()
        _facts([("library", item.path), ("provides", state)])


def _show_nodes(report: Report) -> None:
    from rich.table import Table

    if not report.nodes:
        return
    table = Table(title="What runs", title_justify="left", box=None, pad_edge=False)
    for heading in ("node", "op", "PyTorch module", "runs", "on"):
        table.add_column(heading, overflow="fold")
    for node in report.nodes[:_MOST_NODES]:
        colour = "green" if node.runs == "kernel" else "yellow"
        provider = node.provider.removesuffix("ExecutionProvider")
        table.add_row(
            for_markup(node.name), for_markup(node.op), for_markup(node.module),
            f"[{colour}]{node.runs}[/]", provider,
        )  # fmt: skip
    _console.out.print()
    _console.out.print(table)
    if len(report.nodes) > _MOST_NODES:
        _line(f"and {len(report.nodes) - _MOST_NODES} more nodes (--json has them)")
