"""interpolate: torch.nn.functional.interpolate with sizes and factors that may be tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor

from myops.ops.resize import run

__all__ = ["NewInterpolate", "interpolate"]

# torch's mode -> rank of the input, Resize's mode
_MODES = {"linear": (3, "linear"), "bilinear": (4, "linear"), "trilinear": (5, "linear"),
          "bicubic": (4, "cubic")}  # fmt: skip
_ANY_RANK = ("nearest", "nearest-exact", "area")


def _attributes(mode: str, align_corners: bool, antialias: bool, count: int) -> dict[str, Any]:
    """Those of Resize that are not what it takes anyway."""
    given: dict[str, Any] = {"torch_arithmetic": True, "axes": list(range(2, 2 + count))}
    if mode == "nearest":
        given |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    elif mode == "nearest-exact":
        given |= {"nearest_mode": "round_prefer_ceil"}
    else:
        given |= {"mode": _MODES[mode][1]}
    if align_corners:
        given |= {"coordinate_transformation_mode": "align_corners"}
    if antialias:
        # torch's antialiased bicubic is Pillow's, whose coefficient is -0.5
        given |= {"antialias": True, "cubic_coeff_a": -0.5, "exclude_outside": True}
    return given


# Made beforehand: a small call would take longer for them than for its pixels.
_ATTRIBUTES = {
    (mode, align_corners, antialias, count): _attributes(mode, align_corners, antialias, count)
    for mode in ("nearest", "nearest-exact", *_MODES)
    for align_corners in (False, True)
    for antialias in (False, True)
    for count in (1, 2, 3)  # of lengths
}


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | Tensor | None = None,
    scale_factor: float | Sequence[float] | Tensor | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Drop-in for `torch.nn.functional.interpolate` whose size or factor may be a tensor.

    Equal to torch within 1e-5 in float32, with torch's output sizes; "nearest" and
    "nearest-exact" pick the same elements.

    Args:
        input: Tensor[N, C, L], Tensor[N, C, H, W] or Tensor[N, C, D, H, W]; float16, bfloat16,
            float32, float64, or uint8 (not for "area").
        size: Output length(s): an int for all axes, one per axis, or an int64 Tensor of one or
            as many elements. A Tensor stays an input of the exported graph.
        scale_factor: Instead of `size`, factor(s) > 0: a number, one per axis, or a floating or
            integer Tensor of one or as many elements. The output length is
            floor(length * factor) in float64.
        mode: "nearest", "nearest-exact", "linear" (3-D input), "bilinear", "bicubic" (4-D),
            "trilinear" (5-D) or "area".
        align_corners: For the linear and cubic modes: map corners to corners. Default False.
        recompute_scale_factor: Use output length / input length in place of the factor given.
        antialias: For "bilinear" and "bicubic": widen the kernel when shrinking.
        out: Not for "area": a tensor for the result, of its shape, dtype and layout, with memory
            of its own; not where a gradient is wanted. For large results this saves the page
            faults of new memory.

    Returns:
        Tensor[N, C, ...] of the same dtype, or `out`; channels_last if the input is.

    Raises:
        ValueError: Both or neither of size and scale_factor, lengths that do not fit, an unknown
            mode, or an option that the mode does not know.
        RuntimeError: A factor that is not positive and finite, an output length of zero.

    Example:
        >>> x = torch.rand(1, 3, 8, 8)
        >>> myops.interpolate(x, scale_factor=torch.tensor(2.5), mode="bicubic").shape
        torch.Size([1, 3, 20, 20])
    """
    _check(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    count = input.dim() - 2
    size = _per_axis(size, count, "size")
    scales = _per_axis(scale_factor, count, "scale_factor")
    if scales is not None and (recompute_scale_factor or mode == "area"):
        size, scales = _sizes_from(input, scales), None
    if mode == "area":
        if out is not None:
            raise ValueError('interpolate: out: got a tensor, expected None: "area" has no out')
        return _area(input, size)
    if scales is not None and type(scales) is not list:
        scales = scales.to(torch.float64)
    attributes = _ATTRIBUTES[mode, bool(align_corners), bool(antialias), count]
    return run(input, None, scales, size, attributes, out)


class NewInterpolate:
    """Bicubic resize by factors that are a graph input.

    Example:
        >>> factor = torch.tensor([1.0, 1.0, 3.0, 3.0])
        >>> NewInterpolate.apply(torch.rand(1, 3, 8, 8), factor).shape
        torch.Size([1, 3, 24, 24])
    """

    @staticmethod
    def apply(input: Tensor, scales: Tensor) -> Tensor:
        """Resizes height and width; the factors of batch and channels are not looked at.

        Args:
            input: Tensor[N, C, H, W].
            scales: Tensor[4] of floats, [1, 1, height factor, width factor].

        Returns:
            Tensor[N, C, floor(H * height factor), floor(W * width factor)].
        """
        return interpolate(input, scale_factor=scales[-2:], mode="bicubic", align_corners=False)


def _check(
    input: Tensor, size: Any, scale_factor: Any, mode: str, align_corners: bool | None,
    recompute: bool | None, antialias: bool,
) -> None:  # fmt: skip
    rank = input.dim()
    if mode in _MODES:
        if rank != _MODES[mode][0]:
            _refuse("input", f"rank {rank}", f'{_MODES[mode][0]} for "{mode}"')
    elif mode in _ANY_RANK:
        if not 3 <= rank <= 5:
            _refuse("input", f"rank {rank}", "3, 4 or 5")
        if align_corners is not None:
            _refuse("align_corners", align_corners, f'None: "{mode}" does not know it')
    else:
        _refuse("mode", repr(mode), "one of " + ", ".join([*_ANY_RANK, *_MODES]))
    if (size is None) == (scale_factor is None):
        given = "2 of them" if size is not None else "0 of them"
        _refuse("size and scale_factor", given, "exactly one")
    if recompute and size is not None:
        _refuse("recompute_scale_factor", recompute, "None or False when size is given")
    if antialias and mode not in ("bilinear", "bicubic"):
        _refuse("antialias", antialias, f'False for "{mode}": only bilinear and bicubic know it')


def _refuse(argument: str, got: object, expected: str) -> NoReturn:
    raise ValueError(f"interpolate: {argument}: got {got}, expected {expected}")


def _per_axis(item: Any, count: int, name: str) -> Any:
    """One entry for each of `count` axes: a list of numbers, or a Tensor[count]."""
    if item is None:
        return None
    if type(item) in (int, float):  # the usual case: what follows takes longer than a small call
        return [item] * count
    if isinstance(item, Tensor):
        # While a program is traced, a length is a tensor and must not be asked.
        fits = torch.jit.is_tracing() or item.dim() == 0 or item.shape[0] in (1, count)
        if item.dim() > 1 or not fits:
            raise ValueError(
                f"interpolate: {name}: got a tensor of shape {tuple(item.shape)}, expected one "
                f"element or {count}, the number of spatial axes"
            )
        return item.reshape(-1).expand(count)
    if not isinstance(item, Sequence):
        return [item] * count
    if len(item) != count:
        raise ValueError(
            f"interpolate: {name}: got {len(item)} entries, expected {count}, the number of "
            "spatial axes"
        )
    return list(item)


def _sizes_from(input: Tensor, scales: Any) -> Any:
    """floor(length * factor) in float64, as numbers or as a tensor."""
    lengths = input.shape[2:]
    factors = scales.unbind(0) if isinstance(scales, Tensor) else scales
    # The lengths are tensors while the TorchScript exporter traces.
    if not any(isinstance(item, Tensor) for item in [*factors, *lengths]):
        return [math.floor(float(n) * s) if isinstance(n, int) else math.floor(n * s)
                for n, s in zip(lengths, scales, strict=True)]  # fmt: skip
    products = [torch.as_tensor(s, dtype=torch.float64) * n
                for n, s in zip(lengths, factors, strict=True)]  # fmt: skip
    return torch.stack([product.floor().to(torch.int64) for product in products])


def _area(input: Tensor, size: Any) -> Tensor:
    """Adaptive average pooling; as matrix products where its size is not a plain number.

    Output i of m averages the inputs floor(i * n / m) to ceil((i + 1) * n / m) - 1 of n.
    """
    exporting = torch.compiler.is_compiling() or torch.jit.is_tracing()
    numbers = not isinstance(size, Tensor) and not any(isinstance(s, Tensor) for s in size)
    if numbers and not exporting:
        return F.interpolate(input, size=tuple(size), mode="area")
    result, last = input, input.dim() - 1
    for axis, length in enumerate(size.unbind(0) if isinstance(size, Tensor) else size, start=2):
        n = input.shape[axis]
        i = torch.arange(length)
        start = (i * n) // length
        end = ((i + 1) * n + length - 1) // length
        column = torch.arange(n)
        inside = (column >= start[:, None]) & (column < end[:, None])
        weights = inside.to(input.dtype) / (end - start).to(input.dtype)[:, None]
        # Not movedim: the TorchScript exporter writes its -1 into Transpose as it stands.
        result = (result.transpose(axis, last) @ weights.T).transpose(axis, last)
    return result
