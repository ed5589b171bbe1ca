"""`to_half`: correct types and values, the fewest casts, and the reasons why nodes stay float32."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from precision_models import (
    BOOL,
    HALVES,
    INT64,
    X,
    by_name,
    check,
    model,
    network,
    node,
    random_graph,
    run,
    value,
    weight,
)

import myops.onnx
import myops.ort
from myops.onnx.graph import scopes
from myops.onnx.precision.cut import least_casts
from myops.onnx.precision.losses import relative_l2


@pytest.mark.parametrize("keep_io_types", [True, False])
@pytest.mark.parametrize("runtime", ["cpu", "any"])
@pytest.mark.parametrize("dtype", list(HALVES))
def test_a_network_is_converted(
    dtype: str, runtime: str, keep_io_types: bool, tmp_path: Path
) -> None:
    source = network()
    path = tmp_path / "half.onnx"
    result = myops.onnx.to_half(source, path, dtype=dtype, runtime=runtime,
                                keep_io_types=keep_io_types, data=[{"x": X}])  # fmt: skip
    check(source, result)
    kinds = [item.type.tensor_type.elem_type
             for item in (*result.model.graph.input, *result.model.graph.output)]  # fmt: skip
    assert kinds == [TensorProto.FLOAT if keep_io_types else HALVES[dtype]] * 2
    assert result.holds
    unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    assert 0 < result.losses["y"] < 4 * unit
    assert by_name(result)["Resize_u"].precision == dtype
    assert result.bytes_after < 0.85 * result.bytes_before
    assert onnx.load(path).SerializeToString() == result.model.SerializeToString()
    if dtype == "float16":
        given = X if keep_io_types else X.astype(np.float16)
        (expected,) = run(source, {"x": X})
        (got,) = run(onnx.load(path), {"x": given})
        loss = relative_l2(expected, got.astype(np.float32))
        assert loss == pytest.approx(result.losses["y"], rel=0.5)


def test_a_network_of_half_ops_needs_no_casts() -> None:
    result = myops.onnx.to_half(network(), runtime="any")
    assert (result.casts, result.weight_casts) == (0, 0)
    assert {item.precision for item in result.nodes} == {"float16"}
    kept = myops.onnx.to_half(network(), runtime="any", keep_io_types=True)
    assert kept.casts == 2


MANY = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20)]


@pytest.mark.parametrize("seed", [0, 1, *MANY])
@pytest.mark.parametrize("runtime", ["cpu", "any"])
def test_random_graphs_with_nested_graphs(seed: int, runtime: str) -> None:
    source = random_graph(seed)
    x = np.random.default_rng(seed).standard_normal((4, 4)).astype(np.float32)
    for dtype, keep in itertools.product(HALVES, (True, False)):
        result = myops.onnx.to_half(source, dtype=dtype, runtime=runtime, keep_io_types=keep,
                                    data=[{"x": x}])  # fmt: skip
        check(source, result)
        assert result.losses, result.notes
        assert result.holds, result.losses
        limit = {"float16": 0.01, "bfloat16": 0.1}[dtype]
        assert max(result.losses.values()) < limit, [n for n in result.nodes if n.loss]
        if runtime == "any":
            assert sum(item.precision == dtype for item in result.nodes) > len(result.nodes) / 2


@pytest.mark.parametrize("seed", range(30))
def test_least_casts_is_optimal(seed: int) -> None:
    random = np.random.default_rng(seed)
    names = [f"n{place}" for place in range(8)]
    fixed = {name: bool(random.integers(2)) for name in names[:3]}
    free = {name: int(random.integers(3)) for name in names[3:]}
    values = [tuple(random.choice(names, random.integers(2, 5), replace=False)) for _ in range(8)]

    def cost(assigned: dict[str, bool]) -> int:
        casts = sum(len({assigned[pin] for pin in pins}) > 1 for pins in values)
        return casts + sum(free[name] for name in free if not assigned[name])

    every = [dict(zip(free, bits, strict=True))
             for bits in itertools.product((True, False), repeat=len(free))]  # fmt: skip
    best = min(cost({**fixed, **bits}) for bits in every)
    found = least_casts(fixed, free, values)
    assert {name: found[name] for name in fixed} == fixed
    assert cost(found) == best
    most = max(sum(bits.values()) for bits in every if cost({**fixed, **bits}) == best)
    assert sum(found[name] for name in free) == most


def test_one_cast_serves_all_readers() -> None:
    """A value in half precision that three nodes read in float32 is converted once."""
    nodes = [node("MyAdd", "x x", "a", "myops"), *(node("Sin", "a", f"s{n}") for n in range(3)),
             node("Sum", "s0 s1 s2", "y")]  # fmt: skip
    result = myops.onnx.to_half(model(nodes, [value("x", [3])], [value("y")]), keep=["Sin"])
    assert result.casts == 2  # after MyAdd, and at the output
    assert by_name(result)["Sin_s0"].kind == "kept"


def test_constants_out_of_range_stay_float32() -> None:
    numbers = {"large": -1e9, "tiny": 1e-9, "infinite": -np.inf, "fine": 0.5}
    weights = [weight(name, np.float32([number])) for name, number in numbers.items()]
    nodes = [node("Mul", "x fine", "f"), node("Add", "f tiny", "t"), node("Add", "f large", "l"),
             node("Max", "f infinite", "i"), node("Sum", "f t l", "s"), node("Tanh", "i", "z"),
             node("Add", "s z", "y")]  # fmt: skip
    source = model(nodes, [value("x", [3])], [value("y")], weights)
    x = {"x": np.float32([1, 2, 3])}
    result = myops.onnx.to_half(source, runtime="any", data=[x])
    found = by_name(result)
    assert found["Add_l"].kind == "constant"
    assert "'large' reaches 1e+09" in found["Add_l"].reason
    assert found["Add_t"].kind == "constant"
    assert "'tiny' is 1e-09" in found["Add_t"].reason
    assert found["Mul_f"].precision == found["Max_i"].precision == "float16"
    stored = {t.name: t.data_type for t in result.model.graph.initializer}
    assert stored["large"] == stored["tiny"] == TensorProto.FLOAT
    bfloat = by_name(myops.onnx.to_half(source, runtime="any", dtype="bfloat16", data=[x]))
    assert bfloat["Add_l"].precision == bfloat["Add_t"].precision == "bfloat16"


@pytest.mark.parametrize(("number", "half"), [(0.5, True), (-1e9, False), (1e-9, False)])
def test_constant_of_shape_out_of_range_stays_float32(number: float, half: bool) -> None:
    """ConstantOfShape holds its number in an attribute."""
    filled = node("ConstantOfShape", "shape", "c", value=numpy_helper.from_array(
        np.float32([number]), "filled"))  # fmt: skip
    nodes = [filled, node("Mul", "x x", "m"), node("Add", "m c", "y")]
    source = model(nodes, [value("x", [3])], [value("y")], [weight("shape", np.int64([3]))])
    result = myops.onnx.to_half(source, runtime="any")
    check(source, result)
    found = by_name(result)["ConstantOfShape_c"]
    assert found.precision == ("float16" if half else "float32")
    assert found.kind == ("" if half else "constant")


def test_values_out_of_range_stay_float32() -> None:
    """x * 300 * 300 overflows float16 on the way to a sum that does not."""
    weights = [weight("w", np.float32([300])), weight("v", np.float32([1e-4]))]
    nodes = [node("Mul", "x w", "a"), node("Mul", "a w", "b"), node("Mul", "b v", "y")]
    source = model(nodes, [value("x", [3])], [value("y")], weights)
    result = myops.onnx.to_half(source, runtime="any", data=[{"x": np.float32([1, 2, 3])}])
    found = by_name(result)
    assert found["Mul_b"].kind == found["Mul_y"].kind == "range"
    assert "'b' reaches 2.7e+05" in found["Mul_b"].reason
    assert result.losses["y"] < 1e-3


def test_nodes_that_lose_accuracy_stay_float32() -> None:
    """The small difference of two large numbers."""
    nodes = [node("Add", "x large", "a"), node("Sub", "a large", "d"), node("Tanh", "d", "y")]
    weights = [weight("large", np.float32([1000]))]
    source = model(nodes, [value("x", [64])], [value("y")], weights)
    x = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    result = myops.onnx.to_half(source, runtime="any", data=[{"x": x}])
    found = by_name(result)
    assert found["Sub_d"].kind == "accuracy"
    assert "alone it loses" in found["Sub_d"].reason
    assert found["Sub_d"].loss > 0.004
    loose = myops.onnx.to_half(source, runtime="any", data=[{"x": x}], layer_loss=1.0)
    assert by_name(loose)["Sub_d"].precision == "float16"
    assert found["Add_a"].kind == "accuracy"  # its result is rounded
    assert "rounding what it makes loses" in found["Add_a"].reason
    assert loose.losses["y"] > 0.05
    assert result.losses["y"] < 2e-3


def test_max_loss_is_kept_with_few_nodes_in_float32() -> None:
    source, data = network(), [{"x": X}]
    free = myops.onnx.to_half(source, runtime="any", keep_io_types=True, data=data)
    bound = 0.7 * free.losses["y"]
    held = myops.onnx.to_half(source, runtime="any", keep_io_types=True, data=data, max_loss=bound)
    assert held.holds
    assert 0 < held.losses["y"] <= bound
    back = [item for item in held.nodes if item.kind == "bound"]
    assert back
    assert any(item.precision == "float16" for item in held.nodes)
    never = myops.onnx.to_half(source, runtime="any", data=data, max_loss=1e-9)
    assert not never.holds
    assert "does not hold with any node in half" in " ".join(never.notes)
    decibels = myops.onnx.to_half(source, runtime="any", data=data, max_loss=40, metric="sqnr")
    assert decibels.holds
    assert decibels.to_dict()["losses"]["y"] > 40


def test_weights_are_shared_between_both_precisions() -> None:
    """One weight that a node in half and one in float32 read."""
    w = (np.random.default_rng(0).standard_normal((32, 32)) / 6).astype(np.float32)
    nodes = [node("MatMul", "x W", "a"), node("MatMul", "a W", "b"), node("Sin", "b", "y")]
    source = model(nodes, [value("x", [2, 32])], [value("y")], [weight("W", w)])
    result = myops.onnx.to_half(source, runtime="any", keep=["MatMul_b"])
    check(source, result)
    kinds = sorted(tensor.data_type for tensor in result.model.graph.initializer)
    assert kinds == [TensorProto.FLOAT, TensorProto.FLOAT16]
    assert result.losses["y"] < 1e-2
    # Because one kernel is missing, one copy in half precision serves both nodes.
    stored = myops.onnx.to_half(source, dtype="bfloat16")
    (tensor,) = stored.model.graph.initializer
    assert tensor.data_type == TensorProto.BFLOAT16
    assert stored.weight_casts == 1


@pytest.mark.parametrize("attribute", ["value", "value_float", "value_floats"])
def test_constant_nodes_are_converted(attribute: str) -> None:
    given = {"value": weight("", np.float32([[0.25]])), "value_float": 0.25,
             "value_floats": [0.25]}[attribute]  # fmt: skip
    nodes = [node("Constant", "", "c", **{attribute: given}), node("Mul", "x c", "m"),
             node("Sin", "c", "s"), node("Add", "m s", "y")]  # fmt: skip
    source = model(nodes, [value("x", [1, 3])], [value("y")])
    for keep in ([], ["Sin"]):
        result = myops.onnx.to_half(source, runtime="any", keep=keep)
        check(source, result)
        assert result.losses["y"] < 1e-3


def test_a_model_in_half_precision_stays_unchanged() -> None:
    once = myops.onnx.to_half(network(), runtime="any")
    feed = {"x": X.astype(np.float16)}
    twice = myops.onnx.to_half(once.model, runtime="any", data=[feed])
    assert (twice.casts, twice.nodes) == (0, [])
    assert twice.losses == {"y": 0.0}
    assert [n.op_type for n in twice.model.graph.node] == [n.op_type for n in once.model.graph.node]
    mixed = myops.onnx.to_half(network(), keep_io_types=True)
    again = myops.onnx.to_half(mixed.model, keep_io_types=True, data=[{"x": X}])
    check(mixed.model, again)
    assert again.losses["y"] < 1e-3


def test_integers_and_booleans_keep_their_type() -> None:
    weights = [weight("table", np.random.default_rng(0).random((9, 4), np.float32)),
               weight("four", np.float32(4))]  # fmt: skip
    nodes = [node("Gather", "table ids", "e"), node("Cast", "mask", "m", to=1),
             node("Mul", "e m", "p"), node("ReduceSum", "p", "t", keepdims=0),
             node("Greater", "t four", "big"), node("Cast", "ids", "f", to=1),
             node("Add", "p f", "y")]  # fmt: skip
    inputs = [value("ids", [3, 1], INT64), value("mask", [3, 1, 1], BOOL)]
    source = model(nodes, inputs, [value("y"), value("big", None, BOOL)], weights)
    feed = {"ids": np.int64([[1], [2], [8]]), "mask": np.array([1, 0, 1], bool).reshape(3, 1, 1)}
    for dtype in HALVES:
        result = myops.onnx.to_half(source, runtime="any", dtype=dtype, data=[feed])
        check(source, result)
        assert result.losses["big"] == 0
        kinds = [i.type.tensor_type.elem_type for i in result.model.graph.input]
        assert kinds == [INT64, BOOL]
    casts = {n.output[0]: n.attribute[0].i for n in result.model.graph.node if n.op_type == "Cast"}
    assert casts["m"] == TensorProto.BFLOAT16  # converts to bfloat16 itself, without a second cast


def test_functions_are_inlined_and_bodies_kept() -> None:
    inner = helper.make_function(
        "mine", "Block", ["a"], ["b"],
        [helper.make_node("MyAdd", ["a", "a"], ["m"], domain="myops"),
         helper.make_node("Relu", ["m"], ["b"])],
        [helper.make_opsetid("", 20), helper.make_opsetid("myops", 1)],
    )  # fmt: skip
    nodes = [node("Block", "x", "h", "mine"), node("Block", "h", "y", "mine")]
    source = model(nodes, [value("x", [3])], [value("y", [3])], functions=[inner])
    result = myops.onnx.to_half(source, runtime="any")
    check(source, result)
    assert result.losses["y"] < 1e-3
    assert sum(item.op_type == "myops::MyAdd" for item in result.nodes) == 2
    portable = myops.onnx.add_function_bodies(network())
    halved = myops.onnx.to_half(portable, keep_io_types=True)
    assert any(map(scopes.is_body, halved.model.functions))

    alone = onnxruntime.InferenceSession(halved.model.SerializeToString())  # without our library
    (got,) = alone.run(None, {"x": X})
    (expected,) = run(network(), {"x": X})
    assert relative_l2(expected, got) < 2e-3


def test_nodes_to_keep_that_do_not_exist_are_refused() -> None:
    source = model([node("Sin", "x", "y")], [value("x", [3])], [value("y")])
    text = (
        "half: keep: among the nodes that could be half there is no name or type 'nothing'; the "
        "names or types are ::Sin, Sin, Sin_y."
    )
    with pytest.raises(ValueError, match="half: keep") as caught:
        myops.onnx.to_half(source, keep=["nothing"])
    assert str(caught.value) == text
    with pytest.raises(ValueError, match="Did you mean 'Sin_y'"):
        myops.onnx.to_half(source, keep=["Sinn_y"])


def test_unknown_ops_are_refused() -> None:
    nodes = [node("Sin", "x", "s"), node("Foo", "s", "y", "acme")]
    source = model(nodes, [value("x", [3])], [value("y", [3])])
    source.opset_import.append(helper.make_opsetid("acme", 1))
    with pytest.raises(ValueError, match=r"'Foo_y' \(acme::Foo\).*'acme'.*op_library.*--library"):
        myops.onnx.to_half(source)
    bad = model([node("Sine", "x", "y")], [value("x", [3])], [value("y", [3])])
    with pytest.raises(ValueError, match=r"'Sine_y' \(Sine\): opset 20 of ai.onnx has no such op"):
        myops.onnx.to_half(bad)


def test_an_op_without_float16_stays_float32() -> None:
    """Its neighbours become half precision nevertheless."""
    nodes = [node("Tanh", "x", "t"), node("NonMaxSuppression", "boxes scores", "n"),
             node("Sin", "t", "y")]  # fmt: skip
    inputs = [value("x", [3]), value("boxes", [1, 2, 4]), value("scores", [1, 1, 2])]
    source = model(nodes, inputs, [value("y"), value("n", None, INT64)])
    result = myops.onnx.to_half(source, runtime="any")
    check(source, result)
    found = by_name(result)
    assert found["NonMaxSuppression_n"].reason == "its definition has no float16"
    assert found["Tanh_t"].precision == "float16"
