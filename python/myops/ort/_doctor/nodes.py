"""What really runs in place of each node, according to ONNX Runtime's optimised model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import onnx

from myops import _libraries
from myops.ort._doctor import graph
from myops.ort._doctor.graph import LocatedNode, Provided
from myops.ort._doctor.report import WARNING, Finding, NodeFacts

KERNEL, BODY, GONE, UNKNOWN = "kernel", "function body", "optimised away", "unknown"


def examine(
    model: onnx.ModelProto, optimised: onnx.ModelProto | None, assigned: list[list[str]] | None
) -> list[NodeFacts]:
    """One entry for each node that is not a plain standard operator.

    Args:
        model: The file.
        optimised: What ONNX Runtime made of it, saved after its optimisations.
        assigned: [provider, node, domain, op type] of each node.
    """
    own = graph.functions(model)
    made: dict[str, list[LocatedNode]] = {}
    for place in graph.places(optimised) if optimised is not None else ():
        for name in place.node.output:
            made.setdefault(name, []).append(place)
    providers = {(name, domain, op): provider for provider, name, domain, op in assigned or ()}
    found = []
    for place in graph.places(model):
        key = (place.domain, place.node.op_type)
        if place.inside.startswith("function") or (not place.domain and key not in own):
            continue
        runs = UNKNOWN if optimised is None else _runs(place, made)
        provider = providers.get((place.node.name, *key), "")
        if optimised is None and provider:
            runs = KERNEL
        shown = place.node.name or graph.first_output(place.node)
        module = graph.module_path(place.node)
        found.append(NodeFacts(shown, place.op, module, runs, provider))
    return found


def _runs(place: LocatedNode, made: dict[str, list[LocatedNode]]) -> str:
    makers = [maker for name in place.node.output for maker in made.get(name, [])]
    if not makers and place.inside:
        # The If was decided while the model was loaded: of the branch that is left the nodes get
        # such names, and other outputs.
        prefix = f"_if_{place.inside.split(', ')[-1].split(' of ')[0]}_"
        every = [maker for found in made.values() for maker in found]
        makers = [maker for maker in every if maker.node.name.startswith(prefix)]
    if any((m.domain, m.node.op_type) == (place.domain, place.node.op_type) for m in makers):
        return KERNEL
    return BODY if makers else GONE


def fallbacks(found: Sequence[NodeFacts], provided: Provided) -> list[Finding]:
    """Nodes of op libraries that run their function body where a kernel could."""
    return [
        finding
        for library in _libraries.known()
        for finding in _fallbacks(library, found, provided)
    ]


def _fallbacks(
    library: _libraries.Library, found: Sequence[NodeFacts], provided: Provided
) -> list[Finding]:
    domain = library.domain
    mine = f"{domain}::"
    fallen = [node for node in found if node.runs == BODY and node.op.startswith(mine)]
    if not fallen:
        return []
    loaded = domain in provided.custom
    why = "A library provides the domain, but ONNX Runtime took the function body all the same."
    if not loaded:
        why = f"No library that is loaded provides the domain {domain!r}, so ONNX Runtime runs the "
        why += "bodies of standard operators that the model carries. Results are equal within "
        why += "rounding, not bit for bit, and it may be slower."
    return [Finding(
        "function-body", WARNING,
        f"{len(fallen)} of {len([n for n in found if n.op.startswith(mine)])} nodes of {domain} "
        "run as function bodies, not as kernels.", why,
        f"Load the library: {_how_to_load(library)}",
        nodes=[_label(node) for node in fallen],
    )]  # fmt: skip


def _how_to_load(library: _libraries.Library) -> str:
    if library is _libraries.OURS:
        path = "myops.ort.get_library_path()"
    elif library.ort_library is None:
        return "there is none for a prototype; myops.ort.pyop_session(model) runs its function."
    else:
        path = f"{str(library.ort_library)!r}"
    return f"myops.ort.session(model), or options.register_custom_ops_library({path})."


def _label(node: NodeFacts) -> str:
    return f"{node.name} ({node.op})" + (f", PyTorch module {node.module}" if node.module else "")


def counts(assigned: list[list[str]] | None) -> dict[str, int]:
    """How many nodes each provider got."""
    return dict(Counter(provider for provider, *_ in assigned or ()))


def providers(
    model: onnx.ModelProto, asked: Sequence[str], loaded: dict[str, Any], available: Sequence[str]
) -> list[Finding]:
    """Providers that were requested and run no nodes."""
    found = []
    for name in asked:
        if name not in available:
            found.append(Finding(
                "provider-missing", WARNING, f"{name} is not in this onnxruntime.",
                f"It has {', '.join(available)}. ONNX Runtime goes on without it and says so "
                "only in a warning.", _package(name),
            ))  # fmt: skip
        elif name not in loaded["providers"]:
            found.append(Finding(
                "provider-failed", WARNING, f"{name} could not be started.",
                "It is part of this onnxruntime, but the session does not have it: often a driver "
                "or a library of its own (CUDA, cuDNN) is missing or of another version.",
                "Look at the warnings of onnxruntime: options.log_severity_level = 1.",
            ))  # fmt: skip
    wanted = [name for name in asked if name != "CPUExecutionProvider"]
    assigned = loaded["assigned"] or []
    on_cpu = [entry for entry in assigned if entry[0] == "CPUExecutionProvider"]
    if wanted and on_cpu and any(name in loaded["providers"] for name in wanted):
        names = []
        for _, name, domain, op_type in on_cpu:
            place = graph.find(model, name, op_type)
            names.append(place.label if place else f"{name} ({graph.op_name(domain, op_type)})")
        found.append(Finding(
            "node-on-cpu", WARNING,
            f"{len(on_cpu)} of {len(assigned)} nodes run on the CPU, although {wanted[0]} was "
            "asked for.",
            f"{wanted[0]} has no kernel for them, or ONNX Runtime takes the CPU for them because "
            "they compute shapes. Kernels of myops are for the CPU; tensors are copied to it and "
            "back.",
            "If they cost time: look for operators that the provider has, or for another dtype.",
            nodes=names,
        ))  # fmt: skip
    return found


def _package(provider: str) -> str:
    packages = {
        "CUDAExecutionProvider": "onnxruntime-gpu",
        "TensorrtExecutionProvider": "onnxruntime-gpu",
        "DmlExecutionProvider": "onnxruntime-directml",
        "OpenVINOExecutionProvider": "onnxruntime-openvino",
        "QNNExecutionProvider": "onnxruntime-qnn",
        "ROCMExecutionProvider": "onnxruntime-rocm",
        "MIGraphXExecutionProvider": "onnxruntime-migraphx",
    }
    if provider in packages:
        return (
            f"It is in {packages[provider]}: `pip uninstall onnxruntime`, then `pip install "
            f"{packages[provider]}`; never both."
        )
    return "See that the name is right, and which package of onnxruntime brings it."
