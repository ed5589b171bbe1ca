"""myops.onnx.export accepts the arguments of torch.onnx.export, or says what to do instead."""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from node_models import operators, run_plain
from register_models import only_here  # noqa: F401

import myops
from myops.onnx import ExportCheckError, export, register_symbolic
from myops.onnx.exporting import torch_arguments

ROOT = Path(__file__).parents[2]
EXPORTERS = ["dynamo", "torchscript"]

pytestmark = pytest.mark.usefixtures("no_warnings")


class Product(torch.nn.Module):
    """A weight that is transposed, unless an exporter folds constants."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(3, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, (self.weight * 2 + 1).transpose(0, 1).contiguous())


@pytest.fixture(scope="module")
def cubed() -> Iterator[None]:
    """An operator of the dispatcher, which both exporters write as acme::Cube."""

    @torch.library.custom_op("acme_arguments::cube", mutates_args=())
    def cube(x: torch.Tensor) -> torch.Tensor:
        return x**3

    @cube.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    yield
    cube._lib._destroy()


class Cube(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.acme_arguments.cube(x) + 1


def imports(model: onnx.ModelProto) -> dict[str, int]:
    return {item.domain: item.version for item in model.opset_import}


# -- all of them ------------------------------------------------------------------------------


def test_every_argument_of_torch_is_accepted_or_refused() -> None:
    """Accepted or refused, and documented in the docstring and on the page."""
    theirs = set(inspect.signature(torch.onnx.export).parameters)
    ours = set(inspect.signature(export).parameters)
    assert theirs <= ours | set(torch_arguments._REFUSED)
    assert not ours & set(torch_arguments._REFUSED)
    page = (ROOT / "docs" / "export.md").read_text()
    section = page.partition("## Arguments of torch.onnx.export")[2].partition("\n## ")[0]
    for name in theirs | {"fallback"}:
        assert re.search(rf"\b{name}\b", export.__doc__ or ""), name
        assert re.search(rf"`{name}\b", section), name


def test_defaults_equal_those_of_torch() -> None:
    ours = inspect.signature(export).parameters
    differ = {
        name
        for name, item in inspect.signature(torch.onnx.export).parameters.items()
        if name in ours and item.default != ours[name].default
    }
    assert differ == {"external_data", "verify", "dynamo"}
    assert ours["dynamo"].default is None is ours["exporter"].default  # "dynamo", as in torch


def test_calls_of_torch_onnx_export_work_unchanged() -> None:
    """The call of torch's tutorial on the older exporter, and a call with all present defaults."""
    model, x = Product().eval(), torch.rand(2, 4)
    old: dict[str, Any] = {
        "export_params": True, "opset_version": 12, "do_constant_folding": True, "dynamo": False,
        "input_names": ["input"], "output_names": ["output"],
        "dynamic_axes": {"input": {0: "batch_size"}, "output": {0: "batch_size"}},
    }  # fmt: skip
    new = {
        name: item.default
        for name, item in inspect.signature(torch.onnx.export).parameters.items()
        if item.default is not item.empty and name not in ("args", "f", "external_data")
    }
    for arguments in (old, new):
        with io.BytesIO() as stream:
            returned = export(model, (x,), stream, **arguments)
            written = onnx.load_from_string(stream.getvalue())
        assert written == returned
        (name,) = [item.name for item in written.graph.input]
        (got,) = run_plain(written, {name: x.numpy()})
        np.testing.assert_allclose(got, model(x).detach().numpy(), atol=1e-5)
    assert imports(export(model, (x,), **old))[""] == 12


# -- each of them -----------------------------------------------------------------------------


def test_dynamo_chooses_the_exporter() -> None:
    scripted = torch.jit.script(Product())
    x = torch.rand(2, 4)
    assert len(export(scripted, x, dynamo=False).graph.output) == 1
    with pytest.raises(ValueError, match='got a scripted module for exporter="dynamo"'):
        export(scripted, x, dynamo=True)
    with pytest.raises(ValueError, match="exporter, dynamo: got both, expected one of them"):
        export(scripted, x, dynamo=False, exporter="torchscript")
    with pytest.raises(ValueError, match="dynamo: got 'auto', expected True or False"):
        export(scripted, x, dynamo="auto")  # type: ignore[arg-type]


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_do_constant_folding_folds_constants(exporter: str) -> None:
    model, x = Product(), torch.rand(2, 4)
    folded = export(model, x, exporter=exporter)
    plain = export(model, x, exporter=exporter, do_constant_folding=False)
    assert "Transpose" not in operators(folded)
    assert "Transpose" in operators(plain)
    for file in (folded, plain):
        (name,) = [item.name for item in file.graph.input]
        (got,) = run_plain(file, {name: x.numpy()})
        np.testing.assert_allclose(got, model(x).detach().numpy(), atol=1e-5)


def test_optimize_false_skips_the_optimizer() -> None:
    x = torch.rand(2, 4)
    assert "Transpose" in operators(export(Product(), x, optimize=False))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_verify_false_skips_the_checks(exporter: str, cubed: None) -> None:
    register_symbolic("acme_arguments::cube", lambda g, x: g.op("Mul", x, x))  # wrong
    with pytest.raises(ExportCheckError) as caught:
        export(Cube(), torch.rand(3), exporter=exporter, verify=True)
    assert caught.value.check in ("frozen_input", "numbers")
    assert "Mul" in operators(export(Cube(), torch.rand(3), exporter=exporter, verify=False))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_verbose_prints_what_torch_prints(exporter: str, capfd: pytest.CaptureFixture[str]) -> None:
    import warnings

    x = torch.rand(2, 4)
    for quiet in (None, False):
        export(Product(), x, exporter=exporter, verbose=quiet)
        assert capfd.readouterr() == ("", "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those come through too
        export(Product(), x, exporter=exporter, verbose=True)
    expected = {"dynamo": "Translate the graph into ONNX", "torchscript": "Exported graph: graph("}
    assert expected[exporter] in capfd.readouterr().out


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_custom_opsets_set_domain_versions(exporter: str, cubed: None) -> None:
    register_symbolic("acme_arguments::cube", lambda g, x: g.op("acme::Cube", x))
    x = torch.rand(3)
    arguments: dict[str, Any] = {"exporter": exporter, "skip_checks": ["numbers", "frozen_input"]}
    assert imports(export(Cube(), x, **arguments))["acme"] == 1
    file = export(Cube(), x, custom_opsets={"acme": 7}, **arguments)
    assert imports(file)["acme"] == 7
    onnx.checker.check_model(file)
    with pytest.raises(ValueError, match=r"is no 'acm'\. Did you mean 'acme'"):
        export(Cube(), x, custom_opsets={"acm": 7}, **arguments)


def test_custom_opsets_set_versions_in_functions() -> None:
    call = onnx.helper.make_node("F", ["x"], ["y"], domain="own")
    file = onnx.helper.make_model(
        onnx.helper.make_graph([call], "g", [], []),
        functions=[onnx.helper.make_function(
            "own", "F", ["x"], ["y"], [onnx.helper.make_node("C", ["x"], ["y"], domain="acme")],
            [onnx.helper.make_opsetid("acme", 1)])],
        opset_imports=[onnx.helper.make_opsetid(name, 1) for name in ("", "own", "acme")],
    )  # fmt: skip
    torch_arguments.set_versions(file, {"acme": 3})
    assert imports(file) == {"": 1, "own": 1, "acme": 3}
    assert file.functions[0].opset_import[0].version == 3


def test_custom_translation_table_is_used(cubed: None) -> None:
    import onnxscript
    from onnxscript import opset18 as op

    @onnxscript.script(onnxscript.values.Opset("acme_arguments", 1), default_opset=op)  # type: ignore
    def cube(x: Any) -> Any:
        return op.Mul(op.Mul(x, x), x)

    x = torch.rand(3)
    table = {torch.ops.acme_arguments.cube.default: cube}
    file = export(Cube(), x, custom_translation_table=table)
    (got,) = run_plain(file, {"x": x.numpy()})
    np.testing.assert_allclose(got, (x**3 + 1).numpy(), atol=1e-6)


def test_report_and_exported_program_are_written(tmp_path: Path) -> None:
    x = torch.rand(2, 4)
    folder = tmp_path / "new folder"
    export(Product(), x, report=True, dump_exported_program=True, artifacts_dir=folder)
    assert sorted(item.suffix for item in folder.iterdir()) == [".md", ".pt2"]
    program = torch.export.load(next(folder.glob("*.pt2")))
    assert program.module()(x).shape == (2, 3)
    export(Product(), x, artifacts_dir=tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_profile_needs_pyinstrument_and_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.rand(2, 4)
    (tmp_path / "pyinstrument.py").write_text(
        "class Profiler:\n"
        "    def __init__(self, **settings): pass\n"
        "    def start(self): pass\n"
        "    def stop(self): pass\n"
        "    def output_text(self, **settings): return 'a tree of calls'\n"
    )
    monkeypatch.setattr(torch_arguments.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="needs pyinstrument: pip install pyinstrument"):
        export(Product(), x, profile=True, report=True)
    monkeypatch.undo()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="profile: got neither report=True"):
        export(Product(), x, profile=True)
    export(Product(), x, profile=True, report=True, artifacts_dir=tmp_path)
    assert "a tree of calls" in next(tmp_path.glob("*.md")).read_text()


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"export_params": False}, ValueError, "got False, expected True: .* external_data=True"),
        ({"training": torch.onnx.TrainingMode.TRAINING}, ValueError, "training: .* eval mode"),
        ({"training": 0}, ValueError, "training: got 0, expected <TrainingMode.EVAL"),
        ({"operator_export_type": torch.onnx.OperatorExportTypes.ONNX_FALLTHROUGH}, ValueError,
         "operator_export_type: .*register_symbolic"),
        ({"export_modules_as_functions": {torch.nn.Linear}}, ValueError, "myops extract --module"),
        ({"autograd_inlining": False}, ValueError, "autograd_inlining: .*custom_op"),
        ({"fallback": True}, ValueError, 'fallback: .*exporter="auto"'),
        ({"fallback": 0}, ValueError, "fallback: got 0, expected False"),
        ({"optimize": False, "dynamo": False}, ValueError, "optimize: .*do_constant_folding=False"),
        ({"report": True, "dynamo": False}, ValueError, 'report: got exporter="torchscript"'),
        ({"report": True, "exporter": "auto"}, ValueError, 'report: got exporter="auto"'),
        ({"dump_exported_program": True, "dynamo": False}, ValueError, "dump_exported_program: "),
        ({"custom_translation_table": {1: min}, "dynamo": False}, ValueError, "register_symbolic"),
        ({"verify": None}, ValueError, "verify: got None, expected True or False"),
        ({"optimize": "no"}, ValueError, "optimize: got 'no', expected True or False"),
        ({"verbose": 2}, ValueError, "verbose: got 2, expected True or False"),
        ({"custom_opsets": {"": 3}}, ValueError, "opset_version is for ai.onnx"),
        ({"custom_opsets": {"myops": 3}}, ValueError, "'myops': got a version for the nodes of an"),
        ({"custom_opsets": {"acme": "3"}}, ValueError, "got version '3', expected an integer"),
        ({"custom_opsets": {"acme": True}}, ValueError, "got version True, expected an integer"),
        ({"custom_opsets": {"acme": 3}}, ValueError, "among the model's nodes is no 'acme'"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(
    arguments: dict[str, Any], kind: type[Exception], text: str, tmp_path: Path
) -> None:
    file = tmp_path / "model.onnx"
    with pytest.raises(kind, match=text):
        export(Product(), torch.rand(2, 4), file, **arguments)
    assert not file.exists()


def test_our_nodes_have_version_1() -> None:
    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return myops.my_add(x, x)

    assert imports(export(Add(), torch.rand(3), dynamo=False))["myops"] == 1
