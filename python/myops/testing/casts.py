"""Calls that are derived from a case: other dtypes, the largest integers, extreme floats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from myops.testing.cases import Case, copy_of
from myops.testing.op_under_test import OpUnderTest
from myops.testing.variations import input_of_tensors, value_places


def dtypes(tested: OpUnderTest, case: Case) -> Iterator[tuple[str, str, Case]]:
    """(type parameter, dtype, case) for every dtype that the op declares."""
    numbers = input_of_tensors(tested, case)
    for parameter, names in tested.info.types.items():
        places = [
            place
            for place, number in enumerate(numbers)
            if number is not None and tested.info.declared(number).type == parameter
        ]
        for name in names if places else ():
            yield parameter, name, _cast(case, places, getattr(torch, name))


def all_bits(tested: OpUnderTest, case: Case) -> Iterator[tuple[str, Case]]:
    """(label, case) for every integer dtype of at most 32 bits that the op takes in place of the
    floats of the case, with numbers up to the largest."""
    fixed = value_places(tested, case)
    floats = {n for n, item in enumerate(case.tensors) if item.is_floating_point()} - fixed
    for parameter, name, varied in dtypes(tested, case):
        dtype, tensors = getattr(torch, name), varied.tensors
        places = [n for n in floats if tensors[n].dtype == dtype and tensors[n].numel()]
        if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool or not places:
            continue
        limits = torch.iinfo(dtype)
        if limits.bits > 32:  # nothing wider shows where a reference overflows
            continue
        for place in places:
            numbers = case.tensors[place].double().nan_to_num(0)
            numbers = (numbers / numbers.abs().max().clamp(min=1e-30) * limits.max).round()
            tensors[place] = (numbers.abs() if limits.min == 0 else numbers).to(dtype)
        yield f"{parameter} = {name}, up to {limits.max}", varied.having(tensors)


def _cast(case: Case, places: Sequence[int], dtype: torch.dtype) -> Case:
    tensors = case.tensors
    for place in places:
        tensors[place] = cast(tensors[place], dtype)
    return case.having(tensors)


def in_dtype(tested: OpUnderTest, case: Case, places: Sequence[int], dtype: torch.dtype) -> Case:
    """The case with these tensors in another float dtype, and with them all others that the op
    takes in their dtype only; complex ones stay complex."""
    numbers, tensors = input_of_tensors(tested, case), case.tensors
    types = [None if n is None else tested.info.declared(n).type for n in numbers]
    shared = {types[place] for place in places} & set(tested.info.types)
    for place, tensor in enumerate(tensors):
        if place in places or (types[place] in shared and is_float(tensor)):
            tensors[place] = tensor.to(dtype.to_complex() if tensor.is_complex() else dtype)
    return case.having(tensors)


def is_float(tensor: torch.Tensor) -> bool:
    """Whether the numbers are real or complex floats."""
    return tensor.is_floating_point() or tensor.is_complex()


def scaled(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """factor * tensor for floats, including dtypes in which torch does not compute; other tensors
    are not changed."""
    if not is_float(tensor):
        return tensor
    return (tensor * factor if tensor.is_complex() else tensor.double() * factor).to(tensor.dtype)


def cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The numbers in another dtype. Floats become integers that use most of their bits, complex
    numbers with an imaginary part, or bools: whether a number is above 0."""
    if dtype == tensor.dtype:
        return copy_of(tensor)
    if tensor.is_complex() and not dtype.is_complex:
        return cast(tensor.real, dtype)
    if dtype == torch.bool:
        wide = tensor.double() if tensor.is_floating_point() else tensor.to(torch.int64) % 2
        return wide > 0
    if dtype.is_complex and not tensor.is_complex():
        wide = tensor.double()
        return torch.complex(wide, 0.5 * wide.flatten().roll(1).reshape(wide.shape)).to(dtype)
    if dtype.is_floating_point or not tensor.is_floating_point():
        return tensor.to(dtype)
    limits = torch.iinfo(dtype)
    scale = (
        min(limits.max, 2**40) / (8 * max(float(tensor.abs().max()), 1)) if tensor.numel() else 1
    )
    numbers = (tensor.double() * scale).round()
    return (numbers.abs() if limits.min == 0 else numbers).to(dtype)


def edges(dtype: torch.dtype) -> dict[str, list[float]]:
    """Extreme numbers of a float dtype, by kind."""
    info = torch.finfo(dtype)
    infinite = [] if dtype == torch.float8_e4m3fn else [float("inf"), -float("inf")]
    return {
        "NaN and Inf": [float("nan"), *infinite],
        "extreme numbers": [info.max, info.min, info.tiny, info.smallest_normal / 4, -0.0],
    }


def specials(case: Case) -> Iterator[tuple[str, str, Case]]:
    """(kind, label, case): each float tensor with such numbers at some elements; for complex
    tensors, in the real and imaginary parts."""
    labels = case.labels()
    for place, tensor in enumerate(case.tensors):
        if not is_float(tensor) or not tensor.numel():
            continue
        for kind, numbers in edges(tensor.dtype).items():
            changed = tensor.contiguous().clone()
            flat = (torch.view_as_real(changed) if changed.is_complex() else changed).view(-1)
            step = max(1, flat.numel() // (2 * len(numbers)))
            for number, value in enumerate(numbers):
                flat[number * step % flat.numel()] = value
            yield kind, f"{kind} in {labels[place]}", case.changed(place, changed)
