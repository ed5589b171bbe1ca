"""Check "numbers": ONNX Runtime computes from the file what PyTorch computes from the model.

At the example inputs, at the changed inputs of the check "frozen_input", and at other lengths
where axes are dynamic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from myops.onnx.guards import frozen_input
from myops.onnx.guards._changes import resized
from myops.onnx.guards._difference import Difference, compare
from myops.onnx.guards._errors import ExportCheckError
from myops.onnx.guards._exported import CannotRunError, Exported, MissingLibraryError

NAME = "numbers"
# New lengths from (length, whether the axis is the first), tried in this order until PyTorch
# takes one: most models take any, some only multiples of 2, 4, 8 ...
_LENGTHS: list[Callable[[int, bool], int]] = [
    lambda length, first: length + 1,
    lambda length, first: 2 * length,
    lambda length, first: length + (1 if first else 32),
    lambda length, first: length + (1 if first else 0),
    lambda length, first: length if first else 2 * length,
    lambda length, first: max(1, length - 1),
]


def check(exported: Exported) -> None:
    if exported.random:
        exported.warn(
            f"{NAME}: two runs of the model in PyTorch differ, so the results were not compared."
        )
        return
    try:
        got = exported.ort_base
    except CannotRunError as error:
        exported.warn(f"{NAME}: the model was not run in ONNX Runtime: {error}")
        return
    except MissingLibraryError as error:
        raise ExportCheckError(
            NAME,
            f"ONNX Runtime knows no operator {error}, so the model could not be run. Give the "
            'library that has it: libraries=["path/to/library.so"].',
        ) from error
    except RuntimeError as error:
        raise ExportCheckError(
            NAME, f"ONNX Runtime cannot run the exported model at the example inputs: {error}."
        ) from error
    _judge(exported, compare(exported.base, got), "at the example inputs")
    for name, wanted, result in exported.pairs:
        found = compare(wanted, result)
        if found is not None:  # right at the example and wrong elsewhere
            raise ExportCheckError(
                frozen_input.NAME,
                f"with another value of {name!r} {_title(exported, found)} is not what PyTorch "
                f"computes, though it is with the example's: part of it was built in. {found.text}",
            )
    _check_other_lengths(exported)


def _judge(exported: Exported, found: Difference | None, where: str) -> None:
    if found is None:
        return
    raise ExportCheckError(
        NAME,
        f"{where} {_title(exported, found)} is not what PyTorch computes: {found.text}. Find the "
        "first layer that differs with myops.onnx.compare; often another opset_version or "
        "exporter is right.",
    )


def _title(exported: Exported, found: Difference) -> str:
    names = [item.name for item in exported.final.graph.output]
    return f"output {names[found.output]!r}" if found.output >= 0 else "the outputs"


def _check_other_lengths(exported: Exported) -> None:
    axes = _dynamic_axes(exported)
    if not axes:
        return
    refusal: Exception | None = None
    for changes, text in _other_lengths(exported, axes):
        try:
            wanted = exported.torch_run(changes)
        except Exception as error:
            refusal = error
            continue
        try:
            got = exported.ort_run(changes)
        except RuntimeError as error:
            raise ExportCheckError(
                NAME,
                f"PyTorch runs with {text}, but the exported model fails, so it is not as dynamic "
                f"as its axes say: {error}. Usually forward builds a length into the graph: look "
                "for int(x.shape[i]), or a tensor made with a fixed size.",
            ) from error
        _judge(exported, compare(wanted, got), f"with {text}")
        return
    if refusal is not None:
        lines = str(refusal).strip().splitlines() or [type(refusal).__name__]
        exported.warn(
            f"{NAME}: PyTorch refused all other lengths of the dynamic axes that were tried, so "
            f"they were not compared: {lines[0]}"
        )


def _dynamic_axes(exported: Exported) -> list[tuple[str, int]]:
    found = []
    for slot in exported.inputs.slots:
        if slot.name in exported.graph_inputs:
            dims = exported.graph_inputs[slot.name].type.tensor_type.shape.dim
            shape = exported.inputs.tensor(slot).shape
            found += [
                (slot.name, axis)
                for axis, dim in enumerate(dims)
                if not dim.HasField("dim_value") and axis < len(shape) and shape[axis] > 0
            ]
    return found


def _other_lengths(
    exported: Exported, axes: list[tuple[str, int]]
) -> Iterator[tuple[dict[str, torch.Tensor], str]]:
    """Changes of all dynamic axes at once; equal lengths stay equal."""
    examples: dict[str, Any] = {s.name: exported.inputs.tensor(s) for s in exported.inputs.slots}
    seen = []
    for rule in _LENGTHS:
        lengths: dict[str, dict[int, int]] = {}
        for name, axis in axes:
            old = examples[name].shape[axis]
            low, high = exported.limits.get((name, axis), (1, 2**31))
            new = min(max(rule(old, axis == 0), low), high)
            if new != old:
                lengths.setdefault(name, {})[axis] = new
        if lengths and lengths not in seen:
            seen.append(lengths)
            changes = {n: resized(examples[n], changed) for n, changed in lengths.items()}
            text = ", ".join(f"{n} of shape {list(t.shape)}" for n, t in changes.items())
            yield changes, text
