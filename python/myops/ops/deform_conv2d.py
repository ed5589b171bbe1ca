"""deform_conv2d: deformable convolution, version 1 (without mask) and 2 (with mask)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from myops._op_library import IntegerOp
from myops._torch.define import define
from myops.ops import _deform_conv2d_flops, _scripting
from myops.ops._argument_names import in_words_of
from myops.ops._deform_conv2d_onnx import standard
from myops.ops._numbers import integers, is_several, refuse_no_tensor

__all__ = ["deform_conv2d"]


def deform_conv2d(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    mask: Tensor | None = None,
) -> Tensor:
    """Convolution whose taps are moved by learned offsets; torchvision's `deform_conv2d`.

    Tap k of output pixel p samples the input bilinearly at p * stride - padding + k * dilation +
    offset[p, k]. A position that is not finite, or that lies one pixel or more outside of the
    image, samples 0; so do the corners of a cell that lie outside. Sums run in at least float32.

    Args:
        input: Tensor[N, C, H, W]; float16, bfloat16, float32 or float64. N may be 0.
        offset: Tensor[N, 2 * offset_groups * kH * kW, oH, oW] in pixels: y, then x, of each tap.
        weight: Tensor[oC, C / groups, kH, kW].
        bias: Tensor[oC] or None.
        stride: Step between output pixels, y and x, or one int; >= 1.
        padding: Zero border: y and x, or one int, or (top, left, bottom, right); >= 0.
        dilation: Step between taps, y and x, or one int; >= 1.
        mask: Tensor[N, offset_groups * kH * kW, oH, oW] that multiplies the samples (version 2),
            or None (version 1).

    Groups are read from the shapes: groups = C / weight.shape[1], offset_groups =
    offset.shape[1] / (2 * kH * kW). Under autocast the tensors are cast as for a convolution.

    Returns:
        Tensor[N, oC, oH, oW], channels_last if input is such memory or a crop of it.
        Differentiable twice with respect to every tensor, in reverse and forward mode; twice in
        forward mode is not.

    Raises:
        RuntimeError: A rank, length, group or dtype does not fit; the text names the argument,
            what it got and what was expected.
        TypeError: stride, padding or dilation holds something else than integers.

    Source: Dai et al. 2017, https://arxiv.org/abs/1703.06211; with mask, Zhu et al. 2018,
        https://arxiv.org/abs/1811.11168; the node is ai.onnx DeformConv-22.

    Example:
        >>> x, weight = torch.rand(4, 3, 10, 10), torch.rand(5, 3, 3, 3)
        >>> offset, mask = torch.rand(4, 18, 8, 8), torch.rand(4, 9, 8, 8)
        >>> myops.deform_conv2d(x, offset, weight, mask=mask).shape
        torch.Size([4, 5, 8, 8])
    """
    if torch.jit.is_scripting():
        # TorchScript has turned single numbers into lists.
        return _scripting.deform(input, offset, weight, bias, stride, padding, dilation, mask)  # type: ignore[arg-type]
    else:
        return _deform(input, offset, weight, bias, stride, padding, dilation, mask)


_scripting.overload(deform_conv2d, _scripting.deform_conv2d_by_pairs)


@torch.fx.wrap  # torch.fx.symbolic_trace records the call: lengths decide what follows
def _deform(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    mask: Tensor | None,
) -> Tensor:
    attributes = geometry("deform_conv2d", input, offset, weight, stride, padding, dilation)
    try:
        return _deform_conv2d.call((input, weight, offset, bias, mask), attributes)
    except (RuntimeError, TypeError) as error:
        named = in_words_of("deform_conv2d", "deform_conv2d", NAMES, error)
        if named is None:
            raise
        raise named from None


# Of the op -> of the functions.
NAMES = {
    "X": "input", "W": "weight", "B": "bias", "X_scale": "input_scale",
    "X_zero_point": "input_zero_point", "W_scale": "weight_scale", "strides": "stride",
    "pads": "padding", "dilations": "dilation",
}  # fmt: skip


def geometry(
    op: str,
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
) -> dict[str, Any]:
    """The attributes of a node, from the arguments of a call."""
    try:
        image, field, kernel = input.shape, offset.shape, weight.shape  # once: each takes 100 ns
    except (AttributeError, RuntimeError):
        _refuse_not_dense(op, input=input, offset=offset, weight=weight)
        raise
    if not len(image) == len(field) == len(kernel) == 4:
        _refuse_no_tensors(op, input=input, offset=offset, weight=weight)
        group = offset_group = 1  # the op refuses the rank
    else:
        channels, moves = image[1], field[1]
        _, depth, rows, columns = kernel
        if isinstance(channels, Tensor):
            channels, moves, depth, rows, columns = _while_tracing(
                channels, moves, depth, rows, columns
            )
        # Functions that would have nothing to do are not called: each call takes 50 ns.
        taps = 2 * rows * columns
        group = channels // depth if depth else 0
        if group == 0 or group * depth != channels:
            _refuse_groups(op, kernel, channels, depth, "weight", "channels of input")
        offset_group = moves // taps if taps else 0
        if offset_group == 0 or offset_group * taps != moves:
            _refuse_groups(op, kernel, moves, taps, "offset", "channels of offset")
    return {
        "dilations": [dilation] * 2 if type(dilation) is int else _pair(op, dilation, "dilation"),
        "group": int(group),
        "kernel_shape": [],
        "offset_group": int(offset_group),
        "pads": [padding] * 4 if type(padding) is int else _pads(op, padding),
        "strides": [stride] * 2 if type(stride) is int else _pair(op, stride, "stride"),
    }


def _refuse_no_tensors(op: str, **tensors: Tensor) -> None:
    for name, item in tensors.items():
        refuse_no_tensor(f"{op}: {name}", item)


def _refuse_not_dense(op: str, **tensors: Tensor) -> None:
    for name, item in tensors.items():
        refuse_no_tensor(f"{op}: {name}", item)
        if item.is_nested:  # it has no shape
            raise RuntimeError(
                f"{op}: {name}: got a nested tensor, expected a dense one: call the op on each of "
                f"{name}.unbind(), or on {name}.to_padded_tensor(0)"
            )


def _while_tracing(*lengths: Any) -> list[int]:
    """Lengths are tensors while torch.jit traces. The groups that follow from them are attributes
    of the node, so it is meant that the trace holds them as constants, and nothing to warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        return [int(length) for length in lengths]


def _pair(op: str, item: int | Sequence[int], name: str) -> list[int]:
    values = _integers(op, item, name)
    if len(values) != 2:
        raise RuntimeError(f"{op}: {name}: got {len(values)} numbers, expected 1 or 2")
    return values


def _pads(op: str, item: int | Sequence[int]) -> list[int]:
    values = _integers(op, item, "padding")
    if len(values) == 2:
        return [*values, *values]
    if len(values) != 4:
        raise RuntimeError(f"{op}: padding: got {len(values)} numbers, expected 1, 2 or 4")
    return values


def _integers(op: str, item: int | Sequence[int], name: str) -> list[int]:
    """A list of two numbers; a single number counts for both."""
    return integers(f"{op}: {name}", item if is_several(item) else [item, item])


def _refuse_groups(
    op: str, kernel: Sequence[int], total: int, each: int, name: str, what: str
) -> None:
    if each == 0:
        raise RuntimeError(
            f"{op}: weight: got shape {list(kernel)}, expected one input channel or more for each "
            "group, and one tap or more"
        )
    raise RuntimeError(f"{op}: {name}: got {total} {what}, expected a positive multiple of {each}")


def _shape(inputs: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
    x, weight, offset = inputs[:3]
    return [[x.shape[0], weight.shape[0], offset.shape[2], offset.shape[3]]]


def _save(ctx: Any, inputs: Sequence[Any], attributes: dict[str, Any], output: Tensor) -> None:
    x, weight, offset, _, mask = inputs
    ctx.save_for_backward(x, weight, offset, mask)
    ctx.save_for_forward(x, weight, offset, mask)
    ctx.attributes = attributes
    ctx.output_shape = output.shape


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, offset, mask = ctx.saved_tensors
    inputs = (x, weight, offset, None, mask)
    return _gradients(grad, inputs, ctx.needs_input_grad, ctx.attributes)


def _gradients(
    grad: Tensor, inputs: Sequence[Any], needed: Sequence[bool], attributes: dict[str, Any]
) -> tuple[Tensor | None, ...]:
    x, weight, offset, _, mask = inputs
    wanted = [needed[0], needed[1], needed[2], mask is not None and needed[4]]
    grads: list[Tensor | None] = [None] * 4
    if any(wanted):
        results = _backward_op(
            grad, x, weight, offset, mask, needs=[int(item) for item in wanted], **attributes
        )
        grads = [item if want else None for item, want in zip(results, wanted, strict=True)]
    bias = None
    if needed[3]:  # on other devices the order of the sum is torch's
        bias = _channel_sums(grad) if grad.device.type == "cpu" else grad.sum((0, 2, 3))
    return grads[0], grads[1], grads[2], bias, grads[3]


def _jvp(
    ctx: Any, x: Tensor | None, weight: Tensor | None, offset: Tensor | None,
    bias: Tensor | None, mask: Tensor | None,
) -> Tensor:  # fmt: skip
    """The gradient of deform_conv2d_backward is linear in `grad`, and its factor is this."""
    saved = ctx.saved_tensors
    moves = [x, weight, offset, None if saved[3] is None else mask]
    spread = None if bias is None else bias[:, None, None].expand(ctx.output_shape)
    if all(move is None for move in moves):
        assert spread is not None  # autograd calls this only if an input has a tangent
        return spread.clone()
    any_grad = saved[0].new_zeros(()).expand(ctx.output_shape)
    moved = _backward_backward_op(
        any_grad, *saved, *moves, needs=[1, 0, 0, 0, 0], **ctx.attributes
    )[0]
    return moved if spread is None else moved + spread


def _shapes_if_needed(tensors: Sequence[Any], needs: Sequence[int]) -> list[Any]:
    flags = list(needs) or [1] * len(tensors)
    return [
        item.shape if item is not None and flag else [0]
        for item, flag in zip(tensors, flags, strict=True)
    ]


def _backward_shape(inputs: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
    return _shapes_if_needed(inputs[1:5], attributes["needs"])


def _backward_save(
    ctx: Any, inputs: Sequence[Any], attributes: dict[str, Any], output: Any
) -> None:
    ctx.save_for_backward(*inputs)
    ctx.save_for_forward(*inputs)
    ctx.attributes = {name: item for name, item in attributes.items() if name != "needs"}
    ctx.needs = attributes.get("needs") or [1] * len(output)
    ctx.set_materialize_grads(False)


def _double_backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors
    # A gradient that was not asked for is an empty tensor, and so is what arrives at it.
    arriving = [
        item if item is not None and item.numel() == like.numel() else None
        for item, like in zip(grads, saved[1:], strict=True)
        if like is not None
    ]
    arriving += [None] * (4 - len(arriving))
    wanted = [
        like is not None and need for like, need in zip(saved, ctx.needs_input_grad, strict=False)
    ]
    results = _backward_backward_op(
        *saved, *arriving, needs=[int(item) for item in wanted], **ctx.attributes
    )
    return tuple(item if want else None for item, want in zip(results, wanted, strict=True))


def _backward_jvp(ctx: Any, grad: Tensor | None, *moves: Tensor | None) -> tuple[Tensor, ...]:
    """Second derivatives are symmetric: how the gradient changes is the gradient of the change."""
    saved, needs = ctx.saved_tensors, list(ctx.needs)
    changes = []
    if grad is not None:
        changes.append(_backward_op(grad, *saved[1:], needs=needs, **ctx.attributes))
    if any(move is not None for move in moves):
        moved = _backward_backward_op(*saved, *moves, needs=[0, *needs], **ctx.attributes)
        changes.append(moved[1:])
    return changes[0] if len(changes) == 1 else tuple(map(torch.add, *changes))


def _backward_backward_shape(inputs: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
    return _shapes_if_needed(inputs[:5], attributes["needs"])


def _third_backward(ctx: Any, change: Tensor | None, *grads: Tensor | None) -> tuple[Any, ...]:
    """The derivative in one direction only, for forward mode."""
    if any(ctx.needs[1:]):
        raise RuntimeError(
            "deform_conv2d is differentiable twice, not three times. Detach its inputs, or call it "
            "under torch.no_grad()."
        )
    saved = ctx.saved_tensors
    primals, moves, needed = saved[1:5], saved[5:], [int(n) for n in ctx.needs_input_grad[1:9]]
    results: list[Tensor | None] = [None] * 8
    if change is not None and any(needed[:4]):
        results[:4] = _backward_backward_op(
            change, *primals, *moves, needs=[0, *needed[:4]], **ctx.attributes
        )[1:]
    if change is not None and any(needed[4:]):
        results[4:] = _backward_op(change, *primals, needs=needed[4:], **ctx.attributes)
    return None, *[item if need else None for item, need in zip(results, needed, strict=True)]


def _sums_save(ctx: Any, inputs: Sequence[Any], attributes: dict[str, Any], output: Any) -> None:
    ctx.shape = inputs[0].shape


def _sums_backward(ctx: Any, grad: Tensor) -> tuple[Tensor]:
    return (grad[:, None, None].expand(ctx.shape),)


def _sums_jvp(ctx: Any, x: Tensor) -> Tensor:
    return _channel_sums(x)


def _quantized(attributes: Mapping[str, Any]) -> Mapping[str, str] | IntegerOp:
    """With groups there are few products for each sample, so rounding it would not save time."""
    if attributes["group"] != 1:
        return {}
    return IntegerOp("deform_conv2d_int8", ["X"], {"W": 0}, limits={"mask_limit": "mask"})


_deform_conv2d = define(
    "deform_conv2d", shape=_shape, save=_save, backward=_backward, jvp=_jvp, standard=standard,
    quantized=_quantized,
)  # fmt: skip
_backward_op = define(
    "deform_conv2d_backward",
    shape=_backward_shape,
    save=_backward_save,
    backward=_double_backward,
    jvp=_backward_jvp,
)
_backward_backward_op = define(
    "deform_conv2d_backward_backward",
    shape=_backward_backward_shape,
    save=_backward_save,
    backward=_third_backward,
)
_channel_sums = define(
    "channel_sums", save=_sums_save, backward=_sums_backward, jvp=_sums_jvp
)  # fmt: skip
_deform_conv2d.use_gradient(_backward_op, _gradients, summed="B")
_deform_conv2d_flops.register()
