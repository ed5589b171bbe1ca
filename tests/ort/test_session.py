"""Sessions with our nodes: shapes, refusals, threads, memory, subgraphs, function bodies."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from ort_models import FLOAT, add_model, model_of, run_model
from runtimes import assert_equal_bits, random_array, run_numpy

import myops.ort

# ---- Shapes.


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (["N", 3], [3], ["N", 3]),
        (["N", 1, 4], ["M", 1], ["N", "M", 4]),
        (["N"], [7], [7]),
        ([2, "N"], ["K", 1, 1], ["K", 2, "N"]),
        ([0, 4], [1, 4], [0, 4]),
    ],
)
def test_shapes_are_inferred_with_dimension_names(
    a: list[Any], b: list[Any], expected: list[Any]
) -> None:
    assert myops.ort.session(add_model(a, b)).get_outputs()[0].shape == expected


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    onnx.save(add_model([3], [3]), tmp_path / "model.onnx")
    for name, hint in (("modle.onnx", ". Did you mean 'model.onnx'?"), ("none/model.onnx", ".")):
        path = tmp_path / name
        for given in (path, str(path)):
            with pytest.raises(FileNotFoundError) as caught:
                myops.ort.session(given)
            assert str(caught.value) == f"no such file: {path}{hint}"


UNKNOWN = {
    "named_librarys": r"neither .* has\. Did you mean '(named_)?libraries'",
    "sess_options": "called session_options here",
    "intra_op_num_threads": r"attribute of onnxruntime\.SessionOptions",
    "colour": "neither it nor onnxruntime.InferenceSession has",
}


@pytest.mark.parametrize("make", [myops.ort.session, myops.ort.pyop_session])
@pytest.mark.parametrize(("name", "said"), UNKNOWN.items())
def test_an_argument_that_nothing_reads_is_refused(make: Any, name: str, said: str) -> None:
    with pytest.raises(TypeError, match=f"{make.__name__}: got the argument '{name}'.*{said}"):
        make(add_model([3], [3]), **{name: None})


def test_arguments_of_onnxruntime_are_passed_on() -> None:
    found = myops.ort.session(
        add_model([3], [3]), provider_options=[{}], disabled_optimizers=[], enable_fallback=0
    )
    assert found.get_inputs()


def test_unknown_lengths_get_names_of_their_own() -> None:
    session = myops.ort.session(add_model(["N", None], ["M", None]))
    shape = session.get_outputs()[0].shape
    assert len(shape) == 2
    assert len({"N", "M", *shape}) == 4  # two new names
    feeds = {"a": np.ones((1, 5), np.float32), "b": np.ones((4, 5), np.float32)}
    assert session.run(None, feeds)[0].shape == (4, 5)


def test_unknown_ranks_and_scalars_are_accepted() -> None:
    session = myops.ort.session(add_model(None, (2, 3)))
    assert session.get_outputs()[0].shape == []
    row = np.ones((2, 3), np.float32)
    assert session.run(None, {"a": np.ones((4, 1, 1), np.float32), "b": row})[0].shape == (4, 2, 3)
    scalar = myops.ort.session(add_model((), ()))
    result = scalar.run(None, {"a": np.array(2, np.float32), "b": np.array(1, np.float32)})[0]
    assert (result.shape, result.item()) == ((), 5)


def test_initializers_are_constant_unless_a_caller_may_replace_them() -> None:
    constant = np.array([10, 20, 30], np.float32)
    fixed, open_to_all = add_model(["N", 3], ["M"]), add_model(["N", 3], ["M"])
    del fixed.graph.input[1]
    for model in (fixed, open_to_all):
        model.graph.initializer.append(onnx.numpy_helper.from_array(constant, "b"))
    ones = np.ones((2, 3), np.float32)
    for model in (fixed, open_to_all):
        session = myops.ort.session(model)
        for _ in range(2):
            np.testing.assert_array_equal(
                session.run(None, {"a": ones})[0], 2 + constant + 0 * ones
            )
    for other in (np.float32([5]), np.float32([1, 2, 3]), constant):  # another length as well
        result = session.run(None, {"a": ones, "b": other})[0]
        np.testing.assert_array_equal(result, 2 + other + 0 * ones)


# ---- Refusals. Attributes are in test_probe.py.


@pytest.mark.parametrize(
    ("name", "inputs", "attributes"),
    [
        ("my_add", [np.ones((2, 3), np.float32), np.ones(4, np.float32)], {}),
        ("resize", [np.ones((1, 2), np.float32), None, np.float32([1, -2]), None], {}),
        ("resize", [np.ones((1, 2), np.float32), None, np.float32([1]), None], {}),
        ("resize", [np.ones((1, 2), np.float32), None, None, None], {}),
    ],
)
def test_refusals_have_the_text_of_numpy(
    name: str, inputs: list[Any], attributes: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: .*got .*, expected ") as refusal:
        run_numpy(name, inputs, attributes)
    with pytest.raises(Exception, match=re.escape(str(refusal.value))) as failure:
        run_model(name, inputs, attributes)
    assert type(failure.value).__name__ == "InvalidArgument"


# ---- Threads, memory, graphs.


def test_one_session_runs_in_many_threads(rng: np.random.Generator) -> None:
    session = myops.ort.session(add_model(("N", "M"), ("M",)))
    arrays = [random_array(rng, (40 + i, 999), "float32") for i in range(8)]
    row = random_array(rng, (999,), "float32")
    expected = [run_numpy("my_add", [array, row])[0] for array in arrays]

    def work(number: int) -> None:
        which = number % len(arrays)
        result = session.run(None, {"a": arrays[which], "b": row})[0]
        assert_equal_bits(result, expected[which])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))


def test_sessions_are_created_in_many_threads(rng: np.random.Generator) -> None:
    a = random_array(rng, (50, 3), "float32")
    b = random_array(rng, (3,), "float32")
    expected = run_numpy("my_add", [a, b])[0]
    model = add_model().SerializeToString()

    def work(_: int) -> None:
        assert_equal_bits(myops.ort.session(model).run(None, {"a": a, "b": b})[0], expected)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(60)))


def test_results_do_not_depend_on_the_number_of_threads(rng: np.random.Generator) -> None:
    a, b = random_array(rng, (300, 1001), "float32"), random_array(rng, (1001,), "float32")
    expected = run_numpy("my_add", [a, b], threads=1)[0]
    for threads in (1, 2, 5):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = myops.ort.session(add_model(("N", "M"), ("M",)), session_options=options)
        assert_equal_bits(session.run(None, {"a": a, "b": b})[0], expected)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
def test_many_sessions_do_not_leak() -> None:
    script = """
import gc, sys
import numpy as np, myops.ort
model = sys.stdin.buffer.read()
feeds = {"a": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32)}
def memory():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4096
def make(count):
    for _ in range(count):
        myops.ort.session(model).run(None, feeds)
make(50)
before = memory()
make(400)
grown = memory() - before
assert grown < 2 << 20, f"{grown} bytes more after 400 sessions"
maps = open("/proc/self/maps").read()
assert "libmyops_ort" not in maps, "the library stays loaded without a session"
"""
    model = add_model().SerializeToString()
    subprocess.run([sys.executable, "-c", script], input=model, check=True)


def test_nodes_in_branches_and_on_constants() -> None:
    branches = [
        helper.make_graph(
            [helper.make_node("MyAdd", pair, [f"out_{pair[0]}"], domain="myops")],
            "branch",
            [],
            [helper.make_tensor_value_info(f"out_{pair[0]}", FLOAT, None)],
        )
        for pair in (("a", "k"), ("k", "a"))
    ]
    nodes = [
        # Of constants alone: ONNX Runtime computes it when the model is loaded.
        helper.make_node("MyAdd", ["one", "one"], ["k"], domain="myops"),
        helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    one = onnx.numpy_helper.from_array(np.float32([1, 1]), "one")
    inputs = {"c": (TensorProto.BOOL, []), "a": (FLOAT, ["N"])}
    model = model_of(nodes, inputs, {"y": (FLOAT, None)}, initializer=[one])
    for make in (myops.ort.session, myops.ort.pyop_session):
        session = make(model)
        a = np.float32([10, 20])
        assert session.run(None, {"c": np.array(True), "a": a})[0].tolist() == [23, 43]
        assert session.run(None, {"c": np.array(False), "a": a})[0].tolist() == [16, 26]


def test_the_kernel_takes_precedence_over_a_function_body() -> None:
    """A model with a body also runs without our library; with it, the kernel runs."""
    body = helper.make_function(
        "myops",
        "MyAdd",
        ["a", "b"],
        ["c"],
        [helper.make_node("Sub", ["a", "b"], ["c"])],  # wrong on purpose, to tell them apart
        [helper.make_opsetid("", 19)],
    )
    model = add_model()
    model.functions.append(body)
    feeds = {"a": np.float32([[1, 2, 3]]), "b": np.float32([1, 1, 1])}
    plain = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    assert plain.run(None, feeds)[0].tolist() == [[0, 1, 2]]
    for make in (myops.ort.session, myops.ort.pyop_session):
        assert make(model).run(None, feeds)[0].tolist() == [[3, 5, 7]]
