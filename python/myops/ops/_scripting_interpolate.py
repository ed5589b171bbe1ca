"""What TorchScript compiles in place of `myops.interpolate`; see _scripting.py."""

import math

import torch
from torch import Tensor

from myops.ops._scripting import resize

# Signatures are read by TorchScript, partly from these objects and partly from the source, so
# annotations in this file are no strings.


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
            "have it"
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
            "bicubic have it"
        )


def _per_axis(item: Tensor, count: int, name: str) -> Tensor:
    if item.dim() > 1 or (item.dim() == 1 and item.numel() != 1 and item.numel() != count):
        raise ValueError(
            f"interpolate: {name}: got a tensor of shape {item.shape}, expected one element or "
            f"{count}, the number of spatial axes"
        )
    return item.reshape(-1).expand(count)


def check_factor(factor: float) -> None:
    if not math.isfinite(factor) or factor <= 0:
        raise RuntimeError(
            f"interpolate: scale_factor: got {factor}, expected a finite number above 0"
        )


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
            check_factor(scale)
            # The op refuses a length of 2^41; larger products may be no integers.
            lengths.append(math.floor(min(float(input.size(i + 2)) * scale, 2.0**41)))
        sizes = torch.as_tensor(lengths)
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
    elif mode == "area":
        kind = "area"
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
