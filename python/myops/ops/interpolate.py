"""interpolate: torch.nn.functional.interpolate with sizes and factors that may be tensors."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from myops._torch.fast_call import Constant
from myops._torch.private_names import dynamo_reads
from myops._torch.traced_numbers import exact
from myops.ops import _scripting_interpolate
from myops.ops._argument_names import in_words_of
from myops.ops._numbers import (
    INTEGERS,
    PLAIN,
    integer,
    integers,
    is_plain,
    is_several,
    reals,
    refuse_no_flag,
    refuse_no_numbers,
    refuse_no_tensor,
)
from myops.ops._scripting import overload
from myops.ops.resize import _resize, run

__all__ = ["NewInterpolate", "interpolate"]

# torch's mode -> Resize's
_MODES = {"linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic",
          "area": "area"}  # fmt: skip


def _attributes(mode: str, align_corners: bool, antialias: bool, count: int) -> dict[str, Any]:
    """The attributes of Resize that differ from their defaults."""
    given: dict[str, Any] = {"torch_arithmetic": True, "axes": list(range(2, 2 + count))}
    if mode == "nearest":
        given |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    elif mode == "nearest-exact":
        given |= {"nearest_mode": "round_prefer_ceil"}
    else:
        given |= {"mode": _MODES[mode]}
    if align_corners:
        given |= {"coordinate_transformation_mode": "align_corners"}
    if antialias:
        # torch's antialiased bicubic is Pillow's, whose coefficient is -0.5
        given |= {"antialias": True, "cubic_coeff_a": -0.5, "exclude_outside": True}
    return given


# Made in advance: making them would take longer than the pixels of a small call.
_ATTRIBUTES = {
    (mode, align_corners, antialias, count): _attributes(mode, align_corners, antialias, count)
    for mode in ("nearest", "nearest-exact", *_MODES)
    for align_corners in (False, True)
    for antialias in (False, True)
    for count in (1, 2, 3)  # of lengths
}


def _usual() -> Iterator[tuple[tuple[Any, ...], Constant]]:
    for key in itertools.product(("nearest", "nearest-exact", *_MODES), (None, False, True),
                                 (False, True), (3, 4, 5)):  # fmt: skip
        mode, align_corners, antialias, rank = key
        with contextlib.suppress(ValueError):
            _scripting_interpolate.check_interpolate(
                rank, True, False, mode, align_corners, None, antialias
            )
            attributes = _ATTRIBUTES[mode, bool(align_corners), antialias, rank - 2]
            yield key, Constant(attributes)


# The attributes for what check_interpolate() accepts, without recompute_scale_factor: asking it at
# each call would take as long as a small image.
_USUAL = dict(_usual())
_TENSORS = frozenset((Tensor, torch.nn.Parameter))
_LISTS = frozenset((list, tuple))
_EXACT = 2**53


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | Tensor | None = None,
    scale_factor: float | Sequence[float] | Tensor | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Drop-in for `torch.nn.functional.interpolate` whose size or factor may be a tensor.

    Equal to torch within 1e-5 in float32 (1e-4 in rows of hundreds of elements), with torch's
    output sizes; "nearest" and "nearest-exact" pick the elements that torch picks for contiguous
    tensors. docs/ops.md says where torch differs from itself.

    Args:
        input: Tensor[N, C, L], Tensor[N, C, H, W] or Tensor[N, C, D, H, W]; float16, bfloat16,
            float32, float64, or uint8.
        size: Output length(s): an int for all axes, one per axis, or an int64 Tensor of one or
            as many elements. A Tensor stays an input of the exported graph.
        scale_factor: Instead of `size`, factor(s) > 0: a number, one per axis, or a floating or
            integer Tensor of one or as many elements. The output length is
            floor(length * factor) in float64.
        mode: "nearest", "nearest-exact", "linear" (3-D input), "bilinear", "bicubic" (4-D),
            "trilinear" (5-D) or "area", adaptive average pooling.
        align_corners: For the linear and cubic modes: map corners to corners. Default False.
        recompute_scale_factor: Use output length / input length in place of the factor given.
        antialias: For "bilinear" and "bicubic": widen the kernel when shrinking.
        out: A tensor for the result, of its shape, dtype and layout, with memory of its own. As
            with torch's functions, no tensor of the call may require grad in grad mode. For
            large results this saves the page faults of new memory.

    Returns:
        Tensor[N, C, ...] of the same dtype, or `out`; channels_last if the input is such
        memory or a crop of it.

    Raises:
        ValueError: Both or neither of size and scale_factor, lengths that do not fit, an unknown
            mode, or an option that the mode does not know.
        RuntimeError: A factor that is not positive and finite, an output length of zero.
        TypeError: An entry of size is no integer.

    Example:
        >>> x = torch.rand(1, 3, 8, 8)
        >>> myops.interpolate(x, scale_factor=torch.tensor(2.5), mode="bicubic").shape
        torch.Size([1, 3, 20, 20])
    """
    if torch.jit.is_scripting():
        lengths: Tensor | None = None
        factor: Tensor | None = None
        factors: list[float] | None = None
        if size is not None:
            lengths = torch.as_tensor(size)
        if scale_factor is not None:
            if isinstance(scale_factor, float):
                factor = torch.full([1], scale_factor, dtype=torch.float64)
            elif isinstance(scale_factor, list[float]):  # type: ignore[misc]
                factors = scale_factor
            else:
                factor = torch.as_tensor(scale_factor)
        return _scripting_interpolate.interpolate(
            input, lengths, factor, factors, mode, align_corners, recompute_scale_factor,
            antialias, out,
        )  # fmt: skip
    else:
        # The usual calls. Anything more would take as long as a small image.
        if type(input) in _TENSORS and type(mode) is str and recompute_scale_factor is None:
            rank = input.dim()
            inputs: tuple[Any, ...] = ()
            listed: Any = size
            number: Any = scale_factor
            if number is None and type(listed) in _LISTS and len(listed) == rank - 2:
                inputs = (input, None, None, listed)
            elif (
                listed is None and type(number) in PLAIN and mode != "area"
                and -_EXACT < number < _EXACT  # a larger int may be no float
            ):  # fmt: skip
                inputs = (input, None, [float(number)] * (rank - 2), None)
            if inputs and not dynamo_reads():
                result = _fast_call(inputs, (mode, align_corners, antialias, rank), out)
                if result is not NotImplemented:
                    return result
        return _interpolate(
            input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias, out
        )


overload(
    interpolate,
    _scripting_interpolate.interpolate_by_float,
    _scripting_interpolate.interpolate_by_floats,
    _scripting_interpolate.interpolate_by_integer,
    _scripting_interpolate.interpolate_by_integers,
    _scripting_interpolate.interpolate_by_tensor,
)


def _fast_call(inputs: tuple[Any, ...], options: tuple[Any, ...], out: Tensor | None) -> Any:
    try:
        usual = _USUAL.get(options)
        return NotImplemented if usual is None else _resize.fast_call(inputs, usual, out)
    except (RuntimeError, TypeError):  # `_interpolate` refuses it in the words of its caller
        return NotImplemented


@torch.fx.wrap  # torch.fx.symbolic_trace records the call: lengths decide what follows
def _interpolate(
    input: Tensor,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
    out: Tensor | None,
) -> Tensor:
    refuse_no_tensor("interpolate: input", input)
    refuse_no_flag("interpolate: align_corners", align_corners, or_none=True)
    refuse_no_flag("interpolate: recompute_scale_factor", recompute_scale_factor, or_none=True)
    refuse_no_flag("interpolate: antialias", antialias)
    _scripting_interpolate.check_interpolate(
        input.dim(), size is not None, scale_factor is not None, mode, align_corners,
        recompute_scale_factor, antialias,
    )  # fmt: skip
    count = input.dim() - 2
    size = _per_axis(size, count, "size")
    if size is not None and not is_plain(size, INTEGERS):
        size = _whole(size)
    scales = _per_axis(exact(scale_factor), count, "scale_factor")
    if scales is not None:
        scales = _factors(scales)
    attributes = _ATTRIBUTES[mode, bool(align_corners), bool(antialias), count]
    names = _NAMES
    if scales is not None and (recompute_scale_factor or mode == "area"):
        size, scales, names = _sizes_from(input, scales), None, _NAMES_OF_PRODUCTS
    elif scales is not None and type(scales) is not list:
        scales = scales.to(torch.float64)
    try:
        return run(input, None, scales, size, attributes, out)
    except (RuntimeError, TypeError) as error:
        named = in_words_of("interpolate", "resize", names, error)
        if named is None:
            raise
        raise named from None


# Of the op -> of this function. In the second case the call gave factors: it has no sizes.
_NAMES = {"X": "input", "scales": "scale_factor", "sizes": "size"}
_NAMES_OF_PRODUCTS = {**_NAMES, "sizes": "scale_factor: got an output length of "}
_FACTOR = "interpolate: scale_factor"
_TOO_LONG = 2.0**41  # an output length that the op refuses; larger products may be no int64


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
        if not torch.jit.is_scripting():
            refuse_no_tensor("NewInterpolate: scales", scales)
        return interpolate(input, scale_factor=scales[-2:], mode="bicubic", align_corners=False)


def _per_axis(item: Any, count: int, name: str) -> Any:
    """One entry for each of `count` axes: a list of numbers, or a Tensor[count]."""
    if item is None:
        return None
    if type(item) in (int, float):  # the usual case: the code below takes longer than a small call
        return [item] * count
    if isinstance(item, Tensor):
        # While a program is traced, a length is a tensor and must not be asked.
        fits = torch.jit.is_tracing() or item.dim() == 0 or item.shape[0] in (1, count)
        if item.dim() > 1 or not fits:
            raise ValueError(
                f"interpolate: {name}: got a tensor of shape {tuple(item.shape)}, expected one "
                f"element or {count}, the number of spatial axes"
            )
        if torch.jit.is_tracing():
            # One element or more is not known here. (onnx infers that an Expand of a length, as in
            # size=2 * h, has no elements.)
            return item.reshape(-1) * torch.ones(count, dtype=item.dtype, device=item.device)
        return item.reshape(-1).expand(count)
    # (A set has no order.)
    if not isinstance(item, (Sequence, np.ndarray)) or not is_several(item):
        return [item] * count
    entries = list(item)
    if len(entries) != count:
        raise ValueError(
            f"interpolate: {name}: got {len(entries)} entries, expected {count}, the number of "
            "spatial axes"
        )
    return entries


def _factors(scales: Any) -> Any:
    """The result of `_per_axis`, if these are numbers."""
    if type(scales) is not list:
        refuse_no_numbers(_FACTOR, scales)
        return scales
    for item in scales:
        if isinstance(item, Tensor):
            refuse_no_numbers(_FACTOR, item)
            if not torch.jit.is_tracing() and item.numel() != 1:
                raise RuntimeError(
                    f"{_FACTOR}: got a tensor of shape {list(item.shape)} in the list, expected "
                    "one number for each axis"
                )
    if any(isinstance(item, (Tensor, torch.SymFloat, torch.SymInt)) for item in scales):
        return scales
    return reals(_FACTOR, scales)


def _whole(size: Any) -> Any:
    """The result of `_per_axis`, if these are integers: no fraction is dropped."""
    if type(size) is list:
        return integers("interpolate: size", size)
    return integer("interpolate: size", size)


def _sizes_from(input: Tensor, scales: Any) -> Any:
    """floor(length * factor) in float64, as numbers or as a tensor."""
    lengths = input.shape[2:]
    factors = scales.unbind(0) if isinstance(scales, Tensor) else scales
    # The lengths are tensors while the TorchScript exporter traces.
    if not any(isinstance(item, Tensor) for item in [*factors, *lengths]):
        if not any(isinstance(s, torch.SymFloat) for s in scales):
            scales = reals(_FACTOR, scales)
        return [_length(n, s) for n, s in zip(lengths, scales, strict=True)]
    # Of tensors of rank 1, because the TorchScript exporter multiplies those of rank 0 in float32.
    doubles = [n.to(torch.float64).reshape(1) if isinstance(n, Tensor) else n for n in lengths]
    products = [torch.as_tensor(s, dtype=torch.float64).reshape(1) * n
                for n, s in zip(doubles, factors, strict=True)]  # fmt: skip
    return torch.cat([_whole_length(product) for product in products])


def _length(length: Any, factor: Any) -> Any:
    if isinstance(factor, float):
        _scripting_interpolate.check_factor(factor)
    if not isinstance(length, int):
        # (floor, of a number that is not negative: torch.export.save writes no math.floor)
        return math.trunc(length * factor)
    return math.floor(min(float(length) * factor, _TOO_LONG))


def _whole_length(product: Tensor) -> Tensor:
    """floor(product) as an integer; 0, which the op refuses, if there is none or it is negative.

    What a number beyond the integers becomes is not defined, so it is not converted.
    """
    limited = torch.clamp(product, max=_TOO_LONG)
    return torch.where(product >= 1, limited, torch.zeros_like(product)).floor().to(torch.int64)
