"""simplify keeps custom nodes and results."""

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
from myops.onnx.graph import structure
from myops.onnx.graph.structure import GraphError
from myops.onnx.surgery import _detached_weights, _trial, slimming
from myops.onnx.surgery.slimming import SimplifyError, simplify


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


def test_shapes_are_inferred_behind_our_node() -> None:
    """Shape and Reshape can be folded only if the shape of our node's output is known."""
    nodes = [
        helper.make_node("MyAdd", ["X", "X"], ["a"], domain="myops"),
        helper.make_node("Shape", ["a"], ["s"]),
        helper.make_node("Reshape", ["a", "s"], ["r"]),
        helper.make_node("Relu", ["r"], ["Y"]),
    ]
    model = model_of(nodes, [info("X", FLOAT, [2, 3])], [info("Y", FLOAT, [2, 3])],
                     domains=["myops"])  # fmt: skip
    assert simplify(model).after == {"Relu": 1, "myops::MyAdd": 1}


def resized(kind: str, domain: str, reader: str) -> onnx.ModelProto:
    """A Resize, given by `kind`, and a reader of its output's shape."""
    attributes: dict[str, Any] = {"mode": "nearest"}
    constants = [numpy_helper.from_array(np.ones((2, 3, 1, 1), np.float32), "w")]
    given = ["x", "", "", ""]
    number, lengths = (3, np.int64([6, 4])) if kind != "scales" else (2, np.float32([2, 1.5]))
    if kind == "crop":
        number, lengths = 2, np.float32([1, 1, 2, 2])
        attributes["coordinate_transformation_mode"] = "tf_crop_and_resize"
        roi = np.float32([0, 0, 0, 0, 1, 1, 0.5, 0.5])
        given[1] = "roi"
        constants.append(numpy_helper.from_array(roi, "roi"))
    elif kind == "ratio":
        lengths = np.int64([8, 4])
        attributes.update(keep_aspect_ratio_policy="not_larger", axes=[2, 3])
    else:
        attributes["axes"] = [2, 3]
    given[number] = "lengths"
    constants.append(numpy_helper.from_array(lengths, "lengths"))
    nodes = [helper.make_node("Resize", given[: number + 1], ["r"], domain=domain, **attributes)]
    if reader == "Conv":
        nodes.append(helper.make_node("Conv", ["r", "w"], ["y"]))
    else:
        nodes += [
            helper.make_node("Shape", ["r"], ["s"]),
            helper.make_node("ConstantOfShape", ["s"], ["zeros"]),
            helper.make_node("Add", ["r", "zeros"], ["y"]),
        ]
    x = info("x", FLOAT, [1, 3, 4, 4])
    return model_of(nodes, [x], [info("y", FLOAT, None)], constants, opset=19, ir=9,
                    domains=[domain] if domain else [])  # fmt: skip


@pytest.mark.parametrize("reader", ["Conv", "Shape"])
@pytest.mark.parametrize("domain", ["", "myops"])
@pytest.mark.parametrize("kind", ["scales", "sizes", "ratio", "crop"])
def test_no_shape_of_a_resize_is_misread(kind: str, domain: str, reader: str) -> None:
    """onnxslim takes scales and sizes for those of all axes; a reader of the shape would then be
    refused or folded to a wrong constant."""
    model = resized(kind, domain, reader)
    result = simplify(model)
    assert result.difference == 0
    assert result.notes == ()
    x = np.random.default_rng(0).random((1, 3, 4, 4), np.float32)
    wanted, got = (myops.ort.session(m).run(None, {"x": x})[0] for m in (model, result.model))
    np.testing.assert_array_equal(got, wanted)


def test_a_custom_node_with_a_standard_name_is_not_misread() -> None:
    """Its shape is not that of the standard op: here, a Transpose that transposes nothing."""
    node = helper.make_node("Transpose", ["x"], ["y"], domain="other", perm=[1, 0])
    values = [info(name, FLOAT, [2, 3]) for name in "xy"]
    assert slimming._misread(model_of([node], values[:1], values[1:], domains=["other"]))
    node.domain = ""
    assert not slimming._misread(model_of([node], values[:1], values[1:]))


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


def test_a_wrong_result_of_the_tool_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "small.onnx"
    model = exported("upscale")
    correct = slimming._slim

    def corrupt(*given: Any) -> onnx.ModelProto:
        result = correct(*given)
        bias = next(t for t in result.graph.initializer if t.name.endswith("tail.bias"))
        array = numpy_helper.to_array(bias) + np.float32(0.01)
        bias.CopyFrom(numpy_helper.from_array(array, bias.name))
        return result

    def lose(*given: Any) -> onnx.ModelProto:
        result = correct(*given)
        node = next(n for n in result.graph.node if n.domain == "myops")
        node.CopyFrom(helper.make_node("Identity", node.input[:1], node.output))
        return result

    for fault, text in ((corrupt, "output 'y' differs by"), (lose, "lost custom nodes: 1 myops")):
        monkeypatch.setattr(slimming, "_slim", fault)
        with pytest.raises(SimplifyError, match=text):
            simplify(model, target)
    assert not target.exists()


def test_a_model_that_refuses_random_inputs_needs_shapes() -> None:
    inputs = [info("X", FLOAT, ["n"]), info("I", onnx.TensorProto.INT64, ["m", "n"])]
    nodes = [helper.make_node("Reshape", ["X", "shape"], ["Y"])]
    shape = numpy_helper.from_array(np.int64([7, 3]), "shape")
    model = model_of(nodes, inputs[:1], [info("Y", FLOAT, [7, 3])], [shape])
    with pytest.raises(ValueError, match="does not run on random inputs"):
        simplify(model)
    assert simplify(model, shapes={"X": [21]}).difference == 0
    assert simplify(model, inputs={"X": np.ones(21, np.float32)}).difference == 0
    assert simplify(model, check=False).difference is None
    with pytest.raises(ValueError, match="the model has no input 'Z'; its input is X"):
        simplify(model, shapes={"Z": [21]})


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


def branching() -> onnx.ModelProto:
    """x * 3 where the condition holds, else x - 1 - 1; random inputs are never above 9."""
    then = helper.make_graph([helper.make_node("Mul", ["x", "three"], ["t"])], "then", [],
                             [info("t", FLOAT, [4])])  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Sub", [a, "1"], [b]) for a, b in ("xu", "ue")],
        "else", [], [info("e", FLOAT, [4])],
    )  # fmt: skip
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "nine"], ["c"]),
        helper.make_node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other),
    ]
    numbers = [numpy_helper.from_array(np.float32(n), name)
               for name, n in (("nine", 9), ("three", 3), ("1", 1))]  # fmt: skip
    return model_of(nodes, [info("x", FLOAT, [4])], [info("y", FLOAT, [4])], numbers)


@pytest.mark.parametrize("branch", ["then", "else"])
@pytest.mark.parametrize("depth", [0, 1])
def test_every_branch_is_compared(branch: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool breaks one branch, which random inputs may never take."""
    import onnxslim

    model = branching()
    if depth:  # inside a branch of another If
        inner = helper.make_graph(model.graph.node, "inner", [], model.graph.output)
        zero = helper.make_graph([helper.make_node("Identity", ["x"], ["z"])], "zero", [],
                                 [info("z", FLOAT, [4])])  # fmt: skip
        nodes = [helper.make_node("If", ["flag"], ["out"], "outer", then_branch=inner,
                                  else_branch=zero)]  # fmt: skip
        inputs = [*model.graph.input, info("flag", onnx.TensorProto.BOOL, [])]
        model = model_of(nodes, inputs, [info("out", FLOAT, [4])], model.graph.initializer)
    assert simplify(model).difference == 0
    slim = onnxslim.slim

    def breaking(given: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
        result = slim(given, **options)
        for graph in structure.graphs_of(result.graph):
            for node in graph.node:
                if node.name == "choice":
                    (body,) = [a.g for a in node.attribute if a.name == f"{branch}_branch"]
                    body.node[0].op_type = "Div" if branch == "then" else "Add"
        return result

    monkeypatch.setattr(onnxslim, "slim", breaking)
    with pytest.raises(SimplifyError, match=f"'choice'.* takes its {branch} branch|differs"):
        simplify(model)


def test_nested_choices_do_not_crash() -> None:
    """ONNX Runtime crashed when the conditions of nested If nodes were made constant."""

    def identity(name: str) -> onnx.GraphProto:
        node = helper.make_node("Identity", ["x"], [name])
        return helper.make_graph([node], name, [], [info(name, FLOAT, [4])])

    inner = identity("n0")
    for number in range(1, 20):
        node = helper.make_node("If", ["c"], [f"n{number}"], then_branch=inner,
                                else_branch=identity(f"e{number}"))  # fmt: skip
        inner = helper.make_graph([node], f"g{number}", [], [info(f"n{number}", FLOAT, [4])])
    inputs = [info("x", FLOAT, [4]), info("c", onnx.TensorProto.BOOL, [])]
    result = simplify(model_of(inner.node, inputs, inner.output))
    assert result.difference == 0
    assert not result.notes


@pytest.mark.parametrize("source", ["path", "external", "proto", "bytes"])
def test_large_weights_are_left_unchanged(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a model over 2 GB, with a lower limit: large weights stay outside, all else is
    simplified."""
    rng = np.random.default_rng(0)
    big = [numpy_helper.from_array(rng.random((90, 90), np.float32), name) for name in "uvw"]
    nodes = [
        helper.make_node("MatMul", ["x", "u"], ["a"]),
        helper.make_node("Identity", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["y"]),
    ]
    model = model_of(nodes, [info("x", FLOAT, ["n", 90])], [info("y", FLOAT, ["n", 90])], big)
    x = rng.random((3, 90), np.float32)
    (wanted,) = run(model, x=x)
    path = tmp_path / "large.onnx"
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    onnx.save(copy, path, save_as_external_data=source == "external", location="large.data",
              size_threshold=0)  # fmt: skip
    forms = {"proto": model, "bytes": path.read_bytes()}
    monkeypatch.setattr(_detached_weights, "FROM", 60_000)
    monkeypatch.setattr(_detached_weights, "MOST", 40_000)
    result = simplify(forms.get(source, path), tmp_path / "small.onnx")
    assert result.difference == 0
    assert "The 2 largest weights were left as they are" in result.notes[0] or (
        "The 3 largest" in result.notes[0]
    )
    assert result.after == {"MatMul": 2}
    written = onnx.load(tmp_path / "small.onnx")
    assert [item.name for item in written.graph.input] == ["x"]
    assert {item.name for item in written.graph.initializer} == {"u", "v"}
    np.testing.assert_array_equal(run(written, x=x)[0], wanted)


def test_large_constant_nodes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_detached_weights, "FROM", 1000)
    ones = numpy_helper.from_array(np.ones(500, np.float32))
    constant = helper.make_node("Constant", [], ["w"], value=ones)
    nodes = [constant, helper.make_node("Add", ["x", "w"], ["y"])]
    model = model_of(nodes, [info("x", FLOAT, [500])], [info("y", FLOAT, [500])])
    with pytest.raises(ValueError, match=r"in Constant nodes .* expected less than 2 GiB"):
        simplify(model)


def folding() -> onnx.ModelProto:
    """x + ones(shape of x); the ones are not stored."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("ConstantOfShape", ["s"], ["ones"],
                         value=numpy_helper.from_array(np.ones(1, np.float32))),
        helper.make_node("Add", ["x", "ones"], ["a"]),
        helper.make_node("Add", ["a", "z"], ["y"]),
    ]  # fmt: skip
    values = [info(name, FLOAT, ["h", "w"]) for name in "xzy"]
    return model_of(nodes, values[:2], values[2:])


def test_input_shapes_are_fixed_and_sizes_reported(tmp_path: Path) -> None:
    open_ = simplify(folding())
    assert "Shape" in open_.after
    fixed = simplify(folding(), fixed={"x": [100, 200]})
    assert "Shape" not in fixed.after
    for item in fixed.model.graph.input:  # z has the same names of lengths
        assert [dim.dim_value for dim in item.type.tensor_type.shape.dim] == [100, 200]
    assert fixed.bytes_after > 80_000 > fixed.bytes_before
    bounded = simplify(folding(), fixed={"x": [100, 200]}, largest_constant=1000)
    assert bounded.bytes_after < 2000
    half = simplify(folding(), fixed={"x": [100, None]})
    dims = half.model.graph.input[1].type.tensor_type.shape.dim
    assert (dims[0].dim_value, dims[1].dim_param) == (100, "w")
    onnx.save(folding(), tmp_path / "m.onnx")
    for result, saved in ((fixed, "fixed.onnx"), (bounded, "bounded.onnx")):
        onnx.save(result.model, tmp_path / saved)
        assert result.bytes_after == (tmp_path / saved).stat().st_size


@pytest.mark.parametrize(("fixed", "text"), [
    ({"q": [1, 2]}, "the model has no input 'q'; its inputs are x, z"),
    ({"x": [1]}, "got 1 lengths, expected 2"),
    ({"x": [1, 2], "z": [1, 3]}, "got 3 and 2 for the length 'w'"), ({"x": [-1, 2]}, "got -1"),
])  # fmt: skip
def test_contradictory_shapes_are_refused(fixed: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        simplify(folding(), fixed=fixed)


@pytest.mark.parametrize("tolerance", [-1.0, float("nan")])
def test_a_wrong_tolerance_is_refused(tolerance: float) -> None:
    with pytest.raises(ValueError, match="expected a number >= 0"):
        simplify(folding(), tolerance=tolerance)


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


@pytest.mark.parametrize("arguments", [
    {"shapes": {"x": [2**40]}}, {"fixed": {"x": [2**40]}}, {"shapes": {"x": [2**70]}},
])  # fmt: skip
def test_random_inputs_that_are_too_large_are_refused(arguments: Any) -> None:
    kinds = [helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", kinds[:1], kinds[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(GraphError, match=r"'x' would have the shape .*check=False"):
        simplify(model, **arguments)
    simplify(model, check=False, **arguments)
    with pytest.raises(GraphError, match="expected a name, or a length from 0"):
        simplify(model, fixed={"x": [2**63]})
