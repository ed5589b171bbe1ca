"""`register_symbolic` for the exporter based on torch.export."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch

from myops.onnx.symbolics import registry

_BUILT = 18  # the lowest opset that the exporter writes
_NEWEST = 30  # beyond what any onnx knows


class DynamoContext(registry.GraphContext):
    """The `g` of a registered function."""

    def __init__(self, name: str) -> None:
        import onnxscript.evaluator

        self.name = name
        self._recorder = cast(Any, onnxscript.evaluator.default())
        self.opset = int(self._recorder.opset.version)

    def op(self, op_type: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        import onnx_ir as ir

        domain, colons, title = op_type.partition("::")
        registry.refuse_values(self, op_type, attributes, ir.Value)
        node = ir.Node(
            domain if colons else "",
            title if colons else op_type,
            self.inputs_of(op_type, inputs, ir.Value),
            ir.convenience.convert_attributes(
                {key: _attribute(value) for key, value in registry.written(attributes).items()}
            ),
            num_outputs=outputs,
            version=1 if colons else self.opset,
        )
        self._recorder.nodes.append(node)
        return node.outputs[0] if outputs == 1 else tuple(node.outputs)

    def dtype(self, value: Any) -> np.dtype | None:
        return None if value.dtype is None else np.dtype(value.dtype.numpy())

    def shape(self, value: Any) -> list[int | None] | None:
        if value.shape is None:
            return None
        return [dim if isinstance(dim, int) else None for dim in value.shape]


def _attribute(value: Any) -> Any:
    import onnx_ir as ir

    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        return ir.tensor(np.asarray(value))
    if isinstance(value, (list, tuple)):
        floats = any(isinstance(item, float) for item in value)
        return [float(item) if floats else item for item in value]
    return int(value) if isinstance(value, bool) else value


def _translate(name: str, overload: Any, *args: Any, **kwargs: Any) -> Any:
    g = DynamoContext(name)
    registration = registry.required(name, registry.wanted_opset(g.opset))
    values = [_python(item) for item in args]
    named = {key: _python(value) for key, value in kwargs.items()}
    return registry.apply(name, registration, g, overload._schema, values, named)


def _python(value: Any) -> Any:
    """A torch.dtype arrives as the enum of ONNX; the function gets its number."""
    import onnx_ir as ir

    if isinstance(value, ir.DataType):
        return int(value)
    return [_python(item) for item in value] if isinstance(value, (list, tuple)) else value


def table(opset: int) -> dict[Any, Callable[..., Any]]:
    """The overloads that have a registration for an opset, or that torch cannot translate."""
    chosen: dict[Any, tuple[str, int]] = {}
    for name in registry.names():
        found = registry.select(name, opset)
        for overload in registry.overloads_of(name):
            if found is None and _torchs_own(overload):
                continue
            rank = -1 if found is None else found.opsets[0]
            if overload not in chosen or rank >= chosen[overload][1]:
                chosen[overload] = (name, rank)
    return {
        overload: functools.partial(_translate, name, overload)
        for overload, (name, _) in chosen.items()
    }


def install(name: str) -> None:
    """Lets plain `torch.onnx.export(dynamo=True)` find the function too."""
    from torch.onnx._internal.exporter import _registration
    from torch.onnx._internal.exporter._torchlib import _torchlib_registry

    for overload in registry.overloads_of(name):
        for opset in range(_BUILT, _NEWEST):
            if registry.select(name, opset) is None or (name, overload, opset) in _installed:
                continue
            _installed.add((name, overload, opset))
            # For each opset one entry: torch keeps those with the newest `opset_introduced`.
            _torchlib_registry._registry.append(
                _registration.OnnxDecompMeta(
                    onnx_function=functools.partial(_translate, name, overload),
                    fx_target=overload,
                    signature=None,
                    is_custom=True,
                    opset_introduced=opset,
                    skip_signature_inference=True,
                )
            )


def uninstall(name: str) -> None:
    """Undoes `install`."""
    from torch.onnx._internal.exporter._torchlib import _torchlib_registry

    mine = [item for item in _installed if item[0] == name]
    _installed.difference_update(mine)
    entries = _torchlib_registry._registry
    entries[:] = [
        entry for entry in entries if not _is_of(getattr(entry, "onnx_function", None), name)
    ]


def _is_of(function: Any, name: str) -> bool:
    is_ours = isinstance(function, functools.partial) and function.func is _translate
    return is_ours and function.args[0] == name


_installed: set[tuple[str, Any, int]] = set()


def _torchs_own(overload: Any) -> bool:
    """Whether torch translates the overload without us."""
    from torch.onnx._internal.exporter import _registration

    known = torchs_registry(_registration).get_decomps(overload)
    return any(not meta.is_custom for meta in known)


@functools.cache
def torchs_registry(registration: Any) -> Any:
    """torch's own translations."""
    return registration.ONNXRegistry.from_torchlib()
