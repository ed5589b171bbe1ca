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

    This is for plain `torch.onnx.export`, with dynamo=True and False, also for scripted models;
    `myops.onnx.export` does the same by itself. It replaces onnxscript's translation of the op;
    models, and their results in PyTorch, do not change. Calling it again has no effect.

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
    """In this context, `register_torchvision` is active, if the op is defined and no user has
    registered it.

    `myops.onnx.export` uses it; plain torch.onnx.export does not change.
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
    """Translations for the exporter based on torch.export, within `registered`."""
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
