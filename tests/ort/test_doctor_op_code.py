"""Models that fail because the code of an op is wrong: doctor blames the op, not the model."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch

import myops
import myops.onnx
import myops.ort
from myops import _shape_rule
from myops.ort._doctor import op_mistakes
from myops.ort._doctor.graph import Provided
from myops.ort._doctor.messages import explain
from myops.ort._doctor.rules import MessageContext

MISTAKES = [
    "few: top: got no lengths from the shape rule, expected those of every output where all",
    "few: top: got an unknown length on axis 0 from the shape rule, expected a known one",
    "many: output 2: got this index from the code of the op, expected one from 0 to 1",
    "none: index: got no length from the kernel, expected a call of allocate_output or set_length",
    "long: index: got length 5 on axis 0 from the kernel, expected at most 4",
    "rule: shape: got [[2], [3]] from the rule, expected a list with the list of the lengths",
    "twice: the function: got 2 results, expected 1",
    "raises: the function raised KeyError: 'limit'",
]
REFUSALS = [
    "clip: limit: got -1, expected a number above 0",
    "resize: scales: got length 3, expected length 4",
    "clip: x: got a list, expected one that is not from the kernel",
]


@pytest.mark.parametrize("text", MISTAKES)
def test_messages_that_blame_the_op(text: str) -> None:
    (found,) = [op_mistakes.finding(text, ["it"])]
    assert found is not None
    assert (found.code, found.severity, found.nodes) == ("op-code", "error", ["it"])
    assert text in found.what
    failed = (
        f"Non-zero status code returned while running Few node. Name:'n' Status Message: {text}"
    )
    nothing = onnx.ModelProto()
    assert explain(failed, MessageContext(nothing, _provided())).code == "op-code"


@pytest.mark.parametrize("text", REFUSALS)
def test_refusals_of_arguments_are_no_mistakes_of_the_op(text: str) -> None:
    assert op_mistakes.finding(text, []) is None


def _provided() -> Any:
    return Provided()


def test_a_shape_rule_that_is_wrong_for_the_lengths_in_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found without a run."""

    class Net(torch.nn.Module):
        def forward(self, a: torch.Tensor) -> Any:
            return myops.my_add(a, a)

    model = myops.onnx.export(Net(), (torch.ones(2, 3),), input_names=["a"])
    assert not myops.ort.doctor(model).findings

    def wrong(*_: Any) -> Any:
        raise ValueError(f"my_add: {MISTAKES[0].partition(': ')[2]}")

    monkeypatch.setattr(_shape_rule, "infer", wrong)
    (found,) = myops.ort.doctor(model).findings
    assert (found.code, found.severity) == ("op-code", "error")
    assert "The model is not at fault" in found.why
