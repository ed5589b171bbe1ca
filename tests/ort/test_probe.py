"""What ONNX Runtime passes to a kernel: attributes and optional inputs; and exceptions of a kernel.
Tested with tests/native/probe_op.cpp, in a library of its own with another domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import myops.ort

X = np.arange(6, dtype=np.float32).reshape(2, 3)
MORE = {"hints": np.float64([5, 6]), "mask": np.ones(2, np.float32), "weight": np.float64([1])}
DEFAULTS = [0, 7, 0.5, 4, 1, 1, 2, 0.25]  # flag integer real len(text) inputs ints... floats...


def probe_session(
    library: str, inputs: tuple[str, ...] = ("x",), attributes: Any = None
) -> onnxruntime.InferenceSession:
    node = helper.make_node("Probe", list(inputs), ["y", "report"], domain="probe")
    for name, value in (attributes or {}).items():
        empty = isinstance(value, onnx.AttributeProto)
        node.attribute.append(value if empty else helper.make_attribute(name, value))
    kinds = {"x": TensorProto.FLOAT, "mask": TensorProto.FLOAT}
    graph = helper.make_graph(
        [node],
        "probe",
        [
            helper.make_tensor_value_info(
                name, kinds.get(name, TensorProto.DOUBLE), ["N", 3] if name == "x" else ["K"]
            )
            for name in inputs
            if name
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("report", TensorProto.DOUBLE, None),
        ],
    )
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("probe", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return myops.ort.session(model, session_options=options, libraries=[library])


def report(session: onnxruntime.InferenceSession) -> list[float]:
    feeds = {"x": X, **MORE}
    y, numbers = session.run(None, {item.name: feeds[item.name] for item in session.get_inputs()})
    assert y.tolist() == X.tolist()
    return numbers.tolist()


def test_absent_attributes_have_their_defaults(probe_library: str) -> None:
    session = probe_session(probe_library)
    assert report(session) == DEFAULTS
    assert [output.shape for output in session.get_outputs()] == [["N", 3], [8]]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"flag": 1}, [1, *DEFAULTS[1:]]),
        ({"flag": 0}, DEFAULTS),
        ({"integer": -(2**53)}, [0, -(2**53), *DEFAULTS[2:]]),
        ({"real": 0.1}, [0, 7, float(np.float32(0.1)), *DEFAULTS[3:]]),
        ({"real": float("-inf")}, [0, 7, -np.inf, *DEFAULTS[3:]]),
        ({"text": ""}, [0, 7, 0.5, 0, *DEFAULTS[4:]]),
        ({"text": "grüße"}, [0, 7, 0.5, 7, *DEFAULTS[4:]]),  # bytes of UTF-8
        ({"choice": "right"}, DEFAULTS),
        ({"ints": [3, -4, 5]}, [*DEFAULTS[:5], 3, -4, 5, 0.25]),
        ({"floats": [1.5, -2.5]}, [*DEFAULTS[:7], 1.5, -2.5]),
        (
            {"ints": helper.make_attribute("ints", [], attr_type=onnx.AttributeProto.INTS)},
            [*DEFAULTS[:5], 0.25],
        ),
        (
            {"floats": helper.make_attribute("floats", [], attr_type=onnx.AttributeProto.FLOATS)},
            DEFAULTS[:7],
        ),
        ({"unheard_of": 3}, DEFAULTS),  # ONNX Runtime does not tell a kernel
    ],
)
def test_attributes_reach_the_kernel(
    probe_library: str, attributes: dict[str, Any], expected: list[float]
) -> None:
    session = probe_session(probe_library, attributes=attributes)
    assert report(session) == expected
    assert session.get_outputs()[1].shape == [len(expected)]


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"flag": 2}, "flag: got 2, expected 0 or 1"),
        ({"flag": 1.0}, "flag: got a float, expected an int (0 or 1)"),
        ({"integer": 3.0}, "integer: got a float, expected an int"),
        ({"integer": [3]}, "integer: got a list of ints, expected an int"),
        ({"real": 3}, "real: got an int, expected a float"),
        ({"real": "3"}, "real: got a string, expected a float"),
        ({"text": 3}, "text: got an int, expected a string"),
        ({"text": ["a", "b"]}, "text: got a list of strings, expected a string"),
        ({"ints": 3}, "ints: got an int, expected a list of ints"),
        ({"ints": [1.5]}, "ints: got a list of floats, expected a list of ints"),
        ({"floats": [1, 2]}, "floats: got a list of ints, expected a list of floats"),
        ({"floats": 1.5}, "floats: got a float, expected a list of floats"),
        (
            {"real": onnx.numpy_helper.from_array(np.ones(1))},
            "real: got a tensor, expected a float",
        ),
        ({"choice": "up"}, 'choice: got "up", expected one of "left", "right"'),
        ({"text": "x" * (2**20 + 1)}, "text: got 1048578 characters, expected at most 1048576"),
        ({"ints": [0] * (2**20 + 1)}, "ints: got 1048577 elements, expected at most 1048576"),
        ({"floats": [0.5] * (2**20 + 1)}, "floats: got 1048577 elements, expected at most"),
    ],
)
def test_wrong_attributes_are_refused_when_the_model_is_loaded(
    probe_library: str, attributes: dict[str, Any], text: str
) -> None:
    with pytest.raises(Exception) as failure:  # noqa: PT011  # onnxruntime's own types
        probe_session(probe_library, attributes=attributes)
    assert f"probe: {text}" in str(failure.value)


@pytest.mark.parametrize(
    ("inputs", "bits", "hints"),
    [
        (("x", "hints"), 3, [5, 6]),
        (("x", "", "mask"), 5, []),
        (("x", "", "", "weight"), 9, []),
        (("x", "hints", "", "weight"), 11, [5, 6]),
        (("x", "hints", "mask", "weight"), 15, [5, 6]),
        (("x", "", "", ""), 1, []),
    ],
)
def test_optional_inputs_reach_the_kernel(
    probe_library: str, inputs: tuple[str, ...], bits: int, hints: list[float]
) -> None:
    expected = [*DEFAULTS[:4], bits, *DEFAULTS[5:], *hints]
    assert report(probe_session(probe_library, inputs)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("throw", "the kernel gave up"),
        ("throw in a piece", "piece 3 gave up"),
        ("exhaust memory", "out of memory"),
    ],
)
def test_exceptions_become_statuses(probe_library: str, text: str, message: str) -> None:
    session = probe_session(probe_library, attributes={"text": text})
    for _ in range(2):
        with pytest.raises(Exception, match=message) as failure:
            report(session)
        assert type(failure.value).__name__ == "RuntimeException"
