"""What TorchScript compiles in place of functions whose arguments may have several types.

`torch.jit.script` reads the source of a function and needs one type for each argument: it has no
use for `size: int | Sequence[int] | Tensor | None`. `overload` gives it one signature for each
combination that a program may use, and the functions here do the work of the public ones in
TorchScript's subset of Python. Results are the same.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Signatures are read by TorchScript, partly from these objects and partly from the source, so
# annotations in this file are no strings.

# One number or two. A private name of torch: without it only scripting wants a list.
BroadcastingList2: Any = getattr(torch._jit_internal, "BroadcastingList2", list)


def overload(function: Callable[..., Any], *signatures: Callable[..., Any]) -> None:
    """Lets `torch.jit.script` compile `function` once for each of `signatures`, in this order.

    They are functions whose body is `...`, with the parameters and defaults of `function`.
    """
    register = getattr(torch._jit_internal, "_overload", None)
    if register is None:  # a private name of torch: without it nothing but scripting is lost
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


# ---- interpolate


def interpolate_by_float(
    input: Tensor,
    size: int | None = None,
    scale_factor: float | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    out: Tensor | None = None,
) -> Tensor: ...


def interpolate_by_floats(
    input: Tensor,
    size: list[int] | None = None,
    scale_factor: list[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    out: Tensor | None = None,
) -> Tensor: ...


def interpolate_by_integer(
    input: Tensor,
    size: int | None = None,
    scale_factor: int | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    out: Tensor | None = None,
) -> Tensor: ...


def interpolate_by_integers(
    input: Tensor,
    size: list[int] | None = None,
    scale_factor: list[int] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    out: Tensor | None = None,
) -> Tensor: ...


def interpolate_by_tensor(
    input: Tensor,
    size: Tensor | None = None,
    scale_factor: Tensor | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    out: Tensor | None = None,
) -> Tensor: ...


def check_interpolate(
    rank: int,
    sized: bool,
    scaled: bool,
    mode: str,
    align_corners: bool | None,
    recompute: bool | None,
    antialias: bool,
) -> None:
    """Refuses options that do not fit together; in eager programs too."""
    wanted = 0
    if mode == "linear":
        wanted = 3
    elif mode == "bilinear" or mode == "bicubic":
        wanted = 4
    elif mode == "trilinear":
        wanted = 5
    elif mode != "nearest" and mode != "nearest-exact" and mode != "area":
        raise ValueError(
            f"interpolate: mode: got '{mode}', expected one of nearest, nearest-exact, area, "
            "linear, bilinear, trilinear, bicubic"
        )
    if wanted > 0 and rank != wanted:
        raise ValueError(f'interpolate: input: got rank {rank}, expected {wanted} for "{mode}"')
    if rank < 3 or rank > 5:
        raise ValueError(f"interpolate: input: got rank {rank}, expected 3, 4 or 5")
    if wanted == 0 and align_corners is not None:
        raise ValueError(
            f'interpolate: align_corners: got {align_corners}, expected None: "{mode}" does not '
            "know it"
        )
    if sized == scaled:
        count = 2 if sized else 0
        raise ValueError(
            f"interpolate: size and scale_factor: got {count} of them, expected exactly one"
        )
    if sized and recompute is not None and recompute:
        raise ValueError(
            "interpolate: recompute_scale_factor: got True, expected None or False when size is "
            "given"
        )
    if antialias and mode != "bilinear" and mode != "bicubic":
        raise ValueError(
            f'interpolate: antialias: got True, expected False for "{mode}": only bilinear and '
            "bicubic know it"
        )


def _per_axis(item: Tensor, count: int, name: str) -> Tensor:
    if item.dim() > 1 or (item.dim() == 1 and item.numel() != 1 and item.numel() != count):
        raise ValueError(
            f"interpolate: {name}: got a tensor of shape {item.shape}, expected one element or "
            f"{count}, the number of spatial axes"
        )
    return item.reshape(-1).expand(count)


def interpolate(
    input: Tensor,
    size: Tensor | None,
    factor: Tensor | None,
    factors: list[float] | None,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
    out: Tensor | None,
) -> Tensor:
    """`factor` or `factors`: TorchScript makes a float64 tensor of a list by way of float32."""
    check_interpolate(
        input.dim(), size is not None, factor is not None or factors is not None, mode,
        align_corners, recompute_scale_factor, antialias,
    )  # fmt: skip
    count = input.dim() - 2
    sizes: Tensor | None = None
    by_size = mode == "area" or (recompute_scale_factor is not None and recompute_scale_factor)
    if size is not None:
        sizes = _per_axis(size, count, "size")
    elif by_size:
        lengths: list[int] = []
        for i in range(count):
            if factors is not None:
                scale = factors[i]
            else:
                assert factor is not None
                scale = float(_per_axis(factor, count, "scale_factor")[i])
            lengths.append(math.floor(float(input.size(i + 2)) * scale))
        sizes = torch.as_tensor(lengths)
    if mode == "area":
        if out is not None:
            raise ValueError('interpolate: out: got a tensor, expected None: "area" has no out')
        assert sizes is not None
        wanted: list[int] = sizes.tolist()
        return F.interpolate(input, size=wanted, mode="area")
    # Written out: exporters want to see a constant, which a loop is not.
    axes = [2, 3]
    if count == 1:
        axes = [2]
    elif count == 3:
        axes = [2, 3, 4]
    transformation = "half_pixel"
    if align_corners is not None and align_corners:
        transformation = "align_corners"
    elif mode == "nearest":
        transformation = "asymmetric"
    kind = "linear"
    if mode == "bicubic":
        kind = "cubic"
    elif mode == "nearest" or mode == "nearest-exact":
        kind = "nearest"
    rounding = "round_prefer_floor"
    if mode == "nearest":
        rounding = "floor"
    elif mode == "nearest-exact":
        rounding = "round_prefer_ceil"
    coefficient = -0.5 if antialias else -0.75
    if factors is not None and not by_size:
        return resize(
            input, factors, None, None, kind, transformation, rounding, coefficient, antialias,
            0.0, antialias, axes, "stretch", True, out,
        )  # fmt: skip
    scales: Tensor | None = None
    if factor is not None and not by_size:
        scales = _per_axis(factor, count, "scale_factor").to(torch.float64)
    return resize(
        input, scales, sizes, None, kind, transformation, rounding, coefficient, antialias, 0.0,
        antialias, axes, "stretch", True, out,
    )  # fmt: skip


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
    if input.dim() != 4 or offset.dim() != 4 or weight.dim() != 4:
        raise RuntimeError(
            f"deform_conv2d: got ranks {input.dim()} of input, {offset.dim()} of offset, "
            f"{weight.dim()} of weight, expected 4"
        )
    pads = padding
    if len(padding) == 2:
        pads = [padding[0], padding[1], padding[0], padding[1]]
    taps = 2 * weight.size(2) * weight.size(3)
    depth = weight.size(1)
    # No remainder where it fits; where it does not, the op says so.
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
