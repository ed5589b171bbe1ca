"""Mistakes in the rules of a prototype (shape, backward, jvp, vmap): the errors name the op and the
rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_prototype_mistakes import made

import myops


@pytest.mark.parametrize(
    ("settings", "call", "text"),
    [
        ({"shape": lambda inputs, attributes: [[int("a")]]}, lambda op, x: op(x),
         "the shape rule raised ValueError: invalid literal"),
        ({"backward": lambda ctx, grad: grad, "jvp": lambda ctx, tangent: None},
         lambda op, x: torch.func.jvp(op, (x.detach(),), (x.detach(),)),
         "jvp: got None, expected the tangent of y"),
        ({"backward": lambda ctx, grad: grad.numpy()}, lambda op, x: op(x).sum().backward(),
         "backward: got ndarray, expected a tensor or None for each of x"),
        ({"backward": lambda ctx, grad: (1.0,)}, lambda op, x: op(x).sum().backward(),
         "backward: got float, expected a tensor or None for each of x"),
        ({"vmap": lambda op, info, dims, inputs, attributes: (op(*inputs), 5)},
         lambda op, x: torch.func.vmap(op)(x.detach()[None]),
         r"vmap: got axis 5 from the rule for a tensor of shape \[1, 3\]"),
        ({"shape": lambda inputs, attributes: [[myops.at_most(3)]]},
         lambda op, x: torch.func.vmap(op)(x.detach()[None][:0]),
         "vmap: got a batch of 0, expected at least 1: the data decides a length of the result"),
    ],
    ids=["shape", "jvp", "array", "number", "vmap", "batch"],
)  # fmt: skip
def test_mistakes_in_rules_name_the_op(
    settings: dict[str, Any], call: Callable[..., Any], text: str
) -> None:
    op = made(**settings)
    with pytest.raises(RuntimeError, match=rf"mistaken_\d+: {text}"):
        call(op, torch.rand(3, requires_grad=True))
