"""torchvision's deform_conv2d: its op, its arguments for our op, and the patch with our kernel.

torchvision is imported only to find its op, and not at all if the op is defined already.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch
from torch import Tensor

NAME = "torchvision::deform_conv2d"
TENSORS = ("input", "weight", "offset", "mask", "bias")
# The op's other arguments, and how the TorchScript exporter reads each from its graph.
SETTINGS: dict[str, Any] = {
    "stride_h": "i",
    "stride_w": "i",
    "pad_h": "i",
    "pad_w": "i",
    "dilation_h": "i",
    "dilation_w": "i",
    "groups": "i",
    "offset_groups": "i",
    "use_mask": "b",
}


class Patch:
    """The result of `patch_torchvision`; `remove()`, or the end of a `with`, undoes the patch."""

    def __init__(self, libraries: list[Any]) -> None:
        self._libraries = libraries
        # torch removes the kernels of a Library that is freed, so the patch keeps itself alive even
        # if the caller does not.
        _active.add(self)

    def remove(self) -> None:
        """Restores torchvision's own kernels. A second call has no effect."""
        for library in self._libraries:
            library._destroy()
        self._libraries = []
        _active.discard(self)

    def __enter__(self) -> Patch:
        return self

    def __exit__(self, *unused: object) -> None:
        self.remove()


_active: set[Patch] = set()


def patch_torchvision() -> Patch:
    """Lets `torchvision.ops.deform_conv2d` run on our kernel, on CPU tensors.

    With our kernel, bfloat16, gradients of gradients and autocast are supported, and results do not
    depend on the number of threads and are bit-identical to those of ONNX Runtime for the exported
    model. The patch changes the op, so it does not matter how and when a model imported the
    function; it also affects `torchvision.ops.DeformConv2d` and scripted models.

    Returns:
        A handle: `handle.remove()` undoes the patch. It is also a context manager. Without either,
        the patch stays.

    Raises:
        RuntimeError: The op is not defined and torchvision cannot be imported.

    Example:
        >>> image, weight = torch.rand(1, 3, 8, 8), torch.rand(4, 3, 3, 3)
        >>> offset = torch.rand(1, 18, 6, 6)
        >>> with myops.patch_torchvision():
        ...     result = torchvision.ops.deform_conv2d(image, offset, weight)
    """
    overload("patch_torchvision")
    library = torch.library.Library("torchvision", "IMPL")
    kernels = {"AutocastCPU": _differentiable, "AutogradCPU": _differentiable, "CPU": _plain}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"(?s).*Overriding a previously registered kernel")
        for key, kernel in kernels.items():
            library.impl("deform_conv2d", kernel, key, allow_override=True)
    return Patch([library])


def overload(caller: str) -> Any:
    """torchvision's op, which importing torchvision defines."""
    if not hasattr(torch.ops.torchvision, "deform_conv2d"):
        try:
            import torchvision  # noqa: F401
        except (ImportError, RuntimeError) as error:  # RuntimeError: built for another torch
            raise RuntimeError(
                f"{caller}: got no op {NAME}, expected one: torchvision cannot be imported: "
                f"{error}. Install a torchvision that fits torch {torch.__version__}."
            ) from error
    return torch.ops.torchvision.deform_conv2d.default


def node(
    input: Any, weight: Any, offset: Any, mask: Any, bias: Any, *settings: Any
) -> tuple[list[Any], dict[str, Any]]:
    """The inputs and attributes of our node for a call of torchvision's op."""
    known = dict(zip(SETTINGS, settings, strict=True))
    inputs = [input, weight, offset, bias, mask if known["use_mask"] else None]
    pads = [known["pad_h"], known["pad_w"]]
    return inputs, {
        "dilations": [known["dilation_h"], known["dilation_w"]],
        "group": known["groups"],
        "kernel_shape": [],
        "offset_group": known["offset_groups"],
        "pads": [*pads, *pads],
        "strides": [known["stride_h"], known["stride_w"]],
    }


def _differentiable(*arguments: Any) -> Tensor:
    inputs, attributes = node(*arguments)
    return _op()._deform_conv2d(*inputs, **attributes)


def _plain(*arguments: Any) -> Tensor:
    """The kernel; it runs below autograd, where a torch.autograd.Function would record nothing."""
    inputs, attributes = node(*arguments)
    return _op()._deform_conv2d.packet.default(*inputs, **attributes)


@functools.cache
def _op() -> Any:
    from myops.ops import deform_conv2d

    return deform_conv2d
