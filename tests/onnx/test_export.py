"""myops.onnx.export: opsets, targets, files, arguments."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from export_models import AXES, EXPORTERS, Enlarge, Twice, assert_runs, dims
from node_models import operators, run_plain

import myops
import myops.onnx
from myops.onnx import LoweringError, export

pytestmark = pytest.mark.usefixtures("no_warnings_at_all")


# An export with "dynamo" takes seconds.
@pytest.mark.parametrize("target", ["myops", "onnx"])
@pytest.mark.parametrize(
    ("exporter", "opset"),
    [("dynamo", 15), ("dynamo", None), ("torchscript", 13), ("torchscript", 18),
     ("torchscript", None), ("torchscript", 22)],
)  # fmt: skip
def test_one_file_serves_all_factors(
    enlarge: Enlarge, inputs: Any, exporter: str, target: str, opset: int | None
) -> None:
    model = export(
        enlarge, inputs, dynamic_axes=AXES, opset_version=opset, exporter=exporter, target=target,
        output_names=["large", "small"],
    )  # fmt: skip
    versions = {item.domain: item.version for item in model.opset_import}
    assert versions[""] == (opset or 20)
    assert ("myops" in versions) == (target == "myops")
    assert [item.name for item in model.graph.input] == ["image", "factor"]
    assert [item.name for item in model.graph.output] == ["large", "small"]
    assert dims(model.graph.input[0]) == ["batch", 3, "height", "width"]
    assert dims(model.graph.output[1])[1:] == [2, 7, 9]
    ours = [node.op_type for node in model.graph.node if node.domain == "myops"]
    assert sorted(ours) == (["MyAdd", "Resize", "Resize"] if target == "myops" else [])
    assert {f.name for f in model.functions} == set(ours)
    assert_runs(model, enlarge, library=False)
    if target == "myops":
        assert_runs(model, enlarge, library=True)


@pytest.mark.parametrize(
    ("exporter", "opset"),
    [("dynamo", 12), ("dynamo", 16), ("dynamo", 23)]
    + [("torchscript", opset) for opset in (9, 10, 11, 12, 14, 16, 19, 21, 23)],
)
def test_the_opset_is_the_one_asked_for(exporter: str, opset: int) -> None:
    x = torch.rand(1, 2, 4, 5)
    model = export(Twice(), x, opset_version=opset, exporter=exporter)
    standard = myops.onnx.lower(model)
    assert "Upsample" in operators(standard) or "Resize" in operators(standard)
    for version in (model, standard):
        assert version.opset_import[0].version == opset
        result = run_plain(version, {"x": x.numpy()})[0]
        np.testing.assert_array_equal(result, Twice()(x).numpy())


def test_an_opset_that_torch_does_not_write_is_refused(enlarge: Enlarge, inputs: Any) -> None:
    text = r"got 11, but torch's exporter only gives opset 18 .* Use opset_version=18, or exporter"
    with pytest.raises(LoweringError, match=text):
        export(enlarge, inputs, dynamic_axes=AXES, opset_version=11)
    with pytest.raises(LoweringError, match=r"opset 18 for this model: onnx conv") as caught:
        export(enlarge, inputs, dynamic_axes=AXES, opset_version=5)
    assert str(caught.value).endswith("Use opset_version=18.")  # torchscript would refuse 5 too
    with pytest.raises(ValueError, match="opset_version: got 6, expected 7 or more"):
        export(enlarge, inputs, opset_version=6, exporter="torchscript")


@pytest.mark.parametrize(
    ("exporter", "opset", "version"),
    [("dynamo", 20, 9), ("torchscript", 13, 8), ("torchscript", 20, 9), ("torchscript", 21, 10)],
)
def test_the_ir_version_is_the_oldest_that_fits(exporter: str, opset: int, version: int) -> None:
    """ONNX Runtime 1.17 reads ir_version 9; torch writes 10 where 9 would do."""
    model = export(Twice(), torch.rand(1, 1, 4, 4), opset_version=opset, exporter=exporter)
    assert model.ir_version == version


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_fixed_shapes_are_inferred_for_all_values(exporter: str) -> None:
    model = export(Twice(), torch.rand(1, 2, 4, 5), exporter=exporter)
    assert dims(model.graph.output[0]) == [1, 2, 8, 10]
    node = next(node for node in model.graph.node if node.op_type == "Resize")
    between = next(item for item in model.graph.value_info if item.name == node.output[0])
    assert dims(between) == [1, 2, 8, 10]


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_training_mode_of_the_model_is_restored(
    enlarge: Enlarge, inputs: Any, exporter: str
) -> None:
    enlarge.train()
    enlarge.convolution.eval()
    model = export(enlarge, inputs, dynamic_axes=AXES, exporter=exporter)
    assert enlarge.training
    assert enlarge.dropout.training
    assert not enlarge.convolution.training
    assert "Dropout" not in operators(model)
    assert_runs(model, enlarge, library=True)


def test_the_model_is_written_to_a_path_or_a_stream(tmp_path: Path) -> None:
    x = torch.rand(1, 1, 4, 4)
    path, stream = tmp_path / "model.onnx", io.BytesIO()
    for f in (path, os.fspath(path)):
        assert export(Twice(), x, f, exporter="torchscript") == onnx.load(path)
    model = export(Twice(), x, stream, exporter="torchscript")
    assert model == onnx.load_from_string(stream.getvalue())
    assert [item.name for item in tmp_path.iterdir()] == ["model.onnx"]


def test_function_bodies_are_added_to_a_plain_torch_export() -> None:
    x = torch.rand(1, 1, 4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(Twice().eval(), (x,), dynamo=True, verbose=False)
    portable = myops.onnx.add_function_bodies(program.model_proto)
    np.testing.assert_array_equal(run_plain(portable, {"x": x.numpy()})[0], Twice()(x).numpy())


def test_an_exported_program_is_a_model() -> None:
    x = torch.rand(1, 1, 4, 4)
    program = torch.export.export(Twice(), (x,))
    model = export(program, x)
    np.testing.assert_array_equal(run_plain(model, {"x": x.numpy()})[0], Twice()(x).numpy())


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"dynamic_axis": {}}, TypeError, "'dynamic_axis'. Did you mean dynamic_axes"),
        ({"opset": 17}, TypeError, "'opset'. Did you mean opset_version"),
        ({"zzz": 17}, TypeError, "'zzz'. It knows model, args"),
        ({"exporter": "onnx"}, ValueError, "exporter: got 'onnx', expected \"dynamo\" or"),
        ({"target": "ort"}, ValueError, "target: got 'ort', expected \"myops\" or \"onnx\""),
        ({"dynamic_axes": {}, "dynamic_shapes": {}}, ValueError, "got both, expected one"),
        ({"dynamic_axes": {"imag": [0]}}, ValueError, "got 'imag'.* Did you mean 'image'"),
        ({"dynamic_axes": {"image": [4]}}, ValueError, "image: got axis 4, expected .* -4 to 3"),
        ({"input_names": list("abc")}, ValueError, "got 3 names, expected at most 2"),
        ({"dynamic_shapes": {"imag": [0]}, "exporter": "torchscript"}, ValueError,
         "dynamic_shapes: got 'imag'.* Did you mean 'image'"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(
    enlarge: Enlarge, inputs: Any, arguments: dict[str, Any], kind: type, text: str
) -> None:
    with pytest.raises(kind, match=text):
        export(enlarge, inputs, **arguments)


def test_a_function_is_not_a_model() -> None:
    with pytest.raises(TypeError, match=r"got function, expected a torch\.nn\.Module"):
        export(lambda x: x, torch.rand(2))
