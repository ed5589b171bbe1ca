"""The names of outputs. Of those that a caller gave, torch's exporters rename or drop what does not
fit, each in its own way, so they are refused here. Results in a dict are named by their keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import onnx
import torch
from torch.export.graph_signature import OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from myops.onnx.exporting.inputs import Inputs
from myops.onnx.graph import scopes
from myops.onnx.graph.renaming import rename_values

# The message of torch's TorchScript exporter.
_TOO_MANY = re.compile(r"output names provided \((\d+)\) exceeded number of outputs \((\d+)\)")


def refuse(names: Sequence[str], inputs: Inputs) -> None:
    """Refuses names that the graph cannot have.

    Raises:
        ValueError: A name is empty, stands twice, or is that of an input.
    """
    for name in names:
        if not name:
            raise ValueError("export: output_names: got '', expected a name")
        if names.count(name) > 1:
            raise ValueError(f"export: output_names: got {name!r} twice, expected it once")
        if name in inputs.names:
            given = name in (inputs.given_names or ())
            rename = "" if given else f", or input_names that rename the input {name!r}"
            raise ValueError(
                f"export: output_names: got {name!r}, which is the name of an input; expected "
                f"another name{rename}: in a graph, a name stands for one value"
            )


def refuse_more(names: Sequence[str], model: onnx.ModelProto) -> None:
    """Refuses more names than the exported model has outputs.

    Raises:
        ValueError: There are more.
    """
    _refuse_count(len(names), len(model.graph.output))


def refuse_as_torch(error: RuntimeError) -> None:
    """The same where torch's exporter refuses them."""
    found = _TOO_MANY.search(str(error))
    if found:
        _refuse_count(int(found[1]), int(found[2]))


def _refuse_count(names: int, outputs: int) -> None:
    if names > outputs:
        raise ValueError(
            f"export: output_names: got {names} names, expected at most {outputs}, the number of "
            "tensors among the outputs"
        )


def keys_of(result: Any) -> list[str]:
    """The names of the tensors among a model's results, "boxes" for the key "boxes" of a dict and
    "boxes_0" for the first in a list there; "" for those without a key."""
    try:
        leaves = pytree.tree_flatten_with_path(result)[0]
    except ValueError:  # a class that was registered without the names of what it holds
        return []
    paths = [path for path, leaf in leaves if isinstance(leaf, torch.Tensor)]
    names = ["_".join(map(_key, path)) for path in paths]
    return [name if name.isidentifier() and _has_key(path) else ""
            for name, path in zip(names, paths, strict=True)]  # fmt: skip


def keys_of_program(program: torch.export.ExportedProgram) -> list[str]:
    """The same of a program of torch.export."""
    spec = program.call_spec.out_spec
    results = [item.arg for item in program.graph_signature.output_specs
               if item.kind is OutputKind.USER_OUTPUT]  # fmt: skip
    if spec is None or len(results) != spec.num_leaves:
        return []
    leaves = [torch.empty(0) if isinstance(item, TensorArgument) else None for item in results]
    return keys_of(pytree.tree_unflatten(leaves, spec))


def _has_key(path: Sequence[Any]) -> bool:
    return any(isinstance(step, pytree.MappingKey) for step in path)


def _key(step: Any) -> str:
    if isinstance(step, pytree.MappingKey):
        return str(step.key)
    return str(getattr(step, "idx" if isinstance(step, pytree.SequenceKey) else "name", ""))


def name_by_keys(
    model: onnx.ModelProto, keys: Sequence[str], given: Sequence[str]
) -> dict[str, str]:
    """Names outputs by the keys of the dict in which forward returns them, except those that the
    caller named, and those whose key is the name of an input or a weight.

    Returns:
        {old name of a value: its new name}.
    """
    graph = model.graph
    outputs = [item.name for item in graph.output]
    if len(keys) != len(outputs) or len({*outputs}) < len(outputs):
        return {}
    taken = {item.name for item in (*graph.input, *graph.initializer)} | {*given}
    pairs = list(zip(outputs, keys, strict=True))[len(given) :]
    changes = {old: key for old, key in pairs
               if key and {key, old}.isdisjoint(taken) and keys.count(key) == 1}  # fmt: skip
    fresh = scopes.Names(model).fresh
    values = {name for node in scopes.all_nodes(graph.node) for name in (*node.input, *node.output)}
    for key in set(changes.values()) & values - {*changes}:
        changes[key] = fresh(key)
    rename_values(graph, changes)
    return changes
