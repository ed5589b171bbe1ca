"""What TorchScript compiles in place of functions whose arguments may have several types.

`torch.jit.script` reads the source of a function and needs one type for each argument: it has no
use for `size: int | Sequence[int] | Tensor | None`. `overload` gives it one signature for each
combination that a program may use, and the functions here do the work of the public ones in
TorchScript's subset of Python. Results are the same. Those for interpolate are in
_scripting_interpolate.py.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Signatures are read by TorchScript, partly from these objects and partly from the source, so
# annotations in this file are no strings.

# One number or two. A private name of torch: without it, only scripting needs a list.
BroadcastingList2: Any = getattr(torch._jit_internal, "BroadcastingList2", list)


def overload(function: Callable[..., Any], *signatures: Callable[..., Any]) -> None:
    """Lets `torch.jit.script` compile `function` once for each of `signatures`, in this order.

    They are functions whose body is `...`, with the parameters and defaults of `function`.
    """
    register = getattr(torch._jit_internal, "_overload", None)
    if register is None:  # a private name of torch: without it, only scripting does not work
        return
    for signature in signatures:
        signature.__name__ = function.__name__
        signature.__qualname__ = function.__qualname__
        signature.__module__ = function.__module__
        register(signature)


# ---- resize


def resize_by_numbers(
    x: Tensor,
    scales: list[float] | None = None,
    sizes: list[int] | None = None,
    roi: list[float] | None = None,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    extrapolation_value: float = 0.0,
    antialias: bool = False,
    axes: list[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
    out: Tensor | None = None,
) -> Tensor: ...


def resize_by_integers(
    x: Tensor,
    scales: list[int] | None = None,
    sizes: list[int] | None = None,
    roi: list[float] | None = None,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    extrapolation_value: float = 0.0,
    antialias: bool = False,
    axes: list[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
    out: Tensor | None = None,
) -> Tensor: ...


def resize_by_tensors(
    x: Tensor,
    scales: Tensor | None = None,
    sizes: Tensor | None = None,
    roi: Tensor | None = None,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    extrapolation_value: float = 0.0,
    antialias: bool = False,
    axes: list[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
    out: Tensor | None = None,
) -> Tensor: ...


def call_by_numbers(
    x: Tensor,
    scales: list[float] | None,
    sizes: list[int] | None,
    roi: list[float] | None,
    mode: str,
    coordinate_transformation_mode: str,
    nearest_mode: str,
    cubic_coeff_a: float,
    exclude_outside: bool,
    extrapolation_value: float,
    antialias: bool,
    axes: list[int] | None,
    keep_aspect_ratio_policy: str,
    torch_arithmetic: bool,
    out: Tensor | None,
) -> Tensor: ...


def call_by_tensors(
    x: Tensor,
    scales: Tensor | None,
    sizes: Tensor | None,
    roi: Tensor | None,
    mode: str,
    coordinate_transformation_mode: str,
    nearest_mode: str,
    cubic_coeff_a: float,
    exclude_outside: bool,
    extrapolation_value: float,
    antialias: bool,
    axes: list[int] | None,
    keep_aspect_ratio_policy: str,
    torch_arithmetic: bool,
    out: Tensor | None,
) -> Tensor: ...


def resize(
    x: Tensor,
    scales: Any,
    sizes: Any,
    roi: Any,
    mode: str,
    coordinate_transformation_mode: str,
    nearest_mode: str,
    cubic_coeff_a: float,
    exclude_outside: bool,
    extrapolation_value: float,
    antialias: bool,
    axes: Any,
    keep_aspect_ratio_policy: str,
    torch_arithmetic: bool,
    out: Tensor | None,
) -> Tensor:
    """The op; its inputs are all lists or all tensors, which the dispatcher tells apart."""
    if out is not None:
        torch.ops.myops.resize(
            x, roi, scales, sizes, antialias=antialias, axes=axes,
            coordinate_transformation_mode=coordinate_transformation_mode,
            cubic_coeff_a=cubic_coeff_a, exclude_outside=exclude_outside,
            extrapolation_value=extrapolation_value,
            keep_aspect_ratio_policy=keep_aspect_ratio_policy, mode=mode,
            nearest_mode=nearest_mode, torch_arithmetic=torch_arithmetic, out=out,
        )  # fmt: skip
        return out
    return torch.ops.myops.resize(
        x, roi, scales, sizes, antialias=antialias, axes=axes,
        coordinate_transformation_mode=coordinate_transformation_mode,
        cubic_coeff_a=cubic_coeff_a, exclude_outside=exclude_outside,
        extrapolation_value=extrapolation_value,
        keep_aspect_ratio_policy=keep_aspect_ratio_policy, mode=mode,
        nearest_mode=nearest_mode, torch_arithmetic=torch_arithmetic,
    )  # fmt: skip


overload(resize, call_by_numbers, call_by_tensors)


# ---- deform_conv2d


def deform_conv2d_by_pairs(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: BroadcastingList2[int] = 1,
    padding: BroadcastingList2[int] = 0,
    dilation: BroadcastingList2[int] = 1,
    mask: Tensor | None = None,
) -> Tensor: ...


def _expect_rank_4(name: str, item: Tensor) -> None:
    if item.dim() != 4:
        raise RuntimeError(
            f"deform_conv2d: {name}: got rank {item.dim()}, shape {item.size()}, expected rank 4"
        )


def deform(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    mask: Tensor | None,
) -> Tensor:
    _expect_rank_4("input", input)
    _expect_rank_4("offset", offset)
    _expect_rank_4("weight", weight)
    pads = padding
    if len(padding) == 2:
        pads = [padding[0], padding[1], padding[0], padding[1]]
    taps = 2 * weight.size(2) * weight.size(3)
    depth = weight.size(1)
    if depth * taps == 0:
        raise RuntimeError(
            f"deform_conv2d: weight: got shape {weight.size()}, expected one input channel or more "
            "for each group, and one tap or more"
        )
    # If there is a remainder, the op refuses the call.
    group = input.size(1) // depth
    offset_group = offset.size(1) // taps
    return torch.ops.myops.deform_conv2d(
        input,
        weight,
        offset,
        bias,
        mask,
        dilations=dilation,
        group=group,
        offset_group=offset_group,
        pads=pads,
        strides=stride,
    )
