"""Contexts in which a model has another forward, while an exporter calls it."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from myops.onnx.exporting import named_outputs
from myops.onnx.exporting.inputs import NUMBERS, Inputs
from myops.onnx.exporting.recorded import Recorded

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def has_integers(inputs: Inputs) -> bool:
    return any(_is_integer(inputs.tensor(slot)) for slot in inputs.slots)


def _is_integer(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.dim() == 0 and item.dtype in _INTEGERS


@contextlib.contextmanager
def reading_integers(model: Any) -> Iterator[None]:
    """In this context, forward gets the integer in each integer tensor of rank 0."""
    forward = model.forward

    @functools.wraps(forward)
    def reading(*args: Any, **kwargs: Any) -> Any:
        read = pytree.tree_map(
            lambda item: item.item() if _is_integer(item) else item, (args, kwargs)
        )
        return forward(*read[0], **read[1])

    with _replaced_forward(model, reading):
        yield


@contextlib.contextmanager
def building_in(model: Any, inputs: Inputs) -> Iterator[Any]:
    """Arguments for a trace without the numbers that should be constants: a trace makes every
    number among its arguments an input of the graph.

    Yields:
        (args, kwargs) with None for the numbers that are constants; forward puts them back.
    """
    if not inputs.constants:
        yield inputs.args, inputs.kwargs
        return
    forward, values = model.forward, inputs.values
    signature = inspect.signature(forward)

    @functools.wraps(forward)
    def filled(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        for name in set(inputs.constants).intersection(bound.arguments):
            old, spec = pytree.tree_flatten(values[name])
            new = pytree.tree_leaves(bound.arguments[name])
            pairs = zip(old, new, strict=True)
            bound.arguments[name] = pytree.tree_unflatten(
                [a if isinstance(a, NUMBERS) else b for a, b in pairs], spec
            )
        return forward(*bound.args, **bound.kwargs)

    with _replaced_forward(model, filled):
        yield pytree.tree_map(
            lambda item: None if isinstance(item, NUMBERS) else item, (inputs.args, inputs.kwargs)
        )


@contextlib.contextmanager
def by_position(model: Any, inputs: Inputs, recorded: Recorded) -> Iterator[None]:
    """In this context, forward takes all arguments that the caller gives by position, as a trace
    does, and has no others. The keys of its results are noted."""
    if not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule):
        yield
        return
    forward = model.forward
    signature = inspect.signature(forward)
    parameters = list(signature.parameters.values())
    count, named = len(inputs.args), list(inputs.kwargs)
    kinds = {item.kind for item in parameters}
    by_name = bool(named) or inspect.Parameter.KEYWORD_ONLY in kinds
    if by_name and inspect.Parameter.VAR_POSITIONAL not in kinds:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature(
            [inspect.Parameter(name, kind)
             for name in [*(item.name for item in parameters[:count]), *named]])  # fmt: skip
    else:
        by_name = False

    @functools.wraps(forward)
    def called(*args: Any, **kwargs: Any) -> Any:
        if by_name:
            args = signature.bind(*args, **kwargs).args
            args, kwargs = args[:count], dict(zip(named, args[count:], strict=True))
        result = forward(*args, **kwargs)
        recorded.keys = named_outputs.keys_of(result)
        return result

    called.__signature__ = signature  # type: ignore[attr-defined]
    with _replaced_forward(model, called):
        yield


@contextlib.contextmanager
def _replaced_forward(model: Any, forward: Callable[..., Any]) -> Iterator[None]:
    own = vars(model).get("forward")
    model.forward = forward
    try:
        yield
    finally:
        if own is not None:
            model.forward = own
        else:
            del model.forward
