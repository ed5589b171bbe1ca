"""Autograd of an op: the author's `save` and `backward` in the forms that torch needs for the
`torch.autograd.Function` of the public call and for the dispatcher."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from myops import _author_errors
from myops._description import OpInfo
from myops._torch import batching, private_names

if TYPE_CHECKING:
    from myops._torch.call import TorchOp

Backward = Callable[..., tuple[torch.Tensor | None, ...]]


def given(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes without those that are None, which in the schema means an empty list."""
    return {name: value for name, value in attributes.items() if value is not None}


def _refusing(info: OpInfo) -> Backward:
    """Used instead of a missing backward, because the dispatcher's default gradient is wrong and
    only warns."""

    def refuse(*_: Any) -> Any:
        raise RuntimeError(
            f"{info.namespace}.{info.name} is not differentiable. Detach its inputs, or call it "
            "under torch.no_grad()."
        )

    return refuse


def checked(info: OpInfo, backward: Callable[..., Any] | None) -> Backward:
    """`backward` with one gradient or None for each input; if there is none, one that refuses."""
    if backward is None:
        return _refusing(info)

    def run(ctx: Any, *grads: Any) -> tuple[torch.Tensor | None, ...]:
        try:
            found = backward(ctx, *grads)
        except Exception as error:
            _raise_named(info, "backward", error)
        of_list = isinstance(found, list) and info.is_variadic and len(info.inputs) == 1
        if found is None or isinstance(found, torch.Tensor) or of_list:  # of an op with one input
            found = (found,)
        if not isinstance(found, (tuple, list)):
            _refuse_gradient(info, found)
        if info.random and len(found) == len(info.inputs) - 1:
            found = (*found, None)  # for the key, which the author of the op did not declare
        for item in found:
            if not (item is None or isinstance(item, (torch.Tensor, list, tuple))):
                _refuse_gradient(info, item)
        if len(found) != len(info.inputs):
            raise RuntimeError(
                f"{info.name}: backward: got {len(found)} gradients, expected "
                f"{len(info.inputs)}: one or None for each of "
                + ", ".join(item.name for item in info.inputs)
            )
        return tuple(found)

    return run


def _raise_named(info: OpInfo, part: str, error: Exception) -> NoReturn:
    named = _author_errors.named(info.name, part, error)
    if named is None:
        raise error
    raise named from error


def _refuse_gradient(info: OpInfo, got: Any) -> NoReturn:
    raise RuntimeError(
        f"{info.name}: backward: got {type(got).__name__}, expected a tensor or None for each of "
        + ", ".join(item.name for item in info.inputs)
    )


def rounding(info: OpInfo, save: Callable[..., None] | None) -> Callable[..., None] | None:
    """`save` with all attributes, as the kernel sees them."""
    if save is None:
        return None

    def run(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
        try:
            save(ctx, inputs, info.rounded(info.complete(attributes)), output)
        except Exception as error:
            _raise_named(info, "save", error)

    return run


def setup_of(save: Callable[..., None] | None) -> Callable[..., None]:
    """The function that the dispatcher calls after a call that autograd records."""

    def setup_context(
        ctx: Any, inputs: Any, output: Any, keyword_only_inputs: dict[str, Any] | None = None
    ) -> None:
        if save is not None:
            save(ctx, inputs, keyword_only_inputs or {}, output)

    return setup_context


def dispatched(info: OpInfo, backward: Backward) -> Backward:
    """The backward of the dispatcher's op."""

    def run(ctx: Any, *grads: Any) -> Any:
        # The dispatcher leaves out trailing arguments that have their default value, here too.
        needed = ctx.needs_input_grad
        ctx.needs_input_grad = (*needed, *[False] * (len(info.inputs) - len(needed)))
        found = backward(ctx, *grads)
        if info.is_variadic and found[-1] is None:
            return (*found[:-1], [None] * len(needed[-1]))
        return found

    return run


def _backward_of(info: OpInfo, backward: Backward, extra: int) -> Backward:
    """The backward of a Function with this number of arguments after the inputs."""

    def run(ctx: Any, *grads: Any) -> Any:
        if not info.is_variadic:
            return (*backward(ctx, *grads), *[None] * extra)
        needed = ctx.needs_input_grad
        before = len(info.inputs) - 1  # inputs that are no list
        count = len(needed) - extra - before  # of the list
        listed = list(needed[before : before + count])
        ctx.needs_input_grad = (*needed[:before], listed, *needed[before + count :])
        *found, last = backward(ctx, *grads)
        ctx.needs_input_grad = needed
        given: Any = [None] * count if last is None else last
        if len(given) != count:
            raise RuntimeError(
                f"{info.name}: backward: got {len(given)} gradients for "
                f"{info.inputs[-1].name}, expected a list of {count}"
            )
        return (*found, *given, *[None] * extra)

    return run


def eager_function_of(
    op: TorchOp, save: Callable[..., None] | None, backward: Backward
) -> Callable[..., Any]:
    """A `torch.autograd.Function` for eager mode, as f(inputs, with the items of a list one by one,
    attributes). It has no `setup_context`, which torch.func needs, because torch would then inspect
    the signature at each call, which takes longer than a small kernel."""
    nested = op.info.nested if op.info.is_variadic else tuple

    # A fast call returns None for an output that the call leaves out, which `save` does not expect.
    may_be_fast = not any(item.only_if for item in op.info.outputs)

    def forward(ctx: Any, *arguments: Any) -> Any:
        *flat, attributes = arguments
        inputs = nested(flat)
        output = op.fast_call(inputs, attributes, None) if may_be_fast else NotImplemented
        if output is NotImplemented:
            output = op.overload(inputs)(*inputs, **attributes)
        if save is not None:
            save(ctx, inputs, attributes, output)
        return output

    members = {
        "forward": staticmethod(forward),
        "backward": staticmethod(_backward_of(op.info, backward, 1)),
        "__doc__": op.info.doc,
    }
    function: Any = type(_title(op.info), (torch.autograd.Function,), members)
    apply: Callable[..., Any] = function.apply
    return apply


def _title(info: OpInfo) -> str:
    return "".join(word.capitalize() for word in info.name.split("_")) + "Function"


class _SavesForJvp:
    """The ctx of a `save` whose op has a jvp: what it saves for backward is saved for jvp too.

    torch has two lists, and gives jvp an empty one where only the other is filled.
    """

    def __init__(self, ctx: Any) -> None:
        object.__setattr__(self, "_ctx", ctx)
        object.__setattr__(self, "_has_own", False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)

    def save_for_backward(self, *tensors: torch.Tensor | None) -> None:
        self._ctx.save_for_backward(*tensors)
        if not self._has_own:
            self._ctx.save_for_forward(*tensors)

    def save_for_forward(self, *tensors: torch.Tensor | None) -> None:
        object.__setattr__(self, "_has_own", True)
        self._ctx.save_for_forward(*tensors)


def function_of(
    op: TorchOp,
    save: Callable[..., None] | None,
    backward: Backward,
    jvp: Callable[..., Any] | None,
    vmap: Callable[..., Any] | None,
) -> type[torch.autograd.Function]:
    """The `torch.autograd.Function`; its arguments are the inputs, with the items of a list one by
    one, then every attribute."""
    nested = op.info.nested if op.info.is_variadic else tuple
    names = [item.name for item in op.info.attributes]
    # A trace has no lists of strings; an exporter reads `symbolic` below, not the trace.
    listed = any(item.type == "strings" for item in op.info.attributes)

    def split(flat: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        count = len(flat) - len(names)
        return nested(flat[:count]), dict(zip(names, flat[count:], strict=True))

    def forward(*flat: Any) -> Any:
        inputs, attributes = split(flat)
        with private_names.untraced() if listed else contextlib.nullcontext():
            return op.overload(inputs)(*inputs, **attributes)

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        if save is not None:
            tensors, attributes = split(inputs)
            save(_SavesForJvp(ctx) if jvp is not None else ctx, tensors, attributes, output)

    def run_jvp(ctx: Any, *tangents: Any) -> Any:
        if jvp is None:
            raise NotImplementedError(
                f"{op.info.namespace}.{op.info.name} has no derivative in forward mode. Take it in "
                "reverse mode: torch.func.vjp, torch.func.jacrev."
            )
        try:
            found = jvp(ctx, *split(tangents)[0])
        except Exception as error:
            _raise_named(op.info, "jvp", error)
        kinds = op.info.types[op.info.outputs[0].type]
        if found is None and any(kind.startswith(("float", "bfloat", "complex")) for kind in kinds):
            raise RuntimeError(
                f"{op.info.name}: jvp: got None, expected the tangent of {op.info.outputs[0].name}"
            )
        count = len(found) if isinstance(found, (tuple, list)) else 1
        if count != len(op.info.outputs):
            raise RuntimeError(
                f"{op.info.name}: jvp: got {count} tangents, expected {len(op.info.outputs)}: one "
                "or None for each of " + ", ".join(item.name for item in op.info.outputs)
            )
        return found

    def run_vmap(info: Any, in_dims: Any, *flat: Any) -> Any:
        inputs, attributes = split(flat)
        rule = vmap or batching.unrolled
        # The arguments of a random op contain its key or seed here.
        called = batching.Decided(op) if op.info.random else op
        attributes = op.info.complete(attributes)
        return batching.called(rule, called, info, split(in_dims)[0], inputs, attributes)

    def symbolic(g: Any, *flat: Any) -> Any:
        from myops.onnx.symbolics.symbolic import emit

        return emit(g, op.info, *split(flat))

    members = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(_backward_of(op.info, backward, len(names))),
        "jvp": staticmethod(run_jvp),
        "vmap": staticmethod(run_vmap),
        "symbolic": staticmethod(symbolic),
        "__doc__": op.info.doc,
    }
    return type(_title(op.info), (torch.autograd.Function,), members)
