"""enable_pyops: our ops as PyOps under their own names. It is for the whole process and cannot be
undone, so each test runs in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime_extensions
import pytest
from onnx import helper
from runtimes import node_model

import myops.ort
from myops import _description
from myops.onnx.schema import attribute_proto

PRELUDE = """
import sys, json
import numpy as np, onnxruntime, onnxruntime_extensions, myops.ort
names = myops.ort.enable_pyops()
assert myops.ort.enable_pyops() == names
models = [bytes.fromhex(text) for text in json.load(sys.stdin)]
def pyop(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
def refusal(call):
    try:
        call()
    except Exception as error:
        return str(error)
    raise AssertionError("not refused")
"""


def in_a_process(script: str, *models: onnx.ModelProto) -> None:
    subprocess.run(
        [sys.executable, "-c", PRELUDE + script],
        input=json.dumps([model.SerializeToString().hex() for model in models]),
        text=True,
        check=True,
    )


@pytest.mark.quick
def test_enable_pyops_returns_all_op_names() -> None:
    expected = [f"myops::{info.onnx_type}" for info in _description.onnx_ops()]
    in_a_process(f"assert names == {expected}")


def test_one_pyop_serves_several_dtypes() -> None:
    dtypes = ["float32", "float64", "int32", "int64"]
    models = [node_model("my_add", [np.ones(2, dtype), np.ones(2, dtype)]) for dtype in dtypes]
    in_a_process(
        f"""
for dtype, model in zip({dtypes}, models):
    a, b = np.array([1, 2], dtype), np.array([3, -4], dtype)
    (c,) = pyop(model).run(None, {{"a": a, "b": b}})
    (native,) = myops.ort.session(model).run(None, {{"a": a, "b": b}})
    assert c.dtype == native.dtype == dtype and c.tolist() == native.tolist() == [5, 0]
""",
        *models,
    )


def packed_resize() -> onnx.ModelProto:
    """A Resize as plain PyOps want it: everything written out, floats and lists as JSON."""
    info = _description.OPS["resize"]
    model = node_model("resize", [np.ones((2, 4), np.float32), None, np.float32([3]), None])
    node = model.graph.node[0]
    node.input[:] = ["X", "none", "scales", "no_size"]
    del node.attribute[:]
    for item in info.attributes:
        value = {"axes": [1], "mode": "linear"}.get(item.name, item.default)
        packed = item.type in ("float", "ints", "floats")
        node.attribute.append(
            helper.make_attribute(item.name, json.dumps(value))
            if packed
            else attribute_proto(item, value)
        )
    for name, kind in (("none", np.float32), ("no_size", np.int64)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.empty(0, kind), name))
    return model


def test_attributes_as_json_are_read() -> None:
    plain = node_model(
        "resize",
        [np.ones((2, 4), np.float32), None, np.float32([3]), None],
        {"axes": [1], "mode": "linear"},
    )
    in_a_process(
        """
feeds = {"X": np.arange(8, dtype=np.float32).reshape(2, 4), "scales": np.float32([3])}
(packed,) = pyop(models[0]).run(None, feeds)
(native,) = myops.ort.session(models[1]).run(None, feeds)
assert packed.shape == (2, 12) and packed.tobytes() == native.tobytes()
# A node that is not packed is refused, not misread.
refusal(lambda: pyop(models[1]))
""",
        packed_resize(),
        plain,
    )


def test_pyops_and_native_ops_in_one_session_are_refused() -> None:
    in_a_process(
        """
library = onnxruntime_extensions.get_library_path()
text = refusal(lambda: myops.ort.session(models[0], libraries=[library]))
assert "after enable_pyops()" in text, text
feeds = {"a": np.float32([1]), "b": np.float32([2])}
assert myops.ort.session(models[0]).run(None, feeds)[0] == 4
assert myops.ort.pyop_session(models[0]).run(None, feeds)[0] == 4
""",
        node_model("my_add", [np.float32([1]), np.float32([1])]),
    )


def test_pyop_sessions_do_not_collide_with_the_native_library() -> None:
    """The private domain of pyop_session does not collide with the native library."""
    model = node_model("my_add", [np.float32([1]), np.float32([1])])
    pair = {"a": np.float32([1]), "b": np.float32([2])}
    library = onnxruntime_extensions.get_library_path()
    assert myops.ort.pyop_session(model).run(None, pair)[0] == 4
    assert myops.ort.session(model, libraries=[library]).run(None, pair)[0] == 4
