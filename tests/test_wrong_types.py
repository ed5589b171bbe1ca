"""Arguments of wrong types for every public tool: refused by name, with what was expected.

Nothing of this test names an argument: those of each function are found by its signature, so that
a new argument, or a new function, is tried as well.
"""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper

import myops
import myops.batch
import myops.onnx
import myops.ort
from myops import _checked

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(torch.nn.Module):
    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return torch.relu(a)


def example() -> onnx.ModelProto:
    a, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "ay")
    graph = helper.make_graph([helper.make_node("Relu", ["a"], ["y"])], "g", [a], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


ONES = np.ones((2, 3), np.float32)
# Arguments with which each function runs. Those that are left out take a model.
CALLS: dict[str, Callable[[], dict[str, Any]]] = {
    "onnx.add_outputs": lambda: {"model": example(), "names": ["y"]},
    "onnx.compare": lambda: {"model": Net(), "args": (torch.ones(2, 3),), "onnx_model": example()},
    "onnx.compare_files": lambda: {"first": example(), "second": example()},
    "onnx.diff": lambda: {"first": example(), "second": example()},
    "onnx.export": lambda: {"model": Net(), "args": (torch.ones(2, 3),), "exporter": "torchscript"},
    "onnx.opset_matrix": lambda: {"cases": {"a": (Net(), (torch.ones(2, 3),))}, "opsets": [17],
                                  "exporters": ["torchscript"]},
    "onnx.quantize": lambda: {"model": example(), "data": [{"a": ONES}]},
    "onnx.view": lambda: {"model": example(), "browser": False},
    "ort.bench": lambda: {"model": example(), "repeat": 1, "warmup": 0},
    "ort.bundle": lambda: {"model": example(), "folder": "deploy", "check": False},
    "ort.register": lambda: {"session_options": onnxruntime.SessionOptions()},
    "ort.verify": lambda: {"bundle": "folder"},
    "batch.run": lambda: {"model": "model.onnx", "source": "folder", "output": "out"},
    "op_library": lambda: {"package": "myops"},
    "package_stub": lambda: {"package": "myops"},
    "new_package": lambda: {"name": "ours", "directory": "folder"},
}  # fmt: skip
# What these take is decided by torch, or anything: a module, its arguments.
FREE = {("export", "args"), ("compare", "args"), ("compare", "model"), ("export", "model")}
WRONG: list[Any] = [
    3, -1, 2.5, float("nan"), True, "x", b"x", bytearray(b"x"), object(), object, [1], ["x"],
    [None], {"x": 1}, {"a": None}, {"a": "x"}, {"a": {"b": 1}}, {1: 2}, {("a", "b"): 1}, (2, 1),
    Path("folder"), Path("missing"), ONES, np.array("a"), np.float32(2), torch.ones(2), 1j,
    10**400, "a\x00b", "\ud800", ["\ud800"], [["a"]], range(2), onnx.ModelProto(),
]  # fmt: skip
# What the doctor is asked is examined in processes, and the report says what is wrong.
SLOW = ("doctor", "opset_matrix")


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module, names in (
        (myops.onnx, myops.onnx.__all__), (myops.ort, myops.ort.__all__),
        (myops.batch, myops.batch.__all__), (myops, ["op_library", "package_stub", "new_package"]),
    ):  # fmt: skip
        for name in names:
            found = getattr(module, name)
            # What is registered stays; tests/onnx/test_register_symbolic_arguments.py tries it.
            if name == "register_symbolic":
                continue
            if inspect.isfunction(found) and inspect.signature(found).parameters:
                yield f"{module.__name__}.{name}".partition(".")[2], found


FUNCTIONS = dict(functions())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_annotations_can_be_checked(name: str) -> None:
    """No name in them exists for type checkers only, which would refuse everything."""
    function = FUNCTIONS[name]
    assert "call" in function.__code__.co_name, "the function is not decorated by checked()"
    kinds = _checked._kinds(inspect.unwrap(function))
    assert all(_checked._words(kind) for kind in kinds.values())


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        (name, parameter.name)
        for name, function in FUNCTIONS.items()
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
        and (function.__name__, parameter.name) not in FREE
    ],
)
def test_wrong_types(
    name: str, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either the call works, or an error of our own says what was wrong."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    np.save("folder/a.npy", ONES)
    onnx.save(example(), "model.onnx")
    function = FUNCTIONS[name]
    kind = inspect.signature(function).parameters[argument].kind
    for value in WRONG[::4] if function.__name__ in SLOW else WRONG:
        given = CALLS.get(name, lambda: {"model": example()})()
        more = [value] if kind is inspect.Parameter.VAR_POSITIONAL else []
        if not more:
            given[argument] = value
        try:
            result = function(*(given.values() if more else ()), *more, **({} if more else given))
        except Exception as error:
            refused(error, name, argument, value)
        else:
            getattr(result, "close", lambda: None)()


def refused(error: Exception, name: str, argument: str, value: Any) -> None:
    """Fails if an error is one of Python's or of another library, about something inside."""
    what = f"{name}({argument}={value!r}): {type(error).__name__}: {error}"
    if not isinstance(error, TypeError) and "onnxruntime" in type(error).__module__:
        return  # of a model or a library that it does not load
    assert isinstance(error, (TypeError, ValueError, OSError, RuntimeError, ImportError)), what
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    mine = os.path.dirname(myops.__file__)
    if callable(value) and isinstance(error, TypeError):
        return  # it was called
    assert last.startswith(mine), f"{what}\nraised by {last}"
    if isinstance(error, TypeError):
        assert f"{argument}: " in str(error) or "data: " in str(error), what
        assert "expected " in str(error), what


@pytest.mark.parametrize(("call", "text"), [
    (lambda: myops.onnx.lower("model.onnx", ops=["a"], lbraries=["b"]),
     "lower: got an unknown argument"),
    (lambda: myops.batch.run("m.onnx", "x.npy", "out", wrokers=2),
     r"^run: got an unknown argument 'wrokers'\. Did you mean workers\?$"),
    (lambda: myops.onnx.export(torch.nn.Identity(), torch.ones(1), dynamic_axis={}),
     r"^export: got an unknown argument 'dynamic_axis'\. Did you mean dynamic_axes"),
    (lambda: myops.onnx.inspect("m.onnx", zzz=1),
     r"^inspect: got an unknown argument 'zzz'\. It knows model"),
    (lambda: myops.onnx.inspect(), "missing"),
])  # fmt: skip
def test_an_unknown_argument(call: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call()
