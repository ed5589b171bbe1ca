"""The checks of myops.onnx.export: each finds its kind of fault, and accepts correct files."""

from __future__ import annotations

import functools
import re
import warnings
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F
from guard_models import A, AddFunction, B, Model, assert_fails, exported_negation

import myops
import myops.onnx
from myops.onnx import ExportCheckError, ExportCheckWarning, export, guards
from myops.onnx.graph import scopes
from myops.onnx.guards import _calls

EXPORTERS = ["dynamo", "torchscript"]


pytestmark = pytest.mark.usefixtures("no_warnings")


# -- lost_node ----------------------------------------------------------------------------------


class StandardFunction(torch.autograd.Function):
    @staticmethod
    def symbolic(g: Any, a: Any, b: Any) -> Any:
        return g.op("Add", g.op("Add", a, a), b)

    forward = AddFunction.forward


def taken_apart(x: torch.Tensor) -> torch.Tensor:
    return x * 3


_library = torch.library.Library("myops_guards_test", "DEF")
_library.define("triple(Tensor x) -> Tensor")
_library.impl("triple", taken_apart, "CompositeImplicitAutograd")
_library.define("solid(Tensor x) -> Tensor")
_library.impl("solid", taken_apart, "CompositeExplicitAutograd")
add = AddFunction.apply  # an alias that is older than the check


def test_a_symbolic_that_the_exporter_ignores_is_refused() -> None:
    text = r"AddFunction\.symbolic writes acme::MyAdd, but .*register_symbolic"
    assert_fails("lost_node", text, Model(lambda a, b: add(a, b).relu()), A, B)
    model = export(Model(lambda a, b: add(a, b).relu()), (A, B), skip_checks=["lost_node"])
    assert "MyAdd" not in [node.op_type for node in model.graph.node]


class WithoutContext(AddFunction):
    @staticmethod
    def forward(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return a + a + b

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass


class WithAnyArguments(AddFunction):
    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> torch.Tensor:
        return tensors[0] + tensors[0] + tensors[1]


class WithDefault(AddFunction):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return scale * a + b


class WithPartial(AddFunction):
    forward = staticmethod(functools.partial(AddFunction.forward))


class Decorated(AddFunction):
    forward = staticmethod(torch.no_grad()(AddFunction.forward))


FUNCTIONS = [WithoutContext, WithAnyArguments, WithDefault, WithPartial, Decorated]


@pytest.mark.parametrize("apply_is_in_c", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_lost_symbolic_is_found_beside_any_forward(
    function: Any, apply_is_in_c: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if apply_is_in_c:  # as from torch 2.14 on; before, the function in Python calls one in C
        monkeypatch.setattr(_calls, "_APPLY_CODE", None)
    text = rf"{function.__name__}\.symbolic writes acme::MyAdd"
    assert_fails("lost_node", text, Model(lambda a, b: function.apply(a, b).relu()), A, B)


def test_a_symbolic_that_the_exporter_uses_is_accepted() -> None:
    model = export(
        Model(lambda a, b: add(a, b).relu()), (A, B), exporter="torchscript",
        skip_checks=["numbers"],
    )  # fmt: skip
    assert [node.op_type for node in model.graph.node] == ["MyAdd", "Relu"]


def test_a_symbolic_of_standard_operators_is_not_lost() -> None:
    export(Model(lambda a, b: StandardFunction.apply(a, b)), (A, B))


def test_a_decomposed_custom_operator_is_refused() -> None:
    def forward(x: torch.Tensor) -> Any:
        return torch.ops.myops_guards_test.triple(x)

    assert_fails("lost_node", "calls the operator myops_guards_test::triple", Model(forward), A)


def test_a_custom_operator_with_a_built_in_result_is_refused() -> None:
    def forward(x: torch.Tensor) -> Any:
        return x + torch.ops.myops_guards_test.solid(x).sum().item()

    model = Model(forward)
    assert_fails("lost_node", "myops_guards_test::solid", model, A, exporter="torchscript")


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_custom_operator_with_an_unused_result_is_accepted(exporter: str) -> None:
    def forward(x: torch.Tensor) -> Any:
        torch.ops.myops_guards_test.solid(x)
        return x + 1

    export(Model(forward), A, exporter=exporter)


def test_target_onnx_lowers_our_operators() -> None:
    model = export(Model(myops.my_add), (A, B), target="onnx", exporter="torchscript")
    assert "MyAdd" not in [node.op_type for node in model.graph.node]


def test_nodes_in_branches_are_not_lost() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor, flag: bool) -> torch.Tensor:
            if flag:
                return torch.ops.myops.my_add(x, x)
            return x

    model = export(torch.jit.script(Branches()), (A, True), exporter="torchscript")
    assert [node.op_type for node in model.graph.node][-1] == "If"


# -- frozen_input -------------------------------------------------------------------------------


def test_a_factor_read_by_item_is_refused() -> None:
    class Enlarge(torch.nn.Module):
        def forward(self, image: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
            return F.interpolate(image, scale_factor=factor.item())

    text = "depends on 'factor', but the exported model has no such input.*myops.interpolate"
    args = (torch.rand(1, 1, 4, 4), torch.tensor(2.0))
    assert_fails("frozen_input", text, Enlarge(), *args, exporter="torchscript")


def test_a_partly_frozen_input_is_refused() -> None:
    def forward(x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        return x * shift + shift.item()

    text = "another value of 'shift' output .* part of it was built in"
    args = (A, torch.tensor(2.0))
    assert_fails("frozen_input", text, Model(forward), *args, exporter="torchscript")


def test_an_input_without_effect_in_the_file_is_refused() -> None:
    """The input is in the graph, but has no effect."""

    def forward(x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        return x + shift.item() + 0 * shift

    text = "another value of 'shift' changes the result in PyTorch, but not that of the exported"
    args = (A, torch.tensor(2.0))
    assert_fails("frozen_input", text, Model(forward), *args, exporter="torchscript")


def test_a_branch_on_a_mask_is_refused() -> None:
    def forward(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x + 1 if mask.all() else x * 2 + 0 * mask.float().sum()

    mask = torch.tensor([True, True])
    assert_fails("frozen_input", "'mask'", Model(forward), A, mask, exporter="torchscript")


def test_an_index_read_by_tolist_is_refused() -> None:
    def forward(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return x[row.tolist()]

    args = (A, torch.tensor([0, 2]))
    assert_fails("frozen_input", "'row'", Model(forward), *args, exporter="torchscript")


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_inputs_of_every_kind_are_accepted(exporter: str) -> None:
    """Indices stay valid, masks may become uniform, and an unused input is no fault."""

    class Everything(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(5, 4)

        def forward(self, index: Any, mask: Any, pair: Any, named: Any, unused: Any) -> Any:
            x = self.table(index).masked_fill(mask[..., None], 0.0)
            return x * pair[0] + pair[1][0], {"y": named["scale"] * x, "none": None}

    args = (
        torch.tensor([[0, 4, 3]]), torch.tensor([[True, False, False]]),
        (torch.rand(4), [torch.zeros(1)]), {"scale": torch.tensor(3.0)}, torch.rand(2),
    )  # fmt: skip
    with pytest.warns(ExportCheckWarning, match="'unused'"):
        model = export(Everything(), args, exporter=exporter)
    names = [item.name for item in model.graph.input]
    assert names[:5] == ["index", "mask", "pair_0", "pair_1", "named_scale"]


def test_random_results_are_a_warning() -> None:
    with pytest.warns(ExportCheckWarning, match="two runs of the model in PyTorch differ"):
        export(Model(lambda x: x + torch.rand_like(x)), A, exporter="torchscript")


# -- opset --------------------------------------------------------------------------------------


def test_another_opset_than_requested_is_refused() -> None:
    guards.run(exported_negation(17, 17), ["opset"])
    with pytest.raises(ExportCheckError, match="asked for opset 15, but the model has opset 17"):
        guards.run(exported_negation(17, 15), ["opset"])
    exported = exported_negation(17, 17)
    imports = [onnx.helper.make_opsetid("", 18)]
    exported.final.functions.append(
        onnx.helper.make_function("d", "f", ["x"], ["x"], [], imports, [])
    )
    with pytest.raises(ExportCheckError, match="functions in the model have opset 18"):
        guards.run(exported, ["opset"])


def test_skipping_the_opset_check_accepts_another_opset() -> None:
    model = Model(lambda x: F.grid_sample(x, x.permute(0, 2, 3, 1), align_corners=False))
    with pytest.raises(myops.onnx.LoweringError, match="only gives opset"):
        export(model, torch.rand(1, 2, 4, 4), opset_version=11)
    got = export(model, torch.rand(1, 2, 4, 4), opset_version=11, skip_checks=["opset"])
    assert got.opset_import[0].version > 11


# -- all ----------------------------------------------------------------------------------------


def test_a_refused_export_leaves_files_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    bad = Model(lambda x, s: x * s.item())
    args = (A, torch.tensor(2.0))
    with pytest.raises(ExportCheckError):
        export(bad, args, path, exporter="torchscript")
    assert list(tmp_path.iterdir()) == []
    path.write_text("an older model")
    with pytest.raises(ExportCheckError):
        export(bad, args, path, exporter="torchscript")
    assert path.read_text() == "an older model"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.warns(ExportCheckWarning, match="not checked whether one should"):
        export(bad, args, path, exporter="torchscript", skip_checks="all")
    assert onnx.load(path).graph.node


def test_export_restores_the_model_and_the_random_state() -> None:
    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            x += 1
            return x * 2

    module, x = Counts(), torch.ones(2)
    torch.manual_seed(3)
    state, for_cuda = torch.get_rng_state(), torch.cuda._lazy_seed_tracker.get_calls()
    with pytest.warns(ExportCheckWarning, match="forward changes 'calls'"):
        export(module, x)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.cuda._lazy_seed_tracker.get_calls() == for_cuda  # the seeds for its start
    assert torch.equal(x, torch.ones(2))
    assert module.calls == 0


def test_names_of_checks_in_skip_checks() -> None:
    assert list(guards.CHECKS) == ["opset", "lost_node", "frozen_input", "numbers"]
    assert guards.chosen("all") == []
    assert guards.chosen(["numbers"]) == ["opset", "lost_node", "frozen_input"]
    with pytest.raises(ValueError, match=re.escape("no 'frozen'. Did you mean 'frozen_input'")):
        export(Model(torch.neg), A, skip_checks=["frozen"])


class Branching(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))


def test_a_model_with_torch_cond_runs_afterwards() -> None:
    """torch.cond compiles its code, and would not try again if that failed during the checks."""
    model, x = Branching().eval(), torch.ones(3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ExportCheckWarning)
        myops.onnx.export(model, (x,))
    assert [str(item.message) for item in caught if item.category is ExportCheckWarning] == []
    with torch.no_grad():
        assert torch.equal(model(x), x + 1)


class BranchingToOps(torch.nn.Module):
    def __init__(self, operator: Any) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: self.operator(y) + 1, lambda y: y - 1, (x,))


def test_operators_in_torch_cond_are_observed() -> None:
    assert_fails(
        "lost_node", "calls the operator myops_guards_test::triple",
        BranchingToOps(torch.ops.myops_guards_test.triple), A,
    )  # fmt: skip
    model = export(BranchingToOps(lambda y: myops.my_add(y, y)), (A,))
    inner = [node.op_type for node in graphs_of_branches(model)]
    assert "MyAdd" in inner


def graphs_of_branches(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return list(
        scopes.all_nodes([*model.graph.node, *(n for f in model.functions for n in f.node)])
    )


def test_what_cannot_be_observed_is_said_without_torchs_hints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_calls.ObservingMode, "supports_higher_order_operators", False)
    with pytest.warns(ExportCheckWarning, match="while its operators are observed") as caught:
        myops.onnx.export(Branching().eval(), (torch.ones(3),))
    (text,) = [str(item.message) for item in caught if item.category is ExportCheckWarning]
    assert "HigherOrderOperator cond and mode myops" in text
    assert "Hint" not in text
    assert "0x" not in text
