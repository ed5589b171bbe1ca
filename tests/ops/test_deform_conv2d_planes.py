"""deform_conv2d with few channels in an offset group, by `planes_product`: against the reference,
and with the bits of `columns_product` in all layouts. `MYOPS_ISA` chooses the instruction set."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cpu_choices import GATHERS
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

TOLERANCES = {"float64": 1e-10, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
OTHER = "deform_conv2d.bfloat16_product"  # rounds samples, on a CPU that has it
# As in deform_cases.CASES, the size of the image, and the scale of the offsets.
CASES = {
    "several tiles": ((2, 1, 3, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (70, 150), 1),
    "short rows": ((1, 3, 9, (3, 3), (1, 2), (1, 1), (1, 1), 1, 1, False, True), (90, 5), 1),
    "blocks of taps": ((1, 4, 20, (5, 5), (2, 1), (2, 2), (1, 1), 1, 2, True, False), (31, 40), 1),
    "1x1": ((1, 2, 40, (1, 1), (1, 1), (0, 0), (1, 1), 1, 1, True, True), (3, 300), 1),
    "weight groups": ((2, 12, 8, (3, 2), (2, 1), (1, 0), (1, 2), 2, 4, True, False), (13, 12), 1),
    # Offset groups of 8 and 6 channels, with 3 and 4 in a weight group.
    "straddling": ((1, 24, 16, (3, 3), (1, 1), (1, 1), (1, 1), 8, 3, True, True), (9, 30), 1),
    "divided": ((1, 12, 6, (2, 2), (1, 1), (1, 1), (1, 1), 3, 2, True, False), (7, 16), 1),
    # Offset groups that are multiplied together: all at once; some, for two tiles; of each weight
    # group; blocks of taps; and chunks of outputs.
    "together": ((1, 16, 40, (1, 1), (1, 1), (0, 0), (1, 1), 1, 16, True, True), (7, 70), 1),
    "some together": ((1, 12, 9, (3, 3), (1, 2), (1, 1), (1, 1), 1, 12, True, False), (40, 66), 1),
    "groups together": ((2, 16, 70, (1, 2), (1, 1), (0, 0), (1, 1), 2, 8, False, True), (9, 31), 1),
    "taps together": ((1, 1, 37, (7, 7), (1, 1), (3, 3), (1, 1), 1, 1, True, True), (11, 23), 1),
    "chunks together": ((1, 4, 300, (1, 1), (1, 1), (0, 0), (1, 1), 1, 4, True, True), (5, 21), 1),
    # Tiles whose lines have a gap between them.
    "wide": ((1, 2, 7, (1, 3), (1, 1), (0, 1), (1, 1), 1, 1, True, True), (13, 777), 1),
    "depthwise": ((1, 6, 6, (3, 3), (1, 1), (1, 1), (1, 1), 6, 2, True, True), (9, 30), 1),
    "depthwise, 5": ((1, 5, 5, (3, 2), (1, 1), (1, 1), (1, 1), 5, 1, True, True), (9, 30), 1),
    "depthwise, 7": ((1, 14, 14, (1, 1), (2, 1), (1, 1), (1, 1), 14, 2, True, True), (9, 30), 1),
    # In vectors of 16 bytes, more than six channels only with many outputs.
    "four": ((1, 8, 6, (3, 3), (2, 1), (1, 1), (1, 1), 2, 2, True, True), (40, 26), 1),
    "six": ((2, 6, 3, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (9, 40), 1),
    "twelve": ((1, 12, 5, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (17, 40), 1),
    "many": ((1, 12, 60, (1, 1), (1, 1), (0, 0), (1, 1), 1, 1, True, True), (7, 60), 1),
    "many, 2": ((1, 16, 40, (1, 1), (2, 1), (0, 0), (1, 1), 1, 2, True, True), (7, 60), 1),
    "chunks": ((1, 3, 300, (2, 3), (1, 1), (1, 1), (1, 1), 1, 1, False, True), (6, 20), 1),
    "packed by task": ((1, 3, 3000, (5, 5), (1, 1), (2, 2), (1, 1), 1, 1, False, True), (4, 5), 1),
    "one block": ((1, 3, 7000, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (3, 4), 1),
    # Samples that no window of a tile contains, most of them outside of the image.
    "far": ((1, 3, 3, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (190, 260), 60),
    "outside": ((1, 2, 3, (3, 3), (1, 1), (1, 1), (1, 1), 1, 2, True, True), (4, 9), 1000),
}  # fmt: skip


def kernel_of(name: str, dtype: str) -> str:
    wide = _numpy.instruction_set() in ("avx2", "avx512")
    columns = name == "twelve" and not wide and not (GATHERS and dtype != "float64")
    return "columns_product" if columns else "planes_product"


def made(name: str, dtype: str) -> tuple[list[Any], dict[str, Any]]:
    torch.manual_seed(len(name))
    case, size, scale = CASES[name]
    tensors, attributes = build(case, size, "float64")
    tensors[2] = tensors[2] * scale
    if scale == 1:
        tensors[2] = off_integers(tensors[2])
    return in_dtype(tensors, dtype), attributes


def found() -> dict[str, Any]:
    """Kernels and hashes of results, in three layouts."""
    results = {}
    for name in CASES:
        for dtype in DTYPES:
            tensors, attributes = made(name, dtype)
            ran = myops.explain(call, tensors, attributes)
            bits = []
            for places in ((), (0,), (0, 2, 4)):  # X; X, offset and mask
                moved = [
                    t.contiguous(memory_format=torch.channels_last)
                    if t is not None and i in places else t
                    for i, t in enumerate(tensors)
                ]  # fmt: skip
                bits.append(bits_of(call(moved, attributes)))
            results[f"{name} {dtype}"] = [ran.call.plan[0].kernel, *bits]
    return results


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    for dtype in ("float64", "float32", "float16"):  # bfloat16: see test_bits_of_columns
        tensors, attributes = made(name, dtype)
        ran = myops.explain(call, tensors, attributes)
        assert ran.call.plan[0].kernel == kernel_of(name, dtype)
        exact = expected(tensors, attributes)
        limit = TOLERANCES[dtype] * max(1.0, float(exact.abs().max()))
        assert (ran.result.double() - exact).abs().max() <= limit, dtype


def test_bits_of_columns() -> None:
    planes = found_without(OTHER, __file__)
    columns = found_without(f"{OTHER},deform_conv2d.planes_product", __file__)
    for case, (kernel, *bits) in planes.items():
        assert kernel == kernel_of(*case.rsplit(" ", 1)), case
        assert columns[case][0] in ("columns_product", "depthwise"), case
        assert bits == [bits[0]] * 3, case
        assert bits == columns[case][1:], case
    assert planes == found_without(f"{OTHER},deform_conv2d.channels_together", __file__)


def test_not_finite() -> None:
    """A mask that is not finite shows outside of the image too; X there does not."""
    x = torch.full((1, 2, 5, 9), float("inf"))
    weight, offset = torch.ones(1, 2, 1, 1), torch.full((1, 2, 5, 9), 100.0)
    mask = torch.ones(1, 1, 5, 9)
    offset[..., 3] = float("nan")
    offset[..., 4] = float("-inf")
    mask[..., 7] = float("inf")
    ran = myops.explain(myops.deform_conv2d, x, offset, weight, mask=mask)
    assert ran.call.plan[0].kernel == "planes_product"
    assert torch.isnan(ran.result[..., 7]).all()
    ran.result[..., 7] = 0
    assert torch.equal(ran.result, torch.zeros(1, 1, 5, 9))
