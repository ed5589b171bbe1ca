"""Imports myops without one of torch's private names, and calls its ops. Run by
test_private_names.py in a process of its own."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch._dynamo
import torch.autograd.forward_ad


class Without:
    """A module or class without one of its names; torch itself keeps the original."""

    def __init__(self, inner: Any, hidden: str) -> None:
        self.__dict__.update(_inner=inner, _hidden=hidden)

    def __getattr__(self, name: str) -> Any:
        if name == self._hidden:
            raise AttributeError(name)
        return getattr(self._inner, name)


def main(hidden: str) -> None:
    owner, _, name = hidden.rpartition(".")
    whole = torch._C
    if owner == "forward_ad":
        torch.autograd.forward_ad = Without(torch.autograd.forward_ad, name)  # type: ignore
    elif owner == "Tensor":
        del torch.Tensor.__dlpack_c_exchange_api__
    elif owner:
        setattr(torch._C, owner, Without(getattr(torch._C, owner), name))
    else:
        torch._C = Without(torch._C, name)  # type: ignore
    import myops

    _ = myops.my_add, myops.resize, myops.interpolate, myops.deform_conv2d  # imported when asked
    torch._C = whole  # torch needs all of its names

    x = torch.rand(1, 2, 4, 5)
    weight, offset = torch.rand(3, 2, 1, 1), torch.zeros(1, 2, 4, 5)
    assert torch.equal(myops.my_add(x, x), 3 * x)
    assert torch.equal(myops.my_add(x, x, out=torch.empty_like(x)), 3 * x)
    assert torch.equal(myops.my_add(x.mT, x.mT), 3 * x.mT)
    convolved = torch.nn.functional.conv2d(x, weight)
    torch.testing.assert_close(myops.deform_conv2d(x, offset, weight), convolved)
    assert myops.resize(x, [1, 1, 2, 2]).shape == (1, 2, 8, 10)
    expected = torch.nn.functional.interpolate(x, scale_factor=2.5, mode="bilinear")
    found = myops.interpolate(x, scale_factor=torch.tensor(2.5), mode="bilinear")
    torch.testing.assert_close(found, expected)
    leaf = x.clone().requires_grad_()
    myops.my_add(leaf, x).sum().backward()
    assert leaf.grad is not None
    assert torch.equal(leaf.grad, torch.full_like(x, 2))
    assert torch.vmap(myops.my_add)(x, x).equal(3 * x)
    assert torch.func.jvp(lambda x: myops.my_add(x, x), (x,), (x,))[1].equal(3 * x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert myops.deform_conv2d(x, offset, weight).dtype == torch.bfloat16
    print("right")


main(sys.argv[1])
