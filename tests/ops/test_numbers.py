"""Python numbers as arguments: no fraction is dropped, and a string is no list of characters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import myops
import myops.nn
from myops import _numpy_call

X = torch.rand(1, 2, 4, 5)
WEIGHT, OFFSET = torch.rand(3, 2, 1, 1), torch.rand(1, 2, 4, 5)


def deform(**given: Any) -> Callable[[Any], torch.Tensor]:
    (name,) = given
    return lambda item: myops.deform_conv2d(X, OFFSET, WEIGHT, **{name: given[name](item)})


# Arguments that take an integer: (argument, call, a valid integer).
INTEGERS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "resize: sizes": (lambda n: myops.resize(X, sizes=[n, 7], axes=[2, 3]), 6),
    "resize: axes": (lambda n: myops.resize(X, [2.0, 2.0], axes=[n, 3]), 2),
    "interpolate: size": (lambda n: myops.interpolate(X, size=(7, n)), 6),
    "deform_conv2d: stride": (deform(stride=lambda n: (1, n)), 1),
    "deform_conv2d: padding": (deform(padding=lambda n: [0, 0, n, 0]), 0),
    "deform_conv2d: dilation": (deform(dilation=lambda n: [n, 1]), 1),
    "DeformConv2d: kernel_size": (lambda n: myops.nn.DeformConv2d(2, 3, (n, 1)).kernel_size, 3),
    "DeformConv2d: stride": (lambda n: myops.nn.DeformConv2d(2, 3, 3, stride=[1, n]).stride, 2),
}
ALONE: dict[str, tuple[Callable[[Any], Any], int]] = {
    "interpolate: size": (lambda n: myops.interpolate(X, size=n), 6),
    "interpolate: size ": (lambda n: myops.interpolate(X, size=n, mode="area"), 3),
    "deform_conv2d: stride": (deform(stride=lambda n: n), 1),
    "deform_conv2d: padding": (deform(padding=lambda n: n), 0),
    "DeformConv2d: dilation": (lambda n: myops.nn.DeformConv2d(2, 3, 3, dilation=n).dilation, 2),
}
CROP = "tf_crop_and_resize"
REALS: dict[str, Callable[[Any], Any]] = {
    "resize: scales": lambda s: myops.resize(X, [s, 2], axes=[2, 3]),
    "resize: roi": lambda s: myops.resize(
        X, [1, 1], roi=[0, 0, 1, s], axes=[2, 3], coordinate_transformation_mode=CROP
    ),
}
WRONG = [2.9, -0.5, math.nan, math.inf, "2", b"2", None, 2 + 1j, [2], np.float64(2.5), {}]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("where", [*INTEGERS, *(f"{name}, alone" for name in ALONE)])
def test_values_that_are_no_integers_are_refused(where: str, wrong: Any) -> None:
    name, comma, _ = where.partition(",")
    if comma and (wrong is None or isinstance(wrong, (list, dict))):
        return  # not given, or a sequence
    call, _ = (ALONE if comma else INTEGERS)[name]
    with pytest.raises(TypeError, match=f"^{name.strip()}: got .*, expected (integers|a sequence)"):
        call(wrong)


@pytest.mark.parametrize("kind", [int, float, np.int64, np.int32, np.uint8, np.float32])
@pytest.mark.parametrize("where", [*INTEGERS, *(f"{name}, alone" for name in ALONE)])
def test_integers_of_any_type_are_accepted(where: str, kind: Any) -> None:
    name, comma, _ = where.partition(",")
    call, right = (ALONE if comma else INTEGERS)[name]
    found, expected = call(kind(right)), call(right)
    if isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected)
    else:
        assert found == expected
        assert {type(item) for item in found} == {int}


@pytest.mark.parametrize("wrong", ["2", b"2", None, 2 + 1j, [2]], ids=repr)
@pytest.mark.parametrize("name", REALS)
def test_values_that_are_no_numbers_are_refused(name: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"^{name}: got .*, expected numbers"):
        REALS[name](wrong)


def test_interpolate_takes_arrays_of_numpy_as_lists() -> None:
    assert torch.equal(myops.interpolate(X, np.array([7, 9])), myops.interpolate(X, [7, 9]))
    factors = np.array([2, 1.5], np.float32)
    assert torch.equal(myops.interpolate(X, None, factors), myops.interpolate(X, None, [2, 1.5]))
    assert torch.equal(myops.interpolate(X, np.array(7)), myops.interpolate(X, 7))
    with pytest.raises(ValueError, match="interpolate: size: got 3 entries, expected 2"):
        myops.interpolate(X, np.array([7, 9, 1]))
    with pytest.raises(TypeError, match=r"size: got \{.*\}, expected integers"):
        myops.interpolate(X, {7, 9})  # type: ignore[arg-type]


@pytest.mark.parametrize("large", [2**63, -(2**63) - 1, 2**70])
@pytest.mark.parametrize("grad", [False, True])
def test_integers_beyond_64_bits_are_refused(large: int, grad: bool) -> None:
    x = X.clone().requires_grad_(grad)
    for argument, call in {
        "resize: sizes": lambda: myops.resize(x, sizes=[large, 7], axes=[2, 3]),
        "resize: axes": lambda: myops.resize(x, [1.0], axes=[large]),
        "interpolate: size": lambda: myops.interpolate(x, size=large),
        "deform_conv2d: stride": lambda: myops.deform_conv2d(x, OFFSET, WEIGHT, stride=large),
        "deform_conv2d: padding": lambda: myops.deform_conv2d(x, OFFSET, WEIGHT, padding=large),
    }.items():
        text = f"^{argument.strip()}: got {large}, expected integers of 64 bits"
        with pytest.raises(RuntimeError, match=text):
            call()


def test_other_objects_than_tensors_are_refused_by_name() -> None:
    array = X.numpy()
    for argument, call in {
        "interpolate: input": lambda: myops.interpolate(array, 2),  # type: ignore[arg-type]
        "resize: X": lambda: myops.resize(array, [1, 1, 2, 2]),  # type: ignore[arg-type]
        "my_add: b": lambda: myops.my_add(X, array),  # type: ignore[arg-type]
        "deform_conv2d: input": lambda: myops.deform_conv2d(array, OFFSET, WEIGHT),  # type: ignore[arg-type]
        "deform_conv2d: weight": lambda: myops.deform_conv2d(X, OFFSET, None),  # type: ignore[arg-type]
        "deform_conv2d: offset": lambda: myops.deform_conv2d(X, None, WEIGHT),  # type: ignore[arg-type]
        "deform_conv2d: mask": lambda: myops.deform_conv2d(X, OFFSET, WEIGHT, mask=array),  # type: ignore[arg-type]
    }.items():
        with pytest.raises(TypeError, match=f"^{argument}: got (ndarray|NoneType), expected a T"):
            call()


def test_factors_of_no_numbers_are_refused() -> None:
    for wrong in (torch.tensor(True), torch.tensor(2 + 1j)):
        for call in (
            lambda: myops.interpolate(X, scale_factor=wrong),  # noqa: B023
            lambda: myops.interpolate(X, scale_factor=wrong, mode="area"),  # noqa: B023
            lambda: myops.resize(X, [wrong, 2], axes=[2, 3]),  # noqa: B023
        ):
            with pytest.raises(TypeError, match=r"(scale_factor|scales): got a tensor of torch"):
                call()


def test_scales_that_float32_does_not_have_are_refused() -> None:
    for scale in (1e300, 1e-300):
        scales = torch.tensor([scale, 1.0], dtype=torch.float64)
        with pytest.raises(RuntimeError, match="above 0 in float32, to which scales are rounded"):
            myops.resize(X, scales, axes=[2, 3])


def test_strings_and_single_numbers_are_no_sequences() -> None:
    for call in (
        lambda: myops.resize(X, scales="1122"),
        lambda: myops.resize(X, sizes="1244"),
        lambda: myops.resize(X, scales=2.0),
        lambda: myops.resize(X, [2.0], axes=2),
    ):
        with pytest.raises(TypeError, match=r"^resize: \w+: got .*, expected a sequence of"):
            call()


def test_float_tensors_as_sizes_are_refused() -> None:
    fractions = torch.tensor([2.9, 3.0])
    for call in (
        lambda: myops.interpolate(X, size=fractions),
        lambda: myops.interpolate(X, size=fractions, mode="area"),
        lambda: myops.interpolate(X, size=[fractions[0], 3]),
        lambda: myops.resize(X, sizes=[fractions[0], 3], axes=[2, 3]),
    ):
        with pytest.raises(TypeError, match=r"sizes?: got a tensor of torch.float32, expected int"):
            call()
    with pytest.raises(RuntimeError, match="sizes: got dtype float32, expected int64"):
        myops.resize(X, sizes=fractions, axes=[2, 3])


def test_a_python_shape_rule_must_return_integers() -> None:
    def made(length: Any) -> Any:
        return myops.prototype(
            lambda x: x[:2],
            name="first_two",
            domain=f"numbers_{str(length).replace('.', '_')}",
            types={"T": ["float32"]},
            inputs=[myops.Input("x", "T", "A list.")],
            outputs=[myops.Output("y", "T", "Its beginning.")],
            shape=lambda inputs, attributes: [[length]],
        )

    assert made(2.0)(torch.arange(5.0)).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match=r"shape: got the length 2\.5 from the rule"):
        made(2.5)(torch.arange(5.0))


ONES = [np.ones(3, np.float32)] * 2


@pytest.mark.parametrize("text", ["abc", "-1", "0", "1025", "99999999999", "1.5", "4 ", "9" * 5000])
def test_a_wrong_number_of_threads_in_the_environment_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYOPS_NUM_THREADS", text)
    wanted = rf'MYOPS_NUM_THREADS: got "{text[:20]}.*", expected a number from 1 to 1024\. Unset it'
    with pytest.raises(ValueError, match=wanted):
        _numpy_call.call("my_add", ONES)
    np.testing.assert_array_equal(_numpy_call.call("my_add", ONES, threads=2)[0], 3)


@pytest.mark.parametrize("text", ["", "1", "4", "1024"])
def test_a_number_of_threads_in_the_environment_is_used(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYOPS_NUM_THREADS", text)
    np.testing.assert_array_equal(_numpy_call.call("my_add", ONES)[0], 3)


@pytest.mark.parametrize("wrong", [-1, 1025, 2**40, "a", 1.5, [2]])
def test_a_wrong_number_of_threads_is_refused(wrong: Any) -> None:
    kind = ValueError if isinstance(wrong, int) else TypeError
    with pytest.raises(kind, match=r"^my_add: threads: got .*, expected an integer from 0 to 1024"):
        _numpy_call.call("my_add", ONES, threads=wrong)


@pytest.mark.parametrize("right", [0, 1, np.int64(3), 1024])
def test_a_number_of_threads_is_used(right: Any) -> None:
    np.testing.assert_array_equal(_numpy_call.call("my_add", ONES, threads=right)[0], 3)
