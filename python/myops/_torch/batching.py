"""torch.func.vmap for ops without a rule: one call for each element of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from myops import _author_errors
from myops._description import OpInfo
from myops._op_parts import InputInfo
from myops._torch import decided_lengths


class Dispatched:
    """The op for vmap rules that the dispatcher calls: calls go through the dispatcher.

    torch.func cannot use a `torch.autograd.Function` there.
    """

    def __init__(self, op: Any) -> None:
        self.info = op.info
        self._op = op

    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        return self._op.overload(inputs)(*inputs, **attributes)


class Decided:
    """A random op for vmap rules: called with its key or seed."""

    def __init__(self, op: Any) -> None:
        self.info = op.info
        self._op = op

    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        return self._op.call(inputs, attributes)


def called(
    rule: Callable[..., Any], op: Any, info: Any, in_dims: Sequence[Any], inputs: Sequence[Any],
    attributes: dict[str, Any],
) -> tuple[Any, Any]:  # fmt: skip
    """What a vmap rule returns, if it is (outputs, out_dims)."""
    try:
        found = rule(op, info, in_dims, inputs, attributes)
    except Exception as error:
        named = _author_errors.named(op.info.name, "vmap", error)
        if named is None:
            raise
        raise named from error
    return checked(op.info, found)


def checked(info: OpInfo, found: Any) -> tuple[Any, Any]:
    """What a vmap rule returned, if it is (outputs, out_dims)."""

    def is_dim(item: Any) -> bool:
        return item is None or isinstance(item, int)

    count = len(info.outputs)
    good = isinstance(found, (tuple, list)) and len(found) == 2
    if good:
        outputs, dims = found
        listed = isinstance(outputs, (tuple, list))
        good = (len(outputs) if listed else 1) == count
        several = listed and isinstance(dims, (tuple, list)) and len(dims) == count
        good = good and (is_dim(dims) or (several and all(map(is_dim, dims))))
    if not good:
        each = ", each a tuple of " + str(count) if count > 1 else ""
        raise RuntimeError(
            f"{info.name}: vmap: got {_told(found)} from the rule, expected (outputs, out_dims)"
            f"{each}: the axis of the batch in each output, or None"
        )
    pairs = zip(outputs, dims if several else [dims] * count, strict=True) if listed else (
        [(outputs, dims)]
    )  # fmt: skip
    for output, dim in pairs:
        rank = output.dim() if isinstance(output, torch.Tensor) else 0
        if dim is not None and not -rank <= dim < rank:
            raise RuntimeError(
                f"{info.name}: vmap: got axis {dim} from the rule for {_told(output)}, expected "
                "the axis of the batch in it, or None"
            )
    return outputs, dims


def _told(item: Any) -> str:
    if isinstance(item, (tuple, list)):
        return f"({', '.join(map(_told, item))})"
    return f"a tensor of shape {list(item.shape)}" if isinstance(item, torch.Tensor) else repr(item)


def unrolled(
    op: Any, info: Any, in_dims: Sequence[Any], inputs: Sequence[Any], attributes: dict[str, Any]
) -> Any:
    """The vmap rule for any op: one call for each element of the batch."""
    if info.batch_size == 0:
        return _to_nothing(op, in_dims, inputs, attributes)

    def pick(item: Any, dim: Any, index: int) -> Any:
        if isinstance(item, (list, tuple)) and isinstance(dim, (list, tuple)):
            return [pick(one, other, index) for one, other in zip(item, dim, strict=True)]
        return item.select(dim, index) if isinstance(dim, int) else item

    results = [
        op(*[pick(item, dim, i) for item, dim in zip(inputs, in_dims, strict=True)], **attributes)
        for i in range(info.batch_size)
    ]
    if isinstance(results[0], tuple):
        stacked = tuple(_stack(op, column) for column in zip(*results, strict=True))
        return stacked, (0,) * len(stacked)
    return _stack(op, results), 0


def _stack(op: Any, results: Sequence[Any]) -> torch.Tensor:
    if results[0] is None:  # left out
        return torch.empty(len(results), 0)
    for result in results:
        if result.shape != results[0].shape:
            raise RuntimeError(
                f"{op.info.name}: vmap: got results of shapes {list(results[0].shape)} and "
                f"{list(result.shape)}, expected one shape for every element of the batch: here "
                "the data decides a length. Call the op in a loop"
            )
    return torch.stack(tuple(results))


def _to_nothing(
    op: Any, in_dims: Sequence[Any], inputs: Sequence[Any], attributes: dict[str, Any]
) -> Any:
    """The results for an empty batch: their shapes are those of a call on tensors without
    contents."""

    def pick(item: Any, dim: Any, declared: InputInfo) -> Any:
        if isinstance(dim, int) and declared.values:
            raise RuntimeError(
                f"{op.info.name}: {declared.name}: got a batch of 0, expected at least 1: its "
                "numbers decide the shape of the result"
            )
        if isinstance(dim, int):
            shape = [length for axis, length in enumerate(item.shape) if axis != dim]
            return item.new_empty(shape, device="meta")
        return item.to("meta") if isinstance(item, torch.Tensor) and not declared.values else item

    flat = op.info.flat(inputs)
    described = op.info.expanded(len(flat))
    trios = zip(flat, op.info.flat(in_dims), described.inputs, strict=True)
    try:
        results = op(*op.info.nested([pick(*trio) for trio in trios]), **attributes)
    except decided_lengths.NoContentsError:
        raise RuntimeError(
            f"{op.info.name}: vmap: got a batch of 0, expected at least 1: the data decides a "
            "length of the result"
        ) from None
    inputs = flat
    device = next(item.device for item in inputs if isinstance(item, torch.Tensor))
    # So that the result depends on these inputs for autograd, even if it is empty.
    sources = [
        item.sum().reshape(1)
        for item in inputs
        if isinstance(item, torch.Tensor) and item.is_floating_point() and item.device == device
    ]

    def empty(result: torch.Tensor | None) -> torch.Tensor:
        if result is None:  # left out
            return torch.empty(0, 0, device=device)
        made = torch.empty_like(result.unsqueeze(0)[:0], device=device)
        if not made.is_floating_point():
            return made
        return sum([item.to(made.dtype) for item in sources], made)

    if isinstance(results, tuple):
        return tuple(empty(result) for result in results), (0,) * len(results)
    return empty(results), 0
