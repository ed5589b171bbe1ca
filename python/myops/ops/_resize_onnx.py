"""Resize in standard ONNX operators: which form, and the operator Resize itself.

`standard` takes the operator Resize wherever the Resize of the asked opset, as ONNX Runtime
computes it, does what our kernel does, and otherwise writes the same result with Gather, Mul, Add
and MatMul (`_resize_taps`).

What the operator cannot do, by opset:
    all     mode "area"
    18      half_pixel_symmetric (linear and cubic with `sizes`: it is half_pixel)
    13-17   antialias, keep_aspect_ratio_policy; roi, scales and sizes are for all axes
    11-12   the same; roi and scales must be there, empty where they have no meaning
    10      sizes, cubic; coordinates are asymmetric; nearest rounds down on an axis that grows and
            up on one that shrinks
    9       Upsample: as 10, and factors below 1 are illegal
and in ONNX Runtime's CPU kernel: float64 and bfloat16; uint8 without truncation; linear but for
rank 2 to 5 with at most the last 2 (rank 4) or 3 (rank 5) axes resized, cubic but for the last 2
axes of rank 2 or 4; tf_crop_and_resize on an axis whose length stays the same.

How exact: lengths always agree, "nearest" picks the same elements. float32, float16 and bfloat16
in the other modes agree within some 1e-6 of the largest element, or one last digit of their own;
float64 within 1e-12; uint8 within one step. Two reservations, where lengths or scales are only
known at run time: when no length changes though a scale is not 1 (5 * 1.1 is 5), ONNX Runtime
copies in "cubic" and, but for `interpolate`, in the other modes; and before release 1.26 it splits
the ties of round_prefer_floor and round_prefer_ceil at random, but for `interpolate`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from myops.onnx import arrays
from myops.onnx.arrays import Array, constant
from myops.ops._resize_axes import (
    ResizedAxes,
    axes_of,
    copies_unchanged,
    listed_axes,
    nearest_index,
    small_picture,
)
from myops.ops._resize_operator import (
    antialiases,
    every,
    factors_of,
    has_torch_windows,
    is_plain,
    resize_by_operator,
)
from myops.ops._resize_taps import resize_by_taps

_LONGEST = 1 << 16  # output indices that are compared where a length is unknown


def standard(g: Any) -> list[str]:
    """Writes one resize in standard operators; see the head of this file for the rules."""
    if g.opset < 9:
        g.refuse("there is no Resize, and no Upsample with computed factors", "Use opset 11 or up.")
    obstacle = _obstacle(g)
    if obstacle and g.shape("X") is None:
        g.refuse(
            f"{obstacle}, and the rank of X, which other operators need, is unknown",
            "Use opset 19 or up, or keep the value_info of the model.",
        )
    if obstacle or _prefers_taps(g.hints):
        return [resize_by_taps(g)]
    return [resize_by_operator(g)]


def _obstacle(g: Any) -> str:
    """Why the operator of this opset would give another result; "" when it would not."""
    mode, kind = g.attribute("mode"), g.attribute("coordinate_transformation_mode")
    policy = g.attribute("keep_aspect_ratio_policy")
    aspect = bool(g.input("sizes")) and policy != "stretch"
    if mode == "area":
        return '"area" is not a mode of Resize'
    # In the smooth modes it is half_pixel when sizes are given, but for a last digit.
    differs = bool(g.input("scales")) or aspect or mode == "nearest"
    if g.opset < 19 and kind == "half_pixel_symmetric" and differs:
        return "half_pixel_symmetric is new in opset 19"
    if g.opset < 18 and antialiases(g):
        return "antialias is new in opset 18"
    if g.attribute("antialias") and has_torch_windows(g):
        return "torch's antialiasing with align_corners has other windows"
    if g.opset < 18 and aspect:
        return "keep_aspect_ratio_policy is new in opset 18"
    if g.shape("X") is None and (g.opset < 18 or min(g.attribute("axes"), default=0) < 0):
        return "the rank of X, which decides how long scales and sizes are, is unknown"
    if g.opset < 11 and mode == "cubic":
        return '"cubic" is new in opset 11'
    if g.opset < 11 and mode == "linear" and kind != "asymmetric":
        return f"before opset 11 the coordinates are asymmetric, not {kind}"
    if mode == "nearest" and (g.opset < 11 or g.attribute("torch_arithmetic")):
        return _nearest_obstacle(g)
    if g.opset < 10 and not every(factors_of(g), lambda factor: factor >= 1):
        return "Upsample of opset 9 takes no factor that is, or could be, below 1"
    return ""


def _nearest_obstacle(g: Any) -> str:
    reason = "Resize would pick other elements"
    if g.opset < 10 and not every(factors_of(g), lambda factor: factor >= 1):
        return "Upsample of opset 9 takes no factor that is, or could be, below 1"
    if g.shape("X") is None or g.attribute("coordinate_transformation_mode") == (
        "tf_crop_and_resize"
    ):
        return reason
    return "" if all(_picks_alike(g, p) for p in range(len(listed_axes(g)))) else reason


def _picks_alike(g: Any, place: int) -> bool:
    """Whether the operator's "nearest" selects the same elements on one axis as the kernel."""
    axis, factor = axes_of(g, [place]), factors_of(g).take([place])
    if factor.value is None and axis.scale is not None:
        factor = axis.scale.cast(np.float32)  # the length is unknown, so the given factor is used
    if factor.value is None:
        return False
    if axis.output.value is not None:
        return _same_picks(g, axis, factor, small_picture(g, listed_axes(g)[place]))
    if axis.scale is None or axis.scale.value is None or not every(axis.scale, is_plain):
        return False
    if g.attribute("coordinate_transformation_mode") not in ("asymmetric", "half_pixel"):
        return False  # the coordinates depend on the lengths
    scale = float(axis.scale.value[0])
    lengths = [*range(1, 129), max(1, int(_LONGEST / scale))]
    for length in lengths:
        source = constant(g, [length], np.int64)
        result = constant(g, [int(length * scale)], np.int64)
        known = ResizedAxes(source, result, axis.scale)
        for small in (None, constant(g, [True], np.bool_)):
            if not _same_picks(g, known, factor, small):
                return False
    return True


def _same_picks(g: Any, axis: ResizedAxes, factor: Array, small: Array | None) -> bool:
    last = axis.input - 1
    ours = nearest_index(g, axis, np.float32, small, None).at_least(0).at_most(last)
    scaled = ResizedAxes(axis.input, axis.output, factor.cast(np.float64))
    operator = _AsOperator(g, every(factor, lambda f: f < 1))
    for tie in (1e-6, 0):  # ONNX Runtime since about 1.26, and before
        theirs = nearest_index(operator, scaled, np.float32, None, None, tie)
        if every(factor, lambda f: f == 1):
            theirs = arrays.arange(axis.output)
        theirs = theirs.at_least(0).at_most(last)
        if ours.value is None or theirs.value is None:
            return False
        if not np.array_equal(ours.value, theirs.value):
            return False
    return True


class _AsOperator:
    """The call as the operator of the opset reads it: without torch's rounding."""

    def __init__(self, g: Any, shrinks: bool) -> None:
        self._g, self._shrinks = g, shrinks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._g, name)

    def attribute(self, name: str) -> Any:
        if name == "torch_arithmetic":
            return False
        if self._g.opset < 11 and name == "coordinate_transformation_mode":
            return "asymmetric"
        if self._g.opset < 11 and name == "nearest_mode":
            return "ceil" if self._shrinks else "floor"
        return self._g.attribute(name)


def _prefers_taps(g: Any) -> bool:
    """Whether ONNX Runtime's kernel refuses a call that the operator allows, or differs from it."""
    shape, mode = g.shape("X"), g.attribute("mode")
    if shape is None:
        return False
    axes = axes_of(g, list(range(len(listed_axes(g)))))
    crops = g.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"
    same = axes.output.equals(axes.input).value
    if crops and (same is None or bool(same.any())):
        return True
    scaled = axes.scale is not None and not every(axes.scale, lambda scale: scale == 1)
    if g.dtype("X") == np.float64 or (scaled and same is not None and bool(same.all())):
        return True
    if g.attribute("antialias") and scaled and not copies_unchanged(g) and _may_stay(axes):
        return True
    rank, changed = len(shape), {axis for axis in listed_axes(g) if not _is_kept(g, axis)}
    if mode == "nearest" or (mode == "linear" and rank in (2, 3)):
        return False
    if rank == 5 and mode == "linear":
        return not changed <= {2, 3, 4}
    return not (rank == 2 or (rank == 4 and changed <= {2, 3}))


def _may_stay(axes: ResizedAxes) -> bool:
    """Whether an axis may keep its length under a scale other than 1."""
    if axes.output.value is not None and axes.input.value is not None:
        return bool((axes.output.value == axes.input.value).any())
    return axes.scale is None or not every(axes.scale, lambda s: (s <= 1) | (s >= 1.5))


def _is_kept(g: Any, axis: int) -> bool:
    one = axes_of(g, [listed_axes(g).index(axis)])
    if one.scale is not None:
        return every(one.scale, lambda scale: scale == 1)
    return every(one.output.equals(one.input), lambda same: same)
