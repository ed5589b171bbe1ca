"""The torch side of an op, derived from its description: fake kernel, autograd, vmap, call paths.

`define` is called once in each `ops/<op>.py`, and `Library.define` in other packages. The op file
gives what cannot be derived (gradient, symbolic shape); everything with a name in it (schema,
attributes, node) comes from the description in C++.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from myops import _description, _direct, _libraries
from myops._description import OpInfo

_libraries.OURS.load_torch()

# Tensors, lists of numbers (for `values` inputs), or None for what was left out.
Inputs = Sequence[Any]
Shape = Sequence[Any]

DTYPES = {
    name: getattr(torch, name)
    for name in ("float16", "bfloat16", "float32", "float64", "uint8", "int32", "int64")
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class TorchOp:
    """One op as the public functions call it. Made by `Library.define`."""

    def __init__(
        self,
        info: OpInfo,
        library: Path | None,
        shape: Callable[[Inputs, dict[str, Any]], list[Shape]],
        save: Callable[..., None] | None,
        backward: Callable[..., tuple[torch.Tensor | None, ...]] | None,
        jvp: Callable[..., Any] | None,
        vmap: Callable[..., Any] | None,
    ) -> None:
        self.info = info
        self.symbolic_shape = shape
        self.packet = getattr(getattr(torch.ops, info.namespace), info.name)
        self._default = self.packet.default._op  # what its __call__ calls
        self._direct = _direct.caller(info, library) or _never
        self._lists = info.has_values
        self.overloads = [self.packet.default]
        if info.has_values:
            self.overloads.append(self.packet.values)
        self.defaults = {item.name: item.default for item in info.attributes}
        self.function = _make_function(self, save, backward, jvp, vmap)
        written_overloads = {"out", "values_out"} & set(self.packet.overloads())
        self._writes = bool(written_overloads)
        for written in written_overloads:
            title = getattr(self.packet, written).name()
            torch.library.register_fake(title, _no_result, allow_override=True)
        for overload in self.overloads:
            name = overload.name()
            torch.library.register_fake(name, self._fake, allow_override=True)
            torch.library.register_vmap(name, _make_vmap(self, overload, vmap))
            if save is not None and backward is not None:
                torch.library.register_autograd(
                    name, _make_backward(info, backward), setup_context=_make_setup(save)
                )
        if info.onnx_type:
            from myops.onnx import symbolic, translation

            symbolic.register(info)
            translation.register()

    def __call__(self, *inputs: Any, out: torch.Tensor | None = None, **attributes: Any) -> Any:
        """Calls the op; `inputs` in the description's order, attributes by name."""
        return self.call(inputs, attributes, out)

    def call(
        self,
        inputs: tuple[Any, ...],
        attributes: dict[str, Any],
        out: torch.Tensor | None = None,
    ) -> Any:
        """The same without the packing of arguments, which takes as long as a small kernel.

        Compilers and exporters of whole programs see the dispatcher op. The TorchScript exporter
        needs the `torch.autograd.Function`, whose `symbolic` it reads; eager autograd and
        torch.func use it too, because it is faster than the dispatcher's Python autograd. Where
        nothing asks for a gradient, plain tensors go past the dispatcher (see _direct.py), and
        others below its autograd, in which it would come back to Python.

        `out` takes the result, for ops with one output.
        """
        if _dynamo_reads():
            return self._dispatch(inputs, out, attributes)
        result = self._direct(inputs, attributes, out)
        if result is not NotImplemented:
            return result
        if torch.compiler.is_compiling():
            return self._dispatch(inputs, out, attributes)
        if (
            _functorch()
            or _forward_ad._current_level >= 0
            or (_grad_enabled() and _any_requires_grad(inputs))
            or (_tracing() is not None and torch.onnx.is_in_onnx_export())
        ):
            if out is not None:
                raise RuntimeError(
                    f"{self.info.name}: out: got a tensor in a call that is differentiated, "
                    "transformed or exported, expected none; call it under torch.no_grad()"
                )
            return self.function.apply(*inputs, *({**self.defaults, **attributes}.values()))
        with _BelowAutograd():
            if out is None and not self._lists:
                return self._default(*inputs, **attributes)
            return self._dispatch(inputs, out, attributes)

    def _dispatch(
        self, inputs: Inputs, out: torch.Tensor | None, attributes: dict[str, Any]
    ) -> Any:
        if out is None:
            return self.overload(inputs)(*inputs, **attributes)
        if not self._writes:
            raise RuntimeError(
                f"{self.info.name}: out: got a tensor, expected none: only ops in C++ with one "
                "output write into a given tensor"
            )
        overload = self.packet.values_out if self._has_lists(inputs) else self.packet.out
        overload(*inputs, **attributes, out=out)
        return out

    def overload(self, inputs: Inputs) -> Any:
        """The overload for these inputs: `values` when a list of numbers is among them."""
        return self.packet.values if self._has_lists(inputs) else self.packet.default

    def _has_lists(self, inputs: Inputs) -> bool:
        return self._lists and any(isinstance(item, (list, tuple)) for item in inputs)

    def _fake(self, *inputs: Any, **attributes: Any) -> Any:
        attributes = _given(attributes)
        # The dispatcher leaves out trailing arguments that have their default value.
        padded = [*inputs, *[None] * (len(self.info.inputs) - len(inputs))]
        shapes = self._concrete_shapes(padded, attributes)
        if shapes is None:
            shapes = self.symbolic_shape(padded, {**self.defaults, **attributes})
            shapes = [[_length(item) for item in shape] for shape in shapes]
        outputs = tuple(self._empty(padded, number, shape) for number, shape in enumerate(shapes))
        return outputs if len(outputs) > 1 else outputs[0]

    def _concrete_shapes(self, inputs: Inputs, attributes: dict[str, Any]) -> list[Shape] | None:
        """The kernel's own shape rule, with its checks, where every length is known.

        None where a length is symbolic, or where the result depends on numbers in a tensor.
        """
        values: list[Any] = []
        for item in inputs:
            if isinstance(item, torch.Tensor):
                if any(not isinstance(dim, int) for dim in item.shape):
                    return None
                values.append(None)
            else:
                if item is not None and any(not isinstance(v, (int, float)) for v in item):
                    return None
                values.append(item)
        shapes = [
            item.shape if isinstance(item, torch.Tensor) else None if item is None else [len(item)]
            for item in inputs
        ]
        dtypes = [
            str(item.dtype).removeprefix("torch.") if isinstance(item, torch.Tensor) else None
            for item in inputs
        ]
        try:
            results = _description.infer(self.info, shapes, dtypes, attributes, values)
        except ValueError as error:  # eager raises RuntimeError; a traced program must not differ
            raise RuntimeError(str(error)) from None
        found: list[Shape] = [d for _, d in results if d is not None and None not in d]
        return found if len(found) == len(results) else None

    def _empty(self, inputs: Inputs, output: int, shape: Shape) -> torch.Tensor:
        like = inputs[0]
        kind = self.info.outputs[output].type
        for item, info in zip(inputs, self.info.inputs, strict=True):
            if info.type == kind and isinstance(item, torch.Tensor):
                like = item
                break
        follows = self.info.inputs[0].access in ("channels_last", "strided")
        if follows and len(shape) == inputs[0].dim() and is_channels_last(inputs[0]):
            return like.new_empty_strided(shape, _channels_last_strides(shape))
        return like.new_empty(shape)


define = _libraries.OURS.define


def _length(item: Any) -> Any:
    """None stands for a length that only the kernel knows."""
    return torch.library.get_ctx().new_dynamic_size() if item is None else item


def is_channels_last(tensor: torch.Tensor) -> bool:
    """Whether results should be channels_last too; ambiguous layouts count as contiguous."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if tensor.dim() not in formats or tensor.is_contiguous():
        return False
    return tensor.is_contiguous(memory_format=formats[tensor.dim()])


def _channels_last_strides(shape: Shape) -> list[Any]:
    """As `strides_for` in tensor.h; lengths may be symbolic."""
    strides = [0] * len(shape)
    step = 1
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[axis] = step
        step = step * (max(shape[axis], 1) if isinstance(shape[axis], int) else shape[axis])
    return strides


def _given(attributes: dict[str, Any]) -> dict[str, Any]:
    """Without those that are None, which in the schema stands for an empty list."""
    return {name: value for name, value in attributes.items() if value is not None}


# Asked at every call, so without a detour through Python's modules.
_BelowAutograd = torch._C._AutoDispatchBelowAutograd
_dynamo_reads = torch.compiler.is_dynamo_compiling
_tracing = torch._C._get_tracing_state
_functorch = torch._C._are_functorch_transforms_active
_grad_enabled = torch.is_grad_enabled
_forward_ad = torch.autograd.forward_ad


def _never(inputs: Inputs, attributes: dict[str, Any], out: torch.Tensor | None) -> Any:
    """In place of a direct call where there is none."""
    return NotImplemented


def _any_requires_grad(inputs: Inputs) -> bool:
    for item in inputs:  # noqa: SIM110  (any() with a generator takes as long as a small op)
        if isinstance(item, torch.Tensor) and item.requires_grad:
            return True
    return False


def _no_result(*inputs: Any, **attributes: Any) -> None:
    """The fake kernel of overloads that write into `out`."""


def _make_setup(save: Callable[..., None]) -> Callable[..., None]:
    def setup_context(
        ctx: Any, inputs: Any, output: Any, keyword_only_inputs: dict[str, Any] | None = None
    ) -> None:
        save(ctx, inputs, _given(keyword_only_inputs or {}), output)

    return setup_context


def _make_backward(info: OpInfo, backward: Callable[..., Any]) -> Callable[..., Any]:
    def run(ctx: Any, *grads: Any) -> Any:
        # The dispatcher leaves out trailing arguments that have their default value, here too.
        given = ctx.needs_input_grad
        ctx.needs_input_grad = (*given, *[False] * (len(info.inputs) - len(given)))
        return backward(ctx, *grads)

    return run


def _make_function(
    op: TorchOp,
    save: Callable[..., None] | None,
    backward: Callable[..., tuple[torch.Tensor | None, ...]] | None,
    jvp: Callable[..., Any] | None,
    vmap: Callable[..., Any] | None,
) -> type[torch.autograd.Function]:
    """The `torch.autograd.Function`; its arguments are the inputs, then every attribute."""
    count = len(op.info.inputs)
    names = [item.name for item in op.info.attributes]

    def split(flat: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        return flat[:count], dict(zip(names, flat[count:], strict=True))

    def forward(*flat: Any) -> Any:
        inputs, attributes = split(flat)
        return op.overload(inputs)(*inputs, **attributes)

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        if save is not None:
            tensors, attributes = split(inputs)
            save(ctx, tensors, attributes, output)

    def run_backward(ctx: Any, *grads: Any) -> Any:
        if backward is None:
            raise RuntimeError(
                f"{op.info.namespace}.{op.info.name} is not differentiable. Detach its inputs, or "
                "call it under torch.no_grad()."
            )
        return (*backward(ctx, *grads), *[None] * len(names))

    def run_jvp(ctx: Any, *tangents: Any) -> Any:
        assert jvp is not None  # only a member of the class when there is a rule
        return jvp(ctx, *tangents[:count])

    def run_vmap(info: Any, in_dims: Any, *flat: Any) -> Any:
        inputs, attributes = split(flat)
        rule = vmap or _unrolled
        return rule(op, info, in_dims[:count], inputs, attributes)

    def symbolic(g: Any, *flat: Any) -> Any:
        from myops.onnx.symbolic import emit

        return emit(g, op.info, *split(flat))

    members = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(run_backward),
        "vmap": staticmethod(run_vmap),
        "symbolic": staticmethod(symbolic),
        "__doc__": op.info.doc,
    }
    if jvp is not None:
        members["jvp"] = staticmethod(run_jvp)
    title = "".join(word.capitalize() for word in op.info.name.split("_"))
    return type(f"{title}Function", (torch.autograd.Function,), members)


def _make_vmap(op: TorchOp, overload: Any, vmap: Callable[..., Any] | None) -> Callable[..., Any]:
    def rule(info: Any, in_dims: Any, *inputs: Any, **attributes: Any) -> Any:
        padded = [*inputs, *[None] * (len(op.info.inputs) - len(inputs))]
        dims = [*in_dims[: len(inputs)], *[None] * (len(padded) - len(inputs))]
        return (vmap or _unrolled)(op, info, dims, padded, _given(attributes))

    return rule


def _unrolled(
    op: TorchOp, info: Any, in_dims: Sequence[Any], inputs: Inputs, attributes: dict[str, Any]
) -> Any:
    """Right for any op: one call for each element of the batch."""

    def pick(item: Any, dim: Any, index: int) -> Any:
        return item.select(dim, index) if isinstance(dim, int) else item

    results = [
        op(*[pick(item, dim, i) for item, dim in zip(inputs, in_dims, strict=True)], **attributes)
        for i in range(info.batch_size)
    ]
    if isinstance(results[0], tuple):
        stacked = tuple(torch.stack(column) for column in zip(*results, strict=True))
        return stacked, (0,) * len(stacked)
    return torch.stack(results), 0
