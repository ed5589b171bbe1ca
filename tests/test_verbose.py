"""MYOPS_VERBOSE=1: a line of JSON for each call, in every runtime; nothing without it."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
import warm

PREFIX = "myops_verbose "
CALLS = """
import numpy as np
import torch
import onnx
from onnx import TensorProto, helper

import myops
import myops.ort
from myops import _numpy_call

a = torch.ones(3, 4)
myops.my_add(a, a)                                     # past the dispatcher
torch.ops.myops.my_add(a, torch.ones(4))               # through it
_numpy_call.call("my_add", [np.ones(5, "f2"), np.ones(1, "f2")])
x = torch.rand(2, 3, 6, 5).contiguous(memory_format=torch.channels_last)
myops.resize(x, scales=[1.0, 1.0, 2.0, 0.5], mode="linear")
try:
    torch.ops.myops.my_add(a, torch.ones(3))
except RuntimeError:
    pass
info = helper.make_tensor_value_info
graph = helper.make_graph(
    [helper.make_node("MyAdd", ["a", "a"], ["c"], domain="myops",
                      name='n"\\n\\x1bmyops_verbose {}')],
    "g", [info("a", TensorProto.FLOAT, [2])], [info("c", TensorProto.FLOAT, [2])],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17),
                                                helper.make_opsetid("myops", 1)], ir_version=8)
myops.ort.session(model).run(None, {"a": np.ones(2, "f4")})
print("done")
"""


def run(setting: str | None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "MYOPS_VERBOSE"}
    if setting is not None:
        environment["MYOPS_VERBOSE"] = setting
    return warm.run("-c", CALLS, env=environment)


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    done = run("1")
    assert done.stdout == "done\n", done.stderr
    printed = done.stderr.splitlines()
    assert all(line.startswith(PREFIX) for line in printed)
    return [json.loads(line.removeprefix(PREFIX)) for line in printed]


@pytest.mark.quick
def test_calls_in_every_runtime_print_a_line(lines: list[dict[str, Any]]) -> None:
    assert [(line["op"], line["runtime"]) for line in lines] == [
        ("my_add", "torch fast call"),
        ("my_add", "torch"),
        ("my_add", "numpy"),
        ("resize", "torch fast call"),
        ("my_add", "torch"),
        ("my_add", "onnxruntime"),
    ]
    assert {line["version"] for line in lines} == {1}
    assert {line["domain"] for line in lines} == {"myops"}


def test_a_line_has_op_inputs_and_outputs(lines: list[dict[str, Any]]) -> None:
    resize = lines[3]
    x, scales = resize["inputs"]
    assert x == {
        "name": "X", "dtype": "float32", "shape": [2, 3, 6, 5], "layout": "channels_last",
    }  # fmt: skip
    assert (scales["name"], scales["values"]) == ("scales", [1, 1, 2, 0.5])
    assert resize["outputs"][0]["shape"] == [2, 3, 12, 2]
    assert resize["attributes"] == {"mode": "linear"}
    assert lines[2]["inputs"][1] == {
        "name": "b", "dtype": "float16", "shape": [1], "layout": "contiguous",
    }  # fmt: skip


def test_a_line_has_kernels_and_times(lines: list[dict[str, Any]]) -> None:
    for line in lines[:4] + lines[5:]:
        assert line["isa"] in ("avx512", "avx2", "neon", "portable")
        assert line["plan"]
        assert all(step["kernel"] and step["axis"] for step in line["plan"])
        assert line["threads"] >= 1
        assert line["pieces"] >= 1
        assert 0 < line["ms"] < 10_000
        assert "error" not in line
    assert [line["start"] for line in lines] == sorted(line["start"] for line in lines)


def test_a_refused_call_prints_its_error(lines: list[dict[str, Any]]) -> None:
    refused = lines[4]
    assert "length 3 on axis 1" in refused["error"]
    assert refused["plan"] == refused["outputs"] == []
    assert [item["shape"] for item in refused["inputs"]] == [[3, 4], [3]]


def test_a_node_name_cannot_forge_a_line(lines: list[dict[str, Any]]) -> None:
    assert lines[5]["node"] == 'n"\n\x1bmyops_verbose {}'


@pytest.mark.parametrize("setting", [None, "0", ""])
def test_nothing_is_printed_without_the_variable(setting: str | None) -> None:
    done = run(setting)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_a_wrong_setting_is_refused() -> None:
    done = run("yes")
    assert 'MYOPS_VERBOSE: got "yes", expected 0 or 1' in done.stderr
