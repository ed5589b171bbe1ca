"""ONNX Runtime's messages about a model's dtypes, graph and file, in words."""

from __future__ import annotations

import re

import onnx

from myops.ort._doctor import graph, values
from myops.ort._doctor.report import ERROR, Finding
from myops.ort._doctor.rules import MessageContext, Rules

RULES = Rules()
rule = RULES.rule

# ---- Dtypes.


@rule(r"Type '(.+?)' of input parameter \((.*?)\) of operator \((.+?)\) in node \((.*?)\) is inv")
def _type_error(context: MessageContext, match: re.Match[str]) -> Finding:
    kind, value, op_type, name = match.groups()
    return Finding(
        "dtype-unsupported", ERROR,
        f"{op_type} does not take {graph.plain_type(kind)}: its input {value!r} has this dtype.",
        _allowed(context, name, op_type, value),
        "Cast the value to a dtype that the operator takes.", nodes=context.labels(name, op_type),
    )  # fmt: skip


def _allowed(context: MessageContext, name: str, op_type: str, value: str) -> str:
    """What the definition of a standard operator allows."""
    place = context.place(name, op_type)
    why = "The definition of the operator does not allow it"
    if place is None or place.domain or value not in place.node.input:
        return why + "."
    try:
        schema = onnx.defs.get_schema(op_type, place.opsets.get("", 1))
        formal = schema.inputs[min(list(place.node.input).index(value), len(schema.inputs) - 1)]
    except Exception:  # an operator or version that the onnx package does not know
        return why + "."
    kinds = sorted(graph.plain_type(kind) for kind in formal.types if kind.startswith("tensor("))
    return f"{why}; in opset {place.opsets.get('')} it takes {', '.join(kinds)}."


@rule(r"Node \((.*?)\) Op \((.+?)\).*no kernel def matches node inputs")
def _no_match(context: MessageContext, match: re.Match[str]) -> Finding:
    return Finding(
        "dtype-unsupported", ERROR, f"{match[2]} has no kernel for this mix of dtypes.",
        "The library has kernels for other combinations of dtypes.",
        "Cast the inputs to one dtype.", nodes=context.labels(match[1], match[2]),
    )  # fmt: skip


@rule(r"Type parameter \((\S+)\) of Optype \((\S+)\) bound to different types "
      r"\(tensor\((\S+)\) and tensor\((\S+)\)+ in node \((.*?)\)")  # fmt: skip
def _mixed(context: MessageContext, match: re.Match[str]) -> Finding:
    _, op_type, one, other, name = match.groups()
    one, other = graph.plain_type(one), graph.plain_type(other)
    return Finding(
        "dtype-mixed", ERROR, f"{op_type} got {one} and {other}.",
        "Its inputs have to be of one dtype; ONNX converts nothing by itself.",
        f"Put a Cast before one of them (x.to(torch.{one}) before the export).",
        nodes=context.labels(name, op_type),
    )  # fmt: skip


@rule(r"Type \(tensor\((.*?)\)\) of output arg \((.*?)\) of node \((.*?)\) does not match "
      r"expected type \(tensor\((.*?)\)\)")  # fmt: skip
def _output_type(context: MessageContext, match: re.Match[str]) -> Finding:
    stated, value, name, made = match.groups()
    return Finding(
        "dtype-misstated", ERROR,
        f"The model says that {value!r} is {graph.plain_type(stated)}, but it is "
        f"{graph.plain_type(made)}.",
        "The type in the list of outputs (or value_info) contradicts the node.",
        f"State {graph.plain_type(made)} there, or put a Cast after the node.",
        nodes=context.labels(name),
    )  # fmt: skip


# ---- The graph.


@rule(r"Node input '(.*?)' is not a graph input")
def _not_made(context: MessageContext, match: re.Match[str]) -> Finding:
    known, labels = set[str](), []
    if context.model is not None:
        known = graph.values(context.model)
        labels = [p.label for p in graph.places(context.model) if match[1] in p.node.input]
    return values.undefined_value(match[1], labels, known)


@rule(r"Graph output \((.*?)\) does not exist")
def _no_output(context: MessageContext, match: re.Match[str]) -> Finding:
    known = graph.values(context.model) if context.model is not None else set()
    return values.undefined_value(match[1], [f"output {match[1]!r} of the graph"], known)


@rule(r'In Node, \("(.*?)", (\S+), "(.*?)", -?\d+\).*has input size (\d+) not in range '
      r"\[min=(\d+), max=(\d+)\]")  # fmt: skip
def _input_count(context: MessageContext, match: re.Match[str]) -> Finding:
    name, op_type, domain, got, least, most = match.groups()
    op = graph.op_name(domain, op_type)
    code = "input-missing" if int(got) < int(least) else "input-too-many"
    return Finding(
        code, ERROR, f"{op} got {got} inputs.", f"It takes {least} to {most}."
        if least != most else f"It takes {least}.",
        "Correct the inputs of the node where the model is made.",
        nodes=context.labels(name, op_type),
    )  # fmt: skip


@rule(r'In Node, \("(.*?)", (\S+), "(.*?)", -?\d+\).*input (\d+) is marked single but has an empty')
def _input_empty(context: MessageContext, match: re.Match[str]) -> Finding:
    name, op_type, domain, number = match.groups()
    return Finding(
        "input-missing", ERROR,
        f"{graph.op_name(domain, op_type)}: the input number {number} is missing.",
        "It is required, but the node leaves it empty.", "Give the node this input.",
        nodes=context.labels(name, op_type),
    )  # fmt: skip


@rule(r'In Node, \("(.*?)", (\S+), "(.*?)", -?\d+\).*Required attribute \'(.*?)\' is missing')
def _attribute_missing(context: MessageContext, match: re.Match[str]) -> Finding:
    name, op_type, domain, attribute = match.groups()
    return Finding(
        "attribute-missing", ERROR,
        f"{graph.op_name(domain, op_type)} needs the attribute {attribute!r}.",
        "It has no default.", "Set it where the model is made.",
        nodes=context.labels(name, op_type),
    )  # fmt: skip


@rule(r'In Node, \("(.*?)", (\S+), .*Unrecognized attribute: (\S+) for operator (\S+)')
def _attribute_unknown(context: MessageContext, match: re.Match[str]) -> Finding:
    return Finding(
        "attribute-unknown", ERROR, f"{match[4]} has no attribute {match[3]!r}.",
        "Not in the opset that the model imports; often it came or went with another opset.",
        "Remove it, or import the opset that the node was written for.",
        nodes=context.labels(match[1], match[2]),
    )  # fmt: skip


@rule(r"Duplicate definition of name \((.*?)\)")
def _duplicate(context: MessageContext, match: re.Match[str]) -> Finding:
    labels = []
    if context.model is not None:
        labels = [p.label for p in graph.places(context.model) if match[1] in p.node.output]
    return Finding(
        "value-twice", ERROR, f"The value {match[1]!r} is made more than once.",
        "In ONNX every value has one name and is made by one node.",
        "Rename one of them; often two models were joined without a prefix (onnx.compose).",
        nodes=labels,
    )  # fmt: skip


@rule(r"two nodes with same node name \((.*?)\)")
def _same_name(context: MessageContext, match: re.Match[str]) -> Finding:
    labels = []
    if context.model is not None:
        labels = [p.label for p in graph.places(context.model) if p.node.name == match[1]]
    return Finding(
        "node-twice", ERROR, f"More than one node is called {match[1]!r}.",
        "ONNX Runtime minds it when the graph has other faults, as a circle, too: a name may be "
        "empty, but not be used twice.",
        "Give each node a name of its own, or none.", nodes=labels,
    )  # fmt: skip


@rule(r"graph is not acyclic")
def _cycle(context: MessageContext, match: re.Match[str]) -> Finding:
    return Finding(
        "cycle", ERROR, "The graph goes round in a circle.",
        "A node needs, directly or through others, its own result.",
        "Correct the names of inputs and outputs; a loop has to be a Loop or Scan node.",
    )  # fmt: skip


@rule(r"Node \((.*?)\) Op \((\S+?)\) \[(?:Type|Shape)InferenceError\] (.*)")
def _inference(context: MessageContext, match: re.Match[str]) -> Finding:
    return Finding(
        "shape-mismatch", ERROR, f"{match[2]}: the shapes or types of its inputs do not fit.",
        f"{match[3].strip()}.", "Look at the shapes that arrive there; with fixed lengths the "
        "model was perhaps exported for another input size.",
        nodes=context.labels(match[1], match[2]),
    )  # fmt: skip


# ---- The file.


@rule(r"External data path.*?(?:does not exist|escapes|outside)[^\"]*\"?([^\"]*)")
def _external(context: MessageContext, match: re.Match[str]) -> Finding:
    return Finding(
        "weights-missing", ERROR, f"The file with the weights is missing: {match[1]!r}.",
        "The model keeps its weights in another file (external data), which has to lie beside it.",
        "Copy it there, under the same name.",
    )  # fmt: skip


@rule(r"protobuf parsing failed|No graph was found in the protobuf")
def _protobuf(context: MessageContext, match: re.Match[str]) -> Finding:
    return Finding(
        "model-broken", ERROR, "The file is no ONNX model.",
        "Its bytes cannot be read as one: cut off, or something else.", "Get or export it again.",
    )  # fmt: skip
