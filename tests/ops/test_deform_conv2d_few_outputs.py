"""deform_conv2d with few outputs, whose product has vectors that run over pixels: against the
reference, and with the bits of the product with vectors of outputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from deform_cases import (
    DTYPES,
    bits_of,
    build,
    call,
    expected,
    found_without,
    in_dtype,
    off_integers,
)

import myops
from myops import _numpy

MOST = {"avx512": 12, "avx2": 8}.get(_numpy.instruction_set(), 0)
TOLERANCES = {"float64": 1e-10, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
OFF = "deform_conv2d.planes_product"
# As in deform_cases.CASES, and the size of the image. Pixels, and samples of a pixel, are mostly no
# whole vectors.
CASES = {
    "one": ((1, 17, 1, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (9, 13)),
    "two, 1x1": ((2, 35, 2, (1, 1), (1, 1), (0, 0), (1, 1), 1, 1, False, True), (5, 31)),
    "several tiles": ((1, 16, 3, (3, 2), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (70, 150)),
    "three images": ((3, 40, 8, (3, 3), (2, 2), (1, 1), (1, 1), 1, 1, True, True), (7, 5)),
    "blocks": ((1, 225, 2, (5, 5), (1, 1), (2, 2), (1, 1), 1, 1, False, False), (8, 4)),
    "five": ((1, 24, 5, (3, 3), (1, 2), (2, 2), (2, 2), 1, 3, True, True), (20, 33)),
    "weight groups": ((1, 48, 12, (3, 3), (1, 1), (1, 1), (1, 1), 3, 1, True, True), (11, 17)),
    "offset groups": ((1, 64, 7, (3, 1), (1, 1), (1, 0), (1, 1), 1, 4, True, False), (13, 19)),
    "straddling": ((1, 60, 6, (2, 2), (1, 1), (0, 0), (1, 1), 2, 3, True, True), (9, 21)),
    "twelve": ((2, 9, 12, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (6, 37)),
    "chunks": ((1, 600, 300, (1, 1), (1, 1), (0, 0), (1, 1), 60, 1, False, True), (3, 23)),
    "thirteen": ((1, 20, 13, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (9, 13)),
}  # fmt: skip


def made(name: str, dtype: str) -> tuple[list[Any], dict[str, Any]]:
    torch.manual_seed(len(name))
    case, size = CASES[name]
    tensors, attributes = build(case, size, "float64")
    tensors[2] = off_integers(tensors[2])
    return in_dtype(tensors, dtype), attributes


def found() -> dict[str, Any]:
    """The plans and hashes of results: in rows, in channels_last memory, and with two threads."""
    results = {}
    for name in CASES:
        for dtype in DTYPES:
            tensors, attributes = made(name, dtype)
            ran = myops.explain(call, tensors, attributes)
            last = [tensors[0].contiguous(memory_format=torch.channels_last), *tensors[1:]]
            one = [call(tensors, attributes), call(last, attributes)]
            torch.set_num_threads(2)
            one.append(call(tensors, attributes))
            torch.set_num_threads(1)
            results[f"{name} {dtype}"] = [str(ran.call.plan[0]), *map(bits_of, one)]
    return results


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    for dtype in ("float64", "float32", "float16"):  # bfloat16: see test_same_bits
        tensors, attributes = made(name, dtype)
        exact = expected([None if t is None else t.double() for t in tensors], attributes)
        limit = TOLERANCES[dtype] * max(1.0, float(exact.abs().max()))
        assert (call(tensors, attributes).double() - exact).abs().max() <= limit, dtype


def test_same_bits() -> None:
    few = found_without(OFF, __file__)
    others = found_without(f"{OFF},deform_conv2d.few_outputs", __file__)
    for case, (plan, *bits) in few.items():
        name = case.rsplit(" ", 1)[0]
        outputs, groups = CASES[name][0][2], CASES[name][0][7]
        assert ("few outputs" in plan) == (outputs // groups <= MOST), case
        assert "few outputs" not in others[case][0], case
        assert bits == [bits[0]] * 3, case
        assert bits == others[case][1:], case


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_not_finite(number: float) -> None:
    """Samples that are not finite reach their own pixel alone, of the vector that it is in."""
    x, weight, mask = torch.ones(1, 20, 5, 9), torch.ones(3, 20, 1, 1), torch.ones(1, 1, 5, 9)
    mask[..., 2, 4] = number
    ran = myops.explain(myops.deform_conv2d, x, torch.zeros(1, 2, 5, 9), weight, mask=mask)
    assert ("few outputs" in str(ran)) == (MOST > 0)
    spoilt = ~ran.result.isfinite()
    assert spoilt[..., 2, 4].all()
    assert spoilt.sum() == 3
    assert (ran.result[~spoilt] == 20).all()
