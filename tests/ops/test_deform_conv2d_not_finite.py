"""What infinity and NaN in X, W, B and mask reach: the outputs that a plain formula says, in our
kernels and in the standard form; all others keep their bits. (Of positions:
test_positions_that_are_no_positions_sample_zero.)"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from deform_cases import CASES, arrays, build, call, expected
from runtimes import assert_parity, feeds, node_model

import myops.onnx

NAMES = ("X", "W", "offset", "B", "mask")
NUMBERS = (np.inf, -np.inf, np.nan)


def spoilt(tensors: Any, name: str, number: float, seed: int) -> Any:
    """A copy with `number` somewhere in one tensor."""
    copies = [None if item is None else item.clone() for item in tensors]
    flat = copies[NAMES.index(name)].view(-1)
    flat[np.random.default_rng(seed).integers(len(flat))] = number
    return copies


def positions_of_all_kinds(tensors: Any, whole: bool = True) -> Any:
    """Some at whole numbers, where corners weigh 0, some outside, some nowhere."""
    offset = tensors[2].clone()
    if whole:
        offset[..., ::3] = offset[..., ::3].round()
    offset[..., 1::4] = 1e6
    offset[..., 2::5] = torch.nan
    return [*tensors[:2], offset, *tensors[3:]]


def cases(name: str) -> list[Any]:
    given = {"B": -1, "mask": -2}
    return [case for case in CASES[:8] if case[0] < 3 and case[given.get(name, 0)]]


@pytest.mark.parametrize("name", ["X", "W", "B", "mask"])
def test_what_is_reached(name: str) -> None:
    hits = 0  # nothing looks at some elements of X
    for number, case in enumerate(cases(name)):
        tensors, attributes = build(case, dtype=("float32", "float64")[number % 2])
        clean = positions_of_all_kinds(tensors)
        (before,) = assert_parity("deform_conv2d", arrays(clean), attributes)
        assert np.isfinite(before).all()
        for seed, value in enumerate(NUMBERS):
            given = spoilt(clean, name, value, seed)
            (result,) = assert_parity("deform_conv2d", arrays(given), attributes)
            reached = ~expected(given, attributes).isfinite().numpy()
            hits += reached.any()
            assert not reached.all()
            np.testing.assert_array_equal(~np.isfinite(result), reached)
            np.testing.assert_array_equal(result[~reached], before[~reached])
    assert hits >= number


@pytest.mark.parametrize("opset", [13, 17, 22])
@pytest.mark.parametrize("name", ["X", "W", "B", "mask"])
def test_what_is_reached_in_standard_operators(name: str, opset: int) -> None:
    for number, case in enumerate(cases(name)):
        tensors, attributes = build(case, dtype="float32")
        # GridSample's positions are fractions of the image: whole ones come out a little off.
        clean = positions_of_all_kinds(tensors, whole=opset != 17)
        model = myops.onnx.lower(node_model("deform_conv2d", arrays(clean), attributes, opset))
        session = onnxruntime.InferenceSession(model.SerializeToString())
        given = spoilt(clean, name, NUMBERS[number % 3], number)
        (result,) = session.run(None, feeds("deform_conv2d", arrays(given)))
        reached = ~expected(given, attributes).isfinite().numpy()
        np.testing.assert_array_equal(~np.isfinite(result), reached)


def test_gradients_are_not_spoilt_elsewhere() -> None:
    """Where the formula's own gradients are finite, so are ours. They are also where the formula
    multiplies the 0 of a position that samples nothing: such a position has no gradient."""
    spread = 0
    for number, case in enumerate(cases("mask")):
        tensors, attributes = build(case)
        for name in ("X", "W", "mask"):
            given = spoilt(positions_of_all_kinds(tensors), name, np.inf, number)
            leaves = [None if item is None else item.requires_grad_() for item in given]
            present = [leaf for leaf in leaves if leaf is not None]
            found = torch.autograd.grad(call(leaves, attributes).sum(), present)
            wanted = torch.autograd.grad(expected(leaves, attributes).sum(), present)
            for one, other in zip(found, wanted, strict=True):
                assert not (other.isfinite() & ~one.isfinite()).any()
                spread += int((~one.isfinite()).sum())
    assert spread > 0
