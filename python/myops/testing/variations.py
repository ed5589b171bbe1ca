"""Calls that are derived from a case: lengths and layouts. casts.py has dtypes."""

from __future__ import annotations

import inspect
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from myops._torch.stored_dtypes import select
from myops.testing.bits import given_of
from myops.testing.cases import Case, copy_of
from myops.testing.op_under_test import DispatcherCalls, OpUnderTest

# 0 and 1, then odd numbers, with which unrolled loops have a remainder.
LENGTHS = (0, 1, 2, 3, 5, 7, 9, 17, 33)
_MOST_SETS = 400  # the most calls for finding out which axes change together, small sets first
_MOST_SETS_OF_AN_AXIS = 100
_SEED = 20240229
_PIECES = 1 << 17  # elements: more than one piece of work for any usual grain
_MOST_RESULTS = 1 << 20  # elements of an enlarged call; longer ones are not tried
_MOST_SECONDS = 0.5  # the same for its time


@dataclass(frozen=True)
class LinkedAxes:
    """Axes that can only change together, such as the batch of all inputs.

    Attributes:
        places: (tensor, axis) pairs.
        length: Their length in the case.
        label: Their name in messages.
    """

    places: tuple[tuple[int, int], ...]
    length: int
    label: str

    def at(self, case: Case, length: int) -> Case:
        """The case with that length: truncated, or extended with other numbers."""
        tensors = case.tensors
        for place, axis in self.places:
            tensors[place] = _with_length(tensors[place], axis, length)
        return case.having(tensors)


def _with_length(tensor: torch.Tensor, axis: int, length: int) -> torch.Tensor:
    if tensor.is_conj():  # it stays conjugated, because compiled programs depend on that
        return _with_length(tensor.conj(), axis, length).conj()
    index = torch.arange(length) % max(tensor.shape[axis], 1)
    result = select(tensor, axis, index)
    if length > tensor.shape[axis] and tensor.dtype.is_floating_point:
        # Not a copy, so that elements that are read twice, or not at all, change the result.
        generator = torch.Generator().manual_seed(_SEED)
        factor = torch.rand(result.shape, generator=generator, dtype=torch.float64) * 0.2 + 0.9
        old = result.narrow(axis, 0, tensor.shape[axis]).clone()
        result = (result.double() * factor).to(tensor.dtype)
        result.narrow(axis, 0, tensor.shape[axis]).copy_(old)
    return result


def accepts(function: Callable[..., Any], case: Case) -> bool:
    """Whether the op accepts the call."""
    return _returns(lambda given: function(*given.args, **given.kwargs), case)


def _returns(call: Callable[[Case], object], case: Case) -> bool:
    try:
        call(case)
    except Exception:  # any exception is a refusal
        return False
    return True


def by_name(function: Callable[..., Any], case: Case) -> Case | None:
    """The same call with every argument by name; None where the function has no names for them."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[: len(case.args)]
    except (TypeError, ValueError):  # of a function without a signature
        return None
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD
    if not case.args or not all(item.kind == named for item in parameters):
        return None
    names = [item.name for item in parameters]
    kwargs = {**dict(zip(names, case.args, strict=True)), **case.kwargs}
    return replace(case, args=(), kwargs=kwargs)


def free_axes(tested: OpUnderTest, case: Case) -> list[LinkedAxes]:
    """The axes whose lengths may change, in sets that must change together.

    They are found by calls: axes of equal length are such a set if the op accepts the call with a
    length that is one larger, and with twice the length.
    """
    tensors, labels = case.tensors, case.labels()
    every = [
        (place, axis)
        for place, tensor in enumerate(tensors)
        for axis in range(tensor.dim())
        if tensor.shape[axis] > 0
    ]
    found: list[LinkedAxes] = []
    taken: set[tuple[int, int]] = set()
    budget = _MOST_SETS

    def linked(places: Sequence[tuple[int, int]]) -> LinkedAxes | None:
        """The set of axes of equal length, if it may change together."""
        length = tensors[places[0][0]].shape[places[0][1]]
        label = ", ".join(f"axis {axis} of {labels[place]}" for place, axis in places)
        axes = LinkedAxes(tuple(places), length, label)
        lengths = (length + 1, 2 * length)
        return axes if all(accepts(tested.function, axes.at(case, n)) for n in lengths) else None

    for first in every:
        if first in taken:
            continue
        length = tensors[first[0]].shape[first[1]]
        others = [
            place
            for place in every
            if place != first and place not in taken and tensors[place[0]].shape[place[1]] == length
        ]
        found_set = None
        for places in itertools.islice(_sets(first, others), budget and _MOST_SETS_OF_AN_AXIS):
            budget -= 1
            found_set = linked(places)
            if found_set or budget == 0:
                break
        found_set = found_set or _without_rest(first, others, linked)
        if found_set:
            found.append(found_set)
            taken.update(found_set.places)
    return found


def _without_rest(
    first: tuple[int, int],
    others: Sequence[tuple[int, int]],
    linked: Callable[[Sequence[tuple[int, int]]], LinkedAxes | None],
) -> LinkedAxes | None:
    """A set among many axes of equal length, of which not every set can be tried: all of them, or
    those on the same axis number, without those that need not change."""
    aligned = [place for place in others if place[1] == first[1]]
    for chosen in (aligned, others):
        best = linked([first, *chosen])
        if best is None:
            continue
        for place in chosen:
            fewer = linked([item for item in best.places if item != place])
            best = fewer or best
        return best
    return None


def _sets(first: Any, others: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Sets with `first`, small ones first; of equal size those on one axis number first."""
    for size in range(len(others) + 1):
        chosen = itertools.combinations(others, size)
        for rest in sorted(chosen, key=lambda rest: len({first[1], *(axis for _, axis in rest)})):
            yield (first, *rest)


def lengths(case: Case, axes: Sequence[LinkedAxes]) -> Iterator[tuple[str, Case]]:
    """Each set of axes with each length, then all at once with different lengths."""
    for item in axes:
        for length in LENGTHS:
            if length != item.length:
                yield f"{item.label} = {length}", item.at(case, length)
    if len(axes) > 1:
        for start, title in ((None, "every free axis = 1"), (2, "odd lengths everywhere")):
            varied = case
            for number, item in enumerate(axes):
                length = 1 if start is None else LENGTHS[start + 1 :][number % 5]
                varied = item.at(varied, length)
            yield title, varied


def broadcast(
    function: Callable[..., Any], case: Case, axes: Sequence[LinkedAxes]
) -> Iterator[tuple[str, Case]]:
    """Axes that change together, one of them alone with length 1, where the op accepts that."""
    labels = case.labels()
    for item in axes:
        for place, axis in item.places if len(item.places) > 1 and item.length > 1 else ():
            label = f"axis {axis} of {labels[place]}"
            alone = LinkedAxes(((place, axis),), item.length, label).at(case, 1)
            if accepts(function, alone):
                yield f"{label} alone = 1", alone


def most_shared(axes: Sequence[LinkedAxes]) -> LinkedAxes | None:
    """The set with the most axes, of equal ones the shortest: it is the first to be made long."""
    usable = [item for item in axes if item.length > 0]
    return max(usable, key=lambda item: (len(item.places), -item.length)) if usable else None


def enlarged(
    tested: OpUnderTest,
    case: Case,
    axes: Sequence[LinkedAxes],
    beside: Callable[[Case], object] | None = None,
) -> Case:
    """The case with one set of axes so long that work is divided into several pieces.

    Shorter if a call takes long or its result is large, as that of an op which compares every
    element with every other; or if `beside`, such as a reference, takes long or refuses the call.
    """
    item = most_shared(axes)
    if item is None:
        return case
    largest = max(tensor.numel() for tensor in case.tensors)
    most = item.length * max(1, -(-_PIECES // max(largest, 1))) + 1
    made, length = case, item.length
    while length < most:
        length = min(2 * length, most)
        longer = item.at(case, length)
        start = time.perf_counter()
        try:
            results = given_of(tested.function(*longer.args, **longer.kwargs))
        except Exception:  # any exception is a refusal
            return longer
        if time.perf_counter() - start > _MOST_SECONDS:
            return made
        if beside is not None:
            start = time.perf_counter()
            if not _returns(beside, longer) or time.perf_counter() - start > _MOST_SECONDS:
                return made
        made = longer
        if sum(result.numel() for result in results) > _MOST_RESULTS:
            return made
    return made


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers as every second element of a larger tensor with another order of axes."""
    order = list(reversed(range(tensor.dim())))
    larger = torch.zeros([2 * n for n in reversed(tensor.shape)], dtype=tensor.dtype)
    view = larger.permute(order)[tuple(slice(None, None, 2) for _ in order)]
    return view.copy_(tensor)


def shifted(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers after one other element, so that they are not aligned for vectors."""
    memory = torch.zeros(tensor.numel() + 1, dtype=tensor.dtype)
    return memory[1:].view(tensor.shape).copy_(tensor)


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if tensor.dim() not in formats:
        return copy_of(tensor)
    return tensor.contiguous(memory_format=formats[tensor.dim()]).clone(
        memory_format=torch.preserve_format
    )


def cropped(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers inside larger channels_last memory, if the rank has that layout."""
    if tensor.dim() not in (4, 5):
        return copy_of(tensor)
    batch, channels, *points = tensor.shape
    larger = torch.zeros([batch, *(n + 3 for n in points), channels], dtype=tensor.dtype)
    inside = (slice(None), slice(None), *(slice(1, 1 + n) for n in points))
    return larger.movedim(-1, 1)[inside].copy_(tensor)


def repeated(tensor: torch.Tensor) -> torch.Tensor:
    """The first slice of axis 0, repeated without additional memory (stride 0)."""
    if tensor.dim() == 0 or tensor.shape[0] == 0:
        return tensor
    return tensor[:1].expand_as(tensor)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "strided, axes reversed": strided,
    "not aligned": shifted,
    "channels_last": channels_last,
    "a crop of channels_last": cropped,
    "expanded along axis 0": repeated,
}


def layouts(case: Case) -> Iterator[tuple[str, Case]]:
    """The case in other memory layouts: all tensors at once, then each alone."""
    tensors, labels = case.tensors, case.labels()
    for title, change in LAYOUTS.items():
        if "channels_last" in title and not any(item.dim() in (4, 5) for item in tensors):
            continue
        yield title, case.having([change(item) for item in tensors])
    if len(tensors) > 1:
        for place, tensor in enumerate(tensors):
            yield f"{labels[place]} strided", case.changed(place, strided(tensor))


def input_of_tensors(tested: OpUnderTest, case: Case) -> list[int | None]:
    """For each tensor of the case, the index of the op's input that it becomes, if any."""
    with DispatcherCalls() as seen:
        tested.function(*case.args, **case.kwargs)
    inputs = next(item for item in seen if tested.is_mine(item.overload)).settled()[0]
    flat = tested.info.flat(inputs)
    places = {id(item): number for number, item in enumerate(flat) if item is not None}
    return [places.get(id(tensor)) for tensor in case.tensors]


def value_places(tested: OpUnderTest, case: Case) -> set[int]:
    """The places of the tensors whose numbers decide the output's shape, such as scales."""
    return {
        place
        for place, number in enumerate(input_of_tensors(tested, case))
        if number is not None and tested.info.declared(number).values
    }
