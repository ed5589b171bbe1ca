"""Reasons for a difference between PyTorch and ONNX Runtime that is no fault of the file.

Rounding may change PyTorch's own result by more than the tolerance, as in deep networks whose
layers amplify small differences. The result may depend on which of equal values is selected. It may
be NaN. And it may be wrong because of a known fault of torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from myops._torch.interpolate import OnePixelWide
from myops._torch.observing import ObservingMode
from myops.onnx.guards._difference import compare, other_dtype
from myops.onnx.guards._exported import Exported

# The noise in units in the last place. A layer that sums makes errors of many units in float32 and
# float64. In a 16-bit type, as many would be several percent, and its sums are rounded once.
_ROUNDINGS, _ROUNDINGS_OF_16_BITS = 64, 4
# The noise is drawn once, and added to the inputs only; with other noise, the largest and the mean
# change could be this many times larger. Where rounding is amplified, a few elements change far
# more than the others.
_TIMES = (32, 4)

_CHOICES = {f"aten::{name}" for name in ("topk", "sort", "argmax", "argmin", "max", "min")}


def excuse(exported: Exported, changes: Any, wanted: Sequence[Any], got: Sequence[Any]) -> str:
    """The reason why results may differ; empty if the file has to be refused.

    Args:
        changes: The inputs that are not the example's.
        wanted, got: What PyTorch and ONNX Runtime computed from them.
    """
    arrays = [np.asarray(item) for item in got]
    if [a.shape for a in wanted] != [b.shape for b in arrays]:
        return ""
    if any(other_dtype(a, b) for a, b in zip(wanted, arrays, strict=True)):
        return ""
    return (
        _no_number(exported, wanted, got)
        or _known_fault(exported, changes, got)
        or _equal_values(exported, changes, got)
        or _all_masked(exported, changes, got)
        or _rounding(exported, changes, wanted, got)
    )


def chooses_among_equals(exported: Exported, changes: Any) -> bool:
    """Whether the model selects the largest or smallest of numbers many of which are equal."""
    watch = _EqualCandidates()
    _run_again(exported, changes, watch)
    return watch.found


def _run_again(exported: Exported, changes: Any, watch: Any = None) -> list[Any] | None:
    """PyTorch's results; None where the model's code refuses these inputs."""
    try:
        return exported.torch_run(changes, watch)
    except Exception:  # the user's model, which may raise anything: then nothing is excused
        return None


def _is_right_with(exported: Exported, changes: Any, got: Sequence[Any], watch: Any) -> bool:
    """Whether PyTorch computes what the file does while it is changed in one respect."""
    right = _run_again(exported, changes, watch)
    return right is not None and watch.found and compare(right, got) is None


def _known_fault(exported: Exported, changes: Any, got: Sequence[Any]) -> str:
    if not _is_right_with(exported, changes, got, OnePixelWide()):
        return ""
    return (
        "PyTorch's own result is wrong there: torch gives all rows of an antialiased image the "
        "values of the first where it is one pixel wide. The file computes every row"
    )


def _no_number(exported: Exported, wanted: Sequence[Any], got: Sequence[Any]) -> str:
    """The reason, if all elements that differ are NaN in PyTorch, which has no NaN at the example's
    lengths."""
    if any(a.dtype.kind in "fc" and np.isnan(a).any() for a in exported.base):
        return ""
    missing = [np.isnan(a) if a.dtype.kind in "fc" else np.zeros(a.shape, bool) for a in wanted]
    if not any(item.any() for item in missing):
        return ""
    filled = [
        np.where(places, a, np.asarray(b)).astype(a.dtype)
        for a, b, places in zip(wanted, got, missing, strict=True)
    ]
    if compare(wanted, filled) is not None:
        return ""
    return (
        "PyTorch's own result has NaN there, as from a division by a length - 1 that is 0, and "
        "what is made of NaN differs between runtimes. The other elements are equal"
    )


class _Watch(ObservingMode):
    """found: Whether one of the operators was of its kind."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False


class _Masked(_Watch):
    """In this context, attention without any position gives NaN, as a softmax of -inf only does."""

    def observed(self, function: Any, args: Any, given: dict[str, Any]) -> Any:
        result = function(*args, **given)
        name = function.name().partition(".")[0]
        if name == "aten::_safe_softmax":
            scores, axis = args[0], args[1]
            return self._without(result, torch.isneginf(scores).all(axis, keepdim=True))
        mask = given.get("attn_mask")
        if name != "aten::_scaled_dot_product_flash_attention_for_cpu" or mask is None:
            return result
        nothing = ~mask if mask.dtype == torch.bool else torch.isneginf(mask)
        return self._without(result[0], nothing.all(-1, keepdim=True)), *result[1:]

    def _without(self, result: torch.Tensor, nothing: torch.Tensor) -> torch.Tensor:
        self.found = self.found or bool(nothing.any())
        return result.masked_fill(nothing, torch.nan)


def _all_masked(exported: Exported, changes: Any, got: Sequence[Any]) -> str:
    if not _is_right_with(exported, changes, got, _Masked()):
        return ""
    return (
        "PyTorch's attention gives 0 where a mask leaves no place to attend to, the file NaN. If "
        "such inputs come, use a mask of -1e4 instead of -inf or bool"
    )


class _EqualCandidates(_Watch):
    """Records whether at least one in a hundred of the candidates of a selection equals another.

    Numbers are equal here if they differ by less than 1e-6 of the largest, or of 1: ONNX Runtime
    ends the range of functions such as Sigmoid earlier than torch.
    """

    def observed(self, function: Any, args: Any, given: dict[str, Any]) -> Any:
        if function.name().partition(".")[0] in _CHOICES and args[0].numel() > 1:
            ordered = args[0].detach().flatten().double().sort().values
            equal = ordered.diff() <= 1e-6 * max(1.0, float(ordered.abs().max()))
            self.found = self.found or 100 * int(equal.sum()) >= equal.numel()
        return function(*args, **given)


class _FirstOfEqual(_Watch):
    """In this context, topk and sort order equal values by their indices."""

    def observed(self, function: Any, args: Any, given: dict[str, Any]) -> Any:
        aten = torch.ops.aten
        if function not in (aten.topk.default, aten.sort.default):
            return function(*args, **given)
        self.found = True
        declared = (item.name for item in function._schema.arguments)
        given |= dict(zip(declared, args, strict=False))
        x, dim = given["self"], given.get("dim", -1)
        down = given.get("largest", True) if "k" in given else given.get("descending", False)
        values, places = torch.sort(x, dim=dim, descending=down, stable=True)
        if "k" not in given or not x.dim():
            return values, places
        return values.narrow(dim, 0, given["k"]), places.narrow(dim, 0, given["k"])


def _equal_values(exported: Exported, changes: Any, got: Sequence[Any]) -> str:
    """The reason, if the results are equal once PyTorch selects the first of equal values, as ONNX
    requires; PyTorch may select any of them."""
    if not _is_right_with(exported, changes, got, _FirstOfEqual()):
        return ""
    return (
        "PyTorch's topk and sort give equal values in any order. With the lower index first, as "
        "ONNX demands it, PyTorch computes the same"
    )


def _rounding(exported: Exported, changes: Any, wanted: Sequence[Any], got: Sequence[Any]) -> str:
    """The reason, if PyTorch's result changes as much when the inputs change by a few roundings.

    The mean change is compared: a tie that is decided differently changes one element by much, but
    is no reason for differences of other elements.
    """
    tensors = {slot.name: exported.inputs.tensor(slot) for slot in exported.inputs.slots} | changes
    nearby = {
        name: _rounded(value)
        for name, value in tensors.items()
        if value.is_floating_point() and value.dim()
    }
    if not nearby:
        return ""
    moved = _run_again(exported, {**changes, **nearby})
    if moved is None:
        return ""
    for before, after, result in zip(wanted, moved, got, strict=True):
        if compare([before], [result]) is None:
            continue
        if before.shape != after.shape:
            return ""
        allowed, found = _distances(before, after), _distances(before, np.asarray(result))
        # A number that noise makes infinite, or the reverse, says nothing about sizes.
        if not all(f <= t * n < np.inf for n, f, t in zip(allowed, found, _TIMES, strict=True)):
            return ""
    return (
        "PyTorch's own result changes by as much when the inputs change by a few roundings: the "
        "model amplifies them"
    )


def _rounded(value: torch.Tensor) -> torch.Tensor:
    """Changes each element by a few roundings of its own size; zeros and tiny numbers remain."""
    count = _ROUNDINGS if value.element_size() > 2 else _ROUNDINGS_OF_16_BITS
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
    factors = 1 + count * torch.finfo(value.dtype).eps * noise
    return (value.double() * factors).to(value.dtype)


def _distances(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """The largest and the mean difference; infinity where only one is a number."""
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    a, b = one.astype(wide), other.astype(wide)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0, np.abs(a - b))
    apart = np.where(np.isnan(apart), np.inf, apart)
    return float(apart.max(initial=0)), float(apart.mean()) if apart.size else 0.0
