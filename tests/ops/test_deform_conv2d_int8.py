"""deform_conv2d_int8: the bits of a reference on integers in every runtime and form, how far they
are from deform_conv2d, refusals, and which kernel runs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import warm
from deform_cases import CASES, build
from reference_deform_conv2d_int8 import deform_conv2d_int8 as reference
from runtimes import assert_equal_bits, assert_parity, feeds, node_model, run_numpy
from torch import Tensor

import myops
import myops.onnx
from myops.testing import Case, Check, checks

NAME = "deform_conv2d_int8"
FOLDER = Path(__file__).parents[2] / "csrc" / "ops" / NAME


def quantized(
    case: tuple[Any, ...], dtype: str = "uint8", size: tuple[int, int] = (11, 9), limit: float = 1.0
) -> tuple[list[Any], dict[str, Any]]:
    """The inputs of a node, as arrays, and its attributes."""
    (x, weight, offset, bias, mask), attributes = build(case, size, "float32")
    ends, zero = np.iinfo(dtype), (100 if dtype == "uint8" else -10)
    scale = np.float32(0.02)
    X = np.clip(np.rint(x.numpy() / scale) + zero, ends.min, ends.max).astype(dtype)
    W_scale = np.abs(weight.numpy()).max((1, 2, 3)) / np.float32(127)
    W = np.rint(weight.numpy() / W_scale[:, None, None, None]).astype(np.int8)
    rest = [None if item is None else item.numpy() for item in (offset, bias, mask)]
    inputs = [X, np.array([scale]), np.array([zero], dtype), W, W_scale, *rest]
    return inputs, {**attributes, "mask_limit": limit}


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("case", CASES)
def test_values_and_parity(case: tuple[Any, ...], dtype: str) -> None:
    inputs, attributes = quantized(case, dtype, limit=2.0 if case[9] else 1.0)
    (result,) = assert_parity(NAME, inputs, attributes)
    assert_equal_bits(result, reference(*inputs, **attributes))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("opset", [11, 13, 19, 22])
def test_standard_nodes_have_the_same_bits(opset: int, dtype: str) -> None:
    """Lowered, and as a function body, without the library."""
    for case in (CASES[0], CASES[2], CASES[6]):
        inputs, attributes = quantized(case, dtype, limit=1.7)
        inputs[5][0, 0, 0, :2] = np.nan, 3e9
        (result,) = run_numpy(NAME, inputs, attributes)
        model = node_model(NAME, inputs, attributes, opset=opset)
        for made in (myops.onnx.lower(model), myops.onnx.add_function_bodies(model)):
            session = onnxruntime.InferenceSession(made.SerializeToString())
            (got,) = session.run(None, feeds(NAME, inputs))
            assert_equal_bits(got, result, f"opset {opset}")


@pytest.mark.parametrize("limit", [0.5, 1.0, 3.0])
def test_samples_are_rounded_and_sums_are_exact(limit: float) -> None:
    """The largest difference from deform_conv2d is what the rounding of each sample allows."""
    for case in (CASES[3], CASES[5], CASES[7]):
        inputs, attributes = quantized(case, limit=limit)
        X, scale, zero, W, W_scale, offset, bias, mask = inputs
        mask = None if mask is None else np.clip(np.abs(mask), 0, limit)
        if mask is None and limit != 1:
            continue
        X = np.clip(X, 40, 160)  # so that no sample leaves the range
        (result,) = run_numpy(NAME, [X, *inputs[1:7], mask], attributes)
        weights = W.astype(np.float64) * W_scale[:, None, None, None]
        wide = [(X.astype(np.float64) - zero) * scale, weights, offset, bias, mask]
        wide = [None if item is None else item.astype(np.float64) for item in wide]
        plain = {name: item for name, item in attributes.items() if name != "mask_limit"}
        (exact,) = run_numpy("deform_conv2d", wide, plain)
        total = np.abs(W.astype(np.float64)).sum((1, 2, 3)) * W_scale * scale * limit
        steps = np.abs(result - exact) / total[:, None, None]
        assert steps.max() <= 0.54
        assert steps.max() > 0.01  # it does round


def test_numbers_that_are_none() -> None:
    """Positions that are no positions sample 0; a mask that is NaN counts as 0, infinite as 1."""
    inputs, attributes = quantized(CASES[0])
    inputs[5][..., ::2, :], inputs[5][:, 1, 1, 1] = np.nan, np.inf
    inputs[7][:, 0], inputs[7][:, 1], inputs[7][:, 2] = np.nan, np.inf, -np.inf
    (result,) = assert_parity(NAME, inputs, attributes)
    assert np.isfinite(result).all()
    assert_equal_bits(result, reference(*inputs, **attributes))


@pytest.mark.parametrize("pixels", [4, 20, 90])
@pytest.mark.parametrize("channels", [3, 20, 70])
def test_windows_that_do_not_fit(channels: int, pixels: int) -> None:
    """With samples `pixels` from their place: in parts of the image, or a cell for each sample."""
    case = (1, channels, 9, (3, 2), (1, 1), (1, 1), (1, 1), 1, 1, True, True)
    for dtype in ("uint8", "int8"):
        inputs, attributes = quantized(case, dtype, size=(130, 180))
        inputs[5] = np.clip(inputs[5], -1, 1) * np.float32(pixels)
        (result,) = assert_parity(NAME, inputs, attributes)
        assert_equal_bits(result, reference(*inputs, **attributes))
        last = torch.from_numpy(inputs[0]).contiguous(memory_format=torch.channels_last)
        rest = [None if item is None else torch.from_numpy(item) for item in inputs[1:]]
        got = torch.ops.myops.deform_conv2d_int8(last, *rest, **attributes)
        assert_equal_bits(got.contiguous().numpy(), result)


def test_layouts_and_repeated_calls() -> None:
    inputs, attributes = quantized(CASES[5])
    given = [None if item is None else torch.from_numpy(np.array(item)) for item in inputs]
    op = torch.ops.myops.deform_conv2d_int8
    first = op(*given, **attributes)
    for _ in range(3):  # weights are packed once they have been seen
        assert torch.equal(op(*given, **attributes), first)
    given[3].neg_()  # and again when they change
    assert torch.equal(
        op(*given, **attributes),
        torch.from_numpy(reference(*inputs[:3], -inputs[3], *inputs[4:], **attributes)),
    )
    given[3].neg_()
    last = given[0].contiguous(memory_format=torch.channels_last)
    result = op(last, *given[1:], **attributes)
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(result, first)
    odd = [item.transpose(0, -1).contiguous().transpose(0, -1) if item.dim() == 4 else item
           for item in given]  # fmt: skip
    assert torch.equal(op(*odd, **attributes), first)


def call(
    input: Tensor, input_scale: Tensor, input_zero_point: Tensor | None, offset: Tensor,
    weight: Tensor, weight_scale: Tensor, bias: Tensor | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], mask: Tensor | None, mask_limit: float = 1.0,
) -> np.ndarray:  # fmt: skip
    """The reference with the arguments of myops.deform_conv2d_int8."""
    given = [input, input_scale, input_zero_point, weight, weight_scale, offset, bias, mask]
    arrays = [None if item is None else item.numpy() for item in given]
    arrays = [item.astype(np.float32) if item is not None and item.dtype.kind == "f" else item
              for item in arrays]  # fmt: skip
    return reference(
        *arrays, strides=stride, pads=padding, dilations=dilation,
        group=input.shape[1] // weight.shape[1],
        offset_group=offset.shape[1] // (2 * weight.shape[2] * weight.shape[3]),
        mask_limit=mask_limit,
    )  # fmt: skip


def conformance(case: tuple[Any, ...], name: str, **more: Any) -> Case:
    inputs, settings = quantized(case, size=(7, 6))
    x, scale, zero, weight, weight_scale, offset, bias, mask = (
        None if item is None else torch.from_numpy(np.array(item)) for item in inputs
    )
    rest = (settings["strides"], settings["pads"], settings["dilations"], mask)
    return Case((x, scale, zero, offset, weight, weight_scale, bias, *rest), more, name=name)


GROUPS = conformance((2, *CASES[0][1:]), "groups")
CONFORMANCE = [
    GROUPS,
    conformance(CASES[5], "27 products", mask_limit=0.7),
    Case((GROUPS.args[0][:, :5], *GROUPS.args[1:]), name="channels",
         refused="weight: got 5 channels of input, expected a positive multiple of 3"),
    Case((*GROUPS.args[:5], torch.ones(3), *GROUPS.args[6:]), name="scales",
         refused="weight_scale: got shape [3], expected shape [2] (the output channels of weight"),
]  # fmt: skip


@pytest.mark.parametrize("check", [
    pytest.param(check, id=str(check)) for check in
    checks(myops.deform_conv2d_int8, CONFORMANCE, reference=call, gradients=0)
])  # fmt: skip
def test_conformance(check: Check) -> None:
    check()


@pytest.mark.parametrize(("place", "array", "text"), [
    (1, np.ones(2, np.float32), "X_scale: got shape [2], expected shape [1] (one number)"),
    (1, np.ones((), np.float32), "X_scale: got shape [], expected shape [1] (one number)"),
    (2, np.ones((1, 1), np.uint8), "X_zero_point: got shape [1, 1], expected shape [1]"),
    (2, np.array([0], np.int8), "X_zero_point: got dtype int8, expected uint8"),
    (4, np.ones(3, np.float32), "W_scale: got shape [3], expected shape [2]"),
    (0, np.ones((1, 6, 11, 9), np.float32), "X: got dtype float32"),
    (3, np.ones((2, 3, 3, 2), np.uint8), "W: got dtype uint8"),
    (3, np.ones((2, 65536, 3, 2), np.int8), "channels of X"),
])  # fmt: skip
def test_refusals(place: int, array: np.ndarray, text: str) -> None:
    inputs, attributes = quantized(CASES[0])
    inputs[place] = array
    with pytest.raises(Exception, match=re.escape(text)):
        run_numpy(NAME, inputs, attributes)


def test_too_many_products() -> None:
    X, one = np.zeros((1, 65537, 1, 1), np.uint8), np.float32([1])
    inputs = [X, one, None, np.zeros((1, 65537, 1, 1), np.int8), one,
              np.zeros((1, 2, 1, 1), np.float32), None, None]  # fmt: skip
    with pytest.raises(Exception, match="65537 numbers for each output, expected at most 65536"):
        run_numpy(NAME, inputs)


RUN = """
import json, sys
import numpy as np
import torch
import myops
import myops.ops

myops.ops.modules()
given = [torch.from_numpy(item) for item in np.load(sys.argv[1]).values()]
explained = myops.explain(torch.ops.myops.deform_conv2d_int8, *given, pads=[1, 1, 1, 1])
kernels = [step.kernel for call in explained.calls for step in call.plan]
print(json.dumps({"kernels": kernels, "bits": explained.result.numpy().view("u4").sum().item()}))
"""


def test_which_kernel_runs_and_that_it_changes_no_bit(tmp_path: Path) -> None:
    """Under each instruction set, and without the products of bytes: equal bits."""
    from myops import _numpy

    inputs, _ = quantized((1, 40, 24, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True))
    path = tmp_path / "inputs.npz"
    np.savez(path, **{str(number): item for number, item in enumerate(inputs)})
    found = {}
    for name, off in [*((name, "") for name in _numpy.instruction_sets()),
                      ("", f"{NAME}.byte_products")]:  # fmt: skip
        environment = {**os.environ, "MYOPS_DISABLE_KERNEL": off,
                       "PYTHONPATH": os.pathsep.join(sys.path)}  # fmt: skip
        if name:
            environment["MYOPS_ISA"] = name
        done = warm.run("-c", RUN, path, env=environment, without_myops=True)
        assert done.returncode == 0, done.stderr
        found[name or "off"] = json.loads(done.stdout)
    assert len({item["bits"] for item in found.values()}) == 1
    for name, item in found.items():
        vnni = name == "avx512" and "avx512_vnni" in Path("/proc/cpuinfo").read_text()
        assert item["kernels"][0] == ("byte_products" if vnni else "products_of_16_bits"), name
        assert item["kernels"][1] == "packed_once"
    source = (FOLDER / f"{NAME}.cpp").read_text()
    assert f'kernel_enabled("{NAME}.byte_products")' in source


def test_the_page_names_kernels_and_files() -> None:
    page = (FOLDER / "README.md").read_text()
    source = (FOLDER / "convolve.h").read_text()
    kernels = set(re.findall(r'"(byte_\w+|products_\w+|packed_\w+)"', source))
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.M)) == kernels
    files = {path.name for path in FOLDER.glob("*.h")} - {"kernels.h"}
    assert set(re.findall(r"`(\w+\.h)`", page.partition("## Files")[2])) == files
