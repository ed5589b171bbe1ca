"""ONNX Runtime's messages about libraries, kernels that fail and inputs, in words."""

from __future__ import annotations

import re

from myops.ort._doctor import graph, op_mistakes
from myops.ort._doctor.report import ERROR, Finding
from myops.ort._doctor.rules import MessageContext, Rules

RULES = Rules()
rule = RULES.rule

# ---- Libraries.


@rule(r"Domain already set in registry")
def _domain_twice(context: MessageContext, match: re.Match[str]) -> Finding:
    return Finding(
        "domain-clash", ERROR, "Two libraries provide the same domain, or one is loaded twice.",
        "ONNX Runtime takes each domain from one library only.",
        "Register each library once with the same SessionOptions. myops.ort.register minds that by "
        "itself, register_custom_ops_library does not.",
    )  # fmt: skip


@rule(r"The requested API version \[(\d+)\] is not available.*?\[\d+, (\d+)\]")
def _api_version(context: MessageContext, match: re.Match[str]) -> Finding:
    return api_version("The library", int(match[1]), match[2], context.provided.version)


def api_version(library: str, asked: int, highest: str, runtime: str) -> Finding:
    """A library was built for a newer ONNX Runtime."""
    upto = f", which goes up to {highest}" if highest else ""
    return Finding(
        "library-api-version", ERROR, f"{library} asks for version {asked} of ONNX Runtime's API.",
        f"It was built with the headers of a newer ONNX Runtime than this one ({runtime}{upto}). "
        f"Version N of the API came with ONNX Runtime 1.N.",
        f"Upgrade: `pip install 'onnxruntime>=1.{asked}'`, or build the library with the headers "
        f"of ONNX Runtime {runtime} or older.",
    )  # fmt: skip


@rule(r"Unsupported version '(\d+)' in custom op '([^']*)")
def _op_version(context: MessageContext, match: re.Match[str]) -> Finding:
    found = api_version("A library", int(match[1]), "", context.provided.version)
    found.what = f"The custom op {match[2]} is of version {match[1]} of ONNX Runtime's API."
    return found


@rule(r"Failed to get symbol RegisterCustomOps|undefined symbol: RegisterCustomOps")
def _no_entry(context: MessageContext, match: re.Match[str]) -> Finding:
    return Finding(
        "library-no-entry-point", ERROR, "The library has no function RegisterCustomOps.",
        "ONNX Runtime calls it to learn which ops there are.",
        'Load a library made for ONNX Runtime; if it is your own, declare extern "C" '
        "RegisterCustomOps and export it.",
    )  # fmt: skip


# ---- Nodes that fail.


@rule(r"Exception during initialization: (.*)")
def _initialization(context: MessageContext, match: re.Match[str]) -> Finding:
    text = match[1].strip()
    labels = _guess(context, text)
    return Finding(
        "kernel-refuses", ERROR, f"A kernel refuses its node: {text}",
        "It found fault with the node's attributes or constant inputs when it was created.",
        "Correct the node where the model is made.", nodes=labels,
    )  # fmt: skip


def _guess(context: MessageContext, text: str) -> list[str]:
    """The nodes that an error of one of our kernels, "op: argument: ...", may come from."""
    from myops import _libraries

    if context.model is None:
        return []
    name = text.split(":")[0]
    found = [(p, _libraries.op_of(p.node))
             for p in graph.places(context.model)]  # fmt: skip
    return [place.label for place, info in found if info is not None and info.name == name]


@rule(r"Non-zero status code returned while running (\S+) node\. Name:'(.*?)' Status Message: (.*)")
def _node_failed(context: MessageContext, match: re.Match[str]) -> Finding:
    op_type, name, text = match[1], match[2], match[3].strip()
    # What stands before the text itself: a file of ONNX Runtime's sources and a signature.
    short = re.sub(r"^/\S+?:\d+ .*?\) (?=\S)", "", text)
    blamed = op_mistakes.finding(short, context.labels(name, op_type))
    if blamed is not None:
        return blamed
    why = short if short.endswith((".", "!")) else short + "."
    if re.search(r"broadcast|axis == 1|dimension|shape|rank|mismatch|length", text, re.I):
        why += " The shapes that arrive there do not fit together."
    if re.search(r"bad_alloc|allocate memory", text):
        why += " The memory did not suffice."
    return Finding(
        "run-failed", ERROR, f"The node {name or '(no name)'} ({op_type}) failed.", why,
        "If the inputs were right, the model holds a fixed length where the exporter should have "
        "kept a variable one; look there first.", nodes=context.labels(name, op_type),
    )  # fmt: skip


# ---- What is fed.


@rule(r"Invalid rank for input: (\S+) Got: (\d+) Expected: (\d+)")
def _rank(context: MessageContext, match: re.Match[str]) -> Finding:
    return _feed(f"The input {match[1]!r} got {match[2]} axes, expected {match[3]}.")


@rule(r"Got invalid dimensions for input: (\S+) for the following indices\s*(.*?)\s*Please fix")
def _dims(context: MessageContext, match: re.Match[str]) -> Finding:
    axes = [f"axis {a}: got {got}, expected {want}" for a, got, want in
            re.findall(r"index: (\d+) Got: (-?\d+) Expected: (-?\d+)", match[2])]  # fmt: skip
    return _feed(
        f"The input {match[1]!r} has a wrong shape: {'; '.join(axes)}.",
        "The model fixes these lengths. To leave them open, export with "
        "dynamic_axes={name: {axis: 'name of the length'}}.",
    )


@rule(r"Unexpected input data type\. Actual: \((.*?)\) , expected: \((.*?)\)")
def _feed_type(context: MessageContext, match: re.Match[str]) -> Finding:
    got, wanted = graph.plain_type(match[1]), graph.plain_type(match[2])
    return _feed(f"An input got {got}, expected {wanted}.",
                 f"Convert the array: array.astype(np.{wanted}).")  # fmt: skip


@rule(r"Required inputs \((.*?)\) are missing from input feed \((.*?)\)")
def _feed_missing(context: MessageContext, match: re.Match[str]) -> Finding:
    return _feed(f"The inputs {match[1]} were not given, only {match[2]}.")


@rule(r"Invalid (?:Feed )?[Ii]nput [Nn]ame: ?(\S+)")
def _feed_name(context: MessageContext, match: re.Match[str]) -> Finding:
    names = list(context.model.graph.input) if context.model is not None else []
    return _feed(
        f"The model has no input {match[1]!r}.",
        f"Its inputs are {', '.join(item.name for item in names)}." if names else "",
    )


def _feed(what: str, fix: str = "Give session.run what the model asks for.") -> Finding:
    return Finding("input-wrong", ERROR, what, "What is given does not fit what the model asks "
                   "for.", fix)  # fmt: skip


@rule(r"bad_alloc|Failed to allocate memory")
def _memory(context: MessageContext, match: re.Match[str]) -> Finding:
    return Finding(
        "memory", ERROR, "The memory did not suffice.", "", "Use smaller inputs, or a machine "
        "with more memory.",
    )  # fmt: skip
