"""inspect, extract and outputs, with custom nodes, nested graphs and functions."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from surgery_models import (
    FLOAT,
    Branches,
    captured,
    exported,
    info,
    linear,
    model_of,
    run,
    three_domains,
)

import myops.onnx
from myops.onnx.surgery.extraction import RedundantInputWarning, extract
from myops.onnx.surgery.outputs import add_outputs
from myops.onnx.surgery.summary import inspect

EXPORTERS = ["dynamo", "torchscript"]


def node_outputs(model: onnx.ModelProto, op_type: str) -> list[str]:
    return [node.output[0] for node in model.graph.node if node.op_type == op_type]


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("by", ["names", "modules"])
def test_four_extracted_parts_compute_the_whole(exporter: str, by: str, tmp_path: Path) -> None:
    model = exported("branches", exporter)
    path = tmp_path / "whole.onnx"
    onnx.save(model, path)
    x = np.random.rand(1, 3, 20, 20).astype(np.float32)
    if by == "names":
        convs = node_outputs(model, "Conv")  # in the order of the layers
        first, second, third = convs[2], convs[4], convs[6]
        parts = [extract(path, ["x"], [first]), extract(path, [first], [second]),
                 extract(path, [first], [third])]  # fmt: skip
    else:
        parts = [extract(path, module=f"convs{number}") for number in (1, 2, 3)]
        second, third = (part.graph.output[0].name for part in parts[1:])
    last = extract(path, [second, third], ["y"], tmp_path / "last.onnx")
    assert [len(node_outputs(part, "Conv")) for part in (*parts, last)] == [3, 2, 2, 3]
    middle = run(parts[0], x=x)[0]
    sides = [run(part, **{part.graph.input[0].name: middle})[0] for part in parts[1:]]
    y = run(str(tmp_path / "last.onnx"), **dict(zip((second, third), sides, strict=True)))[0]
    with torch.no_grad():
        wanted = Branches()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(y, run(model, x=x)[0])


def test_an_output_may_precede_another() -> None:
    model = exported("branches")
    convs = node_outputs(model, "Conv")
    part = extract(model, [convs[2]], [convs[6], "y"])
    assert [item.name for item in part.graph.output] == [convs[6], "y"]
    assert len(node_outputs(part, "Conv")) == 7


def test_a_redundant_input_is_kept_and_warned_about() -> None:
    model = exported("branches")
    convs = node_outputs(model, "Conv")
    with pytest.warns(RedundantInputWarning, match="'x' does nothing"):
        part = extract(model, [convs[2], "x"], [convs[4]])
    assert [item.name for item in part.graph.input] == [convs[2], "x"]
    feeds = {convs[2]: np.random.rand(1, 3, 14, 14).astype(np.float32)}
    results = [run(part, x=np.full((1, 3, 20, 20), v, np.float32), **feeds)[0] for v in (0, 9)]
    np.testing.assert_array_equal(*results)


def test_a_missing_input_is_named_with_its_node() -> None:
    model = exported("branches")
    convs = node_outputs(model, "Conv")
    added = node_outputs(model, "Add")[0]
    with pytest.raises(ValueError, match=r"also need value") as caught:
        extract(model, [convs[3]], [added])
    text = str(caught.value)
    maker = next(node for node in model.graph.node if convs[6] in node.output)
    assert f"value {convs[6]!r}, made by node {maker.name!r} (Conv)" in text
    assert f"Add {convs[6]!r} to the inputs, or go back to 'x'" in text
    extract(model, [convs[3], convs[6]], [added])  # the advice works
    extract(model, [convs[3], "x"], [added])


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_extracting_keeps_our_nodes_and_bodies(exporter: str) -> None:
    model = exported("upscale", exporter)
    resized = next(n.output[0] for n in model.graph.node if n.domain == "myops")
    part = extract(model, [node_outputs(model, "Relu")[0], "factor"], [resized])
    assert [f.name for f in part.functions] == ["Resize"]
    assert part.metadata_props == model.metadata_props
    y = np.random.rand(1, 4, 6, 6).astype(np.float32)
    result = run(part, **{part.graph.input[0].name: y, "factor": np.float32([1.5, 2])})[0]
    wanted = torch.nn.functional.interpolate(
        torch.from_numpy(y), scale_factor=(1.5, 2.0), mode="bicubic"
    ).numpy()
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-5)
    head = extract(model, module="head")
    assert not head.functions
    assert [item.name for item in head.graph.input] == ["x"]


def test_values_read_by_branches_are_kept() -> None:
    model = captured()
    with pytest.raises(ValueError, match="the model's input 'flag', which node 'choose'"):
        extract(model, ["mid"], ["Z"])
    part = extract(model, ["mid", "flag"], ["Z"])
    assert [t.name for t in part.graph.initializer] == ["w"]
    mid = np.float32([5, 6, 7])
    for flag, wanted in ((True, [6, 8, 10]), (False, [5, 6, 7])):
        assert run(part, mid=mid, flag=np.array(flag))[0].tolist() == wanted
    with pytest.raises(ValueError, match=r"'t' is inside a body of node 'choose' \(If\)"):
        extract(model, ["t"], ["Y"])
    with pytest.raises(ValueError, match="'e' is inside a body"):
        add_outputs(model, ["e"])


def test_types_of_contrib_ops_are_inferred_by_onnxruntime() -> None:
    part = extract(three_domains(), ["a"], ["b"])
    assert part.graph.input[0].type.tensor_type.elem_type == FLOAT
    behind = extract(three_domains(), ["b"], ["Y"])
    assert [f.name for f in behind.functions] == ["Grow"]
    assert run(behind, b=np.ones((3, 3), np.float32))[0].shape == (3, 9)


def test_unknown_ops_need_a_known_type_at_the_cut() -> None:
    nodes = [helper.make_node("Weird", ["X"], ["a"], "weird", domain="foo"),
             helper.make_node("Relu", ["a"], ["Y"])]  # fmt: skip
    model = model_of(nodes, [info("X", FLOAT, [2])], [info("Y", FLOAT, [2])], domains=["foo"])
    with pytest.raises(ValueError, match=r"type of 'a', made by node 'weird' \(foo::Weird\)"):
        extract(model, ["a"], ["Y"])
    assert len(extract(model, ["X"], ["a"]).graph.node) == 1
    outputs = add_outputs(model, ["a"]).graph.output
    assert [item.name for item in outputs] == ["Y", "a"]
    assert outputs[1].type.WhichOneof("value") is None
    assert "unknown" in inspect(model).domains[0].provider


def test_errors_suggest_similar_names() -> None:
    with pytest.raises(ValueError, match=r"no value 'outptu'. Did you mean 'output'"):
        extract(linear(), ["a"], ["outptu"])
    with pytest.raises(ValueError, match="more than once"):
        extract(linear(), ["a", "a"], ["c"])
    with pytest.raises(ValueError, match="convs"):
        extract(exported("branches"), module="convs9")
    with pytest.raises(ValueError, match="got none of inputs, outputs and module"):
        extract(linear())


def test_only_the_weights_in_use_are_read(tmp_path: Path) -> None:
    weights = [numpy_helper.from_array(np.full((100, 100), i, np.float32), f"w{i}") for i in (1, 2)]
    nodes = [helper.make_node("MatMul", ["X", "w1"], ["a"]),
             helper.make_node("MatMul", ["a", "w2"], ["Y"])]  # fmt: skip
    model = model_of(nodes, [info("X", FLOAT, [1, 100])], [info("Y", FLOAT, [1, 100])], weights)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, all_tensors_to_one_file=False)
    assert inspect(path).external_files == ["w1", "w2"]
    assert inspect(path).initializer_bytes == 80_000
    (tmp_path / "w2").unlink()
    part = extract(path, ["X"], ["a"])
    assert run(part, X=np.ones((1, 100), np.float32))[0][0, 0] == 100
    with pytest.raises(FileNotFoundError, match="w2"):
        extract(path, ["a"], ["Y"])


def test_large_models_keep_their_weights_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a lower limit than 2 GiB: the weights are written to a file beside the model."""
    from myops.onnx.graph import files

    weights = [numpy_helper.from_array(np.full((100, 100), i, np.float32), f"w{i}") for i in (1, 2)]
    nodes = [helper.make_node("MatMul", ["X", "w1"], ["a"]),
             helper.make_node("MatMul", ["a", "w2"], ["Y"])]  # fmt: skip
    model = model_of(nodes, [info("X", FLOAT, [1, 100])], [info("Y", FLOAT, [1, 100])], weights)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="model.onnx.data")
    wanted = run(str(path), X=np.ones((1, 100), np.float32))
    monkeypatch.setattr(files, "LIMIT", 2**16 + 2**24)
    for target in (tmp_path / "more.onnx", path):  # the second: over itself
        add_outputs(path, ["a"], target)
        assert target.stat().st_size < 1000
        got = run(str(target), X=np.ones((1, 100), np.float32))
        np.testing.assert_array_equal(got[0], wanted[0])
        assert len(got) == 2
    assert not list(tmp_path.glob("*.part"))


def test_add_outputs_by_name_module_or_everything() -> None:
    model = exported("branches")
    convs = node_outputs(model, "Conv")
    x = np.random.rand(1, 3, 20, 20).astype(np.float32)
    verbose = add_outputs(model, [convs[4], convs[2], "y"])
    y, side, middle = run(verbose, x=x)
    np.testing.assert_array_equal(y, run(model, x=x)[0])
    np.testing.assert_array_equal(side, run(extract(model, [convs[2]], [convs[4]]),
                                            **{convs[2]: middle})[0])  # fmt: skip
    names = [item.name for item in add_outputs(model, module="convs2").graph.output]
    assert names == ["y", convs[4]]
    every = add_outputs(three_domains(), everything=True)
    assert [item.name for item in every.graph.output] == ["Y", "a", "b", "c"]
    with pytest.raises(ValueError, match="expected names"):
        add_outputs(model)


def test_inspect_names_the_provider_of_each_domain() -> None:
    providers = {domain.name: domain.provider for domain in inspect(three_domains()).domains}
    assert providers["com.microsoft"].startswith("ONNX Runtime contrib")
    assert providers["ai.onnx.contrib"] == "onnxruntime-extensions"
    assert providers["other"] == "model-local functions in this file"
    summary = inspect(exported("upscale"))
    assert summary.domains[0].provider == "myops; without it, the function bodies in this file"
    assert summary.op_counts["myops::Resize"] == 1
    assert [(v.name, v.dtype, v.shape) for v in summary.inputs] == [
        ("x", "float32", ["n", 3, "h", "w"]), ("factor", "float32", [2])]  # fmt: skip
    inside = inspect(captured())
    assert (inside.node_count, inside.in_bodies) == (6, 2)
    assert {node.where for node in inside.nodes} == {"", "choose"}


def test_an_invalid_model_is_a_warning() -> None:
    model = linear()
    model.graph.node[1].op_type = "Nonsense"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        extract(model, outputs=["output"])
    assert any("not valid before" in str(item.message) for item in caught)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_modules_listed_by_inspect_can_be_extracted(exporter: str) -> None:
    """Every listed module can be extracted by its path and call, with the listed values."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
            self.twice = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.twice(torch.sin(self.twice(self.stem(x))))

    model = myops.onnx.export(Net(), (torch.rand(2, 4),), exporter=exporter)
    listed = inspect(model).modules
    assert [(item.path, item.call) for item in listed if item.path.startswith("twice")] == [
        ("twice", 0), ("twice", 1),
    ]  # fmt: skip
    assert {"stem", "stem.0", "stem.1"} <= {item.path for item in listed}
    for item in listed:
        part = extract(model, module=item.path, call=item.call)
        weights = {tensor.name for tensor in part.graph.initializer}
        assert [i.name for i in part.graph.input if i.name not in weights] == item.inputs
        assert [i.name for i in part.graph.output] == item.outputs
    with pytest.raises(ValueError, match=r"Did you mean 'stem\.0'"):
        extract(model, module="stem_0")
    with pytest.raises(ValueError, match="got 2, expected 0 to 1: module 'twice' is called 2 time"):
        extract(model, module="twice", call=2)
    with pytest.raises(ValueError, match="got 1, expected 0: module 'stem' is called once"):
        extract(model, module="stem", call=1)


def test_calls_of_a_module_are_numbered_alike_everywhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What `compare` and `inspect` call a call is the number that `extract` takes."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.twice = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.twice(torch.sin(self.twice(x)))

    net, args = Net(), (torch.rand(2, 4),)
    model = myops.onnx.export(net, args, exporter="torchscript")
    inspect(model).print(modules=True)
    listed = capsys.readouterr().out
    assert "twice (call 0)" in listed
    assert "twice (call 1)" in listed
    report = myops.onnx.compare(net, args, model)
    titles = [value.title for value in report.values if value.path == "twice"]
    assert "twice (call 1)" in titles
    assert not any("(call 2)" in title for title in titles)
