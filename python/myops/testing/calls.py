"""The call of the op inside a public function, and its outcome in a runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from myops.testing.bits import arrays_of, to_numpy
from myops.testing.cases import Case
from myops.testing.op_under_test import DispatcherCalls, OpUnderTest, Seen


@dataclass(frozen=True)
class CallOutcome:
    """The outcome of a call in a runtime: outputs, or the text of a refusal."""

    outputs: list[np.ndarray]
    refusal: str = ""

    @property
    def refused(self) -> bool:
        return bool(self.refusal)


@dataclass(frozen=True)
class OpCall:
    """A call of the op below the public function, in arrays: what a node gets."""

    inputs: list[np.ndarray | None]
    attributes: dict[str, Any]

    @property
    def shapes(self) -> list[list[int] | None]:
        return [None if array is None else list(array.shape) for array in self.inputs]


@dataclass(frozen=True)
class TorchRun:
    """The public function in torch.

    Attributes:
        result: The outcome of the function.
        call: The call of the op inside it; None if it refused before that.
        inner: The outcome of the op.
    """

    result: CallOutcome
    call: OpCall | None
    inner: CallOutcome


def refusal(error: BaseException) -> str:
    return str(error) or type(error).__name__


def run_torch(tested: OpUnderTest, case: Case) -> TorchRun:
    """Calls the public function, and records the op's call inside it."""
    with DispatcherCalls() as seen:
        try:
            result = CallOutcome(arrays_of(tested.function(*case.args, **case.kwargs)))
        except Exception as error:  # any exception is a refusal, which is compared
            result = CallOutcome([], refusal(error))
    mine = [item for item in seen if tested.is_mine(item.overload)]
    if not mine:
        return TorchRun(result, None, result)
    call = call_of(tested, mine[0])
    if mine[0].error is not None:  # the function may have put it into its own words
        return TorchRun(result, call, CallOutcome([], refusal(mine[0].error)))
    if mine[0].result is None or tested.info.writes:
        return TorchRun(result, call, result)
    outputs = arrays_of(mine[0].result)
    wanted = tested.info.present(tested.info.nested(call.inputs), call.attributes)
    pairs = zip(outputs, wanted, strict=True)
    return TorchRun(result, call, CallOutcome([array for array, given in pairs if given]))


def call_of(tested: OpUnderTest, seen: Seen) -> OpCall:
    """The arguments of a dispatcher call in the form for a node: lists of numbers are arrays, lists
    of tensors are unpacked."""
    inputs, attributes = seen.settled()
    for declared in tested.info.attributes:  # None means a default that a schema cannot state
        if attributes[declared.name] is None:
            attributes[declared.name] = declared.default
    flat = tested.info.flat(inputs)
    arrays: list[np.ndarray | None] = []
    for item, info in zip(flat, tested.info.expanded(len(flat)).inputs, strict=True):
        if item is None:
            arrays.append(None)
        elif isinstance(item, torch.Tensor):
            arrays.append(np.array(to_numpy(item)))
        else:
            arrays.append(_numbers(item, tested.info.is_integer(info)))
    return OpCall(arrays, attributes)


def call_arrays(seen: Seen) -> tuple[list[Any], dict[str, Any]]:
    """(inputs, attributes) of any dispatcher call, in the form for its kernel in NumPy."""
    inputs, attributes = seen.settled()
    arrays = [
        [np.array(to_numpy(one)) for one in item]
        if isinstance(item, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in item)
        else item
        if item is None
        else np.array(to_numpy(item))
        if isinstance(item, torch.Tensor)
        else _numbers(item, all(isinstance(number, int) for number in item))
        for item in inputs
    ]
    return arrays, {name: value for name, value in attributes.items() if value is not None}


def _numbers(items: Sequence[float], integer: bool) -> np.ndarray:
    """The numbers in float32 if that is exact, else float64, as the exporters write them."""
    if integer:
        return np.array(items, np.int64)
    exact = np.array(items, np.float64)
    single = exact.astype(np.float32)
    return single if (single == exact).all() else exact
