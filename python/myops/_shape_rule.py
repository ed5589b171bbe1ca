"""Runs the shape rules of the C++ descriptions. Needs NumPy, never torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from myops._description import OPS, OpInfo
from myops._op_parts import DecidedLength, Dim


def infer(
    op: str | OpInfo,
    shapes: Sequence[Sequence[Dim] | None],
    dtypes: Sequence[str | None] = (),
    attributes: Mapping[str, Any] | None = None,
    values: Sequence[Sequence[float] | None] = (),
) -> list[tuple[str, list[Dim] | None]]:
    """Runs the op's shape rule.

    Args:
        op: The op, or the name of one of ours, e.g. "resize".
        shapes: One entry for each input; None for an input that is left out.
        dtypes: One entry for each input; None when unknown.
        attributes: Values that differ from the defaults.
        values: One entry for each input: the numbers of a `values` input where they are known.

    Returns:
        (dtype, shape) of each output; a length is a number, a name or None.

    Raises:
        ValueError: The kernel's own refusal.
    """
    return [
        (dtype, None if dims is None else [None if isinstance(d, tuple) else d for d in dims])
        for dtype, dims in infer_decided(op, shapes, dtypes, attributes, values)
    ]


def infer_decided(
    op: str | OpInfo,
    shapes: Sequence[Sequence[Dim] | None],
    dtypes: Sequence[str | None] = (),
    attributes: Mapping[str, Any] | None = None,
    values: Sequence[Sequence[float] | None] = (),
) -> list[tuple[str, list[Any] | None]]:
    """`infer`, with a `DecidedLength` in the place of None for lengths that the data decides."""
    lists = [None if dims is None else list(dims) for dims in shapes]
    numbers = [None if item is None else [float(value) for value in item] for item in values]
    info = OPS[op] if isinstance(op, str) else op
    return [
        (
            dtype,
            None
            if dims is None
            else [DecidedLength(*d) if isinstance(d, tuple) else d for d in dims],
        )
        for dtype, dims in info.native.infer(lists, list(dtypes), dict(attributes or {}), numbers)
    ]


def symbolic_rule(info: OpInfo) -> Callable[[Sequence[Any], dict[str, Any]], list[list[Any]]]:
    """The op's shape rule for lengths that are symbolic in torch: it sees each as a name.

    What it returns takes inputs (anything with a shape, lists of numbers, None) and attributes,
    and returns the lengths of each output: numbers, symbolic lengths of the inputs, or None for
    one that the rule computes from lengths that it does not know.
    """

    def rule(inputs: Sequence[Any], attributes: dict[str, Any]) -> list[list[Any]]:
        symbolic: dict[str, Any] = {}
        shapes: list[list[Dim] | None] = []
        values: list[list[float] | None] = []
        for item in info.flat(inputs):
            is_list = isinstance(item, (list, tuple))
            numbers = is_list and all(isinstance(value, (int, float)) for value in item)
            values.append(list(item) if numbers else None)
            lengths = () if item is None else [len(item)] if is_list else item.shape
            for length in lengths:
                if not isinstance(length, int):
                    symbolic[str(length)] = length
            named: list[Dim] = [n if isinstance(n, int) else str(n) for n in lengths]
            shapes.append(None if item is None else named)
        try:
            results = infer_decided(info, shapes, (), attributes, values)
        except ValueError as error:  # as eager
            raise RuntimeError(str(error)) from None
        wanted = info.present(inputs, attributes)
        ranks_known: list[list[Any]] = [
            dims if given and dims is not None else [0]  # left out: an empty tensor
            for given, (_, dims) in zip(wanted, results, strict=True)
            if dims is not None or not given
        ]
        if len(ranks_known) < len(results):
            raise RuntimeError(
                f"{info.name}: the shape rule in C++ does not know the rank of every output while "
                "torch traces with symbolic lengths. Give define(..., shape=...)."
            )
        return [
            [symbolic[dim] if isinstance(dim, str) else dim for dim in dims] for dims in ranks_known
        ]

    return rule
