"""myops.onnx.export: both exporters, both targets, checked and run."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import warm
from node_models import operators, run_plain

import myops
import myops.onnx
import myops.ort
from myops.onnx import LoweringError, export

EXPORTERS = ["dynamo", "torchscript"]
AXES = {"image": {0: "batch", 2: "height", 3: "width"}}


class Enlarge(torch.nn.Module):
    """A convolution, then a picture at a free factor and a thumbnail, and all our ops."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 2, 3, padding=1)
        self.dropout = torch.nn.Dropout(0.9)

    def forward(self, image: torch.Tensor, factor: torch.Tensor) -> tuple[torch.Tensor, ...]:
        features = self.dropout(self.convolution(image))
        large = myops.interpolate(features, scale_factor=factor, mode="bicubic")
        thumbnail = myops.interpolate(large, size=(7, 9), mode="nearest")
        return myops.my_add(large, large), thumbnail


class Twice(torch.nn.Module):
    """What every opset can express."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return myops.my_add(myops.interpolate(x, scale_factor=2, mode="nearest"), torch.ones(1))


class Pyramid(torch.nn.Module):
    """Down by 16, and up again with the features of each size added."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = torch.rand(3, 3, 4, 4, generator=generator) / 10

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        levels = [torch.conv2d(image, self.weight[..., :3, :3], stride=2, padding=1)]
        for _ in range(3):
            levels.append(torch.max_pool2d(levels[-1], 2))
        result = levels.pop()
        while levels:
            grown = torch.conv_transpose2d(result, self.weight, stride=2, padding=1)
            result = grown + levels.pop()
        return result


@pytest.fixture
def enlarge() -> Enlarge:
    return Enlarge()


@pytest.fixture
def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(2, 3, 8, 9), torch.tensor(2.5)


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    """torch's talk about itself stays away; so does a missing body."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def assert_runs(model: onnx.ModelProto, module: torch.nn.Module, library: bool) -> None:
    """Equal to torch at lengths and factors other than the example's."""
    for shape, factor in (((2, 3, 8, 9), 2.5), ((1, 3, 13, 6), 1.7), ((3, 3, 5, 5), 3.0)):
        image = torch.rand(shape)
        with torch.no_grad():
            wanted = module.eval()(image, torch.tensor(factor))
        feeds = {"image": image.numpy(), "factor": np.array(factor, np.float32)}
        run = (lambda m, f: myops.ort.session(m).run(None, f)) if library else run_plain
        for result, expected in zip(run(model, feeds), wanted, strict=True):
            assert result.shape == expected.shape
            np.testing.assert_allclose(result, expected.numpy(), atol=1e-5)


def dims(item: onnx.ValueInfoProto) -> list[Any]:
    return [dim.dim_value or dim.dim_param for dim in item.type.tensor_type.shape.dim]


# An export with "dynamo" takes seconds.
@pytest.mark.parametrize("target", ["myops", "onnx"])
@pytest.mark.parametrize(
    ("exporter", "opset"),
    [("dynamo", 15), ("dynamo", None), ("torchscript", 13), ("torchscript", 18),
     ("torchscript", None), ("torchscript", 22)],
)  # fmt: skip
def test_one_file_for_all_factors(
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


def test_an_opset_that_torch_cannot_give(enlarge: Enlarge, inputs: Any) -> None:
    text = r"got 11, but torch's exporter only gives opset 18 .* Use opset_version=18, or exporter"
    with pytest.raises(LoweringError, match=text):
        export(enlarge, inputs, dynamic_axes=AXES, opset_version=11)
    with pytest.raises(ValueError, match="opset_version: got 6, expected 7 or more"):
        export(enlarge, inputs, opset_version=6, exporter="torchscript")


@pytest.mark.parametrize(
    ("exporter", "opset", "version"),
    [("dynamo", 20, 9), ("torchscript", 13, 8), ("torchscript", 20, 9), ("torchscript", 21, 10)],
)
def test_old_runtimes_can_read_the_file(exporter: str, opset: int, version: int) -> None:
    """ONNX Runtime 1.17 reads ir_version 9; torch writes 10 where 9 would do."""
    model = export(Twice(), torch.rand(1, 1, 4, 4), opset_version=opset, exporter=exporter)
    assert model.ir_version == version


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_fixed_shapes_are_known_throughout(exporter: str) -> None:
    model = export(Twice(), torch.rand(1, 2, 4, 5), exporter=exporter)
    assert dims(model.graph.output[0]) == [1, 2, 8, 10]
    node = next(node for node in model.graph.node if node.op_type == "Resize")
    between = next(item for item in model.graph.value_info if item.name == node.output[0])
    assert dims(between) == [1, 2, 8, 10]


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_mode_of_the_model_stays(enlarge: Enlarge, inputs: Any, exporter: str) -> None:
    enlarge.train()
    enlarge.convolution.eval()
    model = export(enlarge, inputs, dynamic_axes=AXES, exporter=exporter)
    assert enlarge.training
    assert enlarge.dropout.training
    assert not enlarge.convolution.training
    assert "Dropout" not in operators(model)
    assert_runs(model, enlarge, library=True)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_dynamic_shapes_are_for_both(enlarge: Enlarge, inputs: Any, exporter: str) -> None:
    height = torch.export.Dim("tall", min=2)
    forms = [
        {"image": {2: height, 3: "wide"}, "factor": None},
        ({2: "tall", 3: torch.export.Dim.DYNAMIC}, None),
    ]
    for shapes in forms:
        model = export(enlarge, inputs, dynamic_shapes=shapes, exporter=exporter)
        names = dims(model.graph.input[0])
        assert names[:3] == [2, 3, "tall"]
        assert isinstance(names[3], str)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_axes_as_lists_and_arguments_by_name(exporter: str) -> None:
    x = torch.rand(2, 2, 4, 5)
    model = export(Twice(), (), kwargs={"x": x}, dynamic_axes={"x": [0, -1]}, exporter=exporter)
    names = dims(model.graph.input[0])
    assert names[1:3] == [2, 4]
    assert all(isinstance(names[axis], str) for axis in (0, 3))
    wide = torch.rand(3, 2, 4, 11)
    np.testing.assert_array_equal(run_plain(model, {"x": wide.numpy()})[0], Twice()(wide).numpy())


class Pair(torch.nn.Module):
    def forward(self, pair: list[torch.Tensor], shift: torch.Tensor) -> torch.Tensor:
        return myops.my_add(pair[0], pair[1]) + shift


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_names_of_nested_inputs(exporter: str) -> None:
    example = ([torch.rand(3), torch.rand(3)], torch.rand(1))
    axes = {"a": {0: "n"}, "b": {0: "n"}}
    for given, wanted in ((["a", "b", "c"], ["a", "b", "c"]), (["a", "b"], ["a", "b", "shift"])):
        model = export(Pair(), example, input_names=given, dynamic_axes=axes, exporter=exporter)
        assert [item.name for item in model.graph.input] == wanted
        assert [dims(item) for item in model.graph.input] == [["n"], ["n"], [1]]


def test_files(tmp_path: Path) -> None:
    x = torch.rand(1, 1, 4, 4)
    path, stream = tmp_path / "model.onnx", io.BytesIO()
    for f in (path, os.fspath(path)):
        assert export(Twice(), x, f, exporter="torchscript") == onnx.load(path)
    model = export(Twice(), x, stream, exporter="torchscript")
    assert model == onnx.load_from_string(stream.getvalue())
    assert [item.name for item in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_it_is_quiet(exporter: str, capfd: Any, caplog: Any) -> None:
    level = logging.getLogger("torch.onnx").level
    export(Twice(), torch.rand(1, 1, 4, 4), opset_version=17, exporter=exporter)
    assert capfd.readouterr() == ("", "")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert logging.getLogger("torch.onnx").level == level


def test_it_is_quiet_about_torchvision_that_is_not_installed(tmp_path: Path) -> None:
    """torch's exporter warns of it once in a process, and so did not in a test after others."""
    program = (
        "import sys, torch\n"
        "from torch.onnx._internal.exporter import _registration\n"
        "find = _registration.importlib.util.find_spec\n"
        "_registration.importlib.util.find_spec = "
        "lambda name, *more: None if name == 'torchvision' else find(name, *more)\n"
        "import myops\n"
        "model, x = torch.nn.Identity().eval(), torch.rand(3)\n"
        "if sys.argv[1] == 'torch':\n"
        "    torch.onnx.export(model, (x,), sys.argv[2], dynamo=True, verbose=False)\n"
        "else:\n"
        "    myops.onnx.export(model, x, sys.argv[2], exporter='dynamo')\n"
    )
    told = {}
    for by in ("torch", "myops"):
        done = warm.run("-c", program, by, tmp_path / f"{by}.onnx")
        assert done.returncode == 0, done.stderr
        told[by] = done.stderr
    assert "torchvision is not installed" in told["torch"]  # or this test would show nothing
    assert told["myops"] == ""


class ReturnsWeight(torch.nn.Module):
    """onnx_ir tells of a weight among the outputs, as if that were wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + self.weight, self.weight


def test_it_is_quiet_about_weights(capfd: Any, caplog: Any) -> None:
    export(ReturnsWeight(), torch.rand(3), exporter="dynamo")
    assert capfd.readouterr() == ("", "")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("first", ["_registration", "_torchlib._torchlib_registry", "_core"])
def test_translations_whatever_is_imported_first(first: str) -> None:
    """Two modules of torch's exporter import each other."""
    program = (
        f"import myops\nimport torch.onnx._internal.exporter.{first}\n"
        "from torch.onnx._internal.exporter._torchlib._torchlib_registry import _registry\n"
        "names = [str(item.fx_target) for item in _registry]\n"
        "assert names.count('myops.my_add.default') == 1, names\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_plain_torch_export_then_bodies() -> None:
    x = torch.rand(1, 1, 4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(Twice().eval(), (x,), dynamo=True, verbose=False)
    portable = myops.onnx.add_function_bodies(program.model_proto)
    np.testing.assert_array_equal(run_plain(portable, {"x": x.numpy()})[0], Twice()(x).numpy())


def test_exported_programs_and_scripted_modules() -> None:
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
def test_refusals(
    enlarge: Enlarge, inputs: Any, arguments: dict[str, Any], kind: type, text: str
) -> None:
    with pytest.raises(kind, match=text):
        export(enlarge, inputs, **arguments)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_an_example_of_length_1_may_be_dynamic(enlarge: Enlarge, exporter: str) -> None:
    """torch.export takes 1 for a constant; it gets two of the same."""
    one = (torch.rand(1, 3, 8, 9), torch.tensor(2.0))
    model = export(enlarge, one, dynamic_axes=AXES, exporter=exporter)
    assert dims(model.graph.input[0]) == ["batch", 3, "height", "width"]
    assert_runs(model, enlarge, library=True)


def test_an_example_of_length_1_that_has_to_be_1() -> None:
    class Single(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert x.shape[0] == 1, "one image at a time"
            return x * 2

    with pytest.raises(ValueError, match=r"length 1 on axis 0, expected 2 .*one image at"):
        export(Single(), torch.rand(1, 4), dynamic_axes={"x": [0]})


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_lengths_that_are_multiples(exporter: str) -> None:
    """A U-shaped network, for which torch.export cannot prove that sizes fit without."""
    axes = {"image": {2: "16*h", 3: "16*w"}}
    image = torch.rand(1, 3, 32, 48)
    model = export(Pyramid(), image, dynamic_axes=axes, exporter=exporter)
    assert dims(model.graph.input[0]) == [1, 3, "16*h", "16*w"]
    for size in ((16, 32), (64, 16), (80, 48)):
        image = torch.rand(1, 3, *size)
        with torch.no_grad():
            wanted = Pyramid()(image)
        got = run_plain(model, {"image": image.numpy()})[0]
        np.testing.assert_allclose(got, wanted.numpy(), atol=1e-5)
    with pytest.raises(ValueError, match="length 40 on axis 2, expected a multiple of 16"):
        export(Pyramid(), torch.rand(1, 3, 40, 48), dynamic_axes=axes, exporter=exporter)


def test_the_multiple_that_is_missing() -> None:
    text = r'say so with dynamic_axes=\{"image": \{2: "16\*h", 3: "16\*w"\}\}'
    axes = {"image": {2: "h", 3: "w"}}
    with pytest.raises(RuntimeError, match=text):
        export(Pyramid(), torch.rand(1, 3, 32, 48), dynamic_axes=axes)
    model = export(Pyramid(), torch.rand(1, 3, 32, 48), dynamic_axes=axes, exporter="auto")
    assert dims(model.graph.input[0]) == [1, 3, "h", "w"]


def test_a_function_is_not_a_model() -> None:
    with pytest.raises(TypeError, match=r"got function, expected a torch\.nn\.Module"):
        export(lambda x: x, torch.rand(2))


def test_lowering_needs_no_exporter() -> None:
    """Nothing but `export` imports torch's exporters."""
    code = (
        "import sys, myops.onnx as o; o.register_schemas; o.LoweringError; o.MissingBodyWarning; "
        "o.lower; o.add_function_bodies; print('torch' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"
