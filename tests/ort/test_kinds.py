"""Kinds of attributes in ONNX Runtime: required, optional, lists of strings, floats of 64 bits,
ints from a list, bounds. A file is not trusted: what is wrong is refused when a session is made."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

import myops.ort


def tensor(numbers: Any, dtype: Any = np.float64) -> TensorProto:
    return numpy_helper.from_array(np.array(numbers, dtype))


def texts(*items: str) -> TensorProto:
    return helper.make_tensor("", TensorProto.STRING, [len(items)], [t.encode() for t in items])


def kinds_session(library: str, given: dict[str, Any]) -> onnxruntime.InferenceSession:
    node = helper.make_node("Kinds", ["x"], ["report"], domain="probe")
    for name, value in given.items():
        if isinstance(value, AttributeProto):
            value.name = name
            node.attribute.append(value)
        else:
            node.attribute.append(helper.make_attribute(name, value))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node], "kinds", [info("x", TensorProto.DOUBLE, ["N"])],
        [info("report", TensorProto.DOUBLE, None)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("probe", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return myops.ort.session(model, session_options=options, libraries=[library])


def empty(kind: int) -> AttributeProto:
    return AttributeProto(type=kind)


NEEDED = {"needed": 2}
NOTHING = -1.0


@pytest.mark.parametrize(
    ("given", "report"),
    [
        ({}, [2, 0, 0, 2, 0.1, NOTHING, NOTHING]),
        ({"maybe": 0.5}, [2, 1, 0.5, 2, 0.1, NOTHING, NOTHING]),
        ({"words": ["cde", "", "ab"]}, [2, 0, 0, 5, 0.1, NOTHING, NOTHING]),
        ({"words": texts("cde", "", "ab")}, [2, 0, 0, 5, 0.1, NOTHING, NOTHING]),
        ({"words": empty(AttributeProto.STRINGS)}, [2, 0, 0, 0, 0.1, NOTHING, NOTHING]),
        ({"words": texts()}, [2, 0, 0, 0, 0.1, NOTHING, NOTHING]),
        ({"fine": tensor(1 / 3)}, [2, 0, 0, 2, 1 / 3, NOTHING, NOTHING]),
        ({"fine": tensor(-1e300)}, [2, 0, 0, 2, -1e300, NOTHING, NOTHING]),
        ({"fine": 0.1}, [2, 0, 0, 2, float(np.float32(0.1)), NOTHING, NOTHING]),
        ({"fines": tensor([1 / 3, 0.1])}, [2, 0, 0, 2, 0.1, 1 / 3, 0.1]),
        ({"fines": tensor([])}, [2, 0, 0, 2, 0.1, NOTHING, NOTHING]),
        ({"fines": [0.1, 0.5]}, [2, 0, 0, 2, 0.1, float(np.float32(0.1)), 0.5]),
    ],
)
def test_attributes_of_every_kind_reach_the_kernel(
    probe_library: str, given: dict[str, Any], report: list[float]
) -> None:
    session = kinds_session(probe_library, {**NEEDED, **given})
    (found,) = session.run(None, {"x": np.zeros(7)})
    assert found.tolist() == report


REFUSED = [
    ({"needed": None}, "needed: got nothing, expected an int: the attribute is required"),
    ({"needed": 3}, "needed: got 3, expected one of 1, 2, 4"),
    ({"needed": 2.0}, "needed: got a float, expected an int"),
    ({"needed": [2]}, "needed: got a list of ints, expected an int"),
    ({"needed": tensor(2, np.int64)}, "needed: got a tensor, expected an int"),
    ({"maybe": 0.0}, "maybe: got 0, expected a number above 0 and not above 1"),
    ({"maybe": float("nan")}, "maybe: got nan, expected a number above 0 and not above 1"),
    ({"maybe": tensor(0.5)}, "maybe: got a tensor, expected a float"),
    ({"maybe": empty(AttributeProto.STRINGS)}, "maybe: got a list of strings, expected a float"),
    ({"words": ["ab", "x"]}, 'words: got "x", expected one of "ab", "cde", ""'),
    ({"words": "ab"}, "words: got a string, expected a list of strings"),
    ({"words": 1}, "words: got an int, expected a list of strings"),
    ({"words": [1.5]}, "words: got a list of floats, expected a list of strings"),
    (
        {"words": empty(AttributeProto.INTS)},
        "words: got a list of ints, expected a list of strings",
    ),
    ({"words": empty(AttributeProto.GRAPHS)}, "words: got something else, expected a list of"),
    ({"words": tensor([1.0])}, "words: got a tensor of float64 of shape [1], expected a list of"),
    ({"fine": tensor(1e6)}, "fine: got 1000000, expected a number below 1000000"),
    ({"fine": tensor([0.1])}, "fine: got a tensor of float64 of shape [1], expected a tensor of"),
    ({"fine": tensor(0.1, np.float32)}, "fine: got a tensor of float32 of shape [], expected a"),
    ({"fine": 1}, "fine: got an int, expected a tensor of one float64, without axes"),
    ({"fine": texts("a")}, "fine: got a tensor of string of shape [1], expected a tensor of"),
    ({"fines": tensor(0.1)}, "fines: got a tensor of float64 of shape [], expected a list of"),
    ({"fines": empty(AttributeProto.STRINGS)}, "fines: got a list of strings, expected a list of"),
]


@pytest.mark.parametrize(("given", "text"), REFUSED, ids=[text[:40] for _, text in REFUSED])
def test_wrong_attributes_are_refused_when_the_model_is_loaded(
    probe_library: str, given: dict[str, Any], text: str
) -> None:
    attributes = {**NEEDED, **given}
    attributes = {name: value for name, value in attributes.items() if value is not None}
    with pytest.raises(Exception, match=re.escape(f"kinds: {text}")):
        kinds_session(probe_library, attributes)


def test_attributes_with_external_data_are_refused(probe_library: str) -> None:
    """The file that a tensor names could be any of this computer."""
    outside = TensorProto(data_type=TensorProto.DOUBLE, data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="/etc/hostname")
    with pytest.raises(Exception, match=r"kinds: fine: got|[Ee]xternal"):
        kinds_session(probe_library, {**NEEDED, "fine": outside})
