"""Forward mode through the dispatcher: torch.ops of an op has the derivative of the op's function,
or refuses. torch itself would drop the tangents without an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.autograd.forward_ad as forward_ad

import myops

X = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4)
TANGENT = torch.ones_like(X)


def save(ctx: Any, inputs: Any, attributes: dict[str, Any], output: torch.Tensor) -> None:
    ctx.save_for_backward(output)
    ctx.limit = attributes["limit"]


def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
    (y,) = ctx.saved_tensors
    return tangent * (1 - (y / ctx.limit) ** 2)


def made(domain: str, **rules: Any) -> Any:
    return myops.prototype(
        lambda x, limit: limit * np.tanh(x / limit),
        name="soft",
        domain=domain,
        types={"T": ["float64"]},
        inputs=[myops.Input("x", "T", "Any.")],
        outputs=[myops.Output("y", "T", "Of the shape of x.")],
        attributes=[myops.Attribute("limit", 1.0, "?")],
        shape="S... -> S...",
        save=save,
        backward=jvp,
        **rules,
    )


def tangent_of(function: Any, requires_grad: bool = False) -> torch.Tensor | None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(X.clone().requires_grad_(requires_grad), TANGENT)
        return forward_ad.unpack_dual(function(dual)).tangent


@pytest.mark.parametrize("requires_grad", [False, True])
def test_torch_ops_have_the_derivative_of_the_function(requires_grad: bool) -> None:
    domain = f"tangents_{requires_grad}".lower()
    op = made(domain, jvp=jvp)
    below = getattr(torch.ops, domain).soft
    expected = 1 - torch.tanh(X / 2) ** 2
    for call in (op, below):
        found = tangent_of(lambda x, call=call: call(x, limit=2.0), requires_grad)
        assert found is not None
        torch.testing.assert_close(found.detach(), expected)
    assert torch.equal(below(X), op(X))
    with forward_ad.dual_level():
        assert forward_ad.unpack_dual(below(X)).tangent is None


def test_what_is_saved_for_backward_is_there_in_forward_mode_of_torch_func() -> None:
    op = made("tangents_saved", jvp=jvp)
    _, found = torch.func.jvp(lambda x: op(x, limit=2.0), (X,), (TANGENT,))
    torch.testing.assert_close(found, 1 - torch.tanh(X / 2) ** 2)


def test_tangents_are_not_dropped() -> None:
    domain = "tangents_none"
    op = made(domain)
    below = getattr(torch.ops, domain).soft
    for call in (op, below):
        with pytest.raises(NotImplementedError, match="soft has no derivative in forward mode"):
            tangent_of(call)
    with pytest.raises(NotImplementedError, match=r"torch.ops.tangents_none.soft in forward mode"):
        torch.func.jvp(below, (X,), (TANGENT,))


def test_shipped_ops_keep_tangents_below_their_functions() -> None:
    found = tangent_of(lambda x: torch.ops.myops.my_add(x, X))
    assert found is not None
    torch.testing.assert_close(found, 2 * TANGENT)
