"""Export of models that call torch.nn.functional.interpolate, unchanged, as our Resize."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx

from myops._torch import interpolate
from myops.onnx.symbolics import register, registry

_ANTIALIASED = tuple(name for name in interpolate.OPERATORS if name.endswith("_aa"))


def register_interpolate() -> None:
    """Lets torch's exporters write every `torch.nn.functional.interpolate` as myops::Resize.

    This is for plain `torch.onnx.export`, with dynamo=True and False; `myops.onnx.export` does the
    same with `register_interpolate=True`, and always for antialias=True, which torch's exporters do
    not support or write wrongly. The nodes round as torch does at any factor and opset; mode "area"
    is still written as adaptive pooling. Models, and their results in PyTorch, do not change; use
    `myops.patch_interpolate` for that. Calling it again has no effect.

    Example:
        >>> myops.onnx.register_interpolate()
        >>> model = torch.nn.Upsample(scale_factor=2.5, mode="bilinear").eval()
        >>> program = torch.onnx.export(model, torch.rand(1, 3, 8, 8), dynamo=True, verbose=False)
        >>> {node.domain for node in program.model_proto.graph.node}
        {...'myops'...}
    """
    for name in interpolate.OPERATORS:
        if _function(name) not in _registered_functions(name):
            register.register_symbolic(f"aten::{name}", _function(name))


@contextlib.contextmanager
def registered(wanted: bool | None) -> Iterator[None]:
    """In this context, `register_interpolate` is active for operators that no user has registered.

    Args:
        wanted: True: all; None: only those with antialias, or all while `patch_interpolate` is
            active; False: none.
    """
    if wanted is None:
        wanted_names: Sequence[str] = _ANTIALIASED
        if interpolate.is_patched():
            wanted_names = tuple(interpolate.OPERATORS)
    else:
        wanted_names = tuple(interpolate.OPERATORS) if wanted else ()
    functions = {f"aten::{name}": _function(name) for name in wanted_names}
    with register.registered_for_now(functions, registry.LOWEST):
        yield


@functools.cache
def _function(name: str) -> Any:
    return functools.partial(_write, name)


def _registered_functions(name: str) -> list[Any]:
    return [item.function for item in registry.registered.get(f"aten::{name}", [])]


def _write(name: str, g: Any, input: Any, *arguments: Any) -> Any:
    sizes, factors, attributes = interpolate.read(name, arguments)
    given = {key: value for key, value in attributes.items() if value is not False}
    scales = _joined(g, factors, np.float64) if factors is not None else ""
    lengths = _joined(g, sizes, np.int64) if factors is None else ""
    return g.op("myops::Resize", input, "", scales, lengths, **given)


def _joined(g: Any, numbers: Any, dtype: Any) -> Any:
    """Joins numbers to one value of the graph, even if they are computed at run time, in any type.

    torch's trace has lengths in float32 where recompute_scale_factor is set.
    """
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    if not isinstance(numbers, (list, tuple)):
        return g.op("Cast", numbers, to=kind)  # the exporter has joined them already
    if all(isinstance(item, (int, float)) for item in numbers):
        return g.constant(np.array(numbers, dtype))
    one = g.constant(np.array([1], np.int64))
    pieces = [
        g.constant(np.array([item], dtype))
        if isinstance(item, (int, float))
        else g.op("Cast", g.op("Reshape", item, one), to=kind)
        for item in numbers
    ]
    return pieces[0] if len(pieces) == 1 else g.op("Concat", *pieces, axis=0)
