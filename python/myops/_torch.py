"""The torch side of an op, derived from its description: fake kernel, autograd, vmap, call paths.

`define` is called once in each `ops/<op>.py`, and `Library.define` in other packages. The op file
gives what cannot be derived (gradient, symbolic shape); everything with a name in it (schema,
attributes, node) comes from the description in C++.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from myops import _autograd, _batches, _description, _devices, _direct, _libraries, _out
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
        self._default = getattr(
            self.packet.default, "_op", self.packet.default
        )  # what its __call__ calls
        self._direct = _direct.caller(info, library) or _never
        self._lists = info.has_values
        self.overloads = [self.packet.default]
        if info.has_values:
            self.overloads.append(self.packet.values)
        self.defaults = {item.name: item.default for item in info.attributes}
        gradient = _autograd.checked(info, backward)
        self.function = _autograd.function_of(self, save, gradient, jvp, vmap)
        self._written = [
            _out.OutOverload(self, getattr(self.packet, written), getattr(self.packet, functional))
            for written, functional in (("out", "default"), ("values_out", "values"))
            if written in self.packet.overloads()
        ]
        for overload in self.overloads:
            name = overload.name()
            torch.library.register_fake(name, self._fake, allow_override=True)
            torch.library.register_vmap(name, _make_vmap(self, overload, vmap))
            torch.library.register_autograd(
                name,
                _autograd.dispatched(info, gradient),
                setup_context=_autograd.setup_of(save),
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
            or (_grad_enabled() and _any_requires_grad((*inputs, out)))
            or (_tracing() is not None and torch.onnx.is_in_onnx_export())
        ):
            if out is not None:
                return self._dispatch(inputs, out, attributes)
            values = {**self.defaults, **attributes}
            if len(values) != len(self.defaults):
                raise self._unknown(attributes)
            return self.function.apply(*inputs, *values.values())
        if out is not None:
            before = _out.version(out)
            with _BelowAutogradAndCounts():
                self._dispatch(inputs, out, attributes)
            _out.count_write(out, before)
            return out
        with _BelowAutograd():
            if not self._lists:
                return self._default(*inputs, **attributes)
            return self._dispatch(inputs, None, attributes)

    def _dispatch(
        self, inputs: Inputs, out: torch.Tensor | None, attributes: dict[str, Any]
    ) -> Any:
        if out is None:
            return self.overload(inputs)(*inputs, **attributes)
        if not self._written:
            raise RuntimeError(
                f"{self.info.name}: out: got a tensor, expected none: only ops in C++ with one "
                "output write into a given tensor"
            )
        overload = self.packet.values_out if self._has_lists(inputs) else self.packet.out
        overload(*inputs, **attributes, out=out)
        return out

    def _unknown(self, attributes: dict[str, Any]) -> TypeError:
        wrong = [name for name in attributes if name not in self.defaults]
        return TypeError(
            f"{self.info.name}: attributes: got {wrong[0]!r}, expected one of "
            + ", ".join(map(repr, self.defaults))
        )

    def overload(self, inputs: Inputs) -> Any:
        """The overload for these inputs: `values` when a list of numbers is among them."""
        return self.packet.values if self._has_lists(inputs) else self.packet.default

    def _has_lists(self, inputs: Inputs) -> bool:
        return self._lists and any(isinstance(item, (list, tuple)) for item in inputs)

    def _fake(self, *inputs: Any, **attributes: Any) -> Any:
        attributes = _autograd.given(attributes)
        padded = self._padded(inputs)
        shapes = self._concrete_shapes(padded, attributes)
        if shapes is None:
            _devices.refuse_without_numbers(self.info, padded)
            shapes = self.symbolic_shape(padded, {**self.defaults, **attributes})
            shapes = [[_length(item) for item in shape] for shape in shapes]
        outputs = tuple(self._empty(padded, number, shape) for number, shape in enumerate(shapes))
        return outputs if len(outputs) > 1 else outputs[0]

    def _padded(self, inputs: Inputs) -> list[Any]:
        """The dispatcher leaves out trailing arguments that have their default value."""
        return [*inputs, *[None] * (len(self.info.inputs) - len(inputs))]

    def known_result(self, inputs: Inputs, attributes: dict[str, Any]) -> torch.Tensor | None:
        """A tensor like the one result, without contents, where its lengths are known."""
        padded = self._padded(inputs)
        shapes = self._concrete_shapes(padded, _autograd.given(attributes))
        return None if shapes is None else self._empty(padded, 0, shapes[0])

    def _concrete_shapes(self, inputs: Inputs, attributes: dict[str, Any]) -> list[Shape] | None:
        """The kernel's own shape rule, with its checks, where every length is known.

        None where a length is symbolic, or where the result depends on numbers in a tensor that
        has no contents.
        """
        _devices.check(self.info, inputs)
        values: list[Any] = []
        for declared, item in zip(self.info.inputs, inputs, strict=True):
            if isinstance(item, torch.Tensor):
                if any(not isinstance(dim, int) for dim in item.shape):
                    return None
                values.append(_devices.numbers(declared, item))
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
        kind = self.info.outputs[output].type
        given = [
            (info, item)
            for info, item in zip(self.info.inputs, inputs, strict=True)
            if isinstance(item, torch.Tensor)
        ]
        # As output_dtype() in csrc/core/invoke.cpp.
        declared = DTYPES[self.info.types[kind][0]]
        dtype = next((item.dtype for info, item in given if info.type == kind), declared)
        _, like = min(given, key=lambda pair: pair[0].values)  # those lie on the CPU
        first, follows = inputs[0], self.info.inputs[0].access in ("channels_last", "strided")
        if follows and len(shape) == first.dim() and is_channels_last(first):
            return like.new_empty_strided(shape, _channels_last_strides(shape), dtype=dtype)
        return like.new_empty(shape, dtype=dtype)


define = _libraries.OURS.define


def _length(item: Any) -> Any:
    """None stands for a length that only the kernel knows."""
    return torch.library.get_ctx().new_dynamic_size() if item is None else item


CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def is_channels_last(tensor: torch.Tensor) -> bool:
    """Whether results should be channels_last too; ambiguous layouts count as contiguous."""
    if tensor.dim() not in CHANNELS_LAST or tensor.is_contiguous():
        return False
    return tensor.is_contiguous(memory_format=CHANNELS_LAST[tensor.dim()])


def _channels_last_strides(shape: Shape) -> list[Any]:
    """As `strides_for` in tensor.h; lengths may be symbolic."""
    strides = [0] * len(shape)
    step = 1
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[axis] = step
        step = step * (max(shape[axis], 1) if isinstance(shape[axis], int) else shape[axis])
    return strides


def _tracing_or_none() -> Any:
    return torch.jit.is_tracing() or None


class _ForwardLevel:
    """The level of forward mode, where torch does not say it: one less than the next."""

    @property
    def _current_level(self) -> int:
        level: int = _direct.private("_enter_dual_level")()
        _direct.private("_exit_dual_level")(level=level)
        return level - 1


def _below_functorch() -> bool:
    stack = _direct.private("_functorch.peek_interpreter_stack")
    return stack is None or stack() is not None


# Asked at every call, so without a detour through Python's modules. Private names of torch make a
# call faster, never possible.
_BelowAutograd = _direct.private("_AutoDispatchBelowAutograd") or contextlib.nullcontext
_BelowAutogradAndCounts = (
    _direct.private("_AutoDispatchBelowADInplaceOrView") or contextlib.nullcontext
)
_dynamo_reads = torch.compiler.is_dynamo_compiling
_tracing = _direct.private("_get_tracing_state") or _tracing_or_none
_functorch = _direct.private("_are_functorch_transforms_active") or _below_functorch
_grad_enabled = torch.is_grad_enabled
_forward_ad: Any = torch.autograd.forward_ad
if not hasattr(_forward_ad, "_current_level"):
    _forward_ad = _ForwardLevel()


def _never(inputs: Inputs, attributes: dict[str, Any], out: torch.Tensor | None) -> Any:
    """In place of a direct call where there is none."""
    return NotImplemented


def _any_requires_grad(inputs: Inputs) -> bool:
    for item in inputs:  # noqa: SIM110  (any() with a generator takes as long as a small op)
        if isinstance(item, torch.Tensor) and item.requires_grad:
            return True
    return False


def _make_vmap(op: TorchOp, overload: Any, vmap: Callable[..., Any] | None) -> Callable[..., Any]:
    def rule(info: Any, in_dims: Any, *inputs: Any, **attributes: Any) -> Any:
        padded = [*inputs, *[None] * (len(op.info.inputs) - len(inputs))]
        dims = [*in_dims[: len(inputs)], *[None] * (len(padded) - len(inputs))]
        return (vmap or _batches.unrolled)(
            _batches.Dispatched(op), info, dims, padded, _autograd.given(attributes)
        )

    return rule
