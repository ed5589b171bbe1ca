"""The Python half of the faulty ops: `FAULTS[name]` has the public function and the body.

Each is defined as an op should be, except for the one fault in its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from myops import _description
from myops._torch.call import TorchOp
from myops._torch.define import define


@dataclass(frozen=True)
class Fault:
    function: Callable[..., Tensor]
    standard: Callable[[Any], list[str]]


def standard(g: Any) -> list[str]:
    """The op in standard ONNX nodes."""
    alpha, beta = (g.constant(np.array(g.attribute(n), g.dtype("x"))) for n in ("alpha", "beta"))
    return [g.op("Add", g.op("Mul", g.op("MatMul", g.input("x"), g.input("w")), alpha), beta)]


def other_standard(g: Any) -> list[str]:
    alpha = g.constant(np.array(g.attribute("alpha"), g.dtype("x")))
    return [g.op("Mul", g.op("MatMul", g.input("x"), g.input("w")), alpha)]  # no beta


def no_standard(g: Any) -> list[str]:
    return g.refuse("nobody wrote it")


def shape(inputs: Any, attributes: dict[str, Any]) -> list[Any]:
    return [[inputs[0].shape[0]]]


def save(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.alpha = attributes["alpha"]


def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, w = ctx.saved_tensors
    return ctx.alpha * grad[:, None] * w, ctx.alpha * (grad @ x)


def half_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    return backward(ctx, grad)[0], None


def wrong_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, w = ctx.saved_tensors
    return grad[:, None] * w, grad @ x  # no alpha


def detached_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, w = ctx.saved_tensors
    x, w = x.detach(), w.detach()
    return ctx.alpha * grad[:, None] * w, ctx.alpha * (grad @ x)


def unwritten_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    to_x, to_w = backward(ctx, grad)
    # Without rows nothing is added to w, and nothing is written.
    return to_x, to_w if grad.shape[0] else torch.empty_like(to_w)


def odd_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    to_x, to_w = backward(ctx, grad)
    if grad.dtype == torch.float32 and grad.shape[0] > 16:  # the rest behind vectors, twice
        to_w = to_w + ctx.alpha * (grad[16:] @ ctx.saved_tensors[0][16:])
    return to_x, to_w


_library = torch.library.Library(_description.DOMAIN, "FRAGMENT")
_library.define("no_fake(Tensor grad, Tensor w) -> Tensor")
_library.impl("no_fake", lambda grad, w: grad[:, None] * w, "CPU")  # and no fake kernel


class _NoFake(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, grad: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(grad, w)
        return torch.ops.myops.no_fake(grad, w)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        rows, w = ctx.saved_tensors
        return grad @ w, rows @ grad


def no_fake_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, w = ctx.saved_tensors
    return ctx.alpha * _NoFake.apply(grad, w), ctx.alpha * (grad @ x)


def square_standard(g: Any) -> list[str]:
    return [g.op("Mul", g.input("x"), g.input("x"))]


LENGTHS = ("says_", "writes_first", "keeps_a_pointer", "makes_")  # that the kernel decides
RULES: dict[str, dict[str, Any]] = {  # what differs from a sound op, by name
    "fake_swapped": {"shape": lambda inputs, attributes: [[inputs[0].shape[1]]]},
    "fake_constant": {"shape": lambda inputs, attributes: [[int(inputs[0].shape[0])]]},
    "no_gradient": {"save": None, "backward": None},
    "half_gradient": {"backward": half_backward},
    "wrong_gradient": {"backward": wrong_backward},
    "detached": {"backward": detached_backward},
    "unwritten_gradient": {"backward": unwritten_backward},
    "odd_gradient": {"backward": odd_backward},
    "no_backward_fake": {"backward": no_fake_backward},
}
RULES |= {name: {"shape": None} for name in _description.OPS if name.startswith(LENGTHS)}
BODIES = {"other_body": other_standard, "no_body": no_standard}


def _swap_symbolic(op: TorchOp) -> None:
    """alpha and beta change places in the node of the TorchScript exporter."""

    def symbolic(g: Any, x: Any, w: Any, alpha: float, beta: float) -> Any:
        from myops.onnx.symbolics.symbolic import emit

        return emit(g, op.info, [x, w], {"alpha": beta, "beta": alpha})

    op.function.symbolic = staticmethod(symbolic)  # type: ignore[attr-defined]


def _fake_of(op: TorchOp, make: Callable[[Tensor, Tensor], Tensor]) -> None:
    name = op.overloads[0].name()

    def fake(x: Tensor, w: Tensor, *, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
        return make(x, w)

    torch.library.register_fake(name, fake, allow_override=True)


def _public(name: str, op: TorchOp) -> Callable[..., Tensor]:
    """The function that users call."""
    kept: dict[Any, Tensor] = {}

    def function(x: Tensor, w: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
        if name == "foreign_text" and x.dim() != 2:
            raise RuntimeError("bad input")
        if name == "taken_apart" and torch.compiler.is_compiling():
            return alpha * (x @ w) + beta
        result = op(x, w, alpha=alpha, beta=beta)
        if name == "one_buffer" and type(result) is Tensor:
            return kept.setdefault(result.shape, result.clone()).copy_(result)
        return result

    function.__name__ = name
    return function


def _make_square(name: str) -> Fault:
    """One of faulty_squares.cpp."""
    below = f"{name}_backward"
    op = define(
        name,
        backward=below if below in _description.OPS else None,
        standard=square_standard,
        shape=lambda inputs, attributes: [inputs[0].shape] * (1 if "and" not in name else 2),
    )
    return Fault(op, square_standard)


def _make(name: str) -> Fault:
    if name.startswith("square_"):
        return _make_square(name)
    rules = {"shape": shape, "save": save, "backward": backward, **RULES.get(name, {})}
    op = define(name, **rules, standard=BODIES.get(name, standard))
    if name == "swapped_symbolic":
        _swap_symbolic(op)
    if name == "fake_dtype":
        _fake_of(op, lambda x, w: op.fake.run(x, w).to(torch.float32))
    if name == "fake_silent":
        _fake_of(op, lambda x, w: x.new_empty(x.shape[0]))
    return Fault(_public(name, op), BODIES.get(name, standard))


FAULTS = {name: _make(name) for name, info in _description.OPS.items() if info.onnx_type}
