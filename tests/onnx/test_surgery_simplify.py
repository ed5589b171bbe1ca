"""simplify keeps custom nodes, PyTorch modules, and the results of unusual models."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from surgery_models import FLOAT, captured, exported, info, model_of, run, three_domains

import myops.onnx
import myops.ort
from myops.onnx import module_paths
from myops.onnx.surgery import _trial, slimming
from myops.onnx.surgery.slimming import simplify


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_our_node_is_kept_and_constants_are_folded(exporter: str) -> None:
    model = exported("upscale", exporter)
    result = simplify(model)
    assert result.difference is not None
    assert result.difference <= 1e-6
    assert result.before["myops::Resize"] == result.after["myops::Resize"] == 1
    assert sum(result.after.values()) < sum(result.before.values())
    assert len(result.model.functions) == 1
    feeds = {"x": np.random.rand(1, 3, 6, 5).astype(np.float32), "factor": np.float32([3, 2])}
    np.testing.assert_allclose(run(result.model, **feeds)[0], run(model, **feeds)[0], atol=1e-5)


def test_that_onnxslim_is_missing_is_said_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str, user: str) -> None:
        raise ImportError(f"{user} needs the package {module}")

    monkeypatch.setattr(slimming, "require", missing)
    with pytest.raises(ImportError, match=r"^simplify needs the package onnxslim"):
        simplify(exported("upscale", "torchscript"))


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_pytorch_modules_are_kept(exporter: str) -> None:
    """Of a node that survives, and of one into which onnxslim fuses others."""
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Flatten(),
        torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()), torch.nn.Linear(4, 2),
    ).eval()  # fmt: skip
    args = (torch.rand(1, 1, 4, 4),)
    model = myops.onnx.export(net, args, exporter=exporter)
    simplified = simplify(model).model
    kept = {"3", "3.0", "3.1", "4"}
    assert kept <= set(module_paths.names(model))
    assert kept <= set(module_paths.names(simplified))
    part = myops.onnx.extract(simplified, module="3")
    assert {node.op_type for node in part.graph.node} == {"Gemm", "Relu"}
    report = myops.onnx.compare(net, args, simplified)
    assert report.passed
    assert kept <= {value.path for value in report.values}


class Shared(torch.nn.Module):
    """One head for three sizes, of which the smallest comes last, as in detectors."""

    def __init__(self) -> None:
        super().__init__()
        self.down = torch.nn.Conv2d(2, 2, 3, stride=2, padding=1)
        self.head = torch.nn.Conv2d(2, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = [x.relu()]
        for _ in range(2):
            levels.append(self.down(levels[-1]).relu())
        first = levels[0] + torch.nn.functional.interpolate(levels[1], scale_factor=2.0)
        return torch.cat([self.head(item).flatten(2) for item in [first, *levels[1:]]], 2)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_the_calls_of_a_module_stay_in_order(exporter: str) -> None:
    """onnxslim sorts nodes anew."""
    args = (torch.rand(1, 2, 8, 8),)
    net = Shared().eval()
    model = myops.onnx.export(net, args, exporter=exporter)
    result = simplify(model).model
    onnx.checker.check_model(result)
    makers = {name: place for place, node in enumerate(model.graph.node) for name in node.output}
    places = [makers[name] for node in result.graph.node for name in node.output if name in makers]
    assert places == sorted(places)
    report = myops.onnx.compare(net, args, result)
    assert report.passed
    assert {("head", number) for number in range(3)} <= {(v.path, v.call) for v in report.values}


def test_functions_branches_and_other_domains_are_kept() -> None:
    for model in (three_domains(), captured()):
        result = simplify(model)
        assert result.difference == 0
    kept = Counter(node.domain for node in simplify(three_domains()).model.graph.node)
    assert kept == {"com.microsoft": 1, "ai.onnx.contrib": 1, "other": 1, "": 1}


def test_equal_custom_nodes_are_not_merged() -> None:
    nodes = [helper.make_node("MyAdd", ["X", "X"], [name], domain="myops") for name in "ab"]
    nodes.append(helper.make_node("Mul", ["a", "b"], ["Y"]))
    model = model_of(nodes, [info("X", FLOAT, [2])], [info("Y", FLOAT, [2])], domains=["myops"])
    assert simplify(model).after["myops::MyAdd"] == 2


DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
OLD = sorted(path.parent.name for path in DATA.glob("pytorch-*/*/model.onnx"))


@pytest.mark.parametrize("name", OLD)
def test_old_models_with_ir_3_and_opset_6(name: str) -> None:
    """Weights that are inputs, opsets without shape inference or kernels: all test models of onnx,
    with the inputs that belong to them."""
    (path,) = DATA.glob(f"pytorch-*/{name}/model.onnx")
    model = onnx.load(path)
    folder = path.parent / "test_data_set_0"
    weights = {tensor.name for tensor in model.graph.initializer}
    free = [item.name for item in model.graph.input if item.name not in weights]
    inputs, outputs = (
        [numpy_helper.to_array(onnx.load_tensor(folder / f"{kind}_{i}.pb")) for i in range(count)]
        for kind, count in (("input", len(free)), ("output", len(model.graph.output)))
    )
    if "multiparam" in name:  # ONNX Runtime has no kernel, and the op cannot be converted
        with pytest.raises(ValueError, match="does not run on random inputs"):
            simplify(path)
        assert simplify(path, check=False).model.graph.node
        return
    feeds = dict(zip(free, inputs, strict=True))
    result = simplify(path, inputs=feeds)
    assert result.difference is not None
    assert result.difference <= 1e-4
    got = _trial.run(result.model, feeds)
    for mine, right in zip(got, outputs, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("way", ["QDQ", "QOperator", "dynamic"])
def test_quantized_models_keep_their_results(way: str, tmp_path: Path) -> None:
    from onnxruntime import quantization

    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)
               for name, shape in (("w", (4, 3, 3, 3)), ("v", (144, 5)))]  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Flatten", ["b"], ["c"]), helper.make_node("MatMul", ["c", "v"], ["y"]),
    ]  # fmt: skip
    model = model_of(
        nodes, [info("x", FLOAT, ["n", 3, 8, 8])], [info("y", FLOAT, ["n", 5])], weights
    )
    source, target = tmp_path / "float.onnx", tmp_path / "small.onnx"
    onnx.save(model, source)
    samples = [{"x": rng.normal(size=(2, 3, 8, 8)).astype(np.float32)} for _ in range(3)]

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> Any:
            return next(self.left, None)

    if way == "dynamic":
        quantization.quantize_dynamic(source, target)
    else:
        form = quantization.QuantFormat[way]
        quantization.quantize_static(source, target, Reader(), quant_format=form)
    assert simplify(target).difference == 0


@pytest.mark.parametrize("version", [3, 8])
def test_inputs_with_a_default_that_become_constants_are_named(version: int) -> None:
    """Before IR version 4 every weight had to be an input, which is not worth a note."""
    weights = [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")]
    inputs = [info("x", FLOAT, ["n", 4]), info("w", FLOAT, [4, 4])]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = helper.make_model(
        helper.make_graph([node], "g", inputs, [info("y", FLOAT, ["n", 4])], weights),
        opset_imports=[helper.make_opsetid("", 13)], ir_version=version,
    )  # fmt: skip
    result = simplify(model)
    assert [item.name for item in result.model.graph.input] == ["x"]
    named = [note for note in result.notes if "'w' had a default" in note]
    assert bool(named) == (version == 8)
