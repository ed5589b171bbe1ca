"""When a difference between PyTorch and ONNX Runtime is no fault of the file.

PyTorch's own result may depend on rounding more than the tolerance allows, as it does in deep
networks whose layers amplify small differences; it may depend on which of equal values is taken
first; it may be no number; and it may be wrong where torch has a known fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from myops._torch.interpolate import OnePixelWide
from myops.onnx.guards._difference import compare
from myops.onnx.guards._exported import Exported

# The noise in units in the last place. A layer that sums makes many in float32 and float64; of a
# 16-bit type so many would be percents, and its sums are rounded once.
_ROUNDINGS, _ROUNDINGS_OF_16_BITS = 64, 4
# One draw of noise, and at the inputs only: the next one's largest and mean change are this many
# times larger at most. Of amplified rounding a few elements are far beyond the others.
_TIMES = (32, 4)

_CHOICES = {f"aten::{name}" for name in ("topk", "sort", "argmax", "argmin", "max", "min")}


def excuse(exported: Exported, changes: Any, wanted: Sequence[Any], got: Sequence[Any]) -> str:
    """Why results that differ may do so; empty where the file is to be refused.

    Args:
        changes: The inputs that are not the example's.
        wanted, got: What PyTorch and ONNX Runtime computed from them.
    """
    if [a.shape for a in wanted] != [np.asarray(b).shape for b in got]:
        return ""
    return (
        _no_number(exported, wanted, got)
        or _known_fault(exported, changes, got)
        or _equal_values(exported, changes, got)
        or _all_masked(exported, changes, got)
        or _rounding(exported, changes, wanted, got)
    )


def chooses_among_equals(exported: Exported, changes: Any) -> bool:
    """Whether the model takes the largest or smallest of numbers many of which are equal there."""
    watch = _EqualCandidates()
    _run_again(exported, changes, watch)
    return watch.found


def _run_again(exported: Exported, changes: Any, watch: Any = None) -> list[Any] | None:
    """PyTorch's results; None where the model's code refuses these inputs."""
    try:
        return exported.torch_run(changes, watch)
    except Exception:  # the user's model, which may raise anything: then nothing is excused
        return None


def _known_fault(exported: Exported, changes: Any, got: Sequence[Any]) -> str:
    repaired = OnePixelWide()
    right = _run_again(exported, changes, repaired)
    if right is None or not repaired.found or compare(right, got) is not None:
        return ""
    return (
        "PyTorch's own result is wrong there: torch gives all rows of an antialiased image the "
        "values of the first where it is one pixel wide. The file computes every row"
    )


def _no_number(exported: Exported, wanted: Sequence[Any], got: Sequence[Any]) -> str:
    """At other lengths: whether all that differs is NaN in PyTorch, which never is so otherwise."""
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


class _Masked(TorchDispatchMode):
    """While it is entered, attention to nothing gives NaN, as a softmax of -inf alone does."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = dict(kwargs or {})
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
    masked = _Masked()
    right = _run_again(exported, changes, masked)
    if right is None or not masked.found or compare(right, got) is not None:
        return ""
    return (
        "PyTorch's attention gives 0 where a mask leaves no place to attend to, the file NaN. If "
        "such inputs come, use a mask of -1e4 instead of -inf or bool"
    )


class _EqualCandidates(TorchDispatchMode):
    """Notes whether one number in a hundred that is chosen among, or more, equals another.

    Numbers are equal here if they differ by less than 1e-6 of the largest, or of 1: ONNX Runtime
    ends the range of functions such as Sigmoid earlier than torch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function.name().partition(".")[0] in _CHOICES and args[0].numel() > 1:
            ordered = args[0].detach().flatten().double().sort().values
            equal = ordered.diff() <= 1e-6 * max(1.0, float(ordered.abs().max()))
            self.found = self.found or 100 * int(equal.sum()) >= equal.numel()
        return function(*args, **(kwargs or {}))


class _FirstOfEqual(TorchDispatchMode):
    """While it is entered, topk and sort give equal values in the order of their indices."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = dict(kwargs or {})
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
    """ONNX takes the first of equal values; PyTorch any of them, which its choice must not show."""
    ordered = _FirstOfEqual()
    right = _run_again(exported, changes, ordered)
    if right is None or not ordered.found or compare(right, got) is not None:
        return ""
    return (
        "PyTorch's topk and sort give equal values in any order. With the lower index first, as "
        "ONNX demands it, PyTorch computes the same"
    )


def _rounding(exported: Exported, changes: Any, wanted: Sequence[Any], got: Sequence[Any]) -> str:
    """Whether PyTorch's result moves as far when the inputs change by a few roundings.

    The mean change counts: a tie that falls the other way is large at one place, and excuses
    nothing elsewhere.
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
        # A number that noise makes infinite, or the other way round, says nothing about sizes.
        if not all(f <= t * n < np.inf for n, f, t in zip(allowed, found, _TIMES, strict=True)):
            return ""
    return (
        "PyTorch's own result changes by as much when the inputs change by a few roundings: the "
        "model amplifies them"
    )


def _rounded(value: torch.Tensor) -> torch.Tensor:
    """Each element changed by a few roundings of its own size: zeros and tiny numbers stay so."""
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
