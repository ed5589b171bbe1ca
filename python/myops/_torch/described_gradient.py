"""Gradients that are computed by another op, described by `backward_of` in C++."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from myops._description import OpInfo

if TYPE_CHECKING:
    from myops._op_library import Library
    from myops._torch.call import TorchOp


def described(
    library: Library, info: OpInfo, name: str, save: Any
) -> tuple[Callable[..., None], Callable[..., Any], Callable[[TorchOp], None]]:
    """`save` and `backward` of an op whose gradient is computed by the op `name` of the library,
    and what is called with the op when it is made.

    Raises:
        ValueError: There is no such op, or its inputs and outputs are not those of a gradient of
            `info`; or the caller also gave `save`, which would not be used.
    """
    below = library.info(name)
    names = [item.name for item in info.inputs]
    grads = [f"grad_{item.name}" for item in info.outputs]
    found = [item.name.removeprefix("grad_") for item in below.outputs]
    if [item.name for item in below.inputs] != grads + names or not set(found) <= set(names):
        raise ValueError(
            f"{info.name}: backward: got {name!r}, whose inputs or outputs are not those of its "
            f"gradient; expected an op that C++ describes with backward_of(describe_{info.name}(), "
            "...)"
        )
    if save is not None:
        raise ValueError(
            f"{info.name}: save: got a function, expected none beside backward={name!r}, which "
            "gets all inputs and attributes"
        )

    def shape(inputs: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
        given = dict(zip(names, inputs[len(grads) :], strict=True))
        return [[0] if given[item] is None else given[item].shape for item in found]

    op = library.define(name, shape=shape)
    # Integers have no gradient; compilers pass zeros of some dtype instead.
    floats = [
        any("float" in d or "complex" in d for d in info.types[item.type]) for item in info.outputs
    ]

    def keep(ctx: Any, inputs: Sequence[Any], attributes: dict[str, Any], output: Any) -> None:
        ctx.attributes = attributes
        ctx.lists = [None if isinstance(item, torch.Tensor) else item for item in inputs]
        ctx.save_for_backward(
            *[item if isinstance(item, torch.Tensor) else None for item in inputs]
        )

    def run(ctx: Any, *arriving: Any) -> tuple[Any, ...]:
        saved = zip(ctx.saved_tensors, ctx.lists, strict=True)
        inputs = [other if tensor is None else tensor for tensor, other in saved]
        wanted = info.present(inputs, ctx.attributes)
        triples = zip(arriving, wanted, floats, strict=True)
        given = [grad if computed and real else None for grad, computed, real in triples]
        return gradients(given, inputs, ctx.needs_input_grad, ctx.attributes)

    def gradients(
        given: Sequence[Any], inputs: Sequence[Any], needed: Sequence[Any],
        attributes: dict[str, Any],
    ) -> tuple[Any, ...]:  # fmt: skip
        results = op.call((*given, *inputs), attributes)
        by_name = dict(zip(found, results if len(found) > 1 else [results], strict=True))
        return tuple(
            by_name.get(item) if wanted and value is not None else None
            for item, wanted, value in zip(names, needed, inputs, strict=False)
        )

    def recorded(
        grad: torch.Tensor, inputs: Sequence[Any], needed: Sequence[Any],
        attributes: dict[str, Any],
    ) -> tuple[Any, ...]:  # fmt: skip
        whole = [
            grad.new_empty(()).expand(item) if type(item) is tuple else item for item in inputs
        ]
        return gradients([grad], whole, needed, attributes)

    def use(differentiated: TorchOp) -> None:
        if floats == [True]:
            differentiated.use_gradient(op, recorded)

    return keep, run, use
