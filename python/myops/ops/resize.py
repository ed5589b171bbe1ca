"""resize: ONNX Resize-19 for torch, with scales and sizes that may be computed at run time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from myops._torch.define import define
from myops._torch.private_names import functorch
from myops._torch.traced_numbers import exact
from myops.ops import _scripting
from myops.ops._numbers import (
    INTEGERS,
    PLAIN,
    integers,
    is_plain,
    listed,
    reals,
    refuse_no_numbers,
)
from myops.ops._resize_onnx import standard

__all__ = ["resize"]

Numbers = Tensor | Sequence[float]


def resize(
    x: Tensor,
    scales: Numbers | None = None,
    sizes: Tensor | Sequence[int] | None = None,
    roi: Numbers | None = None,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    extrapolation_value: float = 0.0,
    antialias: bool = False,
    axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
    out: Tensor | None = None,
) -> Tensor:
    """Resizes a tensor along any of its axes, with the meaning of ONNX Resize-19.

    Where the ONNX text leaves rounding open, ONNX Runtime's is taken: scales are float32, an output
    length is floor(float32(length * scale)), coordinates are float32 (float64 for float64 data).
    For PyTorch's rounding use `myops.interpolate`.

    Args:
        x: Tensor[d0, ..., dn] of any rank >= 1; float16, bfloat16, float32, float64 or uint8
            (rounded to nearest and saturated).
        scales: One factor > 0 for each axis in `axes`. Python numbers give an output shape that is
            known to compilers and exporters; a Tensor (float32 or float64) stays an input of
            the exported graph.
        sizes: Instead of `scales`, one output length >= 1 for each axis in `axes`: Python numbers
            or an int64 Tensor.
        roi: For coordinate_transformation_mode="tf_crop_and_resize": the starts, then the ends,
            in units of the axis lengths, for each axis in `axes`.
        mode: "nearest", "linear" or "cubic" (along each axis in turn); or "area", which ONNX's
            Resize does not have: output o of m averages the inputs floor(o * n / m) to
            ceil((o + 1) * n / m) - 1 of n, as `torch.nn.AdaptiveAvgPool2d` does.
        coordinate_transformation_mode: "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
            "align_corners", "asymmetric" or "tf_crop_and_resize".
        nearest_mode: "round_prefer_floor", "round_prefer_ceil", "floor" or "ceil".
        cubic_coeff_a: Coefficient of the cubic kernel; -0.5 and -0.75 are usual.
        exclude_outside: Give samples outside of the tensor weight 0 and renormalise, instead of
            repeating the border. For "cubic", and with `antialias`.
        extrapolation_value: What tf_crop_and_resize writes outside of the tensor.
        antialias: Stretch the kernel by 1/scale when shrinking ("linear" and "cubic").
        axes: Axes to resize; negative ones count from the end. Default: all.
        keep_aspect_ratio_policy: "stretch", "not_larger" or "not_smaller"; the last two treat
            `sizes` as a box (ONNX Resize-18 and later).
        out: A tensor for the result, of its shape, dtype and layout, with memory of its own. As
            with torch's functions, no tensor of the call may require grad in grad mode. For
            large results this saves the page faults of new memory.

    Returns:
        Tensor of the same dtype, or `out`; channels_last if x is such memory or a
        crop of it. Differentiable any number of times with respect to x.

    Raises:
        RuntimeError: Both or neither of scales and sizes; wrong lengths; a scale that is not
            positive and finite; a size of zero; more than 2^40 elements; and whatever else the
            ONNX text forbids.
        TypeError: An entry of sizes or axes is no integer, one of scales or roi no number.

    Source: https://onnx.ai/onnx/operators/onnx__Resize.html (version 19).

    Example:
        >>> x = torch.arange(4.0).reshape(1, 1, 2, 2)
        >>> myops.resize(x, scales=[1, 1, 2, 2], mode="nearest").shape
        torch.Size([1, 1, 4, 4])
        >>> factor = torch.tensor([2.0, 2.0])
        >>> myops.resize(x, factor, mode="linear", axes=[2, 3]).shape
        torch.Size([1, 1, 4, 4])
    """
    if torch.jit.is_scripting():
        if scales is not None:
            if isinstance(scales, list[int]):  # type: ignore[misc]
                return _scripting.resize(
                    x, [float(scale) for scale in scales], sizes, roi, mode,
                    coordinate_transformation_mode, nearest_mode, cubic_coeff_a, exclude_outside,
                    extrapolation_value, antialias, axes, keep_aspect_ratio_policy, False, out,
                )  # fmt: skip
            else:
                return _scripting.resize(
                    x, scales, sizes, roi, mode, coordinate_transformation_mode, nearest_mode,
                    cubic_coeff_a, exclude_outside, extrapolation_value, antialias, axes,
                    keep_aspect_ratio_policy, False, out,
                )  # fmt: skip
        else:
            return _scripting.resize(
                x, None, sizes, roi, mode, coordinate_transformation_mode, nearest_mode,
                cubic_coeff_a, exclude_outside, extrapolation_value, antialias, axes,
                keep_aspect_ratio_policy, False, out,
            )  # fmt: skip
    else:
        attributes = {
            "antialias": bool(antialias),
            "axes": [] if axes is None else integers("resize: axes", axes),
            "coordinate_transformation_mode": coordinate_transformation_mode,
            "cubic_coeff_a": cubic_coeff_a,
            "exclude_outside": bool(exclude_outside),
            "extrapolation_value": extrapolation_value,
            "keep_aspect_ratio_policy": keep_aspect_ratio_policy,
            "mode": mode,
            "nearest_mode": nearest_mode,
        }
        return run(x, roi, scales, sizes, attributes, out)


_scripting.overload(
    resize,
    _scripting.resize_by_numbers,
    _scripting.resize_by_integers,
    _scripting.resize_by_tensors,
)


@torch.fx.wrap  # torch.fx.symbolic_trace records the call: lengths decide what follows
def run(
    x: Tensor, roi: Any, scales: Any, sizes: Any, attributes: dict[str, Any], out: Tensor | None
) -> Tensor:
    """Calls the op; lists become tensors as soon as one of the three is a tensor."""
    if roi is None and sizes is None and is_plain(scales, PLAIN):
        return _resize.call((x, None, reals("resize: scales", scales), None), attributes, out)
    if roi is None and scales is None and is_plain(sizes, INTEGERS):
        return _resize.call((x, None, None, list(sizes)), attributes, out)
    values = [
        None if roi is None else _numbers("roi", roi, torch.float32),
        None if scales is None else _numbers("scales", exact(scales), torch.float64),
        None if sizes is None else _numbers("sizes", sizes, torch.int64),
    ]
    if not _NOTHING_OR_LIST.issuperset(map(type, values)):
        kinds = [torch.float32, torch.float64, torch.int64]
        values = [
            torch.tensor(item, dtype=kind) if isinstance(item, list) else item
            for item, kind in zip(values, kinds, strict=True)
        ]
    return _resize.call((x, *values), attributes, out)


_NOTHING_OR_LIST = frozenset((type(None), list))


def _numbers(name: str, item: Any, dtype: torch.dtype) -> Any:
    """A tensor, or a list of numbers; a list that holds tensors becomes one tensor."""
    if type(item) not in (list, tuple) and isinstance(item, Tensor):
        return item
    where = f"resize: {name}"
    whole = dtype == torch.int64
    items = integers(where, item) if whole else listed(where, item, "numbers")
    if not PLAIN.issuperset(map(type, items)) and any(
        isinstance(value, (Tensor, torch.SymFloat)) for value in items
    ):
        # A SymFloat is what `.item()` gives in torch.export: float() would freeze it.
        tensors = [
            value if isinstance(value, Tensor) else torch.scalar_tensor(value, dtype=dtype)
            for value in items
        ]
        for value in tensors:
            refuse_no_numbers(where, value)
            if not torch.jit.is_tracing() and value.numel() != 1:
                raise RuntimeError(
                    f"{where}: got a tensor of shape {list(value.shape)} in the list, expected one "
                    "number for each axis"
                )
        return torch.stack([value.reshape(()).to(dtype) for value in tensors])
    return items if whole else reals(where, items)


def _shape(inputs: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
    x, _, scales, sizes = inputs
    axes = [axis % x.dim() for axis in attributes["axes"]] or list(range(x.dim()))
    result = list(x.shape)
    for number, axis in enumerate(axes):
        if isinstance(sizes, (list, tuple)) and attributes["keep_aspect_ratio_policy"] == "stretch":
            result[axis] = sizes[number]
        elif isinstance(scales, (list, tuple)) and inputs[1] is None:
            result[axis] = _scaled(x.shape[axis], scales[number], attributes["torch_arithmetic"])
        else:
            result[axis] = _unknown_length(x.shape[axis])
    return [result]


def _unknown_length(length: Any) -> Any:
    """A length that is known when the kernel runs. It is at least 1 where the axis is not empty;
    without knowing that, torch.export refuses batch_norm or unfold of the result."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # imports sympy

    return torch.library.get_ctx().new_dynamic_size(min=int(statically_known_true(length > 0)))


def _scaled(length: Any, scale: float, torch_arithmetic: bool) -> Any:
    """floor(length * scale) for a length that may be symbolic, rounded as the kernel rounds."""
    exact = Fraction(scale)
    if exact.denominator <= 4096 and exact.numerator <= 4096:
        return length * exact.numerator // exact.denominator  # exact, whichever rounding is used
    if torch_arithmetic:
        return math.trunc(length * scale)  # floor; torch.export.save writes no math.floor
    return _unknown_length(length)  # float32 rounding has no symbolic form


def _save(ctx: Any, inputs: Sequence[Any], attributes: dict[str, Any], output: Tensor) -> None:
    x, *values = inputs
    ctx.shape = x.shape
    ctx.attributes = attributes
    ctx.lists = [None if isinstance(item, Tensor) else item for item in values]
    tensors = [item if isinstance(item, Tensor) else None for item in values]
    ctx.has_tensors = tensors != [None, None, None]
    if ctx.has_tensors:
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)


def _saved_values(ctx: Any) -> list[Any]:
    if not ctx.has_tensors:
        return list(ctx.lists)
    pairs = zip(ctx.saved_tensors, ctx.lists, strict=True)
    return [numbers if tensor is None else tensor for tensor, numbers in pairs]


_likes: dict[tuple[Any, ...], Tensor] = {}


def _like(grad: Tensor, shape: Any) -> Tensor:
    """A tensor of this shape, and no memory. Equal ones are made once: making one takes a third of
    a small gradient."""
    if type(grad) is not Tensor or functorch():
        return grad.new_empty(()).expand(shape)
    key = (shape, grad.dtype, grad.device)
    found = _likes.get(key)
    if found is None:
        if len(_likes) >= 64:
            _likes.clear()
        with torch.inference_mode(False):
            found = torch.empty((), dtype=grad.dtype, device=grad.device).expand(shape)
        _likes[key] = found
    return found


def _gradients(
    grad: Tensor, inputs: Sequence[Any], needed: Any, attributes: dict[str, Any]
) -> tuple[Tensor | None, ...]:
    """The gradient of X, of which `inputs` has the shape; `needed` is not read."""
    shape, *values = inputs
    made = _resize_backward.call((grad, _like(grad, shape), *values), attributes)
    return made, None, None, None


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return _gradients(grad, (ctx.shape, *_saved_values(ctx)), None, ctx.attributes)


def _linear_part(ctx: Any, x: Tensor) -> Tensor:
    """The resize of a tangent: what does not depend on x, `extrapolation_value`, is left out."""
    return _resize(x, *_saved_values(ctx), **{**ctx.attributes, "extrapolation_value": 0.0})


def _jvp(ctx: Any, x: Tensor, *unused: Any) -> Tensor:
    return _linear_part(ctx, x)


def _backward_shape(inputs: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
    return [inputs[1].shape]


def _backward_save(
    ctx: Any, inputs: Sequence[Any], attributes: dict[str, Any], output: Tensor
) -> None:
    _save(ctx, inputs[1:], attributes, output)


def _double_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The gradient of the gradient is the resize itself, but for its constant part."""
    return _linear_part(ctx, grad), None, None, None, None


def _backward_jvp(ctx: Any, grad: Tensor | None, *unused: Any) -> Tensor | None:
    if grad is None:  # the shape of x has a tangent, which nothing depends on
        return None
    like = _like(grad, ctx.shape)
    return _resize_backward(grad, like, *_saved_values(ctx), **ctx.attributes)


def _quantized(attributes: Mapping[str, Any]) -> dict[str, str]:
    """An average of integers is the integer of the average; "cubic" can leave their range, and
    extrapolation_value is no integer."""
    averages = attributes["mode"] in ("nearest", "linear", "area")
    inside = attributes["coordinate_transformation_mode"] != "tf_crop_and_resize"
    return {"Y": "X"} if averages and inside else {}


_resize = define(
    "resize", shape=_shape, save=_save, backward=_backward, jvp=_jvp, standard=standard,
    quantized=_quantized,
)  # fmt: skip
_resize_backward = define(
    "resize_backward",
    shape=_backward_shape,
    save=_backward_save,
    backward=_double_backward,
    jvp=_backward_jvp,
)
_resize.use_gradient(_resize_backward, _gradients)
