"""Prints the results of `inspect` and `simplify` in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from myops._terminal import say
from myops._text import byte_size, number_of

if TYPE_CHECKING:
    from myops.onnx.surgery.slimming import Simplified
    from myops.onnx.surgery.summary import GraphValue, Node, Summary


def show_summary(summary: Summary, console: Console, nodes: bool, modules: bool) -> None:
    """Prints the contents of a model; if requested, also every node and module."""
    for text in summary_lines(summary):
        say(console, text)
    for node in summary.nodes if nodes else []:
        where = f"  in a body of {node.where}" if node.where else ""
        say(console, f"{node.name or '(no name)'}  {call(node)}{where}")
        for name, value in node.attributes.items():
            say(console, f"    {name} = {value}")
    several = {item.path for item in summary.modules if item.call}
    for item in summary.modules if modules else []:
        times = f" (call {item.call})" if item.path in several else ""
        inputs, outputs = ", ".join(item.inputs), ", ".join(item.outputs)
        nodes_in = number_of(item.nodes, "node")
        say(console, f"module     {item.path}{times}  {nodes_in}  ({inputs}) -> {outputs}")
    if modules and not summary.modules:
        say(console, "module     none: the nodes say nothing of PyTorch modules")


def summary_lines(summary: Summary) -> list[str]:
    """The summary as lines, each with a heading and a text."""
    lines = [
        f"{summary.path or 'model'}: graph {summary.graph!r}, IR version {summary.ir_version}",
        f"made by    {summary.producer or 'unknown'}",
        f"opsets     {opsets(summary)}",
    ]
    for title, values in (("inputs", summary.inputs), ("outputs", summary.outputs)):
        lines += [f"{title if not number else '':<10} {value.name}  {kind(value)}"
                  for number, value in enumerate(values)]  # fmt: skip
        lines += [] if values else [f"{title:<10} none"]
    lines += [f"weights    {weights(summary)}", f"nodes      {node_count(summary)}"]
    lines += [f"{count:>10} {name}" for name, count in summary.op_counts.items()]
    for domain in summary.domains:
        version = "NOT IMPORTED" if domain.version is None else f"version {domain.version}"
        lines.append(f"domain     {domain.name}, {version}: {domain.provider}")
    lines += [f"function   {name}, {number_of(count, 'node')}"
              for name, count in summary.functions.items()]  # fmt: skip
    for key, text in summary.metadata.items():
        shown = text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"
        lines.append(f"metadata   {key}: {shown}")
    return lines


def opsets(summary: Summary) -> str:
    return ", ".join(f"{name} {version}" for name, version in summary.opsets.items()) or "none"


def kind(value: GraphValue) -> str:
    """ "float32 [1, 3, height, ?]"."""
    return str(value)


def call(node: Node) -> str:
    """ "myops::Resize(x, scales) -> y"."""
    title = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    return f"{title}({', '.join(node.inputs)}) -> {', '.join(node.outputs)}"


def weights(summary: Summary) -> str:
    """The number of weights, their size, and where they are."""
    text = f"{summary.initializers + summary.constants}, "
    text += byte_size(summary.initializer_bytes + summary.constant_bytes)
    if summary.constants:
        text += f"; {summary.constants} of them in Constant nodes"
        text += f", {byte_size(summary.constant_bytes)}" if summary.initializers else ""
    if summary.external_files:
        text += f", in {', '.join(summary.external_files[:4])}"
        text += ", ..." if len(summary.external_files) > 4 else ""
    return text


def node_count(summary: Summary) -> str:
    inside = f", {summary.in_bodies} of them in bodies of If, Loop, Scan"
    return f"{summary.node_count}{inside if summary.in_bodies else ''}"


def show_simplified(
    result: Simplified, console: Console, name: str = "", bound: str = "largest_constant"
) -> None:
    """Prints the result of `simplify`.

    Args:
        name: The file that was written.
        bound: The name of `largest_constant` for the reader.
    """
    beginning = f"{name}: " if name else ""
    say(console, f"{beginning}{nodes_line(result)}; {numbers(result)}")
    say(console, f"size {sizes(result, bound)}")
    for note in result.notes:
        say(console, f"note: {note}")
    for kind_, before, after in changes(result):
        say(console, f"  {kind_:<24} {before:>5} -> {after}")


def nodes_line(result: Simplified) -> str:
    return f"{number_of(sum(result.before.values()), 'node')} became {sum(result.after.values())}"


def numbers(result: Simplified) -> str:
    if result.difference is None:
        return "numbers not compared"
    return f"largest difference {result.difference:.2g}"


def sizes(result: Simplified, bound: str = "largest_constant") -> str:
    grows = result.bytes_after > 1.1 * result.bytes_before + 1024
    hint = f" (folded constants take more space; {bound} bounds them)" if grows else ""
    return f"{byte_size(result.bytes_before)} -> {byte_size(result.bytes_after)}{hint}"


def changes(result: Simplified) -> list[tuple[str, int, int]]:
    """Node types of which there are more or fewer than before: (type, before, after)."""
    counts = [(name, result.before.get(name, 0), result.after.get(name, 0))
              for name in sorted({*result.before, *result.after})]  # fmt: skip
    return [item for item in counts if item[1] != item[2]]
