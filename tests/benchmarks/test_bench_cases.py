"""References, and every candidate that can be imported here, on small shapes."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from benchmarks import arrays, discover, runner
from benchmarks.case import Case, Target
from benchmarks.cases.deform_conv2d import DeformCase, Problem
from benchmarks.cases.my_add import MyAddCase
from benchmarks.cases.resize import TORCH_MODES, ResizeCase
from benchmarks.measure import Plan
from benchmarks.verify import largest_error

ONCE = Plan(rounds=1, sample=0.0, budget=0.0)
SMALL_PROBLEMS = [
    Problem(1, 4, 6, 5, 4),
    Problem(2, 4, 5, 7, 6, groups=2, offset_groups=2, mask=False),
    Problem(1, 3, 4, 4, 3, groups=3),
]
SMALL = [
    MyAddCase(1000),
    MyAddCase(1000, nodes=5),
    MyAddCase(2 * 10**6),
    *[ResizeCase(mode, (1, 3, 8, 10), 2.0) for mode in TORCH_MODES],
    ResizeCase("cubic", (1, 3, 8, 12), 0.5),
    ResizeCase("cubic", (1, 3, 8, 10), 2.0, backward=True),
    *[DeformCase("", problem) for problem in SMALL_PROBLEMS],
    *[DeformCase("", problem, backward=True) for problem in SMALL_PROBLEMS],
]


def module_of(case: Case) -> object:
    modules = {name.rpartition(".")[2]: found for name, found in discover.case_modules().items()}
    return modules[case.op]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: f"{case.group} {case.shape}")
def test_every_candidate_is_right(case: Case) -> None:
    peers, _ = discover.peers()
    result = runner.run_case(case, module_of(case).ours, peers, 1, ONCE)
    assert result.wrong == {}
    assert result.missing == {}
    sides = {item.side for item in result.measurements}
    assert {"torch", "peer", "onnxruntime"} - sides == runtimes_left_out(case)


def runtimes_left_out(case: Case) -> set[str]:
    """Runtimes without a comparison: ONNX Runtime for gradients, and for runs of one small node."""
    if isinstance(case, MyAddCase):
        return {"torch"} if case.nodes > 1 else {"onnxruntime"} if case.count <= 10**6 else set()
    return {"onnxruntime"} if case.backward else set()


def test_a_candidate_with_a_wrong_result_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    case = MyAddCase(10)
    monkeypatch.setattr(torch, "add", lambda b, a, alpha, out=None: b + 3 * a)
    peers, _ = discover.peers()
    result = runner.run_case(case, module_of(case).ours, peers, 1, ONCE)
    assert set(result.wrong) == {"torch.add(alpha=2)", "torch.add(alpha=2, out=)"}
    assert result.wrong.keys().isdisjoint(item.name for item in result.measurements)


def test_an_absent_peer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.ops", None)
    monkeypatch.delitem(sys.modules, "benchmarks.peers.torchvision", raising=False)
    peers, absent = discover.peers()
    assert "torchvision" in absent["torchvision"]
    assert {peer.NAME for peer in peers} >= {"torch", "ONNX Runtime"}


def test_errors_are_relative_to_the_largest_element() -> None:
    right = np.zeros(3 * 2**20)
    right[5] = -4.0
    wrong = right.astype(np.float32)
    assert largest_error([wrong], [right]) == 0.0
    wrong[-1] = 1.0  # in the last piece
    assert largest_error([wrong], [right]) == 0.25
    wrong[0] = np.nan
    assert largest_error([wrong], [right]) == np.inf
    assert largest_error([right[1:]], [right]) == np.inf
    assert largest_error([], [right]) == np.inf


@pytest.mark.parametrize("mode", TORCH_MODES)
@pytest.mark.parametrize("scale", [3.0, 2.0, 0.5])
def test_the_resize_reference_is_torch_in_float64(mode: str, scale: float) -> None:
    case = ResizeCase(mode, (2, 3, 8, 12), scale)
    x = torch.from_numpy(case.inputs["x"]).double()
    expected = F.interpolate(x, scale_factor=scale, mode=TORCH_MODES[mode])
    np.testing.assert_allclose(case.expected[0], expected.numpy(), atol=1e-12)


def test_the_gradient_reference_is_torch_in_float64() -> None:
    case = ResizeCase("cubic", (1, 2, 6, 8), 2.0, backward=True)
    x = torch.zeros(case.input_shape, dtype=torch.float64, requires_grad=True)
    out = F.interpolate(x, scale_factor=2.0, mode="bicubic")
    (expected,) = torch.autograd.grad(out, x, torch.from_numpy(case.inputs["x"]).double())
    np.testing.assert_allclose(case.expected[0], expected.numpy(), atol=1e-12)


def test_offsets_stay_away_from_integers() -> None:
    values = arrays.off_integers((1000,), seed=1, width=2.0, margin=0.02).astype(np.float64)
    assert np.abs(values - np.round(values)).min() >= 0.0199
    assert values.std() > 1.5


def test_the_table_is_the_one_that_was_promised() -> None:
    cases = [case for case, _ in discover.all_cases()]
    titles = [case.title for case in cases]
    assert len(set(titles)) == len(titles) == 6 + 4 + 11 + 16
    found = {case.title: case.target for case in cases}
    assert found["deform_conv2d c"] == Target(1.6, 1.9)
    assert found["deform_conv2d backward e"] == Target(4.0, 6.0)
    assert found["resize linear 1080p x0.5"] == Target(1.1, 1.4)
    assert found["my_add 5e7"] == Target(1.2, 1.5)
    assert found["my_add, 64 nodes 1e6"] == Target(1.0, 1.0)


def test_operations_and_bytes() -> None:
    assert (MyAddCase(10).flops, MyAddCase(10).bytes) == (20, 120)
    assert (MyAddCase(10, nodes=64).flops, MyAddCase(10, nodes=64).bytes) == (1280, 7680)
    resize = ResizeCase("linear", (1, 2, 4, 4), 2.0)
    # Two products and a sum for each output, and for each element after the horizontal pass.
    assert (resize.flops, resize.bytes) == (3 * (128 + 64), 4 * (32 + 128))
    deform = DeformCase("", Problem(1, 4, 8, 8, 6, groups=2))
    assert deform.flops == 2 * 64 * 6 * 2 * 9 + 11 * 64 * 4 * 9
    assert deform.bytes == 4 * (64 * (4 + 6 + 9 * 3) + 6 * 2 * 9)
