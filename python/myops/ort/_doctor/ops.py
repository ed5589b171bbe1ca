"""Ops, domains and versions that neither the runtime nor a library knows."""

from __future__ import annotations

import os
from collections.abc import Iterator

import onnx

from myops import _libraries
from myops._names import near_misses
from myops.ort._doctor import graph
from myops.ort._doctor.graph import LocatedNode, Provided
from myops.ort._doctor.report import ERROR, WARNING, Finding

# Who provides the domains that models in the wild use.
_HOMES = {
    "myops": "the library of myops: myops.ort.session(model) registers it, or "
    "options.register_custom_ops_library(myops.ort.get_library_path())",
    "ai.onnx.contrib": "onnxruntime-extensions: `pip install onnxruntime-extensions`, then "
    "--library with the path that onnxruntime_extensions.get_library_path() returns",
    "com.microsoft.extensions": "onnxruntime-extensions: `pip install onnxruntime-extensions`, "
    "then --library with the path that onnxruntime_extensions.get_library_path() returns",
    "mmdeploy": "MMDeploy: --library with its libmmdeploy_onnxruntime_ops.so",
    "mmcv": "MMCV or MMDeploy: --library with their ONNX Runtime library",
    "org.pytorch.aten": "no library: the exporter did not know a PyTorch operator and left it as "
    "it is. Add a translation for it (custom_translation_table) and export again",
    "aten": "no library: the exporter did not know a PyTorch operator and left it as it is. Add a "
    "translation for it (custom_translation_table) and export again",
    "prim": "no library: the exporter left a piece of TorchScript as it is. Export again with "
    'exporter="dynamo", or rewrite that part of the model',
    "com.microsoft": "ONNX Runtime itself, but not this version: upgrade onnxruntime",
}


def check(model: onnx.ModelProto, provided: Provided) -> Iterator[Finding]:
    """Ops and versions that nothing knows."""
    yield from _unknown_ops(model, provided)
    yield from _versions(model, provided)


def _unknown_ops(model: onnx.ModelProto, provided: Provided) -> Iterator[Finding]:
    own = graph.functions(model)
    unknown: dict[tuple[str, str], list[LocatedNode]] = {}
    for place in graph.places(model):
        key = (place.domain, place.node.op_type)
        if key in own or provided.knows(*key, place.opsets.get(place.domain)):
            continue
        if not provided.builtin and not place.domain:
            continue  # a build that does not list its operators
        unknown.setdefault(key, []).append(place)
    for (domain, op_type), found in unknown.items():
        yield unknown_op(domain, op_type, found, provided)


def unknown_op(domain: str, op_type: str, found: list[LocatedNode], provided: Provided) -> Finding:
    """Why nothing knows an op, and what was probably meant."""
    name = graph.op_name(domain, op_type)
    labels = [place.label for place in found]
    opset = found[0].opsets.get(domain) if found else None
    ops = {**provided.builtin.get(domain, {}), **provided.custom.get(domain, {})}
    versions = provided.builtin.get(domain, {}).get(op_type)
    if versions and opset is not None:
        return Finding(
            "op-too-new", ERROR,
            f"{name} does not exist in opset {opset} of {domain or 'ai.onnx'}.",
            f"It came with opset {min(versions)}; the model imports {opset}.",
            f"Export with opset_version={min(versions)} or later.", nodes=labels,
        )  # fmt: skip
    if ops:
        source = provided.sources.get(domain, "ONNX Runtime " + provided.version)
        elsewhere = [d for d in provided.custom if op_type in provided.custom[d]]
        hint = near_misses(op_type, ops)
        if elsewhere:
            hint = f" The domain {elsewhere[0]!r} has an op of that name: was that one meant?"
        what = f"The domain {domain!r} has no op {op_type!r}."
        if not domain:
            what = f"There is no standard operator {op_type!r}."
        return Finding(
            "op-unknown", ERROR, what,
            f"{source} provides {_listed(sorted(ops))}.{hint}",
            "Correct the op type where the model is made, or load a newer library that has it.",
            nodes=labels,
        )  # fmt: skip
    known = {d for d in (*provided.builtin, *provided.custom, *_HOMES) if d}
    near = "" if domain in _HOMES else near_misses(domain, known)
    why = "No library that is loaded provides this domain, and the model has no function body for "
    why += f"{name}.{near}"
    if provided.refused:
        why += " It may be in a library that does not load, see there: "
        why += ", ".join(os.path.basename(path) for path in provided.refused) + "."
    elif provided.unlisted:
        why += " What these libraries provide could not be found out: "
        why += ", ".join(os.path.basename(path) for path in provided.unlisted) + "."
    home = _HOMES.get(domain) or _package(domain)
    fix = f"{domain!r} is provided by {home}." if home else (
        f"Find the library that provides {domain!r} and load it: --library PATH here, "
        "register_custom_ops_library(PATH) in your program."
    )  # fmt: skip
    if _libraries.find(domain):
        fix += " Or export with myops.onnx.export, which adds a function body to each node, or "
        fix += "write the nodes in standard operators: `myops lower`."
    return Finding(
        "domain-unknown", ERROR, f"Nothing knows the domain {domain!r} (op {op_type}).", why, fix,
        nodes=labels,
    )  # fmt: skip


def _package(domain: str) -> str:
    """The op library of an installed package, or of a prototype, that has the domain."""
    library = _libraries.find(domain)
    if library is None:
        return ""
    if library.ort_library is None:
        return "a prototype in this process: myops.ort.pyop_session(model) runs it"
    return (
        f"the package's library {library.ort_library}: myops.ort.session(model) registers it, or "
        "options.register_custom_ops_library(that path)"
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 8 else f"{len(names)} ops"


def _versions(model: onnx.ModelProto, provided: Provided) -> Iterator[Finding]:
    imports = graph.opsets_of(model.opset_import)
    used = {place.domain for place in graph.places(model) if not place.inside}
    own = {domain for domain, _ in graph.functions(model)}
    if not imports:
        yield opset_missing()
        return
    for domain in sorted(used - set(imports)):
        yield not_imported(domain, domain in provided.custom)
    for domain, version in imports.items():
        ops = provided.custom.get(domain)
        if not ops or domain not in used or domain in own:
            continue
        lowest = min((k["since"] for kernels in ops.values() for k in kernels), default=1)
        newest = _libraries.newest_version(domain) if _libraries.find(domain) else None
        if version < lowest:
            yield Finding(
                "domain-version", ERROR,
                f"The model asks for version {version} of the domain {domain!r}.",
                f"{provided.sources[domain]} has version {lowest} and later.",
                f"Set the version of {domain!r} in the model's opset_import to {lowest}.",
            )  # fmt: skip
        elif newest is not None and version > newest:
            yield Finding(
                "domain-version", WARNING,
                f"The model asks for version {version} of the domain {domain!r}.",
                f"This library has version {newest} only. ONNX Runtime does not mind and takes "
                f"its ops of version {newest}, which may mean something else.",
                f"Install the {domain} that the model was made with, or a later one; or set the "
                f"version of {domain!r} in the model's opset_import to {newest}.",
            )  # fmt: skip


def opset_missing() -> Finding:
    """The model has no opset_import at all."""
    return Finding(
        "opset-missing", ERROR, "The model imports no opset.",
        "Without it nobody can tell which version of the operators is meant.",
        "Add one: model.opset_import.append(onnx.helper.make_opsetid('', 20)).",
    )  # fmt: skip


def not_imported(domain: str, known: bool) -> Finding:
    """A domain is used that opset_import does not have. known: a library provides it."""
    return Finding(
        "domain-not-imported", WARNING if known else ERROR,
        f"The model uses the domain {domain or 'ai.onnx'!r} but does not import it.",
        "Every domain has to stand in opset_import, with a version."
        + (" ONNX Runtime does not mind this one, onnx.checker does." if known else ""),
        f"Add it: model.opset_import.append(onnx.helper.make_opsetid({domain!r}, 1)).",
    )  # fmt: skip
