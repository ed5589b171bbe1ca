"""The conformance suite itself: how it is called, what it derives from a case, its report."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

import myops
from myops.testing import (
    FAMILIES,
    Case,
    CheckError,
    bits,
    casts,
    check_op,
    checks,
    runtimes,
    variations,
)
from myops.testing.op_under_test import op_under_test

A, B = torch.randn(3, 4), torch.randn(4)
CASE = Case((A, B))


def slow(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return 2 * a + b


def test_a_wrong_case_is_refused() -> None:
    with pytest.raises(TypeError, match=r"expected a tuple .* Case\(\(x,\)\)"):
        Case(A)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got no tensor"):
        Case((1, 2))
    with pytest.raises(ValueError, match="expected the CPU"):
        check_op(myops.my_add, [Case((A.to("meta"), B.to("meta")))])


def twice(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return myops.my_add(a, b) + myops.resize(a, sizes=[3, 4])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: check_op(torch.add, [CASE]), "add calls none, expected exactly one op"),
        (lambda: check_op(twice, [CASE]), "calls myops::my_add, myops::resize, expected exactly"),
        (lambda: check_op(torch.ops.aten.add, [CASE]), "aten::add, which has no description"),
        (lambda: check_op(torch.ops.myops.resize_backward, [CASE]), "has no ONNX node"),
        (lambda: check_op(myops.my_add, []), "expected a list of Case"),
        (lambda: check_op(myops.my_add, [Case((A, B), refused="x")]), "got none that the op acc"),
        (lambda: check_op(myops.my_add, [CASE], only=["layout"]), "Did you mean 'layouts'"),
        (lambda: check_op(myops.my_add, [CASE], skip={"export_": ""}), "Did you mean 'export'"),
        (lambda: check_op(myops.my_add, [CASE], gradients=3), "gradients: got 3"),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


def test_torch_ops_are_accepted() -> None:
    for op in (torch.ops.myops.my_add, torch.ops.myops.my_add.default):
        report = check_op(op, [CASE], reference=slow, only=["values"])
        assert (report.op, report.tallies[0].ran) == ("my_add", 5)


def test_one_check_for_each_family_and_case() -> None:
    def never(*args: Any) -> None:
        raise AssertionError("nothing may run while tests are collected")

    cases = [CASE, Case((A, B)), Case((B, A), name="named"), Case((A, A[:2]), refused="no")]
    found = checks(never, cases)
    assert len(found) == 3 * len(FAMILIES) + 1
    names = [check.__name__ for check in found]
    assert len(set(names)) == len(names)
    assert {"layouts-3x4,4", "layouts-3x4,4_2", "layouts-named", "errors-3x4,2x4"} <= set(names)


def test_a_family_that_ran_nothing_gives_its_reason() -> None:
    scalar = Case((torch.tensor(1.0), torch.tensor(2.0)), name="scalar")
    report = check_op(myops.my_add, [scalar], only=["lengths", "values"])
    assert report.idle == {"lengths": "the op lets no length change"}
    assert "NOTHING RAN: the op lets no length change" in str(report)
    assert "no reference= was given" in str(report)
    (check,) = checks(myops.my_add, [scalar], only=["lengths"])
    with pytest.raises(unittest.SkipTest, match="lets no length change"):
        check()
    skipped = check_op(myops.my_add, [CASE], only=["values", "export"], skip={"export": "slow"})
    assert "LEFT OUT: slow" in str(skipped)
    assert skipped.idle == {"export": "slow"}


def test_missing_pyops_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "has_pyops", lambda: False)
    report = check_op(myops.my_add, [CASE], reference=slow, only=["values"])
    assert report.tallies[0].ran == 6  # reference, borders, two each by NumPy and ONNX Runtime
    assert "PyOps did not run: onnxruntime-extensions is missing" in str(report)


def test_failures_name_op_check_case_got_and_expected() -> None:
    with pytest.raises(CheckError) as error:
        check_op(myops.my_add, [CASE], reference=lambda a, b: a + b, only=["values", "dtypes"])
    first = error.value.report.failures[0]
    assert (first.op, first.check, first.case, first.variation) == ("my_add", "values", "3x4,4", "")
    assert first.got.startswith("torch: ")
    assert "12 of 12 elements" in first.got
    assert "within 1e-05" in first.expected
    assert "more of this check on this case" in str(error.value)  # six dtypes, four are shown


def test_refused_cases_need_the_declared_text() -> None:
    good = Case((A, torch.randn(3)), refused="b: got length 3 on axis 1, expected 1 or 4")
    assert check_op(myops.my_add, [CASE, good], only=["errors"]).failures == []
    for case, text in (
        (Case((A, torch.randn(3)), refused="something else"), "a text that contains: something"),
        (Case((A, B), refused="anything"), "torch: no refusal, a result"),
    ):
        with pytest.raises(CheckError) as error:
            check_op(myops.my_add, [CASE, case], only=["errors"])
        assert text in str(error.value)


def test_axes_that_change_together_are_found() -> None:
    def places(function: Any, *args: Any, **kwargs: Any) -> list[Any]:
        case = Case(args, kwargs)
        return [axes.places for axes in variations.free_axes(op_under_test(function, [case]), case)]

    assert places(myops.my_add, A, B) == [((0, 0),), ((0, 1), (1, 0))]
    assert places(myops.my_add, A, A) == [((0, 0), (1, 0)), ((0, 1), (1, 1))]
    assert places(myops.resize, torch.randn(2, 5), torch.tensor([2.0, 3.0])) == [
        ((0, 0),),
        ((0, 1),),
    ]
    offset, weight = torch.randn(2, 18, 5, 5), torch.randn(4, 3, 3, 3)
    assert places(myops.deform_conv2d, torch.randn(2, 3, 7, 7), offset, weight) == [
        ((0, 0), (1, 0)),  # the batch
        ((0, 1), (2, 1)),  # the channels
        ((2, 0),),  # those of the output
    ]


def test_axes_of_many_tensors_that_change_together_are_found() -> None:
    """More sets than can be tried: they begin with all axes of equal length."""

    def function(*tensors: torch.Tensor) -> torch.Tensor:
        *equal, own = tensors
        total = myops.my_add(equal[0], own.mean())
        for tensor in equal[1:]:
            if tensor.shape != total.shape:
                raise ValueError
        return total

    case = Case(tuple(torch.randn(3, 3) for _ in range(9)))
    found = variations.free_axes(op_under_test(function, [case]), case)
    alone = [((8, axis),) for axis in (0, 1)]
    assert sorted(axes.places for axes in found) == sorted(
        [*(tuple((place, axis) for place in range(8)) for axis in (0, 1)), *alone]
    )


def test_results_of_one_element_are_not_expected_of_a_dynamic_program() -> None:
    """Torch compiles another program where a computed length is 1. With the kernel growing most,
    as the last axis, this result would have one element."""
    from myops.testing.families import programs

    def convolve(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv1d(x, weight, stride=3)

    case = Case((torch.randn(2, 3, 8), torch.randn(4, 3, 4)))
    tested = SimpleNamespace(function=convolve)
    trial: Any = SimpleNamespace(
        tested=tested, case=case, axes=variations.free_axes(cast(Any, tested), case)
    )
    found = [other for _, other in programs.other_lengths(trial)]
    assert len(found) == 2
    for other in found:
        assert other.tensors[1].shape[2] > 4
        assert min(convolve(*other.tensors).shape) >= 2


def test_variations_keep_the_values() -> None:
    x = torch.randn(2, 3, 4, 5)
    for title, change in variations.LAYOUTS.items():
        other = change(x)
        wanted = x[:1].expand_as(x) if "expanded" in title else x
        assert torch.equal(other, wanted), title
        assert other.stride() != x.stride() or other.data_ptr() % 64, title
    longer = variations.LinkedAxes(((0, 1),), 3, "").at(Case((x,)), 7).tensors[0]
    assert torch.equal(longer[:, :3], x)
    assert not torch.equal(longer[:, 3:6], x)  # or a kernel could read an element twice unnoticed
    whole = casts.cast(x, torch.int64)
    assert whole.abs().max() > 2**32  # more than a float32 holds
    assert casts.cast(x, torch.uint8).max() > 30


def test_comparisons_see_every_kind_of_difference() -> None:
    one = np.float32([1, np.nan, -0.0])
    assert bits.different_bits([one], [one.copy()]) == ("", "")
    for other in (
        np.float32([1, np.nan, 0.0]),
        np.float32([1, 2, -0.0]),
        one.astype("f8"),
        one[:2],
    ):
        assert bits.different_bits([one], [other])[0]
    assert bits.different_bits([one], [one, one]) == ("1 outputs", "2")
    far = [(np.float32([1, 2]), np.float64([1, 2.1])), (np.float32([1]), np.float64([np.nan])),
           (np.float32([np.inf]), np.float64([1])), (np.float32([np.inf]), np.float64([-np.inf])),
           (np.int32([1]), np.int32([2]))]  # fmt: skip
    for actual, expected in far:
        assert bits.too_far([actual], [expected])[0]
    assert not bits.too_far([np.uint8([1])], [np.uint8([2])], 1)[0]
    assert not bits.too_far([np.float32([1, 2])], [np.float64([1, 2 + 1e-6])])[0]


def test_the_enlarged_case_of_a_quadratic_op_stays_small() -> None:
    """Distances between all rows: 131072 of them would need 69 GB."""
    sizes = []

    def distances(a: torch.Tensor) -> torch.Tensor:
        if a.shape[1] != 2:
            raise ValueError("a: expected two columns")
        sizes.append(len(a))
        return myops.my_add(a[:, None, 0], a[None, :, 1])

    check_op(distances, [Case((torch.randn(7, 2),))], only=["threads"], gradients=0)
    assert 512 < max(sizes) < 4096


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_case_may_have_tensors_of_any_layout(dtype: torch.dtype) -> None:
    """A compiled program has guards on views and on the order of strides."""
    a, b = (torch.randn(2, 3, 4, 6) * 9).to(dtype), torch.arange(6).to(dtype)
    cases = {
        "views": (a[0], b[:]),
        "transposed": (a[0, 0].t(), b[:4]),
        "strided": (a[..., ::2], b[::2]),
        "expanded": (a[:1].expand(3, 3, 4, 6), b[:1].expand(6)),
        "channels_last": (a.to(memory_format=torch.channels_last), b),
        "one_channel": (a[:, :1].contiguous(memory_format=torch.channels_last), b),
    }
    named = [Case(tensors, name=name) for name, tensors in cases.items()]
    report = check_op(myops.my_add, named, reference=slow, only=["compile"])
    assert all(tally.ran >= 3 for tally in report.tallies)


def test_a_case_of_integers_has_no_gradient() -> None:
    case = Case((torch.arange(6).reshape(2, 3), torch.arange(3)))
    report = check_op(myops.my_add, [case], only=["dtypes", "gradients"], gradients=2)
    assert report.idle == {"gradients": "no tensor of the case has a gradient"}


def test_scalars_are_cases() -> None:
    """NumPy's order of a scalar adds an axis, and ONNX Runtime infers no shapes behind one."""
    scalar = Case((torch.tensor(1.5), torch.randn(3)))
    report = check_op(myops.my_add, [scalar], reference=slow, only=["layouts", "shapes"])
    assert all(tally.ran for tally in report.tallies)


def test_a_scalar_input_that_must_be_one() -> None:
    def shape(inputs: list[Any], attributes: dict[str, Any]) -> list[Any]:
        if inputs[1].shape:
            raise ValueError("scaled: factor: got an axis, expected a scalar")
        return [inputs[0].shape]

    scaled = myops.prototype(
        lambda x, factor: x * factor, name="scaled", domain="suite_scalars", doc="x * factor.",
        types={"T": ["float32"]}, shape=shape, outputs=[myops.Output("y", "T", "As x.")],
        inputs=[myops.Input("x", "T", "Any."), myops.Input("factor", "T", "A scalar.")],
    )  # fmt: skip
    case = Case((torch.randn(2, 3), torch.tensor(2.0)))
    check_op(scaled, [case], reference=lambda x, factor: x * factor, only=["layouts"])
    with pytest.raises(CheckError) as error:  # no backward
        check_op(scaled, [case], reference=lambda x, factor: x * factor, only=["compile", "trace"])
    assert error.value.args
    assert "fake kernel" not in str(error.value)
    assert "backward is missing" in str(error.value)
