"""`myops.onnx.module_paths`: the PyTorch module of each node."""

from __future__ import annotations

import onnx
import pytest
import torch
from compare_models import EXPORTERS, Containers, calls_of, export, node_of
from torch import nn

import myops
import myops.onnx
from myops.onnx import module_paths
from myops.onnx.module_paths import regions

X = torch.linspace(-1, 1, 4 * 8 * 8).reshape(1, 4, 8, 8)


@pytest.fixture(scope="module", params=EXPORTERS)
def containers(request):
    torch.manual_seed(1)
    model = Containers().eval()
    return model, export(model, (X,), request.param), calls_of(model, X)


def test_every_call_of_a_module_with_nodes_is_found(containers):
    _, proto, calls = containers
    found = {(r.path, r.call) for r in regions(proto, calls=calls)}
    counts: dict[str, int] = {}
    for stack in calls:
        counts[stack[-1]] = counts.get(stack[-1], 0) + 1
    gone = {"drop", "same"}
    assert found == {("", 0)} | {(p, n) for p in counts for n in range(counts[p]) if p not in gone}
    assert {"conv", "block.conv", "one.a", "two.b.0", "only.0.0"} <= set(counts)
    assert counts["conv"] == 3


def test_outputs_of_a_region_are_inputs_of_the_next(containers):
    """Each call reads the result of the call before, as in the model's forward."""
    _, proto, calls = containers
    chain = [("conv", 0), ("conv", 1), ("conv_1", 0), ("conv", 2), ("block", 0), ("block", 1),
             ("block_1", 0), ("only", 0), ("one.a", 0), ("one.b.0", 0), ("two.a", 0),
             ("two.b.0", 0), ("one.a", 1)]  # fmt: skip
    by_key = {(r.path, r.call): r for r in regions(proto, calls=calls)}
    value = proto.graph.input[0].name
    for key in chain:
        assert by_key[key].inputs == (value,), key
        (value,) = by_key[key].outputs
    assert value in [item.name for item in proto.graph.output]


def test_regions_hold_the_nodes_that_compute_the_module(containers):
    _, proto, calls = containers
    (region,) = regions(proto, "block_1", calls=calls)
    kinds = [proto.graph.node[place].op_type for place in region.nodes]
    assert [kind for kind in kinds if kind != "Constant"] == ["Conv", "Relu", "Add"]
    (same,) = regions(proto, "only", calls=calls)
    assert same.nodes == regions(proto, "only.0.0", calls=calls)[0].nodes


def test_paths_are_found_without_the_model(containers):
    _, proto, _ = containers
    by_path = {region.path for region in regions(proto)}
    assert {"conv", "conv_1", "block", "block.conv", "only.0.0", "one.b.0", "two.b.0"} <= by_path
    (region,) = regions(proto, "two.b.0")
    assert len(region.inputs) == len(region.outputs) == 1
    assert regions(proto, "")[0].nodes == tuple(range(len(proto.graph.node)))


def test_a_region_can_be_cut_out_and_run(containers):
    model, proto, calls = containers
    (region,) = regions(proto, "block_1", calls=calls)
    cut = onnx.utils.Extractor(proto).extract_model(list(region.inputs), list(region.outputs))
    value = torch.randn(1, 4, 8, 8)
    (got,) = myops.ort.session(cut).run(None, {region.inputs[0]: value.numpy()})
    torch.testing.assert_close(torch.from_numpy(got), model.block_1(value).detach())


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("block.cnov", r"Did you mean 'block.conv'"),
        ("same", r"computes nothing \(Identity, Dropout in eval mode\)"),
        ("nonsense", r"no module 'nonsense' in the graph"),
    ],
)
def test_an_unknown_path_is_refused(containers, path, text):
    with pytest.raises(ValueError, match=text):
        regions(containers[1], path)


def test_a_file_without_module_paths_is_refused(containers):
    bare = onnx.ModelProto.FromString(containers[1].SerializeToString())
    for node in bare.graph.node:
        node.name = ""
        del node.metadata_props[:]
    assert [region.path for region in regions(bare)] == [""]
    with pytest.raises(ValueError, match="say nothing of modules"):
        regions(bare, "conv")


def test_broken_metadata_is_ignored():
    proto = export(nn.Sequential(nn.ReLU(), nn.Tanh()), (X,), "dynamo")
    for node, text in zip(proto.graph.node, ["__import__('os')", "[" * 9999], strict=True):
        for item in node.metadata_props:
            item.value = text if item.key == module_paths.SCOPES else item.value
    assert [region.path for region in regions(proto)] == [""]


def test_nodes_without_a_module_belong_to_none():
    """torch.export gives them a name of its own, as those that read a length of an input."""

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(3, 3, 1)

        def forward(self, x):
            return myops.interpolate(self.layer(x), size=(x.shape[2] + 1, 9))

    model = myops.onnx.export(Twice(), torch.rand(1, 3, 8, 8), exporter="dynamo",
                              dynamic_axes={"x": [2]})  # fmt: skip
    assert "_empty_nn_module_stack" in str(model.graph.node)
    assert {region.path for region in regions(model)} == {"", "layer"}


def test_lowered_nodes_stay_in_their_module():
    class Up(nn.Module):
        def forward(self, x):
            return myops.interpolate(x, scale_factor=2.0)

    for exporter in EXPORTERS:
        proto = export(nn.Sequential(nn.ReLU(), Up(), nn.Tanh()), (X,), exporter)
        old = node_of(proto, "Resize")
        new = [onnx.helper.make_node("Identity", [old.input[0]], ["t"], name="t"),
               onnx.helper.make_node("Identity", ["t"], list(old.output), name="u")]  # fmt: skip
        module_paths.inherit(old, new)
        place = list(proto.graph.node).index(old)
        del proto.graph.node[place]
        for node in reversed(new):
            proto.graph.node.insert(place, node)
        (region,) = regions(proto, "1")
        names = [proto.graph.node[number].name for number in region.nodes]
        assert [name for name in names if "Constant" not in name] == ["t", "u"], exporter


def test_restore_brings_paths_back_after_a_conversion():
    from onnx import version_converter

    model = nn.Sequential(nn.Conv2d(4, 2, 1), nn.Sequential(nn.Tanh()), nn.Softmax(-1))
    proto = export(model, (X,), "dynamo", opset_version=18)
    converted = version_converter.convert_version(proto, 17)
    assert len(regions(converted)) == 1
    module_paths.restore(proto, converted)
    assert [(r.path, r.outputs) for r in regions(converted)] == [
        (r.path, r.outputs) for r in regions(proto)
    ]
    # An Identity that the conversion inserted belongs to the module that reads it.
    tanh = node_of(converted, "Tanh")
    extra = onnx.helper.make_node("Identity", [tanh.input[0]], ["put_in"])
    place = list(converted.graph.node).index(tanh)
    tanh.input[0] = "put_in"
    converted.graph.node.insert(place, extra)
    module_paths.restore(proto, converted)
    assert regions(converted, "1.0")[0].nodes == (place, place + 1)


def test_annotate_writes_what_dynamo_writes():
    torch.manual_seed(1)
    model = Containers().eval()
    proto = export(model, (X,), "torchscript")
    module_paths.annotate(proto, [path for path, _ in model.named_modules()])
    stacks = {node.name: module_paths.stack_of(node) for node in proto.graph.node}
    assert stacks["/only/only.0/only.0.0/Conv"] == ("only", "only.0", "only.0.0")
    assert stacks["/Sin"] == ()
    # The names of nodes are no longer needed, except for the numbers of calls.
    assert {"conv", "block.conv", "two.b.0"} <= {region.path for region in regions(proto)}


def test_modules_inside_branches_are_refused():
    inner = onnx.helper.make_node("Relu", ["x"], ["y"], name="relu")
    inner.metadata_props.add(key=module_paths.SCOPES, value="['', 'branch', 'relu']")
    flow = onnx.helper.make_tensor_value_info("y", 1, None)
    branch = onnx.helper.make_graph([inner], "b", [], [flow])
    node = onnx.helper.make_node("If", ["c"], ["z"], "choice", then_branch=branch,
                                 else_branch=branch)  # fmt: skip
    outer = onnx.helper.make_node("Neg", ["z"], ["out"], name="neg")
    outer.metadata_props.add(key=module_paths.SCOPES, value="['', 'last', 'neg']")
    graph = onnx.helper.make_graph(
        [node, outer], "g",
        [onnx.helper.make_tensor_value_info("c", 9, []),
         onnx.helper.make_tensor_value_info("x", 1, [2])],
        [onnx.helper.make_tensor_value_info("out", 1, [2])],
    )  # fmt: skip
    proto = onnx.helper.make_model(graph)
    assert regions(proto, "")[0].inputs == ("c", "x")
    assert regions(proto, "last")[0].inputs == ("z",)
    with pytest.raises(ValueError, match="inside the graphs of node 'choice'"):
        regions(proto, "branch")
