"""Arguments of a wrong type of the tools: refused by name, not by pybind11, onnx or torch."""

from __future__ import annotations

import fractions
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import myops
import myops.onnx
import myops.ort


class Net(torch.nn.Module):
    def forward(self, a: torch.Tensor) -> Any:
        return myops.my_add(a, a)


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return myops.onnx.export(Net(), (torch.ones(2, 3),), input_names=["a"])


def _export(_: onnx.ModelProto, **given: Any) -> Any:
    return myops.onnx.export(Net(), (torch.ones(2, 3),), **given)


def _lower(model: onnx.ModelProto, **given: Any) -> Any:
    return myops.onnx.lower(model, **given)


def _bench(model: onnx.ModelProto, **given: Any) -> Any:
    return myops.ort.bench(model, **{"repeat": 1, "warmup": 0, **given})


NO_INTEGERS = ["x.onnx", b"x", 2.5, float("nan"), float("inf"), 10**400, -1, True, 1j, object(),
               fractions.Fraction(5, 2), [], [1], np.float32(2), np.array("a"), torch.ones(2),
               torch.eye(2).to_sparse()]  # fmt: skip
NO_NAMES = ["names", b"x", 3, True, object(), [None], [3], [["a"]], [10**400], {1},
            np.array("a"), torch.tensor(1), ["\ud800"]]  # fmt: skip
WRONG: list[tuple[Callable[..., Any], str, list[Any]]] = [
    (_lower, "lower: opset", NO_INTEGERS),
    (_export, "export: opset_version", NO_INTEGERS),
    (_export, "export: input_names", NO_NAMES),
    (_export, "export: output_names", NO_NAMES),
    (_export, "export: constants", NO_NAMES),
    (_bench, "bench: warmup", NO_INTEGERS),
    (_bench, "bench: repeat", NO_INTEGERS),
    (_bench, "bench: threads", [*NO_INTEGERS, [10**400], ["1"], [None], [0]]),
    (_bench, "bench: seconds", ["1", b"1", float("nan"), -1, 0, 10**400, 1j, object(), []]),
]
CASES = [
    pytest.param(call, where, value, id=f"{where}-{number}")
    for call, where, values in WRONG
    for number, value in enumerate(values)
    if not (where == "bench: threads" and isinstance(value, list) and value == [1])
]


@pytest.mark.parametrize(("call", "where", "value"), CASES)
def test_arguments_of_a_wrong_type_are_refused_by_name(
    call: Callable[..., Any], where: str, value: Any, model: onnx.ModelProto
) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"(?s)^{where}: got .*, expected "):
        call(model, **{where.partition(": ")[2]: value})


def test_lower_says_where_the_file_goes(model: onnx.ModelProto) -> None:
    text = r"lower: opset: got 'x.onnx', expected an integer or None; the file to write is f="
    with pytest.raises(TypeError, match=text):
        myops.onnx.lower(model, "x.onnx")  # type: ignore[arg-type]
    assert myops.onnx.lower(model, np.int64(17)).opset_import[0].version == 17  # type: ignore[arg-type]


@pytest.mark.parametrize("f", [3, b"x", [], object()])
def test_what_no_file_can_be(f: Any, model: onnx.ModelProto) -> None:
    for call in (myops.onnx.lower, myops.onnx.add_function_bodies, myops.onnx.simplify):
        with pytest.raises(TypeError, match=r"f: got .*, expected a path, an object open for writ"):
            call(model, f=f)
