"""Tools of other projects that read, change and write the files that we export."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import myops
import myops.nn
import myops.onnx
import myops.ort


class Network(torch.nn.Module):
    """Nodes of each op, of kinds that differ in attributes, in inputs and in lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = myops.nn.DeformConv2d(2, 2, 3, padding=1)
        self.packed = myops.nn.DeformConv2dPack(2, 2, 1, bias=False)
        self.masked = myops.nn.ModulatedDeformConv2dPack(2, 2, 3, padding=1)

    def forward(self, x: torch.Tensor, offset: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = myops.my_add(self.masked(self.packed(self.wide(x, offset))), x[:, :1])
        up = myops.interpolate(y, scale_factor=2.0, mode="bilinear")
        same = myops.interpolate(up, size=x.shape[-2:], mode="bicubic", antialias=True)
        return same, myops.interpolate(y, scale_factor=1.5, mode="nearest")


X, OFFSET = torch.randn(2, 2, 6, 7), torch.randn(2, 18, 6, 7)
# At other lengths than those of the example.
FEEDS = {"x": np.float32(X[:1, :, :5]), "offset": np.float32(OFFSET[:1, :, :5])}


@pytest.fixture(scope="module", params=["dynamo", "torchscript"])
def exported(request: pytest.FixtureRequest) -> onnx.ModelProto:
    torch.manual_seed(0)
    axes = {name: {0: "n", 2: "h"} for name in FEEDS}
    return myops.onnx.export(
        Network().eval(), (X, OFFSET), None, exporter=request.param,
        input_names=list(FEEDS), dynamic_axes=axes,
    )  # fmt: skip


@pytest.fixture(scope="module", params=["bodies", "nodes", "standard"])
def model(request: pytest.FixtureRequest, exported: onnx.ModelProto) -> onnx.ModelProto:
    if request.param == "nodes":
        return myops.onnx.remove_function_bodies(exported)
    return myops.onnx.lower(exported) if request.param == "standard" else exported


def module(name: str) -> Any:
    return pytest.importorskip(name)


def parsed(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.parser.parse_model(onnx.printer.to_text(model))


def converted(model: onnx.ModelProto) -> onnx.ModelProto:
    version = module("onnxscript.version_converter").convert_version(model, 22)
    return version or model  # which it may have changed in place


def preprocessed(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    onnx.save(model, folder / "in.onnx")
    importlib.import_module("onnxruntime.quantization").quant_pre_process(
        folder / "in.onnx", folder / "out.onnx", skip_symbolic_shape=True
    )
    return onnx.load(folder / "out.onnx")


def saved_by_onnxruntime(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "out.onnx")
    myops.ort.session(model, session_options=options)
    return onnx.load(folder / "out.onnx")


TOOLS: dict[str, Callable[[onnx.ModelProto, Path], onnx.ModelProto]] = {
    "onnx.compose": lambda m, _: onnx.compose.add_prefix(
        m, "p/", rename_inputs=False, rename_outputs=False, rename_functions=False
    ),
    "onnx.inliner": lambda m, _: module("onnx.inliner").inline_local_functions(m),
    "onnx.version_converter": lambda m, _: onnx.version_converter.convert_version(m, 21),
    "onnx.parser": lambda m, _: parsed(m),
    "onnx.shape_inference": lambda m, _: onnx.shape_inference.infer_shapes(m, data_prop=True),
    "onnxscript.optimizer": lambda m, _: module("onnxscript.optimizer").optimize(m),
    "onnxscript.version_converter": lambda m, _: converted(m),
    "onnxslim": lambda m, _: module("onnxslim").slim(m, no_shape_infer=True),
    "onnxruntime.quantization": preprocessed,
    "onnxruntime.InferenceSession": saved_by_onnxruntime,
}


@pytest.mark.parametrize("tool", TOOLS)
def test_results_stay_equal(model: onnx.ModelProto, tool: str, tmp_path: Path) -> None:
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    changed = TOOLS[tool](copy, tmp_path)
    expected = myops.ort.session(model).run(None, FEEDS)
    for found, wanted in zip(myops.ort.session(changed).run(None, FEEDS), expected, strict=True):
        # A tool may put the bodies in place of our nodes.
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", ["bodies", "nodes"], indirect=True)
def test_no_attribute_is_an_empty_list(model: onnx.ModelProto) -> None:
    """onnx.helper.make_attribute, with which tools write nodes, refuses one."""
    for node in model.graph.node:
        for attribute in node.attribute:
            onnx.helper.make_attribute(attribute.name, onnx.helper.get_attribute_value(attribute))
