"""The family "device" of the conformance suite, with the CPU as the other device."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

import myops
from myops.testing import FAMILIES, Case, CheckError, check_op, checks

CASE = Case((torch.randn(3, 4), torch.randn(4)))


def run(op: Any, case: Case = CASE, **settings: Any) -> Any:
    return check_op(op, [case], only=["device"], device="cpu", **settings)


def test_calls_and_gradients_are_compared() -> None:
    without, both = run(myops.my_add, gradients=0), run(myops.my_add)
    assert without.tallies[0].ran > 20
    assert both.tallies[0].ran > 1.5 * without.tallies[0].ran


def test_settings_given_as_lists_are_not_moved() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.myops.resize.values(x, None, [1.0, 1.0, 2.0, 2.0], None, mode="linear")

    report = run(twice, Case((torch.randn(1, 2, 5, 7),)), tolerance={"float32": 0.0})
    assert report.tallies[0].ran > 10


def test_lengths_that_the_op_refuses_are_refused_alike() -> None:
    def smaller(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.myops.resize.values(x, None, [1.0, 1.0, 0.4, 0.4], None, mode="linear")

    report = run(smaller, Case((torch.randn(1, 2, 5, 7),)), tolerance={"float32": 0.0})
    assert report.tallies[0].ran > 10
    assert any("length 0" in text for text in report.tallies[0].refused)


@pytest.mark.parametrize(("largest", "fails"), [(3e38, False), (1e37, True)])
def test_a_sum_in_another_order_may_overflow_elsewhere(largest: float, fails: bool) -> None:
    def overflows(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = myops.my_add(a, b)
        return torch.full_like(result, largest if a is CASE.tensors[0] else float("inf"))

    result = pytest.raises(CheckError, match="infinite") if fails else contextlib.nullcontext()
    with result:
        run(overflows, gradients=0)


def test_another_result_on_the_device_is_a_failure() -> None:
    def wrong(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return myops.my_add(a, b) + (0.0 if a is CASE.tensors[0] else 0.5)

    with pytest.raises(CheckError, match=r"cpu: .*largest element"):
        run(wrong, gradients=0)


def test_other_strides_on_the_device_are_a_failure() -> None:
    def wrong(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = myops.my_add(a, b)
        return result if a is CASE.tensors[0] else result.t().contiguous().t()

    with pytest.raises(CheckError, match="cpu: strides"):
        run(wrong, gradients=0)


def test_another_gradient_on_the_device_is_a_failure() -> None:
    seen = []

    def wrong(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = myops.my_add(a, b)
        if a.requires_grad:
            seen.append(1)
            result.register_hook(lambda grad: grad * len(seen))
        return result

    with pytest.raises(CheckError, match="gradients\n"):
        run(wrong)


def test_a_second_call_must_give_equal_bits() -> None:
    calls = []

    def unsteady(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return myops.my_add(a, b) * (1 + 1e-7 * (len(calls) % 2))

    with pytest.raises(CheckError, match="called again: "):
        run(unsteady, gradients=0)


@pytest.mark.parametrize("device", ["meta", "cuda:99", "no such device"])
def test_an_unusable_device_is_refused(device: str) -> None:
    with pytest.raises(ValueError, match=f"check_op: device: got '{device}'.* expected a device"):
        checks(myops.my_add, [CASE], device=device)


def test_the_family_runs_only_if_a_device_is_given() -> None:
    assert "device" not in FAMILIES
    assert not any(check.family == "device" for check in checks(myops.my_add, [CASE]))
    assert any(check.family == "device" for check in checks(myops.my_add, [CASE], device="cpu"))
    with pytest.raises(ValueError, match="device"):
        checks(myops.my_add, [CASE], only=["device"])
