"""Shows the results of `doctor` in a terminal and in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from myops._terminal import line
from myops._text import byte_size, for_markup, printable

if TYPE_CHECKING:
    from myops.ort._doctor.report import DoctorReport, Finding

_COLOURS = {"error": "red", "warning": "yellow"}
_MOST_NODES = 8  # of one finding, and of the table, that are shown in the terminal


def show(report: DoctorReport, console: Console, rest: str = "to_dict() has them") -> None:
    """Prints the verdict, the findings and the facts.

    Args:
        rest: Where the reader finds what is left out.
    """
    colour = "red" if report.exit_status else "yellow" if report.warnings else "green"
    line(console, f"[bold {colour}]{for_markup(report.summary)}[/]")
    for finding in report.findings:
        _show_finding(finding, console, rest)
    for facts in fact_groups(report):
        console.print()
        _show_facts(facts, console)
    _show_nodes(report, console, rest)


def fragment(report: DoctorReport) -> str:
    """The same for a notebook."""
    from myops import _pages

    return _pages.fragment("doctor.html", report=report, groups=fact_groups(report), most=500)


def fact_groups(report: DoctorReport) -> list[list[tuple[str, Any]]]:
    """Names and values: of the environment or the model, then of each library."""
    first = _environment(report.environment) if report.model is None else _model(report)
    return [first, *_libraries(report)]


def _show_finding(finding: Finding, console: Console, rest: str) -> None:
    console.print()
    colour = _COLOURS[finding.severity]
    line(console, f"[bold {colour}]{finding.severity}[/] [bold]{for_markup(finding.what)}[/]")
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
        rows.add_row("", f"and {len(finding.nodes) - _MOST_NODES} more ({rest})")
    if finding.message:
        rows.add_row("says", Text(printable(finding.message), style="dim"))
    rows.add_row("code", Text(finding.code, style="dim"))
    console.print(Padding(rows, (0, 0, 0, 2), expand=False))


def _show_facts(rows: list[tuple[str, Any]], console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in rows:
        if value:
            table.add_row(Text(printable(name)), Text(printable(value)))
    console.print(table)


def _versions(facts: dict[str, Any]) -> str:
    found = {**facts["onnxruntime"], **facts["packages"]}
    return ", ".join(f"{name} {version or '-'}" for name, version in found.items())


def _environment(facts: dict[str, Any]) -> list[tuple[str, Any]]:
    if not facts:
        return []
    cpu = facts["cpu"]
    return [
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
    ]  # fmt: skip


def _model(report: DoctorReport) -> list[tuple[str, Any]]:
    facts = report.model or {}
    opsets = ", ".join(f"{name} {version}" for name, version in facts["opsets"].items())
    custom = ", ".join(f"{count} {name}" for name, count in facts["custom_nodes"].items())
    placed = ", ".join(f"{count} on {name}" for name, count in report.providers.items())
    return [
        ("model", f"{facts['path']} ({byte_size(facts['bytes'])})"),
        ("made by", facts["producer"]),
        ("versions", f"IR {facts['ir_version']}, {opsets}"),
        ("nodes", f"{facts['nodes']}" + (f", of them {custom}" if custom else "")),
        ("they run", placed),
        *(("ran with" if not number else "", text) for number, text in enumerate(_inputs(report))),
        ("functions", ", ".join(facts["functions"])),
        ("weights in", ", ".join(facts["weights"])),
        ("with", f"myops {report.environment['myops']}, {_versions(report.environment)}"),
    ]  # fmt: skip


def _inputs(report: DoctorReport) -> list[str]:
    """The inputs with which the model ran, and which parts of them were invented."""
    return [
        f"{name} {item['dtype']}{item['shape']}"
        + (f"; invented: {item['invented']}" if item["invented"] else "")
        for name, item in report.inputs.items()
    ]


def _libraries(report: DoctorReport) -> list[list[tuple[str, Any]]]:
    groups: list[list[tuple[str, Any]]] = []
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
        groups.append([("library", item.path), ("provides", state)])
    return groups


def _show_nodes(report: DoctorReport, console: Console, rest: str) -> None:
    if not report.nodes:
        return
    table = Table(title="What runs", title_justify="left", box=None, pad_edge=False)
    for heading in ("node", "op", "PyTorch module", "runs", "on"):
        table.add_column(heading, overflow="fold")
    for node in report.nodes[:_MOST_NODES]:
        colour = "green" if node.runs == "kernel" else "yellow"
        provider = node.provider.removesuffix("ExecutionProvider")
        cells = [Text(printable(text)) for text in (node.name, node.op, node.module)]
        table.add_row(*cells, Text(node.runs, colour), Text(printable(provider)))
    console.print()
    console.print(table)
    if len(report.nodes) > _MOST_NODES:
        line(console, f"and {len(report.nodes) - _MOST_NODES} more nodes ({rest})")
