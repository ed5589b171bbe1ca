"""myops.prototype: a NumPy function and a description make an op with everything except speed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from prototype_ops import resample_numpy, soft_clip_prototype

import myops
import myops.onnx
import myops.ort
from myops import _libraries, _numpy_call

DOMAIN = "prototypes"


@pytest.fixture(scope="module")
def soft_clip() -> Callable[..., Any]:
    return soft_clip_prototype(DOMAIN)


@pytest.fixture(scope="module")
def resample() -> Callable[..., Any]:
    """Columns at `places`, times `gain`: a list, an optional input, integers, two outputs."""
    return myops.prototype(
        resample_numpy,
        domain=DOMAIN,
        name="resample",
        types={"T": ["float16", "bfloat16", "float32", "int32"], "I": ["int64"]},
        inputs=[
            myops.Input("x", "T", "Rank 2."),
            myops.Input("places", "I", "Columns.", values=True),
            myops.Input("gain", "T", "One number.", optional=True),
        ],
        outputs=[
            myops.Output("y", "T", "The columns."),
            myops.Output("count", "I", "How many."),
        ],
        attributes=[
            myops.Attribute("offsets", [0, 1], "Two.", type="ints"),
            myops.Attribute("mode", "keep", "What to do.", ("keep", "negate")),
            myops.Attribute("flip", False, "Whether to flip."),
        ],
        shape=lambda inputs, attributes: [
            [inputs[0].shape[0], len(inputs[1]) if isinstance(inputs[1], list) else None],
            [],
        ],
    )


class Model(torch.nn.Module):
    def __init__(self, op: Callable[..., Any]) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.op(x, limit=2.0) + 1


def test_a_prototype_runs_in_torch(soft_clip: Callable[..., Any]) -> None:
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    wanted = 2 * torch.tanh(x / 2)
    for result in (soft_clip(x, 2.0), soft_clip(x, limit=2.0), soft_clip(limit=2.0, x=x)):
        torch.testing.assert_close(result, wanted)
    assert torch.autograd.gradcheck(soft_clip, x)
    assert torch.autograd.gradgradcheck(soft_clip, x)
    torch.library.opcheck(torch.ops.prototypes.soft_clip.default, (x,), {"limit": 2.0})
    assert torch.equal(torch.compile(soft_clip, fullgraph=True)(x), soft_clip(x))
    assert torch.equal(torch.jit.script(soft_clip)(x), soft_clip(x))
    assert torch.equal(torch.vmap(soft_clip)(x), soft_clip(x))
    assert "limit * tanh" in (soft_clip.__doc__ or "")


def test_a_prototype_refuses_as_a_kernel_does(soft_clip: Callable[..., Any]) -> None:
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="soft_clip: limit: got -1, expected a number above 0"):
        soft_clip(x, limit=-1.0)
    with pytest.raises(RuntimeError, match="x: got dtype int64, expected float32 or float64"):
        soft_clip(x.long())
    info = _libraries.find_node(DOMAIN, "SoftClip")
    assert info is not None
    with pytest.raises(ValueError, match="limits: got an attribute of this name, expected one of"):
        _numpy_call.call(info, [np.ones(3)], {"limits": 1.0})


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_a_prototype_is_exported(
    soft_clip: Callable[..., Any], exporter: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "model.onnx")
    x, axes = torch.randn(3, 4), {"x": {0: "rows"}}
    model = myops.onnx.export(
        Model(soft_clip), (x,), file, exporter=exporter, input_names=["x"], dynamic_axes=axes
    )
    assert (DOMAIN, "SoftClip") in {(node.domain, node.op_type) for node in model.graph.node}
    (known,) = [v for v in model.graph.value_info if v.name == model.graph.node[-1].input[0]]
    assert [d.dim_value for d in known.type.tensor_type.shape.dim] == [0, 4]  # the first has a name

    feed = {"x": np.random.default_rng(0).standard_normal((7, 4), np.float32)}
    wanted = Model(soft_clip)(torch.from_numpy(feed["x"])).numpy()
    exact = ReferenceEvaluator(model, new_ops=myops.onnx.reference_ops()).run(None, feed)
    for result in (myops.ort.pyop_session(file).run(None, feed), exact):
        assert np.array_equal(result[0], wanted)
    bodies = ReferenceEvaluator(model), onnxruntime.InferenceSession(file), myops.ort.session(file)
    for runner in bodies:
        np.testing.assert_allclose(runner.run(None, feed)[0], wanted, rtol=1e-5)
    lowered = myops.onnx.lower(model)
    assert {node.domain for node in lowered.graph.node} == {""}
    assert [item.domain for item in lowered.opset_import] == [""]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
def test_lists_optional_inputs_and_16_bit_dtypes(resample: Callable[..., Any], dtype: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype))
    for places in ([3, 1], torch.tensor([3, 1])):
        y, count = resample(x, places, x[0, 2], mode="negate", flip=True)
        torch.testing.assert_close(y, -2 * x.flip(0)[:, [3, 1]])
        assert (y.dtype, int(count)) == (x.dtype, 2)
    y, _ = resample(x, [0])
    assert torch.equal(y, x[:, :1])
    names = ["x", "places"]
    node = onnx.helper.make_node("Resample", names, ["y", "count"], domain=DOMAIN, mode="negate")
    kinds = [onnx.helper.np_dtype_to_tensor_dtype(array.dtype), onnx.TensorProto.INT64]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node], "resample", [value("x", kinds[0], [3, 4]), value("places", kinds[1], ["n"])],
        [value("y", kinds[0], None), value("count", kinds[1], None)],
    )  # fmt: skip
    imports = [onnx.helper.make_opsetid(name, version) for name, version in (("", 19), (DOMAIN, 1))]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
    if dtype != "bfloat16":  # which onnxruntime does not hand to Python
        run = myops.ort.pyop_session(model).run(None, {"x": array, "places": np.array([2, 2])})
        assert np.array_equal(run[0], -array[:, [2, 2]])
    myops.onnx.register_schemas()
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    shape = inferred.graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in shape] == [3, 0]  # so many columns as `places` will have
    exported = torch.export.export(Columns(resample), (torch.ones(3, 4), torch.tensor([0, 2])))
    (node_,) = [n for n in exported.graph.nodes if "resample" in str(n.target)]
    assert node_.meta["val"][0].shape[0] == 3


class Columns(torch.nn.Module):
    def __init__(self, op: Callable[..., Any]) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> Any:
        return self.op(x, places)[0]


def test_a_prototype_without_gradient_and_standard_form(
    resample: Callable[..., Any], tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match=r"prototypes.resample is not differentiable"):
        resample(torch.ones(3, 4, requires_grad=True), [0])[0].sum().backward()
    file = tmp_path / "model.onnx"
    inputs = (torch.ones(3, 4), torch.tensor([0, 2]))
    with pytest.warns(myops.onnx.MissingBodyWarning, match="prototypes::Resample"):
        myops.onnx.export(
            Columns(resample),
            inputs,
            file,
            input_names=["x", "places"],
            dynamic_axes={"places": {0: "n"}},
        )
    feed = {"x": np.ones((3, 4), np.float32), "places": np.array([1, 1, 2])}
    assert myops.ort.pyop_session(file).run(None, feed)[0].shape == (3, 3)
    with pytest.raises(myops.onnx.LoweringError, match="the op resample has no standard form"):
        myops.onnx.lower(onnx.load(file))


def described(**changes: Any) -> dict[str, Any]:
    return {
        "domain": DOMAIN,
        "types": {"T": ["float32"]},
        "inputs": [myops.Input("x", "T", "Any.")],
        "outputs": [myops.Output("y", "T", "Same.")],
        "shape": lambda inputs, attributes: [inputs[0].shape],
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"types": {"T": ["float128"]}}, "types: T: got 'float128', expected float16"),
        ({"inputs": [myops.Input("x", "U", "?")]}, "inputs: x: type: got 'U', expected T"),
        ({"outputs": []}, r"outputs: got \[\], expected at least one"),
        ({"outputs": [myops.Output("x", "T", "?")]}, "names: got 'x', expected each name once"),
        ({"domain": "a b"}, "domain: got 'a b', expected letters"),
        ({"domain": "myops"}, "the domain is taken by <op library 'myops'"),
        ({"domain": "other", "namespace": "myops"}, "'myops' belongs to the domain 'myops'"),
        (
            {"inputs": [myops.Input("x", "T", "?"), myops.Input("z", "T", "?")]},
            r"got double\(x.*, expected one that takes \(x, z\)",
        ),
        (
            {"attributes": [myops.Attribute("m", "a", "?", ("b", "c"))]},
            "attributes: m: default: got 'a', expected one of",
        ),
        ({"name": "soft_clip", "onnx_type": "Double"}, "soft_clip .* is defined already"),
    ],
)
def test_wrong_descriptions_are_refused(
    soft_clip: Callable[..., Any], changes: dict[str, Any], text: str
) -> None:
    def double(x: np.ndarray) -> np.ndarray:
        return 2 * x

    with pytest.raises(ValueError, match=text):
        myops.prototype(double, **described(**changes))
    with pytest.raises(ValueError, match=r"attribute 'm': default: got \[\], expected .* type="):
        myops.Attribute("m", [], "?")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (lambda x: x[:1], r"y: got shape \[1\] from the function, expected \[3\]"),
        (lambda x: x * 1j, "y: got dtype complex64 from the function, expected float32"),
        (lambda x: (x, x), "the function: got 2 results, expected 1"),
        (lambda x: x.__iadd__(1), "read-only"),
    ],
)
def test_wrong_results_of_a_function_are_refused(result: Callable[..., Any], text: str) -> None:
    # The same op each time: defined again, it takes the new function.
    op = myops.prototype(lambda x: result(x), **described(name="wrong"))
    with pytest.raises(RuntimeError, match=text):
        op(torch.ones(3))


def test_a_prototype_can_be_redefined() -> None:
    first = myops.prototype(lambda x: x + 1, **described(name="again"))
    compiled = torch.compile(first, fullgraph=True)
    assert compiled(torch.zeros(1)).item() == 1
    second = myops.prototype(
        lambda x: np.repeat(x, 2) + 2,
        **described(name="again", shape=lambda inputs, attributes: [[2 * inputs[0].shape[0]]]),
    )
    for op in (first, second):
        assert op(torch.zeros(1)).tolist() == [2, 2]
    with pytest.raises(ValueError, match=r"again .* is defined already"):
        myops.prototype(lambda x: x, **described(name="again", doc="Another."))


def test_a_prototype_of_an_installed_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """(test_your_own_op.py does this with a package that is built.)"""
    installed = _libraries.Library("became", "became", "became_package")
    installed.ops["double"] = _libraries.OURS.ops["my_add"]
    monkeypatch.setitem(_libraries._known, "became", installed)
    names = {"domain": "became", "name": "double"}
    text = (
        r"'became_package', which is installed, has became::Double already\. "
        r".*`import became_package`.*\"became_draft\"; .*`pip uninstall became_package`"
    )
    with pytest.raises(ValueError, match=text):
        myops.prototype(lambda x: 2 * x, **described(**names))
    draft = myops.prototype(lambda x: 2 * x, **described(**{**names, "domain": "became_draft"}))
    assert draft(torch.ones(2)).tolist() == [2, 2]


def test_a_package_is_refused_after_its_prototype(monkeypatch: pytest.MonkeyPatch) -> None:
    myops.prototype(lambda x: 2 * x, **described(domain="held", name="double"))
    module = SimpleNamespace(DOMAIN="held", NAMESPACE="held", OPS=[])
    monkeypatch.setattr(_libraries, "_folder_of", lambda package: Path())
    monkeypatch.setattr(_libraries, "_load", lambda package, folder: module)
    with pytest.raises(
        ValueError, match=r"'held' is taken by .* Prototypes of this process have it"
    ):
        myops.op_library("held_package")
