"""`myops.onnx.diff`: every kind of change is named, and other names or storage are no change."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from surgery_models import FLOAT, captured, exported, info, linear, model_of, three_domains
from two_files_models import (
    constant,
    copied,
    dense_layers,
    loop,
    node_named,
    renamed,
    set_weight,
    unary,
    weight_of,
)

from myops.onnx import diff
from myops.onnx.two_files.difference import Detail


def only(found):
    (change,) = found.changes
    return change


@pytest.mark.parametrize("build", [
    dense_layers, loop, partial(loop, growing=True), captured, linear, three_domains,
    partial(exported, "upscale"),
])  # fmt: skip
def test_a_model_equals_itself(build):
    model = build()
    found = diff(model, copied(model))
    assert found.equal
    assert not found.renamed
    assert str(found) == "the first and the second are equal"


@pytest.mark.parametrize("model", [dense_layers(), loop(growing=True), captured()])
def test_other_names_are_no_difference(model):
    found = diff(model, renamed(model, lambda name: f"neu_{name}_ü"))
    assert found.equal, str(found)
    assert found.renamed
    assert all(after == f"neu_{before}_ü" for _, _, before, after in found.renamed)
    kinds = {what for what, *_ in found.renamed}
    assert kinds == {"value", "node", "constant"}
    assert found.summary.endswith("equal, but for names inside")


def test_another_order_is_no_difference():
    model = captured()
    other = copied(model)
    nodes = [other.graph.node[place] for place in (1, 0, 2, 3)]
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del other.graph.node[:]
    other.graph.node.extend(nodes)
    found = diff(model, other)
    assert found.equal
    assert not found.renamed


def test_files_of_both_exporters_differ_in_metadata_only():
    found = diff(exported("branches"), exported("branches", "torchscript"))
    assert {change.what for change in found.changes} == {"model"}
    assert len([item for item in found.renamed if item[0] == "node"]) == 11


@pytest.mark.parametrize(("change", "expected"), [
    (lambda m: setattr(m, "ir_version", 9), "model 'ir_version': 8 -> 9"),
    (lambda m: setattr(m, "producer_name", "me"), "model 'producer_name':  -> me"),
    (lambda m: setattr(m.graph, "name", "g"), "model 'graph name': graph -> g"),
    (lambda m: setattr(m.opset_import[0], "version", 18), "opset 'ai.onnx': 17 -> 18"),
    (lambda m: m.opset_import.add(domain="d", version=2), "opset 'd': 2"),
    (lambda m: m.metadata_props.add(key="k", value="v"), "metadata 'k': v"),
    (lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 11),
     "input 'x': dtype: float32 -> float64"),
    (lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 4),
     "input 'x': shape: ['n', 6] -> [4, 6]"),
    (lambda m: m.graph.output[0].type.tensor_type.ClearField("shape"),
     "output 'y': shape: ['n', 6] -> not given"),
    (lambda m: setattr(m.graph.node[5], "op_type", "Sinh"),
     "node 'node_tanh1' (Tanh): operator: Tanh -> Sinh"),
    (lambda m: setattr(m.graph.node[4], "domain", "other"),
     "node 'node_add1' (Add): operator: Add -> other::Add"),
    (lambda m: m.graph.node[3].input.__setitem__(1, "w0"),
     "node 'node_mul1' (MatMul): inputs: ['tanh0', 'w1'] -> ['tanh0', 'w0']"),
    (lambda m: m.graph.node[3].attribute.append(helper.make_attribute("new", [1, 2])),
     "node 'node_mul1' (MatMul): attribute new: not given -> [1, 2]"),
])  # fmt: skip
def test_each_kind_of_change_is_named(change, expected):
    other = dense_layers(3)
    change(other)
    found = diff(dense_layers(3), other)
    assert not found.equal
    assert [str(item) for item in found.changes] == [expected]
    back = diff(other, dense_layers(3))
    assert [item.what for item in back.changes] == [item.what for item in found.changes]


def test_changed_attributes_are_named_and_defaults_are_equal():
    def model(**attributes):
        node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", **attributes)
        ends = [info("x", FLOAT, [1, 1, 8, 8]), info("y", FLOAT, None)]
        return model_of([node], ends[:1], ends[1:], [constant("w", np.ones((1, 1, 3, 3)))])

    change = only(diff(model(pads=[1, 1, 1, 1]), model(pads=[2, 1, 0, 1])))
    assert change.details == [Detail("attribute pads", [1, 1, 1, 1], [2, 1, 0, 1])]
    assert (change.kind, change.what, change.name, change.op) == ("changed", "node", "conv", "Conv")
    assert only(diff(model(), model(group=2))).details == [Detail("attribute group", None, 2)]
    assert diff(model(), model(group=1, auto_pad="NOTSET")).equal  # what the standard says anyway
    texts = diff(model(auto_pad="VALID"), model(auto_pad="SAME_UPPER"))
    assert only(texts).details == [Detail("attribute auto_pad", "VALID", "SAME_UPPER")]


def test_added_and_removed_nodes_are_named():
    one, two = unary("Abs", "Neg", "Tanh"), unary("Abs", "Tanh")
    found = diff(one, two)
    texts = [str(change) for change in found.changes]
    assert "node 'Neg1': Neg(a) -> b" in texts
    assert [change.kind for change in found.changes if change.name == "Neg1"] == ["removed"]
    assert any("inputs: ['b'] -> ['a']" in text for text in texts)
    back = diff(two, one)
    assert [change.kind for change in back.changes if change.name == "Neg1"] == ["added"]


def test_changed_added_and_removed_constants_are_named():
    other = dense_layers(3)
    changed = weight_of(other, "w1").copy()
    changed[2, 3] += 0.25
    set_weight(other, "w1", changed)
    detail = only(diff(dense_layers(3), other)).details[0]
    assert (detail.field, detail.differing, detail.size) == ("values", 1, 36)
    assert detail.largest == pytest.approx(0.25)
    assert str(detail) == "values: 1 of 36 differ, by up to 0.25"
    other = dense_layers(3)
    set_weight(other, "w1", changed.astype(np.float64))
    assert [d.field for d in only(diff(dense_layers(3), other)).details] == ["dtype", "values"]
    other = dense_layers(3)
    set_weight(other, "b1", np.zeros((1, 6), np.float32))
    assert only(diff(dense_layers(3), other)).details == [Detail("shape", [6], [1, 6])]
    other = dense_layers(3)
    other.graph.initializer.append(constant("spare", [1.0]))
    assert str(only(diff(dense_layers(3), other))) == "constant 'spare': float32[1]"
    assert only(diff(other, dense_layers(3))).kind == "removed"


def test_small_constants_show_their_values():
    other = captured()
    set_weight(other, "w", np.float32([1, np.nan, np.inf]))
    change = only(diff(captured(), other))
    assert "[1.0, 2.0, 3.0] -> [1.0, nan, inf]" in str(change)
    assert change.details[0].largest == np.inf
    assert diff(other, other).equal  # NaN is NaN
    json.loads(diff(captured(), other).to_json())


def test_other_storage_of_a_constant_is_no_difference():
    tensor = constant("w", [1.0, 2.0, 3.0])
    other = captured()
    del other.graph.initializer[:]
    node = helper.make_node("Constant", [], ["w"], "holds", value=tensor)
    nodes = [node, *other.graph.node]
    nodes = [onnx.NodeProto.FromString(item.SerializeToString()) for item in nodes]
    del other.graph.node[:]
    other.graph.node.extend(nodes)
    assert diff(captured(), other).equal
    typed = captured()
    typed.graph.initializer[0].CopyFrom(helper.make_tensor("w", FLOAT, [3], [1.0, 2.0, 3.0]))
    assert diff(captured(), typed).equal  # float_data instead of raw_data


@pytest.mark.parametrize("kind", [TensorProto.BFLOAT16, TensorProto.FLOAT16, TensorProto.BOOL,
                                  TensorProto.FLOAT8E4M3FN, TensorProto.INT4, TensorProto.STRING,
                                  TensorProto.COMPLEX64, TensorProto.UINT64])  # fmt: skip
def test_constants_of_every_dtype_are_compared(kind):
    texts = kind == TensorProto.STRING
    values = [[b"a", b"b"], [b"a", b"\xff"]] if texts else [[0, 1], [0, 0]]
    models = []
    for value in values:
        tensor = helper.make_tensor("w", kind, [2], value)
        node = helper.make_node("Identity", ["w"], ["y"], "same")
        models.append(model_of([node], [], [info("y", kind, [2])], [tensor]))
    assert diff(models[0], copied(models[0])).equal
    change = only(diff(*models))
    assert (change.what, change.name) == ("constant", "w")
    assert change.details[0].differing == 1


def test_sparse_constants_are_compared():
    def model(value):
        values = numpy_helper.from_array(np.float32([value]), "w")
        indices = numpy_helper.from_array(np.int64([2]), "i")
        made = model_of([helper.make_node("Identity", ["w"], ["y"])], [], [info("y", FLOAT, [4])])
        made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
        return made

    assert diff(model(1), model(1)).equal
    assert only(diff(model(1), model(2))).name == "w"


def test_weights_in_external_files_are_compared(tmp_path):
    for name, scale in (("a", 1), ("b", 2)):
        model = dense_layers(2)
        set_weight(model, "w0", weight_of(model, "w0") * np.float32(scale))
        onnx.save(model, tmp_path / f"{name}.onnx", save_as_external_data=True,
                  location=f"{name}.data", size_threshold=0)  # fmt: skip
    assert diff(tmp_path / "a.onnx", dense_layers(2)).equal
    found = diff(tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert only(found).name == "w0"
    assert str(tmp_path / "a.onnx") in found.summary
    (tmp_path / "b.data").unlink()
    with pytest.raises(FileNotFoundError, match="weights are missing"):
        diff(tmp_path / "a.onnx", tmp_path / "b.onnx")


def test_changes_in_nested_graphs_name_their_place():
    other = renamed(loop(growing=True), lambda name: f"z{name}")
    node_named(other.graph, "zthen_Neg").op_type = "Exp"
    change = only(diff(loop(growing=True), other))
    assert str(change) == (
        "node 'then_Neg' (Neg), in 'repeat' (Loop) body > 'turn' (If) then_branch: "
        "operator: Neg -> Exp"
    )
    other = loop(growing=True)
    body = node_named(other.graph, "repeat").attribute[0].g
    body.initializer[0].CopyFrom(constant("one", [7.0]))
    change = only(diff(loop(growing=True), other))
    assert (change.what, change.name, change.where) == ("constant", "one", "'repeat' (Loop) body")
    other = loop()
    body = node_named(other.graph, "repeat").attribute[0].g
    body.output[1].name = "scaled"  # another value is given back
    changes = diff(loop(), other).changes
    assert any(d.field == "outputs" for c in changes for d in c.details)


def test_a_branch_that_reads_another_outer_value_is_a_change():
    other = captured()
    branch = other.graph.node[2].attribute[0].g
    branch.node[0].input[0] = "side"
    change = only(diff(captured(), other))
    assert change.details == [Detail("inputs", ["mid"], ["side"])]


def test_changes_in_functions_are_named():
    other = three_domains()
    other.functions[0].node[0].attribute[0].CopyFrom(
        helper.make_attribute("value_floats", [1.0, 2.0])
    )
    change = only(diff(three_domains(), other))
    assert change.where == "function 'other::Grow'"
    assert "[1.0, 3.0] -> [1.0, 2.0]" in str(change)
    other = three_domains()
    del other.functions[:]
    assert str(only(diff(three_domains(), other))) == "function 'other::Grow': 2 nodes"
    other = three_domains()
    other.functions[0].attribute.append("speed")
    assert only(diff(three_domains(), other)).details == [Detail("attribute", [], ["speed"])]


def test_renamed_added_and_moved_inputs_are_named():
    other = linear()
    other.graph.input[1].name = "z"
    other.graph.node[0].input[1] = "z"
    assert str(only(diff(linear(), other))) == "input 'x': name: x -> z"
    other = linear()
    other.graph.input.append(info("extra", FLOAT, [1]))
    assert only(diff(linear(), other)).kind == "added"
    other = linear()
    items = [onnx.ValueInfoProto.FromString(i.SerializeToString()) for i in other.graph.input]
    del other.graph.input[:]
    other.graph.input.extend([items[1], items[0], items[2]])
    texts = [str(change) for change in diff(linear(), other).changes]
    assert texts == ["input 'a': place: 0 -> 1", "input 'x': place: 1 -> 0"]


def test_similar_nodes_are_paired_by_name():
    """Three projections of one value, each with its own weights: the changed one is found by
    name."""

    def model(order, scale=1.0):
        rng = np.random.default_rng(5)
        weights = {name: rng.standard_normal((4, 4)) for name in "qkv"}
        weights["k"] = weights["k"] * scale
        nodes = [helper.make_node("MatMul", ["x", name], [f"{name}_out"], f"to_{name}")
                 for name in order]  # fmt: skip
        nodes.append(helper.make_node("Concat", ["q_out", "k_out", "v_out"], ["y"], "all", axis=0))
        ends = [info("x", FLOAT, [2, 4]), info("y", FLOAT, [6, 4])]
        constants = [constant(name, weights[name]) for name in order]
        return model_of(nodes, ends[:1], ends[1:], constants)

    change = only(diff(model("qkv"), model("vkq", 1.5)))
    assert (change.what, change.name) == ("constant", "k")


def test_order_of_operands_counts_unless_commutative():
    other = renamed(dense_layers(3), lambda name: f"z{name}")
    for node in other.graph.node:
        if node.op_type == "Add":
            node.input[:] = list(node.input)[::-1]
    found = diff(dense_layers(3), other)
    assert found.equal
    set_weight(other, "zb1", np.zeros(6, np.float32))
    assert only(diff(dense_layers(3), other)).name == "b1"
    matrix = dense_layers(3)
    node = matrix.graph.node[3]
    node.input[:] = list(node.input)[::-1]
    assert only(diff(dense_layers(3), matrix)).details[0].field == "inputs"


def test_large_graphs_take_linear_time():
    import time

    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"], f"n{i}") for i in range(20_000)]
    ends = [info("v0", FLOAT, [1]), info("v20000", FLOAT, [1])]
    model = model_of(nodes, ends[:1], ends[1:])
    other = renamed(model, lambda name: f"w{name}")
    other.graph.node[10_000].op_type = "Abs"
    start = time.perf_counter()
    change = only(diff(model, other))
    assert time.perf_counter() - start < 30
    assert change.name == "n10000"


def test_long_lists_of_changes_are_cut_when_printed(capsys):
    other = dense_layers(40)
    for node in other.graph.node:
        if node.op_type == "Tanh":
            node.op_type = "Sinh"
    found = diff(dense_layers(40), renamed(other, lambda name: f"[bold]{name}"))
    found.print(Console(width=200))
    shown = capsys.readouterr().out
    assert "~ node 'node_tanh0' (Tanh): operator: Tanh -> Sinh" in shown
    assert "... 10 more nodes changed (--all has them)" in shown
    assert "renamed only: " in shown
    assert "differ: 40 nodes changed" in shown
    found.print(Console(width=200), all_changes=True)
    shown = capsys.readouterr().out
    assert "more nodes" not in shown
    assert "= value 'mul0': renamed to '[bold]mul0'" in shown


def test_unreadable_files_and_constants(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        diff(dense_layers(1), tmp_path / "gone.onnx")
    with pytest.raises(ValueError, match="no ONNX model"):
        diff(dense_layers(1), dense_layers(1).SerializeToString()[:-30])
    broken = captured()
    broken.graph.initializer[0].dims[0] = 2**40  # more than there is
    assert only(diff(captured(), broken)).details == [Detail("shape", [3], [2**40])]
    broken = captured()
    broken.graph.initializer[0].raw_data = b"123"
    assert only(diff(captured(), broken)).details[0].after == "unreadable"


def test_an_input_with_a_default_is_part_of_the_interface():
    """A caller may give it another value. Before IR 4, every weight had to be an input."""
    model = dense_layers()
    weight = model.graph.initializer[0]
    other = copied(model)
    other.graph.input.append(info(weight.name, TensorProto.FLOAT, list(weight.dims)))
    change = only(diff(model, other))
    assert (change.kind, change.what, change.name) == ("added", "input", weight.name)
    (detail,) = change.details
    assert detail.after == f"float32 [{weight.dims[0]}, {weight.dims[1]}], with a default"
    assert only(diff(other, model)).kind == "removed"
    assert diff(other, copied(other)).equal
    other.ir_version = 3
    assert not [item for item in diff(model, other).changes if item.what == "input"]
