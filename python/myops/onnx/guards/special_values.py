"""The part of the check "numbers" about zeros, ones, large, tiny and negative numbers.

Only these show that an optimizer dropped a small constant, such as the 1e-9 in x / (x + 1e-9), or
that a division rounds towards zero where PyTorch rounds down.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from myops.onnx.guards import _advice, _origin
from myops.onnx.guards._changes import noisy, scaled
from myops.onnx.guards._difference import compare
from myops.onnx.guards._errors import ExportCheckError
from myops.onnx.guards._excuses import chooses_among_equals, excuse
from myops.onnx.guards._exported import Exported

NAME = "numbers"
SECONDS = 15.0
_LARGE, _TINY = 1e4, 1e-12
_COORDINATES = 5  # last axes up to this length may hold boxes or points, which affect the run time


def check(exported: Exported) -> None:
    """Compares at special numbers, unless shapes change or PyTorch's result depends on rounding.

    Raises:
        ExportCheckError: The results differ.
    """
    examples = {slot.name: exported.inputs.tensor(slot) for slot in exported.inputs.slots}
    given = [
        name for name, value in examples.items() if value.numel() and name in exported.graph_inputs
    ]
    floats = [name for name in given if examples[name].is_floating_point()]
    signed = [name for name in given if _may_be_negative(examples[name])]
    end = time.perf_counter() + SECONDS
    for title, change in _CHANGES.items():
        kind = signed if title == "negative" else floats
        groups = [kind] if len(kind) == 1 else [*([name] for name in kind), kind]
        for names in filter(None, groups):
            if time.perf_counter() + 3 * exported.seconds > end:
                return  # the model is slow, as the check of other lengths has found
            changes = {
                name: change(examples[name])
                for name in names
                if title != "large" or _may_be_large(examples[name])
            }
            if changes:
                _compare(exported, changes, title)


def _may_be_large(value: torch.Tensor) -> bool:
    return value.dim() >= 3 and value.shape[-1] > _COORDINATES


def _may_be_negative(value: torch.Tensor) -> bool:
    """Whether negative numbers may be tried for an input: it has none, and its numbers are probably
    no indices, counts or factors."""
    if value.is_floating_point():
        return _may_be_large(value) and bool((value >= 0).all())
    signed = value.dtype in (torch.int8, torch.int16, torch.int32, torch.int64)
    return signed and value.dim() > 0 and bool((value >= 0).all())


def _negative(value: torch.Tensor) -> torch.Tensor:
    return -value - 0.5 if value.is_floating_point() else -value - 1


def _large(value: torch.Tensor) -> torch.Tensor:
    return scaled(value, _LARGE if value.dtype in (torch.float32, torch.float64) else 8)


def _tiny(value: torch.Tensor) -> torch.Tensor:
    return scaled(value, _TINY if value.dtype != torch.float16 else 1e-4)


_CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "zeros": torch.zeros_like,
    "ones": torch.ones_like,
    "large": _large,
    "tiny": _tiny,
    "negative": _negative,
}


def _compare(exported: Exported, changes: dict[str, torch.Tensor], title: str) -> None:
    try:
        wanted = exported.torch_run(changes)
    except Exception:  # no legal value for this model
        return
    if [item.shape for item in wanted] != [item.shape for item in exported.base]:
        return  # it decides shapes
    failure: Exception | None = None
    found = None
    try:
        got = exported.ort_run(changes)
    except RuntimeError as error:
        failure, text = error, f"PyTorch runs, but the exported model fails: {error}"
    else:
        found = compare(wanted, got)
        if found is None:
            exported.traced_reads.compared(changes)
            return
        if found.output >= 0 and _in_doubt(exported, changes, wanted, got, title):
            return
        reason = excuse(exported, changes, wanted, got)
        if not reason and title == "large" and chooses_among_equals(exported, changes):
            reason = (
                "The model takes the largest of numbers that saturate there: many are equal, and "
                "which of them is taken depends on how each runtime rounds"
            )
        if reason:
            exported.warn_excused(f"with {', '.join(changes)} {title}: {found.text}", reason)
            return
        names = [item.name for item in exported.final.graph.output]
        output = f"output {names[found.output]!r}" if found.output >= 0 else "the outputs"
        text = f"{output} is not what PyTorch computes: {found.text}"
    words = {"large": f"{_LARGE:g} times as large", "tiny": f"{_TINY:g} times as large"}

    def origin() -> str:
        if found is None:
            return _origin.of_failure(exported, failure) if failure is not None else ""
        return _origin.of_difference(exported, changes, found)

    raise ExportCheckError(
        NAME,
        f"with {', '.join(changes)} {words.get(title, 'all ' + title)} {text}. "
        f"{_advice.of_values(exported, changes, title, origin).strip()}",
    )


def _in_doubt(
    exported: Exported, changes: dict[str, Any], wanted: list[Any], got: list[Any], title: str
) -> bool:
    """Whether PyTorch's own result depends on rounding: ties, cancellation, overflow.

    If only one side is NaN or infinite, the result does not depend on rounding, except for overflow
    of large numbers.
    """
    if title != "large" and any(
        a.dtype.kind == "f" and (np.isfinite(a) != np.isfinite(np.asarray(b))).any()
        for a, b in zip(wanted, got, strict=True)
        if a.shape == np.asarray(b).shape
    ):
        return False
    nearby = {name: noisy(value, 1e-6) for name, value in changes.items()}
    try:
        moved = exported.torch_run(nearby)
    except Exception:
        return True
    return compare(wanted, moved) is not None
