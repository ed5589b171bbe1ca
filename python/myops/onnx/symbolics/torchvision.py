"""Export of models that call torchvision's deform_conv2d, unchanged."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.onnx import symbolic_helper

from myops import _description
from myops._torch import torchvision
from myops.onnx.symbolics import registry, symbolic, translation

_LOWEST_OPSET = 9
_exporting: list[Any] = []  # the op's overload, while `registered` is entered


def register_torchvision() -> None:
    """Lets torch's exporters write `torchvision.ops.deform_conv2d` as the node myops::DeformConv.

    For plain `torch.onnx.export`, with dynamo=True and False, for models that are scripted too;
    `myops.onnx.export` does the same by itself. It replaces what onnxscript does with the op;
    models stay as they are, and so does what they compute in PyTorch. Calling it again changes
    nothing.

    Raises:
        RuntimeError: The op is not defined and torchvision cannot be imported.

    Example:
        >>> myops.onnx.register_torchvision()
        >>> class Shift(torch.nn.Module):
        ...     def forward(self, image, offset, weight):
        ...         return torchvision.ops.deform_conv2d(image, offset, weight)
        >>> args = torch.rand(1, 3, 8, 8), torch.rand(1, 18, 6, 6), torch.rand(4, 3, 3, 3)
        >>> program = torch.onnx.export(Shift().eval(), args, dynamo=True, verbose=False)
        >>> {node.domain for node in program.model_proto.graph.node}
        {...'myops'...}
    """
    overload = torchvision.overload("register_torchvision")
    torch.onnx.register_custom_op_symbolic(torchvision.NAME, _write_symbolic, _LOWEST_OPSET)
    translation.register_translation(overload, _write_translation)


@contextlib.contextmanager
def registered(wanted: bool) -> Iterator[None]:
    """Inside, what `register_torchvision` does, where the op is defined and nobody translates it.

    `myops.onnx.export` enters it; plain torch.onnx.export stays as it is.
    """
    from torch.onnx._internal.torchscript_exporter import registration

    packet = getattr(torch.ops.torchvision, "deform_conv2d", None)
    taken = torchvision.NAME in registry.names() or registration.registry.is_registered_op(
        torchvision.NAME, _LOWEST_OPSET
    )
    if not wanted or packet is None or taken:
        yield
        return
    torch.onnx.register_custom_op_symbolic(torchvision.NAME, _write_symbolic, _LOWEST_OPSET)
    _exporting.append(packet.default)
    try:
        yield
    finally:
        _exporting.pop()
        torch.onnx.unregister_custom_op_symbolic(torchvision.NAME, _LOWEST_OPSET)
        # torch keeps an entry without functions, on which its next error message fails.
        getattr(registration.registry, "_registry", {}).pop(torchvision.NAME, None)


def translations() -> dict[Any, Callable[..., Any]]:
    """For the exporter on torch.export, inside `registered`."""
    return dict.fromkeys(_exporting, _write_translation)


def _write_symbolic(g: Any, *arguments: Any) -> Any:
    tensors, given = arguments[: len(torchvision.TENSORS)], arguments[len(torchvision.TENSORS) :]
    settings = []
    for (name, kind), value in zip(torchvision.SETTINGS.items(), given, strict=True):
        settings.append(symbolic_helper._maybe_get_const(value, kind))
        if isinstance(settings[-1], torch._C.Value):
            raise ValueError(
                f"{torchvision.NAME}: {name}: got a value that is computed at run time, expected "
                "a constant: an attribute of an ONNX node cannot change"
            )
    return symbolic.emit(g, _info(), *torchvision.node(*tensors, *settings))


def _write_translation(*arguments: Any, **named: Any) -> Any:
    rest = [*torchvision.TENSORS, *torchvision.SETTINGS][len(arguments) :]
    inputs, attributes = torchvision.node(*arguments, *[named[name] for name in rest])
    return translation.translation(_info())(*inputs, **attributes)


def _info() -> _description.OpInfo:
    return _description.OPS["deform_conv2d"]
