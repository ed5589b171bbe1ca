"""Prints the results of `to_half` and `quantize` in a terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import onnx
from rich.console import Console

from myops._terminal import say
from myops._text import byte_size
from myops.onnx.precision.losses import MEANINGS, Bound

if TYPE_CHECKING:
    from myops.onnx.precision.half import Half
    from myops.onnx.precision.int8 import Quantized

SHARE = ": share of the elements that differ"
FLOATS = {number for name, number in onnx.TensorProto.DataType.items() if "FLOAT" in name}
FLOATS.add(onnx.TensorProto.DOUBLE)
_MOST = 12  # rows, unless all are requested
# The reasons why a node is float32, by kind, as short texts.
KINDS = {
    "definition": "the definition does not have it",
    "kernel": "no kernel in this runtime",
    "constant": "a constant would be lost",
    "range": "values beyond its range",
    "coordinates": "coordinates, boxes, scales or sizes",
    "sizes": "computed from shapes alone",
    "accuracy": "loses too much alone",
    "bound": "until max_loss holds",
    "casts": "more casts than it is worth",
    "kept": "asked for",
}


def show_half(result: Half, console: Console, name: str = "", *, all_nodes: bool = False) -> None:
    """Prints what became of a model.

    Args:
        name: Of the file that was written.
        all_nodes: Whether each node is listed.
    """
    say(console, f"{name}: {half_line(result)}" if name else half_line(result))
    say(console, f"size {sizes(result)}; {casts(result)}")
    for text in loss_lines(result):
        say(console, text)
    for note in result.notes:
        say(console, f"note: {note}")
    for kind, nodes in reasons(result):
        shown = nodes if all_nodes else nodes[:3]
        more = f" and {len(nodes) - len(shown)} more" if len(nodes) > len(shown) else ""
        listed = ", ".join(item.name for item in shown)
        say(console, f"  float32, {KINDS[kind]}: {len(nodes)}: {listed}{more}")
        if all_nodes:
            for item in nodes:
                say(console, f"      {item.name}: {item.reason}")
    if all_nodes:
        for item in result.nodes:
            loss = "" if item.loss is None else f", alone {item.loss:.2g}"
            say(console, f"  {item.precision:<9} {item.name}{loss}")


def half_line(result: Half) -> str:
    half = sum(item.precision != "float32" for item in result.nodes)
    return f"{half} of {len(result.nodes)} nodes in {result.dtype}"


def sizes(result: Half | Quantized) -> str:
    return f"{byte_size(result.bytes_before)} -> {byte_size(result.bytes_after)}"


def casts(result: Half) -> str:
    text = f"{result.casts} cast{'s' * (result.casts != 1)}"
    if result.weight_casts:
        text += f", {result.weight_casts} of weights, once while it is loaded"
    return text


def loss_lines(result: Half | Quantized) -> list[str]:
    """The loss of each output, and whether it is allowed."""
    if not result.losses:
        return ["not measured"]
    bound = Bound(result.metric, result.max_loss)
    runs = f"{result.runs} input{'s' * (result.runs != 1)}"
    lines = [f"loss on {runs}, {MEANINGS[result.metric]}:"]
    shares = _without_floats(result.model)
    for name, loss in result.losses.items():
        text = f"{loss:.2g}" if name in shares else bound.text(loss)
        lines.append(f"  {text:>9} {name}{SHARE if name in shares else ''}")
    if result.max_loss is not None:
        word = "at least" if result.metric == "sqnr" else "at most"
        verdict = "holds" if result.holds else "DOES NOT HOLD"
        lines.append(f"max_loss {verdict}: {word} {result.max_loss:g}")
    elif not result.holds:
        lines.append("an output became infinite or NaN, or has another shape")
    return lines


def _without_floats(model: onnx.ModelProto) -> set[str]:
    """Outputs of integers, bools and strings, whose loss is the share of elements that differ."""
    kinds = {item.name: item.type.tensor_type.elem_type for item in model.graph.output}
    return {name for name, kind in kinds.items() if kind and kind not in FLOATS}


def reasons(result: Half | Quantized) -> list[tuple[str, list[Any]]]:
    """The nodes that were not converted by kind of reason, the most frequent first."""
    found: dict[str, list[Any]] = {}
    for item in result.nodes:
        if item.kind:
            found.setdefault(item.kind, []).append(item)
    return sorted(found.items(), key=lambda pair: -len(pair[1]))


def counted(nodes: list[Any]) -> str:
    """ "12 Conv, 3 Relu"."""
    counts = Counter(item.op_type for item in nodes)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common(_MOST))


# ---- int8.

INT8_KINDS = {
    "custom": "custom nodes",
    "range": "infinite or NaN values",
    "quantizer": "not quantized by ONNX Runtime's quantizer",
    "sizes": KINDS["sizes"],
    "coordinates": KINDS["coordinates"],
    "body": "bodies of If, Loop, Scan",
    "bound": "until max_loss holds",
    "kept": "asked for",
}
_WORST = 5


def show_quantized(
    result: Quantized, console: Console, name: str = "", *, all_nodes: bool = False
) -> None:
    """Prints what became of a model.

    Args:
        name: Of the file that was written.
        all_nodes: Whether each node is listed.
    """
    say(console, f"{name}: {int8_line(result)}" if name else int8_line(result))
    say(console, f"size {sizes(result)}; {settings(result)}")
    for text in loss_lines(result):
        say(console, text)
    for note in result.notes:
        say(console, f"note: {note}")
    for title, loss in worst(result, len(result.nodes) if all_nodes else _WORST):
        say(console, f"  alone loses {loss}: {title}")
    for kind, nodes in reasons(result):
        shown = nodes if all_nodes else nodes[:3]
        more = f" and {len(nodes) - len(shown)} more" if len(nodes) > len(shown) else ""
        listed = ", ".join(
            f"{item.name}: {item.reason}" if kind in ("custom", "bound") else item.name
            for item in shown
        )
        where = f"{dtypes(nodes)}, {INT8_KINDS[kind]}"
        say(console, f"  {where}: {len(nodes)}: {listed}{more}")


def dtypes(nodes: list[Any]) -> str:
    """ "float32" or "float32 or float64": the dtypes of nodes."""
    return " or ".join(sorted({item.precision for item in nodes}))


def int8_line(result: Quantized) -> str:
    count = sum(item.precision == "int8" for item in result.nodes)
    return f"{count} of {len(result.nodes)} nodes in int8"


def settings(result: Quantized) -> str:
    """How it was quantized."""
    channels = "a scale for each channel" if result.per_channel else "a scale for each weight"
    bits = "7 bits" if result.reduce_range else "8 bits"
    many = f"{result.calibrated} input{'s' * (result.calibrated != 1)}"
    weights = f"weights of {bits}, {channels}"
    return f"{result.activations} activations, {weights}, {result.method} over {many}"


def worst(result: Quantized, most: int = _WORST) -> list[tuple[str, str]]:
    """The layers with the largest losses alone: names and losses."""
    return [(item.name, f"{item.loss:.2g}") for item in result.worst[:most] if item.loss]
