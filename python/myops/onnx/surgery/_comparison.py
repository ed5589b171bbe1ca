"""Compares a simplified model with the original, in all branches and on random inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from myops._text import reason
from myops.onnx.graph import randomness, scopes, structure
from myops.onnx.graph.structure import GraphError
from myops.onnx.surgery import _random_nodes, _trial
from myops.onnx.surgery._errors import SimplifyError


def compare(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    inputs: Any,
    shapes: Any,
    tolerance: float,
    notes: list[str],
) -> float:
    """The largest difference of an output.

    Every If also runs with each branch forced, because random inputs may always select the same
    one.

    Args:
        notes: Receives notes on parts that could not be compared.

    Raises:
        GraphError: The original does not run.
        SimplifyError: The outputs differ.
    """
    before, after = _random_nodes.seeded(before), _random_nodes.seeded(after)
    try:
        runs = _trial.run_somehow(before, inputs, shapes)
    except _trial.NoRunError as error:
        raise GraphError(
            f"simplify: the numbers cannot be compared, because the model itself does not run on "
            f"random inputs: {error} Give it inputs or shapes, or leave the comparison out "
            "(check=False)."
        ) from error
    if any(map(randomness.is_random, scopes.all_nodes(before.graph.node))) or before.functions:
        # Only the first run of a session has the random numbers of the seeds.
        runs = [(feeds, _trial.run(before, feeds)) for feeds, _ in runs]
    worst = _compared(before, after, runs, tolerance, "")
    kept = {choice.outputs for choice in _choices(after.graph)}
    for choice in _choices(before.graph):
        if choice.outputs not in kept:
            continue  # its condition was found to be constant, or nothing reads it
        for branch in (True, False):
            where = f" where {choice.label} takes its {'then' if branch else 'else'} branch"
            forced, conditions = _forced(before, choice, branch)
            tried = []
            for given, _ in runs:
                feeds = {**given, **conditions}
                try:
                    tried.append((feeds, _trial.run(forced, feeds)))
                except Exception as error:  # ONNX Runtime's errors share no base class but this
                    failed = error
            if tried:
                other, _ = _forced(after, choice, branch)
                worst = max(worst, _compared(before, other, tried, tolerance, where))
            else:
                notes.append(
                    f"Not compared{where}: the model does not run there on random inputs: "
                    f"{reason(failed, 160)}"
                )
    return worst


def _compared(
    before: onnx.ModelProto, after: onnx.ModelProto, runs: Any, tolerance: float, where: str
) -> float:
    worst = 0.0
    taken = {item.name for item in after.graph.input}  # a detached weight may have been removed
    for feeds, wanted in runs:
        try:
            got = _trial.run(after, {name: feeds[name] for name in feeds if name in taken})
        except Exception as error:  # as above
            raise SimplifyError(
                f"simplify: the simplified model does not run{where}: {reason(error)} "
                "Nothing was written"
            ) from error
        for item, one, other in zip(before.graph.output, wanted, got, strict=True):
            found = _trial.difference(one, other)
            if not found <= tolerance:
                raise SimplifyError(
                    f"simplify: output {item.name!r} differs by {found:.3g} of its largest element "
                    f"after simplification{where}, expected at most {tolerance:g}; nothing was "
                    "written"
                )
            worst = max(worst, found)
    return worst


@dataclass(frozen=True)
class _Choice:
    """An If node: its outputs, its name, and the branches of outer If nodes that lead to it."""

    outputs: tuple[str, ...]
    label: str
    way: tuple[tuple[tuple[str, ...], bool], ...]


def _choices(graph: Any, way: tuple[Any, ...] = ()) -> Iterator[_Choice]:
    """The If nodes of a graph and of all inside it."""
    for node in graph.node:
        is_if = node.op_type == "If" and not structure.is_custom(node.domain)
        if is_if:
            yield _Choice(tuple(node.output), f"the node {structure.label(node)}", way)
        for attribute in node.attribute:
            step = ((tuple(node.output), attribute.name == "then_branch"),) if is_if else ()
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _choices(inner, (*way, *step))


def _forced(
    model: onnx.ModelProto, choice: _Choice, branch: bool
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model in which inputs are the conditions of an If and of the If nodes around it, and the
    values of these inputs.

    They are no constants, because ONNX Runtime then replaces If nodes by their branches, which
    crashes the process in some models where they are nested.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    names = {value: f"myops_forced_{value}" for value in (True, False)}
    wanted = {**dict(choice.way), choice.outputs: branch}
    for graph in structure.graphs_of(copy.graph):
        for node in graph.node:
            if node.op_type == "If" and tuple(node.output) in wanted:
                node.input[0] = names[wanted[tuple(node.output)]]
    kind = onnx.TensorProto.BOOL
    copy.graph.input.extend(
        onnx.helper.make_tensor_value_info(name, kind, []) for name in names.values()
    )
    return copy, {name: np.array(value) for value, name in names.items()}
