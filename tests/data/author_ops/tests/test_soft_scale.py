"""Two versions of one node in one library: files keep the meaning that they were written with."""

from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import pytest
import torch
from author_ops import soft_scale, soft_scale_1
from typer.testing import CliRunner

import myops
import myops.onnx
import myops.ort
from myops.testing import Case, checks

torch.manual_seed(0)
GOLDEN = Path(__file__).parent / "golden"
X = torch.randn(4, 7) * 2


def slow(x, limit=1.0, hard=False):
    ratio = x / limit
    return x.clamp(-limit, limit) if hard else limit * (ratio / torch.hypot(x.new_ones(()), ratio))


def slow_1(x, limit=1.0):
    return x.clamp(-limit, limit)


FOUND = [
    *checks(soft_scale, [Case((X,), {"limit": 0.75}, name="smooth"),
                         Case((X,), {"limit": 0.75, "hard": True}, name="hard")],
            reference=lambda *args, **kwargs: torch.where(
                torch.isinf(args[0]), kwargs["limit"] * args[0].sign(), slow(*args, **kwargs))),
    *checks(soft_scale_1, [Case((X,), {"limit": 0.75}, name="version_1")], reference=slow_1),
]  # fmt: skip


@pytest.mark.parametrize("check", FOUND, ids=lambda check: f"{check}")
def test_family(check):
    check()


class Model(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, x):
        return self.op(x + 1, limit=0.5)


def versions(path):
    model = onnx.load(path)
    (domain,) = [item.version for item in model.opset_import if item.domain == "author_ops"]
    nodes = [n for n in model.graph.node if n.domain == "author_ops"]
    stated = [[a.i for a in node.attribute if a.name == "since_version"] for node in nodes]
    return domain, stated


def results(path):
    """Of every runtime that runs the file; the last is its function body."""
    import onnxruntime

    feed = {"x": X.numpy()}
    evaluator = onnx.reference.ReferenceEvaluator(path, new_ops=myops.onnx.reference_ops())
    found = [evaluator.run(None, feed)]
    for make in (myops.ort.session, myops.ort.pyop_session, onnxruntime.InferenceSession):
        if make is not onnxruntime.InferenceSession or onnx.load(path).functions:
            found.append(make(path).run(None, feed))
    return [item[0] for item in found]


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize(("op", "expected"), [(soft_scale, (2, [[2]])), (soft_scale_1, (1, [[]]))],
                         ids=["version_2", "version_1"])  # fmt: skip
def test_exported(op, expected, exporter, tmp_path):
    path = str(tmp_path / "model.onnx")
    myops.onnx.export(Model(op), (X,), path, input_names=["x"], exporter=exporter,
                      dynamic_axes={"x": {0: "n"}})  # fmt: skip
    assert versions(path) == expected
    onnx.checker.check_model(path, full_check=True)
    wanted = Model(op)(X).numpy()
    for found in results(path):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_both_in_one_model_are_refused():
    class Both(torch.nn.Module):
        def forward(self, x):
            return soft_scale(x) + soft_scale_1(x)

    with pytest.raises(ValueError, match="got version 1, of the op soft_scale_1, beside version 2"):
        myops.onnx.export(Both(), (X,), skip_checks="all")


@pytest.mark.parametrize("name", ["soft_scale_version_1", "soft_scale_version_1_with_body"])
def test_golden_model_of_version_1(name):
    """Written when the domain had one version."""
    path = str(GOLDEN / f"{name}.onnx")
    with np.load(GOLDEN / "soft_scale_version_1.npz") as stored:
        x, expected = stored["x"], stored["y"]
    for make in (myops.ort.session, myops.ort.pyop_session):
        np.testing.assert_array_equal(make(path).run(None, {"x": x})[0], expected)
    evaluator = onnx.reference.ReferenceEvaluator(path, new_ops=myops.onnx.reference_ops())
    np.testing.assert_array_equal(evaluator.run(None, {"x": x})[0], expected)


@pytest.mark.parametrize("name", ["soft_scale_version_1", "soft_scale_version_1_with_body"])
def test_upgraded(name, tmp_path):
    from myops.cli import app

    path = str(tmp_path / "upgraded.onnx")
    done = CliRunner().invoke(app(), ["upgrade", str(GOLDEN / f"{name}.onnx"), path])
    assert done.exit_code == 0, done.output
    assert "author_ops::SoftScale 1 -> 2" in done.output
    assert versions(path) == (2, [[2]])
    onnx.checker.check_model(path, full_check=True)
    with np.load(GOLDEN / "soft_scale_version_1.npz") as stored:
        x, expected = stored["x"], stored["y"]
    np.testing.assert_array_equal(myops.ort.session(path).run(None, {"x": x})[0], expected)
    again = myops.onnx.upgrade_ops(path)
    assert (again.upgraded, again.kept) == ([], {})


def node(version, attribute=None):
    made = onnx.helper.make_node("SoftScale", ["x"], ["y"], "scale", domain="author_ops")
    if attribute is not None:
        made.attribute.append(onnx.helper.make_attribute("since_version", attribute))
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([made], "g", [info("x", 1, [4, 7])], [info("y", 1, [4, 7])])
    imports = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("author_ops", version)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=9)


@pytest.mark.parametrize(("attribute", "text"), [
    (3, "got a node of version 3 of SoftScale, expected one of [1, 2]"),
    (0, "since_version: got 0"), (1.5, "since_version: got a float"),
    ("2", "since_version: got a string"), ([2], "since_version: got a list of ints"),
])  # fmt: skip
def test_a_version_that_the_library_has_not(attribute, text):
    with pytest.raises(Exception, match=text.replace("[", r"\[").replace("]", r"\]")):
        myops.ort.session(node(2, attribute))


def test_the_checker_wants_a_node_of_version_2_to_say_so():
    myops.onnx.register_schemas()
    onnx.checker.check_model(node(1))
    onnx.checker.check_model(node(2, 2))
    with pytest.raises(onnx.checker.ValidationError, match="since_version"):
        onnx.checker.check_model(node(2))
