"""One op on a device beside the CPU: the calls that the conformance suite derives from a case."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from myops.testing import Case, variations
from myops.testing.bits import TOLERANCE, given_of
from myops.testing.calls import refusal
from myops.testing.families.gradients import differentiable, leaves_of
from myops.testing.op_under_test import OpUnderTest, op_under_test


@dataclass
class Compared:
    """What ran: calls, those that were refused on both sides, and gradients."""

    calls: int = 0
    refused: int = 0
    gradients: int = 0


def derived(tested: OpUnderTest, case: Case) -> Iterator[tuple[str, Case]]:
    """The case, and those with other lengths, layouts, dtypes and numbers at the edge."""
    yield "as given", case
    axes = variations.free_axes(tested, case)
    yield from variations.lengths(case, axes)
    if axes:
        yield "enlarged", variations.enlarged(case, axes)
    yield from variations.layouts(case)
    for parameter, dtype, other in variations.dtypes(tested, case):
        yield f"{parameter} = {dtype}", other
    for kind, label, other in variations.specials(case):
        yield f"{kind} {label}", other


def value_places(tested: OpUnderTest, case: Case) -> set[int]:
    """The places of the tensors whose numbers decide a shape: they stay on the CPU."""
    values = {id(item) for item in variations.value_tensors(tested, case)}
    return {place for place, item in enumerate(case.tensors) if id(item) in values}


def placed(case: Case, on_cpu: set[int], device: str) -> Case:
    """The case with its tensors on the device, but for those that stay on the CPU."""
    pairs = enumerate(case.tensors)
    return case.having([item if place in on_cpu else moved(item, device) for place, item in pairs])


def moved(item: torch.Tensor, device: str) -> torch.Tensor:
    """The tensor on the device, with its strides and its place in its memory."""
    reach = sum((n - 1) * step for n, step in zip(item.shape, item.stride(), strict=True)) + 1
    extent = item.storage_offset() + (reach if item.numel() else 0)
    memory = item.as_strided((extent,), (1,), 0).to(device, copy=True)
    return memory.as_strided(item.shape, item.stride(), item.storage_offset())


def run(tested: OpUnderTest, case: Case) -> tuple[list[torch.Tensor], str]:
    """What the function returns, or the text of the refusal."""
    try:
        return given_of(tested.function(*case.args, **case.kwargs)), ""
    except Exception as error:
        return [], refusal(error)


def check_close(
    found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], device: str, tolerance: float
) -> None:
    """Same shapes, dtypes and strides; NaN and infinity in the same places; numbers that differ by
    at most the tolerance times the largest finite one. 0: equal bits."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.device.type == torch.device(device).type
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())
        got = one.cpu()
        if tolerance == 0 or not other.is_floating_point():
            torch.testing.assert_close(got, other, rtol=0, atol=0, equal_nan=True)
            continue
        finite = other[other.isfinite()].double().abs()
        scale = max(float(finite.max()), 1.0) if finite.numel() else 1.0
        torch.testing.assert_close(
            got.double(), other.double(), rtol=0, atol=tolerance * scale, equal_nan=True
        )


def check_case(
    function: Any, case: Case, device: str, *, exact: bool = False, scale: float = 1
) -> Compared:
    """Compares every derived call with the CPU, and with itself, bit for bit.

    Args:
        function: What users call.
        case: A call of it, on the CPU.
        device: Such as "cuda". With "cpu" this is a test of itself.
        exact: Whether results, but not gradients, must have the CPU's bits.
        scale: Of the tolerances of the conformance suite.
    """
    tested, compared = op_under_test(function, [case]), Compared()
    on_cpu, floats = value_places(tested, case), differentiable(tested, case)
    for what, other in derived(tested, case):
        try:
            there = placed(other, on_cpu, device)
            _check_call(tested, other, there, device, floats, exact, scale, compared)
        except AssertionError as error:
            raise AssertionError(f"{tested.name}: {case.title}: {what}: {error}") from error
    return compared


def _check_call(
    tested: OpUnderTest,
    case: Case,
    there: Case,
    device: str,
    floats: list[int],
    exact: bool,
    scale: float,
    compared: Compared,
) -> None:
    expected, refused = run(tested, case)
    found, text = run(tested, there)
    compared.calls += 1
    assert text == refused
    if refused:
        compared.refused += 1
        return
    tolerance = scale * TOLERANCE.get(str(expected[0].dtype).removeprefix("torch."), 0)
    check_close(found, expected, device, 0 if exact else tolerance)
    again, _ = run(tested, there)
    check_close(again, [item.cpu() for item in found], device, 0)
    places = [place for place in floats if case.tensors[place].is_floating_point()]
    if not places or not expected[0].is_floating_point():
        return
    torch.manual_seed(0)
    arriving = [torch.rand(item.shape, dtype=torch.float64).to(item.dtype) for item in expected]
    wanted = _gradients(tested, case, places, arriving)
    got, once_more = (
        _gradients(tested, there, places, [item.to(device) for item in arriving]) for _ in range(2)
    )
    compared.gradients += 1
    check_close(got, wanted, device, 4 * tolerance)
    check_close(once_more, [item.cpu() for item in got], device, 0)


def _gradients(
    tested: OpUnderTest, case: Case, places: list[int], arriving: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    case, leaves = leaves_of(case, places)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = given_of(tested.function(*case.args, **case.kwargs))
        found = torch.autograd.grad(results, leaves, arriving, allow_unused=True)
    return [item for item in found if item is not None]
