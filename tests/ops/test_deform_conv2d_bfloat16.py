"""deform_conv2d in bfloat16 with products of pairs of bfloat16 and with products in float32: which
of the two runs, its error against float64, and equal bits in all runtimes. The kernels are tested
one by one in tests/native/deform_conv2d_bfloat16_tests.cpp."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import warm
from cpu_choices import CAN_PAIR, GATHERS, PAIRS, VARIABLE, pairs
from deform_cases import arrays, build, call, expected
from runtimes import assert_equal_bits, assert_parity, to_numpy

import myops
from myops import _numpy

SWITCH = "deform_conv2d.bfloat16_product"
COLUMNS, PLANES = "columns_product", "planes_product"
WIDE = _numpy.instruction_set() in ("avx2", "avx512")
FEW = PLANES if GATHERS or WIDE else COLUMNS

# As in deform_cases.CASES, then the image's size, the kernel without pairs, and whether channels
# are paired. The second has sums of 27 products.
CASES = [
    ((1, 64, 40, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (17, 21), COLUMNS, True),
    ((2, 3, 37, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (13, 9), PLANES, True),
    ((1, 40, 300, (5, 5), (2, 1), (2, 2), (1, 1), 1, 2, False, True), (12, 10), COLUMNS, True),
    ((3, 63, 1, (1, 1), (1, 1), (0, 0), (1, 1), 1, 3, True, False), (5, 40), COLUMNS, True),
    ((1, 32, 64, (3, 3), (1, 1), (1, 1), (1, 1), 8, 1, True, False), (9, 9), COLUMNS, True),
    ((1, 12, 15, (3, 3), (1, 1), (1, 1), (1, 1), 3, 2, True, True), (9, 9), PLANES, True),
    ((1, 12, 12, (3, 3), (1, 1), (1, 1), (1, 1), 3, 2, True, True), (9, 9), PLANES, False),  # few
    ((1, 16, 4, (3, 3), (1, 1), (1, 1), (1, 1), 4, 2, True, True), (9, 9), PLANES, False),
    ((1, 6, 33, (3, 3), (1, 1), (1, 1), (1, 1), 1, 2, True, False), (9, 9), PLANES, True),
    ((1, 6, 32, (3, 3), (1, 1), (1, 1), (1, 1), 1, 2, True, False), (9, 9), PLANES, False),
    ((1, 9, 6, (3, 3), (1, 1), (1, 1), (1, 1), 3, 1, True, True), (9, 9), FEW, False),  # 3 of 9
    ((1, 6, 6, (3, 3), (1, 1), (1, 1), (1, 1), 6, 1, True, True), (9, 9), PLANES, False),
    ((1, 2, 40, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (9, 9), PLANES, True),
    ((1, 2, 32, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (9, 9), PLANES, False),  # few
    ((1, 8, 65, (1, 1), (1, 1), (0, 0), (1, 1), 1, 8, True, True), (9, 9), PLANES, True),
    ((1, 8, 64, (1, 1), (1, 1), (0, 0), (1, 1), 1, 8, True, True), (9, 9), PLANES, False),
]


def product_of(tensors: Any, attributes: dict[str, Any]) -> tuple[str, torch.Tensor]:
    ran = myops.explain(call, tensors, attributes)
    return next(step.kernel for step in ran.call.plan if step.axis == "Y"), ran.result


@pytest.mark.parametrize("number", range(len(CASES)))
def test_error_and_runtimes(number: int) -> None:
    """A sample and a result are rounded to bfloat16 once each, half a unit at most; sums in float32
    add little."""
    case, size, kernel, paired = CASES[number]
    torch.manual_seed(number)
    tensors, attributes = build(case, size, "bfloat16")
    name, result = product_of(tensors, attributes)
    assert name == ("bfloat16_product" if paired and PAIRS else kernel)
    exact = expected(tensors, attributes)
    x, weight, offset, bias, mask = tensors
    sizes = [x.abs(), weight.abs(), offset, None, None if mask is None else mask.abs()]
    magnitudes = expected(sizes, attributes)  # the sum of the products without their signs
    unit = 2.0**-8  # half the distance of two bfloat16, relative to the smaller
    in_float32 = (weight[0].numel() + 8) * 2.0**-23  # sums, positions, weights of corners
    positions = 4 * 2.0**-16 * magnitudes.max()  # in float32, of a size up to 64
    bound = ((unit if name == "bfloat16_product" else 0) + in_float32) * magnitudes + positions
    bound = bound * (1 + unit) + unit * exact.abs()
    assert ((result.double() - exact).abs() <= bound).all()
    (one,) = assert_parity("deform_conv2d", arrays(tensors), attributes)
    assert_equal_bits(to_numpy(result), one, "explain")
    last = [x.contiguous(memory_format=torch.channels_last), *tensors[1:]]
    assert torch.equal(call(last, attributes), result)
    rows = [call([x[i : i + 1], weight, offset[i : i + 1], bias,
                  None if mask is None else mask[i : i + 1]], attributes)
            for i in range(len(x))]  # fmt: skip
    assert torch.equal(torch.cat(rows), result)


def test_infinity_stays_with_its_outputs() -> None:
    """The half of a pair that is left over multiplies nothing: 0 times infinity would be NaN."""
    for case, size, _, _ in CASES[1:7]:
        tensors, attributes = build(case, size, "bfloat16")
        tensors[0][..., -1, 3, 4] = torch.inf
        exact = expected(tensors, attributes)
        result = call(tensors, attributes)
        assert torch.equal(result.isfinite(), exact.isfinite())
        assert torch.equal(result.isnan(), exact.isnan())


RUN = """
import json, sys
import numpy as np, torch, myops

torch.manual_seed(1)
x, w = torch.randn(1, 40, 13, 17).bfloat16(), torch.randn(24, 40, 3, 3).bfloat16()
offset = torch.randn(1, 18, 13, 17).bfloat16()
ran = myops.explain(myops.deform_conv2d, x, offset, w, padding=1)
exact = myops.deform_conv2d(x.double(), offset.double(), w.double(), padding=1)
error = ran.result.double() - exact
print(json.dumps({
    "kernel": ran.call.plan[0].kernel,
    "bits": ran.result.view(torch.int16).int().flatten().tolist(),
    "rms": float((error.square().mean() / exact.square().mean()).sqrt()),
}))
"""


def run(program: str, **environment: str) -> str:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = warm.run("-c", program, env={**os.environ, "PYTHONPATH": path, **environment},
                    without_myops=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


REFUSED = """
import torch, myops

x = torch.zeros(1, 4, 2, 2).bfloat16()
try:
    myops.deform_conv2d(x, torch.zeros(1, 2, 2, 2).bfloat16(), torch.zeros(1, 4, 1, 1).bfloat16())
except (RuntimeError, ValueError) as error:
    print(error)
"""


def test_another_value_is_refused() -> None:
    assert f'{VARIABLE}: got "2", expected 0 or 1' in run(REFUSED, **{VARIABLE: "2"})


def error_of(isa: str, off: str = "", wanted: str = "") -> dict[str, Any]:
    return json.loads(run(RUN, MYOPS_DISABLE_KERNEL=off, MYOPS_ISA=isa, **{VARIABLE: wanted}))


def test_which_product_runs() -> None:
    """Under each instruction set, by default, as the variable says, and turned off; its error."""
    for name in _numpy.instruction_sets():
        off = error_of(name, SWITCH, "1")
        assert off["kernel"] == "columns_product"
        # Errors are uniform up to 2^-8 of a number's power of two, which is half of it or more.
        assert 0.5 * 2.0**-8 / 3**0.5 < off["rms"] < 2.0**-8 / 3**0.5
        for wanted in ("", "0", "1"):
            found, paired = error_of(name, "", wanted), pairs(name, wanted)
            assert found["kernel"] == ("bfloat16_product" if paired else "columns_product"), name
            assert (found["bits"] != off["bits"]) == paired
            assert off["rms"] * (1.1 if paired else 1) <= found["rms"] <= off["rms"] * 1.6
    source = Path(__file__).parents[2] / "csrc" / "ops" / "deform_conv2d" / "deform_conv2d.cpp"
    assert f'kernel_enabled("{SWITCH}")' in source.read_text()


OTHERWISE = """
import test_deform_conv2d_bfloat16 as t

for number in range(len(t.CASES)):
    t.test_error_and_runtimes(number)
t.test_infinity_stays_with_its_outputs()
t.test_subnormal_numbers()
print(t.PAIRS)
"""


@pytest.mark.skipif(not CAN_PAIR, reason="this CPU has no products of pairs of bfloat16")
def test_the_other_products() -> None:
    """All of this with the products that AVX-512 does not use here by itself, also where MYOPS_ISA
    names another instruction set."""
    other = not pairs("avx512", os.environ.get(VARIABLE, ""))
    found = run(OTHERWISE, MYOPS_ISA="avx512", **{VARIABLE: str(int(other))})
    assert found.split() == [str(other)]


def test_subnormal_numbers() -> None:
    """Products of pairs count them as 0; products in float32 do not."""
    x = torch.full((1, 8, 2, 2), 2.0**-131).bfloat16()
    w = torch.full((1, 8, 1, 1), 2.0**20).bfloat16()
    result = myops.deform_conv2d(x, torch.zeros(1, 2, 2, 2).bfloat16(), w)
    wanted = 0.0 if PAIRS else 2.0**-108
    assert np.unique(result.float().numpy()) == [np.float32(wanted)]
