"""torch's interpolation: its operators, their arguments for our op, and the patch with our
kernel."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from myops._torch.observing import ObservingMode
from myops._torch.torchvision import Patch

# The operators behind torch.nn.functional.interpolate, with mode and number of lengths. "area" is
# adaptive_avg_pool, and is not one of them.
OPERATORS = {
    "upsample_nearest1d": ("nearest", 1),
    "upsample_nearest2d": ("nearest", 2),
    "upsample_nearest3d": ("nearest", 3),
    "_upsample_nearest_exact1d": ("nearest-exact", 1),
    "_upsample_nearest_exact2d": ("nearest-exact", 2),
    "_upsample_nearest_exact3d": ("nearest-exact", 3),
    "upsample_linear1d": ("linear", 1),
    "upsample_bilinear2d": ("bilinear", 2),
    "upsample_trilinear3d": ("trilinear", 3),
    "upsample_bicubic2d": ("bicubic", 2),
    "_upsample_bilinear2d_aa": ("bilinear", 2),
    "_upsample_bicubic2d_aa": ("bicubic", 2),
}
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def read(
    name: str, arguments: Sequence[Any]
) -> tuple[list[Any] | None, list[Any] | None, dict[str, Any]]:
    """Sizes, factors and attributes of our node for a call of an operator.

    Args:
        name: One of OPERATORS.
        arguments: Those after the input, of either overload: output lengths, align_corners (if the
            mode has it), and the factors as one list or one by one.
    """
    from myops.ops.interpolate import _ATTRIBUTES

    mode, count = OPERATORS[name]
    sizes, *rest = arguments
    align_corners = bool(rest.pop(0)) if "nearest" not in mode else False
    listed = isinstance(rest[0], (list, tuple)) if rest else False
    factors = list(rest[0]) if listed else [item for item in rest if item is not None]
    if factors and len(factors) != count:
        raise ValueError(f"{name}: got {len(factors)} factors, expected {count} or none")
    attributes = _ATTRIBUTES[mode, align_corners, name.endswith("_aa"), count]
    return sizes, factors or None, attributes


_active: list[InterpolatePatch] = []


class InterpolatePatch(Patch):
    """The result of `patch_interpolate`; `remove()`, or the end of a `with`, undoes the patch."""

    def remove(self) -> None:
        super().remove()
        if self in _active:
            _active.remove(self)


def is_patched() -> bool:
    """Whether a patch is active."""
    return bool(_active)


def patch_interpolate() -> Patch:
    """Lets `torch.nn.functional.interpolate` run on our kernel, on CPU tensors of floats.

    The results are those of `myops.interpolate`: equal to torch's within 1e-5 in float32, and
    bit-identical to those of ONNX Runtime for the exported model, because `myops.onnx.export`
    writes interpolations as myops::Resize while the patch is active. It changes torch's operators,
    so it does not matter how and when a model imported the function; it also affects `nn.Upsample`
    and scripted models. Gradients, code that torch.compile generates, uint8 and mode "area" are not
    changed.

    Returns:
        A handle: `handle.remove()` undoes the patch. It is also a context manager. Without either,
        the patch stays.

    Example:
        >>> image = torch.rand(1, 3, 8, 8)
        >>> with myops.patch_interpolate():
        ...     result = torch.nn.functional.interpolate(image, scale_factor=2.5, mode="bicubic")
        >>> torch.equal(result, myops.interpolate(image, scale_factor=2.5, mode="bicubic"))
        True
    """
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"(?s).*Overriding a previously registered kernel")
        for name in OPERATORS:
            kernel = functools.partial(_run, name)
            library.impl(name, kernel, "CPU", allow_override=True)
    patch = InterpolatePatch([library])
    _active.append(patch)
    return patch


class OnePixelWide(ObservingMode):
    """In this context, antialiased images of floats that are one pixel wide have correct rows.

    torch 2.13 to 2.15 gives all their rows the values of the first.

    found: Whether there was one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def observed(self, function: Any, args: Any, given: dict[str, Any]) -> Any:
        name = function.name().removeprefix("aten::").partition(".")[0]
        if name.endswith("_aa") and name in OPERATORS and args[1] and args[1][-1] == 1:
            self.found = True
            return _run(name, *args)
        return function(*args, **given)


def _run(name: str, input: Tensor, *arguments: Any) -> Tensor:
    """The kernel for CPU tensors, below autograd: gradients come from torch's formula."""
    sizes, factors, attributes = read(name, arguments)
    assert sizes is not None  # the overload with sizes is the one that has kernels
    if input.dtype not in _FLOATS or not _consistent(input, sizes, factors):
        return _torchs(name, input, arguments)
    return _resize().packet.values(
        input, None, factors, None if factors else list(sizes), **attributes
    )


def _consistent(input: Tensor, sizes: Sequence[int], factors: Sequence[float] | None) -> bool:
    """Whether the lengths follow from the factors, as they do for every call of interpolate."""
    if factors is None:
        return True
    lengths = zip(input.shape[2:], sizes, factors, strict=True)
    return all(math.floor(float(old) * factor) == new for old, new, factor in lengths)


def _torchs(name: str, input: Tensor, arguments: Sequence[Any]) -> Tensor:
    """torch's own kernel: that of the overload with out=."""
    sizes = arguments[0]
    out = input.new_empty([*input.shape[:2], *sizes])
    layout = torch.channels_last if input.dim() == 4 else torch.channels_last_3d
    if input.dim() > 3 and input.is_contiguous(memory_format=layout) and input.shape[1] > 1:
        out = out.contiguous(memory_format=layout)
    return getattr(torch.ops.aten, name).out(input, *arguments, out=out)


@functools.cache
def _resize() -> Any:
    from myops.ops.resize import _resize

    return _resize
