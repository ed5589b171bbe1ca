"""The fake kernel of an op: dtype, lengths and layout of its results, without their contents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from myops import _author_errors, _shape_rule
from myops._description import OpInfo
from myops._op_parts import DecidedLength
from myops._torch import decided_lengths, devices
from myops._torch.arrays import DTYPES
from myops._torch.autograd import given
from myops._torch.layouts import (
    channels_last,
    dense_strides,
    elementwise_strides,
    is_channels_last,
    is_dense,
    row_major,
)

# Tensors, lists of numbers (for `values` inputs) or of tensors, or None for what was left out.
Inputs = Sequence[Any]
Shape = Sequence[Any]


class FakeKernel:
    """The function that torch calls instead of the kernel if tensors have no contents."""

    def __init__(
        self, info: OpInfo, shape: Callable[[Inputs, dict[str, Any]], list[Shape]]
    ) -> None:
        """`shape`: the rule for symbolic lengths."""
        self._info = info
        self._shape = shape

    def run(self, *inputs: Any, **attributes: Any) -> Any:
        attributes = given(attributes)
        padded = self._padded(inputs)
        flat = self._info.flat(padded)
        shapes = self._concrete_shapes(padded, attributes)
        if shapes is None:
            devices.refuse_without_numbers(self._info, padded)
            shapes = self._symbolic_shapes(padded, attributes)
            if not isinstance(shapes, (list, tuple)) or len(shapes) != len(self._info.outputs):
                raise RuntimeError(
                    f"{self._info.name}: shape: got {shapes!r} from the rule, expected a list with "
                    f"the list of the lengths of each output, of {len(self._info.outputs)}"
                )
            shapes = [
                shape if shape is None else [self._length(length) for length in shape]
                for shape in shapes
            ]
            wanted = self._info.present(padded, attributes)
            shapes = [
                shape if is_wanted else [0] for is_wanted, shape in zip(wanted, shapes, strict=True)
            ]
        resolved = decided_lengths.resolved(self._info, flat, shapes)
        outputs = tuple(self._empty(flat, number, shape) for number, shape in enumerate(resolved))
        if not outputs:
            return None
        return outputs if len(outputs) > 1 else outputs[0]

    def _symbolic_shapes(self, inputs: Inputs, attributes: dict[str, Any]) -> Any:
        try:
            return self._shape(inputs, self._info.complete(attributes))
        except Exception as error:
            named = _author_errors.named(self._info.name, "the shape rule", error)
            if named is None:
                raise
            raise named from error

    def _length(self, length: Any) -> Any:
        """A length for a tensor. `_prototype/shape_rule.py` takes and refuses the same."""
        if isinstance(length, float) and length.is_integer() and length >= 0:
            return int(length)
        if isinstance(length, (float, torch.SymFloat, str)):
            raise RuntimeError(
                f"{self._info.name}: shape: got the length {length!r} from the rule, expected an "
                "integer from 0 on; of lengths, // is one and / is none"
            )
        return length

    def _padded(self, inputs: Inputs) -> list[Any]:
        """The dispatcher leaves out trailing arguments that have their default value."""
        return [*inputs, *[None] * (len(self._info.inputs) - len(inputs))]

    def known_result(self, inputs: Inputs, attributes: dict[str, Any]) -> torch.Tensor | None:
        """A tensor without contents for the single result, if its lengths are known."""
        padded = self._padded(inputs)
        shapes = self._concrete_shapes(padded, given(attributes))
        if shapes is None or any(isinstance(item, DecidedLength) for item in shapes[0]):
            return None
        return self._empty(self._info.flat(padded), 0, shapes[0])

    def _concrete_shapes(self, inputs: Inputs, attributes: dict[str, Any]) -> list[Shape] | None:
        """The shapes from the kernel's own shape rule, with its checks.

        None if a length of the result is unknown, because an input is symbolic or a number in a
        tensor without contents decides it, or if an attribute is symbolic.
        """
        wanted = self._info.present(inputs, attributes)
        inputs = self._info.flat(inputs)
        described = self._info.expanded(len(inputs))
        devices.check(described, inputs)
        if any(isinstance(value, torch.SymInt) for value in attributes.values()):
            return None
        values: list[Any] = []
        shapes: list[Any] = []
        for declared, item in zip(described.inputs, inputs, strict=True):
            if isinstance(item, torch.Tensor):
                shapes.append([dim if isinstance(dim, int) else None for dim in item.shape])
                values.append(None if None in shapes[-1] else devices.numbers(declared, item))
            else:
                shapes.append(None if item is None else [len(item)])
                known = item is not None and all(isinstance(v, (int, float)) for v in item)
                values.append(item if known else None)
        dtypes = [
            str(item.dtype).removeprefix("torch.") if isinstance(item, torch.Tensor) else None
            for item in inputs
        ]
        try:
            results = _shape_rule.infer_decided(described, shapes, dtypes, attributes, values)
        except ValueError as error:  # eager raises RuntimeError; a traced program must not differ
            raise RuntimeError(str(error)) from error
        found: list[Shape] = []
        for is_wanted, (_, dims) in zip(wanted, results, strict=True):
            if is_wanted and (dims is None or None in dims):
                return None
            found.append(dims if is_wanted else [0])  # type: ignore[arg-type]
        return found

    def _empty(self, inputs: Inputs, output: int, shape: Shape) -> torch.Tensor:
        kind = self._info.outputs[output].type
        described = self._info.expanded(len(inputs))
        tensors = [
            (info, item)
            for info, item in zip(described.inputs, inputs, strict=True)
            if isinstance(item, torch.Tensor)
        ]
        # The same rule as output_dtype() in csrc/core/invoke.cpp.
        declared = DTYPES[self._info.types[kind][0]]
        dtype = next((item.dtype for info, item in tensors if info.type == kind), declared)
        _, like = min(tensors, key=lambda pair: pair[0].values)  # those lie on the CPU
        if self._info.outputs[output].elementwise:
            operands = [item for _, item in tensors]
            if not all(is_dense(item, row_major(item.dim())) for item in operands):
                strides = elementwise_strides(operands, shape)
                return like.new_empty_strided(shape, strides, dtype=dtype)
            return like.new_empty(shape, dtype=dtype)
        first, follows = inputs[0], self._info.inputs[0].access in ("channels_last", "strided")
        follows = follows and isinstance(first, torch.Tensor)
        follows = follows and len(shape) == first.dim()
        if follows and is_channels_last(first, f"{self._info.name}: {self._info.inputs[0].name}"):
            return like.new_empty_strided(
                shape, dense_strides(shape, channels_last(len(shape))), dtype=dtype
            )
        return like.new_empty(shape, dtype=dtype)
