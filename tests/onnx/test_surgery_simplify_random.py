"""simplify keeps nodes that draw random numbers: they are no constants, and equal ones differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from myops.onnx.graph.randomness import is_random, known_false, random_functions
from myops.onnx.module_paths import constants
from myops.onnx.surgery import _folding
from myops.onnx.surgery.slimming import simplify

node = helper.make_node
TRUE, FALSE, HALF = np.array(True), np.array(False), np.array(0.5, np.float32)
LIKE = np.full(1000, 0.5, np.float32)


def model(nodes: list[onnx.NodeProto], functions: Any = (), **values: Any) -> onnx.ModelProto:
    """y = x + the sum of "r" as float, where constants alone lead to "r"."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    listed = [numpy_helper.from_array(np.asarray(item), name) for name, item in values.items()]
    nodes = [*nodes, node("Cast", ["r"], ["f"], to=1), node("ReduceSum", ["f"], ["s"], keepdims=0),
             node("Add", ["x", "s"], ["y"])]  # fmt: skip
    graph = helper.make_graph(nodes, "test", ends[:1], ends[1:], listed)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=functions)


def drawn(made: onnx.ModelProto, runs: int = 2) -> set[float]:
    session = onnxruntime.InferenceSession(made.SerializeToString())
    x = np.zeros(1, np.float32)
    return {float(session.run(None, {"x": x})[0][0]) for _ in range(runs)}


NORMAL = node("RandomNormal", [], ["r"], shape=[1000])
NOISE = helper.make_function("acme", "Noise", ["a"], ["b"], [
    node("RandomNormalLike", ["a"], ["n"]), node("Add", ["a", "n"], ["b"])],
    [helper.make_opsetid("", 17)])  # fmt: skip
TWICE = helper.make_function("acme", "Twice", ["a"], ["b"], [
    node("Noise", ["a"], ["b"], domain="acme")],
    [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)])  # fmt: skip
MODELS = {
    "RandomNormal": model([NORMAL]),
    "RandomUniform": model([node("RandomUniform", [], ["r"], shape=[1000])]),
    "RandomNormalLike": model([node("RandomNormalLike", ["c"], ["r"])], c=LIKE),
    "RandomUniformLike": model([node("RandomUniformLike", ["c"], ["r"], high=2.0)], c=LIKE),
    "Bernoulli": model([node("Bernoulli", ["c"], ["r"])], c=LIKE),
    "Multinomial": model([node("Multinomial", ["c"], ["r"], sample_size=1000)],
                         c=LIKE.reshape(1, -1)),
    "Dropout": model([node("Dropout", ["c", "p", "t"], ["r"])], c=LIKE, p=HALF, t=TRUE),
}  # fmt: skip


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_random_numbers_are_no_constants(name: str, check: bool) -> None:
    before = MODELS[name].SerializeToString()
    made = simplify(MODELS[name], check=check)
    assert made.after[name] == 1
    assert not made.notes
    assert len(drawn(made.model)) == 2
    assert MODELS[name].SerializeToString() == before
    assert made.model.opset_import[0].version == 17
    kept = next(item for item in made.model.graph.node if item.op_type == name)
    given = next(item for item in MODELS[name].graph.node if item.op_type == name)
    assert list(kept.attribute) == list(given.attribute)
    assert list(kept.input) == list(given.input)


def test_what_constants_determine_is_still_folded() -> None:
    nodes = [node("Mul", ["c", "c"], ["m"]), NORMAL, node("Sin", ["m"], ["n"]),
             node("Add", ["r", "n"], ["q"])]  # fmt: skip
    nodes[1] = node("RandomNormal", [], ["w"], shape=[1000])
    nodes[3] = node("Add", ["w", "n"], ["r"])
    after = simplify(model(nodes, c=LIKE)).after
    assert "Mul" not in after
    assert "Sin" not in after


@pytest.mark.parametrize("made", ["inputs", "no inputs", "functions"])
def test_equal_nodes_are_not_merged(made: str) -> None:
    """The difference of two draws is 0 if they are one."""
    nodes = {
        "inputs": [node("Expand", ["x", "n"], ["e"]),
                   node("RandomNormalLike", ["e"], ["v"]), node("RandomNormalLike", ["e"], ["w"])],
        "no inputs": [node("RandomNormal", [], [name], shape=[1000]) for name in "vw"],
        "functions": [node("Expand", ["x", "n"], ["e"])] + [
            node("Twice", ["e"], [name], domain="acme") for name in "vw"],
    }[made]  # fmt: skip
    nodes = [*nodes, node("Sub", ["v", "w"], ["r"])]
    given = model(nodes, [TWICE, NOISE] if made == "functions" else (), n=[1000])
    result = simplify(given, check=False).model
    assert 0.0 not in drawn(result)


def test_dropout_in_training_mode_is_kept() -> None:
    def of(**values: Any) -> onnx.ModelProto:
        names = ["e", "p", *values]
        nodes = [node("Expand", ["x", "n"], ["e"]), node("Dropout", names, ["r"])]
        return model(nodes, n=[1000], p=HALF, **values)

    assert simplify(of(t=TRUE), check=False).after["Dropout"] == 1
    assert "Dropout" not in simplify(of(t=FALSE)).after
    assert "Dropout" not in simplify(of()).after


def test_random_numbers_in_branches_are_no_constants() -> None:
    ends = [helper.make_tensor_value_info("t", TensorProto.FLOAT, [1000])]
    body = helper.make_graph([node("RandomNormal", [], ["t"], shape=[1000])], "b", [], ends)
    ends_of_other = [helper.make_tensor_value_info("u", TensorProto.FLOAT, [1000])]
    other = helper.make_graph([node("Identity", ["c"], ["u"])], "o", [], ends_of_other)
    for condition in (TRUE, None):
        choice = node("If", ["k"], ["r"], then_branch=body, else_branch=other)
        values = {"c": LIKE} | ({} if condition is None else {"k": condition})
        first = [] if condition is not None else [
            node("Cast", ["x"], ["j"], to=9), node("Squeeze", ["j"], ["i"]),
            node("Not", ["i"], ["k"])]  # fmt: skip
        result = simplify(model([*first, choice], **values), check=False)
        assert len(drawn(result.model)) == 2


def test_models_with_other_random_numbers_each_time_are_compared() -> None:
    """In each run of a model with dynamic lengths, and inside functions."""
    for kind, domain in (("RandomNormalLike", ""), ("Twice", "acme")):
        nodes = [node("Add", ["x", "x"], ["d"]), node(kind, ["d"], ["r"], domain=domain)]
        given = model(nodes, [TWICE, NOISE] if domain else ())
        given.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
        given.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "n"
        assert simplify(given).difference == 0


def test_random_numbers_are_not_refused_as_large_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_folding, "MOST_ELEMENTS", 100)
    assert simplify(MODELS["RandomNormal"]).after["RandomNormal"] == 1


def test_which_nodes_are_random() -> None:
    functions = random_functions([TWICE, NOISE])
    assert set(functions) == {("acme", "Noise"), ("acme", "Twice")}
    assert is_random(node("Twice", ["a"], ["b"], domain="acme"), functions)
    assert not is_random(node("RandomNormal", [], ["b"], domain="acme"))
    assert not is_random(node("Dropout", ["a", "p"], ["b"]))
    assert known_false(model([NORMAL], t=FALSE, u=TRUE)) == {"t"}
    for made in MODELS.values():
        assert "r" not in constants(made)
