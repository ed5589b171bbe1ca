"""`simplify`: onnxslim, with proof that custom nodes and numbers are still what they were."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from myops.onnx import _scopes, files
from myops.onnx.bodies import add_function_bodies, remove_function_bodies
from myops.onnx.schema import register_schemas
from myops.onnx.surgery import _graph, _inference, _storage, _trial
from myops.onnx.surgery._graph import GraphError


class SimplifyError(RuntimeError):
    """The tool lost a custom node or changed what the model computes."""


@dataclass(frozen=True)
class Simplified:
    """What `simplify` did.

    Attributes:
        model: The new model.
        before: How many nodes of each type there were, those in bodies included.
        after: The same afterwards.
        difference: The largest difference of an output on random inputs, relative to its largest
            element where that is above 1; None when the numbers were not compared.
    """

    model: onnx.ModelProto = field(repr=False)
    before: dict[str, int]
    after: dict[str, int]
    difference: float | None


def simplify(
    model: files.Model,
    f: str | os.PathLike[str] | None = None,
    *,
    check: bool = True,
    inputs: Mapping[str, np.ndarray] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    tolerance: float = 1e-4,
) -> Simplified:
    """Makes a model smaller: folds constants, fuses and removes nodes. Custom nodes are kept.

    onnxslim does the work. Our shapes are inferred through our own schemas, so that folding goes
    on behind our nodes. Then both models run in ONNX Runtime on the same inputs.

    Args:
        model: A path, the bytes of a file, or a ModelProto. It is not changed.
        f: File to write; nothing is written when a check fails. None: only return.
        check: Whether the numbers are compared.
        inputs: Inputs for it by name; what is left out is random.
        shapes: Shapes of random inputs whose lengths are dynamic; default: the same small length
            for each name of a length.
        tolerance: What the difference may be, relative to the largest element of an output.

    Returns:
        The new model, node counts before and after, and the difference.

    Raises:
        SimplifyError: A custom node was lost, or the numbers are not the same.
        ValueError: The original model does not run on the inputs, so that nothing can be compared.

    Example:
        >>> result = myops.onnx.simplify("model.onnx", "small.onnx")
        >>> result.before["Constant"], result.after.get("Constant", 0)
        (12, 0)
    """
    proto = _storage.load(model)
    if _storage.size(proto) >= files.LIMIT:
        raise GraphError(
            f"simplify: got {_storage.size(proto) / 2**30:.1f} GiB of weights, expected less than "
            "2 GiB: onnxslim needs the whole model in one message"
        )
    _storage.attach(proto, _storage.folder_of(model))
    register_schemas(proto)
    had_bodies = any(map(_scopes.is_body, proto.functions))
    source = remove_function_bodies(proto)
    result = _slim(source, [])
    if _lost(source, result):  # it merges equal nodes, which a custom op may not bear
        result = _slim(source, ["subexpression_elimination"])
    if lost := _lost(source, result):
        listed = ", ".join(f"{count} {name}" for name, count in lost.items())
        raise SimplifyError(f"simplify: onnxslim lost custom nodes: {listed}; nothing was written")
    _keep_interface(proto, result)
    if had_bodies and any(map(_scopes.is_ours, result.graph.node)):
        result = add_function_bodies(result)
    reason = _inference.problem(result)
    if reason and not _inference.problem(proto):
        raise SimplifyError(f"simplify: onnxslim made an invalid model: {reason}")
    difference = None
    if check:
        difference = _compare(proto, result, inputs or {}, shapes or {}, tolerance)
    if f is not None:
        files.save(result, f)
    return Simplified(result, _counts(proto), _counts(result), difference)


def _slim(model: onnx.ModelProto, skipped: list[str]) -> onnx.ModelProto:
    import onnxslim

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.functions[:]  # it would rewrite their constants in other types
    copy.ir_version = max(copy.ir_version, 4)  # before, weights had to be inputs
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = onnxslim.slim(copy, skip_optimizations=skipped or None)
    except Exception as error:  # whatever its passes run into
        raise SimplifyError(
            f"simplify: onnxslim gave up: {type(error).__name__}: {error}; nothing was written"
        ) from error
    if result is None:
        raise SimplifyError("simplify: onnxslim gave no model; nothing was written")
    result.functions.extend(model.functions)
    _graph.set_functions(result, _graph.used_functions(result))
    result.metadata_props.MergeFrom(
        item for item in model.metadata_props if item not in result.metadata_props
    )
    return result


def _custom(model: onnx.ModelProto) -> Counter[str]:
    """Custom nodes that the outputs depend on; those of functions in the file do not count."""
    index = _graph.Index(model)
    local = {(function.domain, function.name) for function in model.functions}
    queue, live = list(index.outputs), set()
    while queue:
        number = index.producers.get(queue.pop())
        if number is not None and number not in live:
            live.add(number)
            queue.extend(_graph.reads(model.graph.node[number]))
    nodes = _scopes.all_nodes(model.graph.node[number] for number in sorted(live))
    return Counter(
        f"{node.domain}::{node.op_type}"
        for node in nodes
        if _graph.is_custom(node.domain) and (node.domain, node.op_type) not in local
    )


def _lost(before: onnx.ModelProto, after: onnx.ModelProto) -> Counter[str]:
    return _custom(before) - _custom(after)


def _keep_interface(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """onnxslim turns inputs that have a default into constants; names and order must stay."""
    for what, old, new in (
        ("inputs", before.graph.input, after.graph.input),
        ("outputs", before.graph.output, after.graph.output),
    ):
        constants = {t.name for t in before.graph.initializer} if what == "inputs" else set()
        wanted = [item.name for item in old if item.name not in constants]
        got = [item.name for item in new]
        if wanted != got:
            raise SimplifyError(
                f"simplify: onnxslim changed the {what} from {', '.join(wanted) or 'none'} to "
                f"{', '.join(got) or 'none'}; nothing was written"
            )


def _compare(
    before: onnx.ModelProto, after: onnx.ModelProto, inputs: Any, shapes: Any, tolerance: float
) -> float:
    try:
        runs = _trial.run_somehow(before, inputs, shapes)
    except _trial.NoRunError as error:
        raise GraphError(
            f"simplify: the numbers cannot be compared, because the model itself does not run on "
            f"random inputs: {error} Give it inputs or shapes, or leave the comparison out "
            "(check=False, --no-check)."
        ) from error
    worst = 0.0
    for feeds, wanted in runs:
        try:
            got = _trial.run(after, feeds)
        except Exception as error:  # ONNX Runtime's errors share no base class but this
            raise SimplifyError(
                f"simplify: the simplified model does not run: {error}; nothing was written"
            ) from error
        for item, one, other in zip(before.graph.output, wanted, got, strict=True):
            found = _trial.difference(one, other)
            if not found <= tolerance:
                raise SimplifyError(
                    f"simplify: output {item.name!r} differs by {found:.3g} of its largest element "
                    f"after simplification, expected at most {tolerance:g}; nothing was written"
                )
            worst = max(worst, found)
    return worst


def _counts(model: onnx.ModelProto) -> dict[str, int]:
    nodes = _scopes.all_nodes(model.graph.node)
    found = Counter(
        f"{node.domain}::{node.op_type}" if _graph.is_custom(node.domain) else node.op_type
        for node in nodes
    )
    return dict(sorted(found.items()))
