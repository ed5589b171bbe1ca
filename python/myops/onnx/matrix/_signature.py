"""The inputs of a model by name, and their axes whose length changes from run to run."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from myops._torch import arrays
from myops.onnx.matrix import narrow_floats

AxisNames = dict[str, dict[int, str]]


def as_module(model: Any) -> Any:
    """A torch.nn.Module that calls a function, with the function's parameters."""
    if isinstance(model, torch.nn.Module):
        return model

    class Call(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return model(*args, **kwargs)

    with contextlib.suppress(ValueError, TypeError):  # functions written in C may have no signature
        signature = inspect.signature(model)
        parameters = list(signature.parameters.values())
        positional = parameters and parameters[0].kind is inspect.Parameter.POSITIONAL_ONLY
        kind = inspect.Parameter.POSITIONAL_ONLY if positional else (
            inspect.Parameter.POSITIONAL_OR_KEYWORD)  # fmt: skip
        own = inspect.Parameter("self" if "self" not in signature.parameters else "module", kind)
        Call.forward.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[own, *parameters]
        )
    return Call()


def by_parameter(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs by parameter of forward, in its order."""
    schema = getattr(module.forward, "schema", None)
    if schema is not None:  # scripted
        names = [argument.name for argument in schema.arguments[1:]]
        return {**dict(zip(names, args, strict=False)), **kwargs}
    signature = inspect.signature(module.forward)
    found: dict[str, Any] = {}
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        else:
            found[name] = value
    return found


def leaves(values: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors and numbers by name; several in one parameter are "pair_0", "pair_1"."""
    found = {}
    for parameter, value in values.items():
        items = pytree.tree_leaves(value)
        for number, item in enumerate(items):
            if isinstance(item, (torch.Tensor, bool, int, float)):
                found[parameter if item is value else f"{parameter}_{number}"] = item
    return found


def changing_axes(runs: Sequence[Mapping[str, np.ndarray]]) -> AxisNames:
    """A name for every axis whose length is not the same in all runs."""
    first, *more = runs
    axes: AxisNames = {}
    for name, array in first.items():
        for axis, length in enumerate(array.shape):
            if any(feeds[name].shape[axis] != length for feeds in more):
                axes.setdefault(name, {})[axis] = f"{name}_{axis}"
    return axes


def dynamic_shapes(values: Mapping[str, Any], axes: AxisNames) -> Any:
    """The axes in the form of torch.export; None if there are none."""
    if not axes:
        return None
    result = {}
    for parameter, value in values.items():
        items, spec = pytree.tree_flatten(value)
        names = [parameter if item is value else f"{parameter}_{i}" for i, item in enumerate(items)]
        result[parameter] = pytree.tree_unflatten([axes.get(name) for name in names], spec)
    return result


def array(item: Any) -> np.ndarray:
    """A tensor or number as an array; bfloat16 and floats of 8 bits become float32, which is
    exact."""
    if isinstance(item, float):
        return np.asarray(item, np.float32)
    if not isinstance(item, torch.Tensor):
        return np.asarray(item)
    item = item.detach().cpu().resolve_conj().resolve_neg()
    return narrow_floats.fed(arrays.to_numpy(item))
