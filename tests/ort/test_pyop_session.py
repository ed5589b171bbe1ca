"""pyop_session: equal bits through PyOps, and workarounds for limits of PyOps."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from runtimes import assert_equal_bits, feeds, node_model, random_array, run_numpy, run_ort

import myops.ort
from myops import _description


def run_pyop(name: str, inputs: list[Any], attributes: Any = None) -> list[np.ndarray]:
    session = myops.ort.pyop_session(node_model(name, inputs, attributes))
    results = session.run(None, feeds(name, inputs))
    if any(array is not None and str(array.dtype) == "bfloat16" for array in inputs):
        return [array.astype(ml_dtypes.bfloat16) for array in results]
    return results


def assert_pyop_parity(name: str, inputs: list[Any], attributes: Any = None) -> None:
    expected = run_numpy(name, inputs, attributes)
    for other in (run_pyop(name, inputs, attributes), run_ort(name, inputs, attributes)):
        for actual, wanted in zip(other, expected, strict=True):
            assert_equal_bits(actual, wanted, name)


@pytest.mark.parametrize("dtype", _description.OPS["my_add"].types["T"])
@pytest.mark.parametrize(
    ("a", "b"), [((), ()), ((3, 1, 4), (5, 1)), ((0, 4), (1, 4)), ((129, 257), (257,))]
)
def test_my_add_has_equal_bits(
    rng: np.random.Generator, a: tuple[int, ...], b: tuple[int, ...], dtype: str
) -> None:
    assert_pyop_parity("my_add", [random_array(rng, a, dtype), random_array(rng, b, dtype)])


@pytest.mark.parametrize("dtype", _description.OPS["resize"].types["T"])
@pytest.mark.parametrize(
    ("roi", "scales", "sizes", "attributes"),
    [
        (
            None,
            np.float32([1, 1, 2.5, 1.3]),
            None,
            {"mode": "cubic", "cubic_coeff_a": -0.512345678},
        ),
        (None, None, np.int64([1, 2, 9, 4]), {"mode": "linear", "antialias": True}),
        (None, np.float64([2.5, 1.3]), None, {"axes": [2, 3], "torch_arithmetic": True}),
        (
            np.float16([0.1, 0.2, 0.8, 0.9]),
            np.float32([2, 3]),
            None,
            {
                "axes": [-2, -1],
                "mode": "linear",
                "coordinate_transformation_mode": "tf_crop_and_resize",
                "extrapolation_value": 7.1,
            },
        ),
    ],
)
def test_resize_has_equal_bits(
    rng: np.random.Generator, roi: Any, scales: Any, sizes: Any, attributes: Any, dtype: str
) -> None:
    x = random_array(rng, (1, 2, 5, 7), dtype)
    assert_pyop_parity("resize", [x, roi, scales, sizes], attributes)


def test_special_values_have_equal_bits() -> None:
    special = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e38, -1e38, 1e-45])
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        with np.errstate(over="ignore"):
            a, b = (grid.astype(dtype) for grid in np.meshgrid(special, special))
        assert_pyop_parity("my_add", [a, b])


def test_the_model_is_not_changed() -> None:
    model = node_model("my_add", [np.float16([1]), np.float16([2])])
    before = model.SerializeToString(deterministic=True)
    myops.ort.pyop_session(model)
    assert model.SerializeToString(deterministic=True) == before


def test_nodes_inside_functions_run_as_pyops() -> None:
    """A function of another domain uses our node; the body of our own node is not run."""
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("myops", 1)]
    ours = helper.make_function(
        "myops", "MyAdd", ["a", "b"], ["c"], [helper.make_node("Sub", ["a", "b"], ["c"])], opsets
    )
    theirs = helper.make_function(
        "theirs",
        "Twice",
        ["x"],
        ["y"],
        [helper.make_node("MyAdd", ["x", "x"], ["y"], domain="myops")],
        opsets,
    )
    graph = helper.make_graph(
        [helper.make_node("Twice", ["x"], ["y"], domain="theirs")],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)],
    )
    model = helper.make_model(
        graph,
        functions=[ours, theirs],
        opset_imports=[*opsets, helper.make_opsetid("theirs", 1)],
        ir_version=10,
    )
    session = myops.ort.pyop_session(model)
    assert session.run(None, {"x": np.float16([1, 2])})[0].tolist() == [3, 6]


# ---- Refusals.


def test_a_refusal_is_raised_and_the_session_stays_usable() -> None:
    model = node_model("my_add", [np.ones((2, 3), np.float32), np.ones(3, np.float32)])
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "N"
    model.graph.node.append(helper.make_node("Sqrt", ["c"], ["d"]))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = myops.ort.pyop_session(model, session_options=options)
    a = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"^my_add: b: got length 4 on axis 1, expected 1 or 3"):
        session.run(None, {"a": a, "b": np.ones(4, np.float32)})
    assert session.run(None, {"a": a, "b": np.ones(3, np.float32)})[0].tolist() == [[3] * 3] * 2
    binding = session.io_binding()
    binding.bind_cpu_input("a", a)
    binding.bind_cpu_input("b", np.ones(4, np.float32))
    binding.bind_output("c")
    with pytest.raises(ValueError, match=r"^my_add: b: got length 4"):
        session.run_with_iobinding(binding)
    with pytest.raises(NotImplementedError, match="run_async"):
        session.run_async(None, {}, print, None)


def test_a_refusal_in_constant_folding_is_raised() -> None:
    constants = {"a": np.ones(3, np.float32), "b": np.ones(4, np.float32)}
    graph = helper.make_graph(
        [helper.make_node("MyAdd", ["a", "b"], ["c"], domain="myops")],
        "test",
        [],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("myops", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    with pytest.raises(ValueError, match=r"^my_add: b: got length 4"):
        myops.ort.pyop_session(model).run(None, {})


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"mode": 3}, "mode: got an int, expected a string"),
        ({"antialias": 1.0}, "antialias: got a float, expected an int (0 or 1)"),
        ({"antialias": 2}, "antialias: got 2, expected 0 or 1"),
        ({"axes": 3}, "axes: got an int, expected a list of ints"),
        ({"mode": "up"}, 'mode: got "up", expected one of'),
    ],
)
def test_wrong_attributes_are_refused_with_the_same_text(
    attributes: dict[str, Any], text: str
) -> None:
    inputs = [np.ones((1, 2), np.float32), None, np.float32([1, 2]), None]
    for run in (run_pyop, run_ort):
        with pytest.raises(Exception) as failure:  # noqa: PT011  # onnxruntime's own types
            run("resize", inputs, attributes)
        assert f"resize: {text}" in str(failure.value)


def test_wrong_types_are_refused() -> None:
    model = node_model("my_add", [np.float32([1]), np.float32([1])])
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    with pytest.raises(ValueError, match=r"^my_add: a: got dtype uint8, expected float16, "):
        myops.ort.pyop_session(model)
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    with pytest.raises(ValueError, match=r"^my_add: b: got dtype float32, expected float64"):
        myops.ort.pyop_session(model)
    model.graph.node.insert(0, helper.make_node("Mystery", ["a"], ["m"], domain="elsewhere"))
    model.graph.node[1].input[0] = "m"
    model.opset_import.append(helper.make_opsetid("elsewhere", 1))
    with pytest.raises(ValueError, match=r"^my_add: a: got a tensor of unknown type"):
        myops.ort.pyop_session(model)


def test_a_missing_package_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime_extensions", None)
    with pytest.raises(ImportError, match=r"pip install 'myops\[pyops\]'"):
        myops.ort.pyop_session(node_model("my_add", [np.float32([1]), np.float32([1])]))


def test_calls_from_many_threads(rng: np.random.Generator) -> None:
    b = random_array(rng, (300,), "float32")
    arrays = [random_array(rng, (200, 300), "float32") for _ in range(4)]
    expected = [run_numpy("my_add", [a, b])[0] for a in arrays]
    sessions = [myops.ort.pyop_session(node_model("my_add", [arrays[0], b])) for _ in range(2)]

    def work(number: int) -> None:
        which = number % 4
        result = sessions[number % 2].run(None, {"a": arrays[which], "b": b})[0]
        assert_equal_bits(result, expected[which])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(60)))
