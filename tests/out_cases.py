"""The behaviour of torch.add with `out=` in each state of the tensors, for comparison.

It does not import myops, so that a process without its Python files can use it too.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

# A call that writes into `out` and returns it, or None.
Call = Callable[[Tensor, Tensor], Any]

MODES: dict[str, Callable[[], Any]] = {
    "grad": nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
}


def _non_leaf(tensor: Tensor) -> Tensor:
    return tensor.requires_grad_() * 1


def _inference(tensor: Tensor) -> Tensor:
    with torch.inference_mode():
        return tensor.clone()


class Subclass(torch.Tensor):
    """A tensor of another type, without any other difference."""


# What is done to a new tensor; the layout stays the same.
STATES: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda tensor: tensor,
    "leaf": lambda tensor: tensor.requires_grad_(),
    "parameter": torch.nn.Parameter,
    "frozen parameter": lambda tensor: torch.nn.Parameter(tensor, requires_grad=False),
    "non-leaf": _non_leaf,
    "detached": lambda tensor: _non_leaf(tensor).detach(),
    "view": lambda tensor: torch.stack([tensor, tensor])[1],
    "view of a leaf": lambda tensor: torch.stack([tensor, tensor]).requires_grad_()[0],
    "view of a parameter's data": lambda tensor: torch.nn.Parameter(tensor).data[:],
    "inference": _inference,
    "negated": lambda tensor: torch._neg_view(-tensor),
    "subclass": lambda tensor: tensor.as_subclass(Subclass),
}
INPUTS = ("plain", "leaf", "non-leaf", "detached", "inference", "negated")


def observe(call: Call, x: Tensor, out: Tensor, mode: str) -> dict[str, Any]:
    """The observable effects of a call."""
    counted = not out.is_inference()
    before = out._version if counted else None
    content = out.detach().clone()
    if counted:  # a product whose gradient needs the present values of `out`
        weight = torch.ones(out.shape, dtype=out.dtype, requires_grad=True)
        saved = (weight * out).sum()
    refused = ""
    with MODES[mode]():
        try:
            result = call(x, out)
        except (RuntimeError, NotImplementedError) as error:
            refused = str(error) or "without a word"
    seen = {
        "refused": bool(refused),
        "count": out._version - before if before is not None else None,
        "requires_grad": out.requires_grad,
        "leaf": out.is_leaf,
    }
    if not refused:
        seen["returned"] = result is out
    elif counted:  # torch.add refuses the tensors of inference mode after it has written to them
        seen["unchanged"] = torch.equal(out, content)
    if counted:
        seen["gradient"] = "of what was there"
        try:
            saved.backward()
        except RuntimeError as error:
            seen["gradient"] = str(error)[:50]  # "... has been modified by an inplace operation"
    return {**seen, "text": refused}


@functools.cache
def reference(x_state: str, out_state: str, mode: str, shape: Any) -> dict[str, Any]:
    """torch.add's, on tensors of one shape."""
    x, out = STATES[x_state](torch.ones(shape)), STATES[out_state](torch.zeros(shape))
    return observe(lambda x, out: torch.add(x, 1, out=out), x, out, mode)


def differences(
    call: Call,
    fresh: Callable[[], Tensor],
    want: Tensor,
    returns: bool = True,
    count: int | None = None,
) -> Iterator[str]:
    """The differences between a call and torch.add. `want`: the result for a plain x; `returns`:
    whether the call returns `out`; `count`: the number of states to draw, None for all."""
    states = [*itertools.product(INPUTS, STATES, MODES)]
    for x_state, out_state, mode in random.Random(0).sample(states, count or len(states)):
        x, out = STATES[x_state](fresh()), STATES[out_state](torch.zeros_like(want))
        seen = observe(call, x, out, mode)
        expected = reference(x_state, out_state, mode, want.shape)
        hidden = {"text"} if returns else {"text", "returned"}
        text = seen["text"]
        seen, expected = (
            {name: value for name, value in item.items() if name not in hidden}
            for item in (seen, expected)
        )
        where = f"x {x_state}, out {out_state}, {mode}: "
        if seen != expected:
            yield where + f"got {seen} {text}, expected {expected}"
        elif seen["refused"] and ": got a tensor " not in text:
            yield where + f"refused without the argument's name: {text}"
        elif not seen["refused"] and not torch.equal(out, want):
            yield where + "wrong numbers"
