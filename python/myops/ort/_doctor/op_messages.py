"""ONNX Runtime's messages about operators, their kernels and versions, in words."""

from __future__ import annotations

import re

import onnx

from myops.ort._doctor import graph, ops, values
from myops.ort._doctor.report import ERROR, Finding
from myops.ort._doctor.rules import MessageContext, Rules

RULES = Rules()
rule = RULES.rule

# ---- Ops.


@rule(r"Fatal error: ([^\s:]*):(.+?)\((-?\d+)\) is not a registered function/op")
def _not_registered(context: MessageContext, match: re.Match[str]) -> Finding:
    return _op(context, match[1], match[2])


@rule(r"No Op registered for (\S+) with domain_version of (\d+)")
def _no_op(context: MessageContext, match: re.Match[str]) -> Finding:
    return _op(context, "", match[1])


def _op(context: MessageContext, domain: str, op_type: str) -> Finding:
    if context.model is None:
        context = MessageContext(onnx.ModelProto(), context.provided)
    assert context.model is not None
    found = [p for p in graph.places(context.model) if p.node.op_type == op_type]
    exact = [p for p in found if p.domain == domain] or found
    domain = exact[0].domain if exact else domain
    if context.provided.knows(domain, op_type) and exact:
        opset = exact[0].opsets.get(domain)
        lowest = min(
            (k["since"] for k in context.provided.custom.get(domain, {}).get(op_type, [])),
            default=1,
        )
        if opset is not None and opset < lowest:
            return Finding(
                "domain-version", ERROR, f"The model asks for version {opset} of the domain "
                f"{domain!r}.",
                f"{context.provided.sources.get(domain, 'The library')} has version {lowest} and "
                "later.",
                f"Set the version of {domain!r} in the model's opset_import to {lowest}.",
            )  # fmt: skip
    return ops.unknown_op(domain, op_type, exact, context.provided)


@rule(r"No opset import for domain '(.*?)'")
def _no_import(context: MessageContext, match: re.Match[str]) -> Finding:
    return ops.not_imported(match[1], known=False)


@rule(r"Could not find an implementation for ([^\s(]+)\((\d+)\) node with name '(.*?)'")
def _no_kernel(context: MessageContext, match: re.Match[str]) -> Finding:
    op_type, version, name = match.groups()
    kernels = context.provided.kernels.get(f":{op_type}", [])
    fitting = [types for low, high, types in kernels if low <= int(version) <= high]
    place = context.place(name, op_type)
    got = values.dtypes(context.model, place) if place and context.model is not None else []
    shown = f" for {', '.join(dict.fromkeys(got))}" if got else ""
    if fitting:
        why = f"Of this version of {op_type} there are kernels for {_types(fitting)}."
        fix = "Cast the node's inputs to one of them before it, and back after it."
    elif kernels:
        ranges = f"{min(low for low, *_ in kernels)} or later"
        why = f"It has kernels only from opset {ranges} on."
        fix = "Convert the model: onnx.version_converter.convert_version(model, 17), or export it "
        fix += "again with a later opset_version."
    else:
        why = "It knows what the operator means, but this build cannot compute it."
        fix = "Try a later onnxruntime, or another dtype, usually float32."
    return Finding(
        "kernel-missing", ERROR,
        f"ONNX Runtime has no kernel for {op_type} of opset {version}{shown}.", why, fix,
        nodes=context.labels(name, op_type),
    )  # fmt: skip


def _types(kernels: list[list[str]]) -> str:
    kinds = sorted({graph.plain_type(kind) for types in kernels for kind in types})
    return ", ".join(kind for kind in kinds if "(" not in kind)


# ---- Versions.


@rule(r"Opset (\d+) is under development.*?domain (\S+) is till opset (\d+)")
def _opset(context: MessageContext, match: re.Match[str]) -> Finding:
    got, domain, highest = match.groups()
    return Finding(
        "opset-too-new", ERROR, f"The model imports opset {got} of {domain}.",
        f"ONNX Runtime {context.provided.version} knows {domain} up to opset {highest}.",
        f"Export with opset_version={highest} or lower, or upgrade onnxruntime, or convert: "
        f"onnx.version_converter.convert_version(model, {highest}).",
    )  # fmt: skip


@rule(r"Opset (\d+) is under development")
def _opset_unclear(context: MessageContext, match: re.Match[str]) -> Finding:
    return Finding(
        "opset-too-new", ERROR, f"The model imports opset {match[1]}.",
        f"ONNX Runtime {context.provided.version} does not have it yet.",
        "Export with a lower opset_version, or upgrade onnxruntime.",
    )  # fmt: skip


@rule(r"Unsupported model IR version: (\d+), max supported IR version: (\d+)")
def _ir(context: MessageContext, match: re.Match[str]) -> Finding:
    got, highest = match.groups()
    fix = "Upgrade onnxruntime"
    needed = 0
    if context.model is not None:
        opset = graph.opsets_of(context.model.opset_import).get("", 0)
        needed = {row[2]: row[1] for row in onnx.helper.VERSION_TABLE}.get(opset, 0)
        needed = max(needed, 8 if context.model.functions else 0)
    if 0 < needed <= int(highest):
        fix += f", or set the version: its opset needs {needed} only. model.ir_version = {needed}; "
        fix += "onnx.save(model, path)"
    return Finding(
        "ir-too-new", ERROR, f"The file has IR version {got}.",
        f"That is the version of the file format; ONNX Runtime {context.provided.version} reads "
        f"up to {highest}. onnx.helper.make_model takes the newest that the onnx package knows.",
        fix + ".",
    )  # fmt: skip


@rule(r"Missing opset in the model")
def _opset_missing(context: MessageContext, match: re.Match[str]) -> Finding:
    return ops.opset_missing()
