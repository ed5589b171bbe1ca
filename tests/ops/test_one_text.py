"""What a wrong call is refused with: an op has the same text in every runtime, with the names of
the node. Public functions whose parameters have other names, but for capitals, say those."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
import runtimes
import torch

import myops
from myops.testing import Case
from myops.testing.bits import to_numpy
from myops.testing.calls import run_torch
from myops.testing.op_under_test import op_under_test

X, OFFSET, WEIGHT, BIAS = (
    torch.randn(2, 4, 6, 6), torch.randn(2, 36, 6, 6), torch.randn(6, 2, 3, 3), torch.randn(6),
)  # fmt: skip
MASK, BYTES = torch.rand(2, 18, 6, 6), torch.ones(2, 4, 6, 6, dtype=torch.uint8)
SMALL, SCALE = torch.ones(6, 2, 3, 3, dtype=torch.int8), torch.ones(1)
ZERO = torch.zeros(1, dtype=torch.uint8)
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "my_add": (myops.my_add, {"a": X, "b": X}),
    "resize": (myops.resize, {"x": X, "scales": torch.tensor([1.0, 1.0, 2.0, 2.0])}),
    "interpolate": (myops.interpolate, {"input": X, "size": 3}),
    "deform_conv2d": (myops.deform_conv2d, {
        "input": X, "offset": OFFSET, "weight": WEIGHT, "bias": BIAS, "stride": 1, "padding": 1,
        "dilation": 1, "mask": MASK}),
    "deform_conv2d_int8": (myops.deform_conv2d_int8, {
        "input": BYTES, "input_scale": SCALE, "input_zero_point": ZERO, "weight": SMALL,
        "weight_scale": SCALE, "offset": OFFSET, "bias": BIAS, "mask": MASK, "stride": 1,
        "padding": 1, "dilation": 1}),
}  # fmt: skip


def wrong(good: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Calls with one mistake each."""
    found: list[tuple[str, Any]] = []
    for name, item in good.items():
        if isinstance(item, int):
            found += [(name, 0), (name, -7), (name, 2**40), (name, [1, -1]), (name, [1, 1, 1])]
            continue
        axes = range(item.dim())
        found += [(name, item[None]), (name, item[0]), (name, item.reshape(-1)[0])]
        found += [(name, torch.cat([item, item.narrow(axis, 0, 1)], axis)) for axis in axes]
        found += [(name, item.narrow(axis, 0, length)) for axis in axes for length in (0, 1)]
        found += [(name, item.to(dtype)) for dtype in (torch.float64, torch.int32, torch.bool)]
    return [(name, {**good, name: item}) for name, item in found]


@pytest.mark.parametrize("name", CALLS)
def test_every_refusal_has_one_text(name: str) -> None:
    function, good = CALLS[name]
    tested = op_under_test(function, [Case((), good)])
    parameters = inspect.signature(function).parameters
    texts: set[str] = set()
    for parameter, arguments in wrong(good):
        run = run_torch(tested, Case((), arguments))
        if run.call is not None and run.inner.refused:
            assert run.inner.refusal == numpy_refusal(tested.info.name, run.call), parameter
        if not run.result.refused:
            continue
        text = run.result.refusal
        texts.add(text)
        argument = re.match(rf"{name}: (\w+)(, sizes)?: got ", text)
        assert argument, (parameter, text)
        assert {argument[1], argument[1].lower()} & {*parameters, "Y"}, (parameter, text)
        strange = re.search(r"\b(X|W|B|X_scale|W_scale)\b", text)
        assert not strange or strange[1].lower() in parameters, (parameter, text)
    assert len(texts) > 3


def numpy_refusal(op: str, call: Any) -> str:
    with pytest.raises(ValueError) as error:  # noqa: PT011  (the text is the result)
        runtimes.run_numpy(op, call.inputs, call.attributes)
    return str(error.value)


RANKED = "input", "offset", "weight", "bias", "mask"
RANKS = [(name, parameter, more) for name in ("deform_conv2d", "deform_conv2d_int8")
         for parameter in RANKED for more in (0, 1)]  # fmt: skip
NODE_NAMES = {"input": "X", "weight": "W", "bias": "B"}


@pytest.mark.parametrize(("name", "parameter", "more"), RANKS)
def test_a_wrong_rank_is_refused_as_in_onnx_runtime(name: str, parameter: str, more: int) -> None:
    function, good = CALLS[name]
    item = good[parameter][None] if more else good[parameter][0]
    info = op_under_test(function, [Case((), good)]).info
    below = {**NODE_NAMES, "input_scale": "X_scale", "input_zero_point": "X_zero_point",
             "weight_scale": "W_scale"}  # fmt: skip
    given = {below.get(key, key): value for key, value in {**good, parameter: item}.items()}
    arrays = [to_numpy(given[entry.name]) if entry.name in given else None
              for entry in info.inputs]  # fmt: skip
    settings = {"pads": [1] * 4, "group": 2, "offset_group": 2}
    node = NODE_NAMES.get(parameter, parameter)
    start = f"^{name}: {parameter}: got rank {item.dim()}, "
    with pytest.raises(RuntimeError, match=start) as told:
        function(**{**good, parameter: item})
    with pytest.raises(Exception, match="got rank") as hosted:
        runtimes.run_ort(name, arrays, settings)
    assert str(told.value).replace(f": {parameter}:", f": {node}:") in str(hosted.value)


def test_wrong_ranks_in_torchscript() -> None:
    def call(x: torch.Tensor, offset: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return myops.deform_conv2d(x, offset, weight, padding=1)

    program = torch.jit.script(call)
    for given in ((X[0], OFFSET, WEIGHT), (X, OFFSET[0], WEIGHT), (X, OFFSET, WEIGHT[None])):
        with pytest.raises(RuntimeError, match="got rank") as error:
            call(*given)
        with pytest.raises(torch.jit.Error, match=re.escape(str(error.value))):
            program(*given)
    with pytest.raises(RuntimeError, match="expected one input channel or more") as error:
        call(X, OFFSET, WEIGHT[:, :0])
    with pytest.raises(torch.jit.Error, match=re.escape(str(error.value))):
        program(X, OFFSET, WEIGHT[:, :0])
