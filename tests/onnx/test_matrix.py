"""The opset matrix: its verdicts for exports with known faults."""

from __future__ import annotations

import math
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from myops.onnx.matrix import Case, Cell, Outcome, cells, opset_matrix
from myops.onnx.matrix import cases as built_in
from myops.onnx.matrix._captured_warnings import captured_warnings
from myops.onnx.matrix._reuse import reused_work
from myops.onnx.matrix.cells import CHANGED, LOAD_ERROR, LOST, OK, REFUSED, WARNED, WRONG

TORCHSCRIPT, DYNAMO = ["torchscript"], ["dynamo"]
IMAGE = torch.randn(1, 2, 9, 10)


def corners(x: Any) -> Any:
    return F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=True)


def one(case: Any, exporter: str, opset: int, **options: Any) -> Cell:
    (cell,) = opset_matrix({"row": case}, [opset], [exporter], **options).cells
    return cell


@pytest.fixture
def symbolic() -> Any:
    """Registers symbolic functions in the TorchScript exporter, and removes them after the test."""
    done = []

    def register(name: str, function: Any) -> None:
        torch.onnx.register_custom_op_symbolic(name, function, 11)
        done.append(name)

    yield register
    for name in done:
        torch.onnx.unregister_custom_op_symbolic(name, 11)


def test_an_exporter_that_drops_align_corners_is_silently_wrong(symbolic: Any) -> None:
    assert one((corners, IMAGE), "torchscript", 13).verdict == OK

    def drops(g: Any, x: Any, size: Any, align_corners: Any, *scales: Any) -> Any:
        factors = g.op("Constant", value_t=torch.tensor([1.0, 1.0, 1.7, 1.7]))
        empty = g.op("Constant", value_t=torch.tensor([]))
        return g.op("Resize", x, empty, factors, mode_s="linear")

    symbolic("aten::upsample_bilinear2d", drops)
    cell = one((corners, IMAGE), "torchscript", 13)
    assert cell.verdict == WRONG
    right = corners(IMAGE)
    wrong = F.interpolate(IMAGE, scale_factor=1.7, mode="bilinear", align_corners=False)
    assert cell.error == pytest.approx(float((right - wrong).abs().max()), rel=1e-3)


def test_a_file_with_an_unknown_node_is_a_load_error(symbolic: Any) -> None:
    symbolic("aten::erf", lambda g, x: g.op("nowhere::Erf", x))
    cell = one((torch.erf, IMAGE), "torchscript", 13)
    assert cell.verdict == LOAD_ERROR
    assert "nowhere" in cell.reason


def test_a_refusal_has_a_reason_of_one_line() -> None:
    cell = one((lambda x: F.interpolate(x, (3, 4), mode="bicubic"), IMAGE), "torchscript", 9)
    assert (cell.verdict, cell.error) == (REFUSED, None)
    assert "upsample_bicubic2d" in cell.reason
    assert len(cell.reason) <= 200
    assert "\n" not in cell.reason


def test_a_wrong_result_with_a_warning_is_not_silent() -> None:
    model = (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), IMAGE)
    cell = one(model, "torchscript", 10)
    assert cell.verdict == WARNED
    assert "not match" in cell.reason
    assert cell.error > 0.1


def test_another_opset_than_requested_is_named() -> None:
    rows = built_in.interpolate()
    chosen = {name: rows[name][:1] for name in ("bicubic, size", "nearest-exact, dynamic")}
    matrix = opset_matrix(chosen, [10, 20], DYNAMO)
    right = matrix.cell("bicubic, size", "dynamo", 10)
    assert (right.verdict, right.written) == (CHANGED, 18)
    wrong = matrix.cell("nearest-exact, dynamic", "dynamo", 10)
    assert (wrong.verdict, wrong.written) == (WRONG, 18)
    assert "opset 18" in wrong.reason
    assert matrix.cell("bicubic, size", "dynamo", 20).verdict == OK


class Frozen(nn.Module):
    """Reads the number of an input, which the tracer turns into a constant."""

    def forward(self, x: Any, factor: Any) -> Any:
        return x * float(factor)


def test_a_frozen_input_is_found_at_another_value() -> None:
    x = torch.rand(3)
    case = Case(Frozen(), (x, torch.tensor(2.0)), run_at=[(x, torch.tensor(3.0))])
    cell = one(case, "torchscript", 17)
    assert cell.verdict == WARNED
    assert "no input factor" in cell.reason
    assert cell.error == pytest.approx(float(x.max()), rel=1e-5)


def test_nearest_is_wrong_where_onnxruntime_rounds_down() -> None:
    """4 / (6 / 21) is below 14 in float32; PyTorch computes 4 * (21 / 6). The checks found it."""
    case = built_in.interpolate()["nearest, dynamic"][1]
    assert "14x6" in case.label
    (cell,) = opset_matrix({"nearest": case}, [18], ["torchscript"]).cells
    assert cell.verdict == WRONG
    assert "[1, 2, 32, 21]" in cell.reason
    case = built_in.interpolate()["myops nearest, dynamic"][1]
    (ours,) = opset_matrix({"nearest": case}, [18], ["torchscript"]).cells
    assert ours.verdict == OK


def test_axes_that_differ_between_runs_become_dynamic() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Dropout()).train()
    case = Case(model, IMAGE, run_at=[torch.randn(4, 2, 5, 6)])
    matrix = opset_matrix({"net": case}, [18], ["torchscript", "dynamo"])
    assert [cell.verdict for cell in matrix.cells] == [OK, OK]
    assert all(module.training for module in model.modules())


def test_one_failing_cell_does_not_lose_the_table() -> None:
    def moody(x: Any) -> Any:
        if torch.jit.is_tracing():
            raise KeyError("not while traced")
        return x * 2

    seen: list[str] = []
    rows = {"moody": (moody, IMAGE), "calm": (torch.relu, IMAGE)}
    matrix = opset_matrix(rows, [11, 17], TORCHSCRIPT, progress=seen.append)
    assert [cell.verdict for cell in matrix.cells] == [REFUSED, REFUSED, OK, OK]
    assert "not while traced" in matrix.cell("moody", "torchscript", 11).reason
    assert seen == ["moody", "moody", "calm", "calm"]


@pytest.mark.parametrize(
    ("model", "args"),
    [
        (lambda pair, flag: pair["a"] @ pair["b"], ({"a": torch.rand(2, 3), "b": torch.rand(3, 4)},
                                                    torch.tensor(True))),
        (lambda x: (x.topk(3), x > 0), (torch.randn(2, 9),)),
        (lambda x: x.log(), (torch.linspace(-1, 1, 7),)),  # NaN and -inf agree with themselves
        (lambda x: x * 1.5, (torch.rand(5, dtype=torch.float16),)),
        (lambda x: x.double().cumsum(0), (torch.rand(5),)),
        (lambda x: x.clamp(min=0) + 1, (torch.arange(-3, 3),)),
    ],
)  # fmt: skip
def test_inputs_and_outputs_of_every_kind(model: Any, args: Any) -> None:
    assert one((model, args), "torchscript", 17).verdict == OK


def test_bfloat16_inputs_and_outputs() -> None:
    cell = one((lambda x: torch.cat([x, x]), (torch.randn(4).bfloat16(),)), "torchscript", 17)
    assert (cell.verdict, cell.error) == (OK, 0.0)


def test_nan_instead_of_a_number_is_wrong(symbolic: Any) -> None:
    symbolic("aten::erf", lambda g, x: g.op("Sqrt", g.op("Neg", g.op("Abs", x))))
    cell = one((torch.erf, IMAGE), "torchscript", 13)
    assert (cell.verdict, cell.error) == (WRONG, math.inf)


def test_the_tolerance_of_the_caller_is_used() -> None:
    def nearly(x: Any) -> Any:
        return x + 1e-3 * torch.onnx.is_in_onnx_export()

    assert one((nearly, IMAGE), "torchscript", 17).verdict == WRONG
    assert one((nearly, IMAGE), "torchscript", 17, tolerance=1e-2).verdict == OK


def test_the_worst_size_decides_the_verdict() -> None:
    good, bad = Outcome(OK, 1e-6, label="x2"), Outcome(REFUSED, reason="why", label="x3")
    cell = cells.combine("row", "dynamo", 13, [good, bad])
    assert (cell.verdict, cell.error, cell.reason, cell.sizes) == (REFUSED, 1e-6, "why", 2)
    assert [item.label for item in cell.others] == ["x3"]
    wrong = [Outcome(WRONG, 0.5, label="a"), Outcome(WRONG, 2.0, reason="b", label="b")]
    cell = cells.combine("row", "dynamo", 13, [*wrong, good, bad])
    assert (cell.verdict, cell.error, cell.reason) == (WRONG, 2.0, "b")
    order = [OK, CHANGED, LOST, REFUSED, LOAD_ERROR, WARNED, WRONG]
    assert list(cells.VERDICTS) == order


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: opset_matrix({}), "expected a dict"),
        (lambda: opset_matrix({"a": 3}), "'a': got int"),
        (lambda: opset_matrix({"a": (torch.relu, IMAGE)}, exporters=["dynami"]), "'dynamo'"),
        (lambda: opset_matrix({"a": (torch.relu, IMAGE)}, [99]), "got 99"),
        (lambda: opset_matrix({"a": (torch.relu, IMAGE)}, []), "got none"),
        (lambda: opset_matrix({"a": (lambda x: x, (1, 2, 3))}, [11]), "'a': args"),
        (lambda: opset_matrix({"a": Case(torch.neg, IMAGE, run_at=[(IMAGE[0],)])}, [11]), "rank"),
        (lambda: Case(torch.relu, IMAGE, through="mine"), "through"),
    ],
)
def test_wrong_arguments_are_refused(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()


def test_a_model_that_fails_in_torch_is_an_error_before_measuring() -> None:
    seen: list[str] = []
    rows = {"good": (torch.relu, IMAGE), "bad": (torch.mm, (IMAGE[0, 0], IMAGE[0, 0]))}
    with pytest.raises(RuntimeError, match=r"'bad': args: PyTorch does not run the model: .*mat1"):
        opset_matrix(rows, [11], TORCHSCRIPT, progress=seen.append)
    assert seen == []


@pytest.mark.slow
def test_reused_work_changes_no_file() -> None:
    """The exporter writes the same files with and without reuse, for both kinds of models."""

    def nodes(model: onnx.ModelProto) -> Any:
        return [(n.domain, n.op_type, list(n.input), list(n.output),
                 sorted(str(a) for a in n.attribute)) for n in model.graph.node]  # fmt: skip

    def export(case: Case, opset: int) -> Any:
        shapes = {"x": {2: "h"}, **({"factor": None} if len(case.args) > 1 else {})}
        with captured_warnings():
            program = torch.onnx.export(
                case.model, case.args, dynamo=True, opset_version=opset, dynamic_shapes=shapes,
                verbose=False,
            )  # fmt: skip
        return nodes(program.model_proto)

    rows = built_in.interpolate()
    # The last one has lengths that are known at run time only; its program cannot be decomposed
    # twice.
    for case, opsets in (
        (rows["bicubic, dynamic"][0], [18]),
        (rows["myops bicubic, dynamic"][-1], [18, 23]),
    ):
        with reused_work():
            first, second = ([export(case, opset) for opset in opsets] for _ in range(2))
        assert first == second == [export(case, opset) for opset in opsets]
