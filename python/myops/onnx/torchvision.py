"""Export of models that call torchvision's deform_conv2d, unchanged."""

from __future__ import annotations

from typing import Any

import torch
from torch.onnx import symbolic_helper

from myops import _description, _torchvision
from myops.onnx import symbolic, translation

_LOWEST_OPSET = 9


def register_torchvision() -> None:
    """Lets torch's exporters write `torchvision.ops.deform_conv2d` as the node myops::DeformConv.

    For `torch.onnx.export` and `myops.onnx.export`, with dynamo=True and False, for models that
    are scripted too. It replaces what onnxscript does with the op; models stay as they are, and
    so does what they compute in PyTorch. Calling it again changes nothing.

    Raises:
        RuntimeError: The op is not defined and torchvision cannot be imported.

    Example:
        >>> myops.onnx.register_torchvision()
        >>> myops.onnx.export(model_with_torchvision, (image,), "model.onnx")
    """
    overload = _torchvision.overload("register_torchvision")
    torch.onnx.register_custom_op_symbolic(_torchvision.NAME, _write_symbolic, _LOWEST_OPSET)
    translation.register_translation(overload, _write_translation)


def _write_symbolic(g: Any, *arguments: Any) -> Any:
    tensors, given = arguments[: len(_torchvision.TENSORS)], arguments[len(_torchvision.TENSORS) :]
    settings = []
    for (name, kind), value in zip(_torchvision.SETTINGS.items(), given, strict=True):
        settings.append(symbolic_helper._maybe_get_const(value, kind))
        if isinstance(settings[-1], torch._C.Value):
            raise ValueError(
                f"{_torchvision.NAME}: {name}: got a value that is computed at run time, expected "
                "a constant: an attribute of an ONNX node cannot change"
            )
    return symbolic.emit(g, _info(), *_torchvision.node(*tensors, *settings))


def _write_translation(*arguments: Any, **named: Any) -> Any:
    rest = [*_torchvision.TENSORS, *_torchvision.SETTINGS][len(arguments) :]
    inputs, attributes = _torchvision.node(*arguments, *[named[name] for name in rest])
    return translation.translation(_info())(*inputs, **attributes)


def _info() -> _description.OpInfo:
    return _description.OPS["deform_conv2d"]
