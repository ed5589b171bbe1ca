"""deform_conv2d_int8: deform_conv2d with an image and weights of 8 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from myops._torch.define import define
from myops.ops._argument_names import in_words_of
from myops.ops._deform_conv2d_int8_onnx import standard
from myops.ops._numbers import reals
from myops.ops.deform_conv2d import NAMES, geometry

__all__ = ["deform_conv2d_int8"]


def deform_conv2d_int8(
    input: Tensor,
    input_scale: Tensor,
    input_zero_point: Tensor | None,
    offset: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    mask: Tensor | None = None,
    mask_limit: float = 1.0,
) -> Tensor:
    """deform_conv2d of integers that stand for (input - zero_point) * scale and weight * scale.

    Samples are computed and rounded in integers: to multiples of input_scale * mask_limit, within
    the integers that the dtype of input has. Sums over them are exact in int32. So results have
    equal bits on all instruction sets. `myops.onnx.quantize` puts this op in place of
    deform_conv2d. It is not differentiable.

    Args:
        input: Tensor[N, C, H, W]; uint8 or int8.
        input_scale: Tensor[1], float32.
        input_zero_point: Tensor[1], of the dtype of input; None: 0.
        offset: Tensor[N, 2 * offset_groups * kH * kW, oH, oW] in pixels, float32: y, then x, of
            each tap.
        weight: Tensor[oC, C / groups, kH, kW], int8; C / groups * kH * kW is at most 65536.
        weight_scale: Tensor[oC] or [1], float32.
        bias: Tensor[oC], float32, or None.
        stride: Step between output pixels, y and x, or one int; >= 1.
        padding: Zero border: y and x, or one int, or (top, left, bottom, right); >= 0.
        dilation: Step between taps, y and x, or one int; >= 1.
        mask: Tensor[N, offset_groups * kH * kW, oH, oW], float32, that multiplies the samples, or
            None, a mask of 1. NaN counts as 0.
        mask_limit: Magnitudes of the mask above it count as it, > 0; without a mask, 1 does. The
            smaller it is, the finer are samples.

    Returns:
        Tensor[N, oC, oH, oW], float32.

    Raises:
        RuntimeError: A rank, length, group or dtype does not fit; the text names the argument,
            what it got and what was expected.
        TypeError: stride, padding or dilation holds something else than integers.

    Example:
        >>> x, weight = torch.ones(1, 3, 5, 5, dtype=torch.uint8), torch.ones(2, 3, 3, 3).char()
        >>> offset, scale = torch.zeros(1, 18, 3, 3), torch.tensor([0.5])
        >>> myops.deform_conv2d_int8(x, scale, None, offset, weight, scale)[0, 0, 0]
        tensor([6.7500, 6.7500, 6.7500])
    """
    attributes = geometry("deform_conv2d_int8", input, offset, weight, stride, padding, dilation)
    (attributes["mask_limit"],) = reals("deform_conv2d_int8: mask_limit", [mask_limit])
    given = (input, input_scale, input_zero_point, weight, weight_scale, offset, bias, mask)
    try:
        return _deform_conv2d_int8.call(given, attributes)
    except (RuntimeError, TypeError) as error:
        named = in_words_of("deform_conv2d_int8", "deform_conv2d_int8", NAMES, error)
        if named is None:
            raise
        raise named from None


def _shape(inputs: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
    x, weight, offset = inputs[0], inputs[3], inputs[5]
    return [[x.shape[0], weight.shape[0], offset.shape[2], offset.shape[3]]]


_deform_conv2d_int8 = define("deform_conv2d_int8", shape=_shape, standard=standard)
