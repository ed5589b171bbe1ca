"""`help()` of every public name has an example, and the example runs.

An example may use np, torch, onnx, onnxruntime, myops and the names of its own module, the arrays
`x` and `image`, and the files that `files` writes; it runs in a folder of its own.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import onnxruntime_extensions
import pytest
import torch
import warm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from onnx import TensorProto, helper, numpy_helper
from torchvision_stand_in import stand_in, vision_deform_conv2d

import myops
import myops.onnx

KEY = Ed25519PrivateKey.generate()
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
# Run elsewhere, because it needs a package that is compiled: name -> test file.
ELSEWHERE = {"myops.op_library": "test_your_own_op.py"}
# Names whose example changes the process: it runs in a process of its own.
FOR_THE_PROCESS = {
    "myops.ort.enable_pyops", "myops.onnx.register_interpolate", "myops.onnx.register_symbolic",
}  # fmt: skip
PROGRAM = """
import doctest, sys
import onnxruntime, onnxruntime_extensions, torch
import myops, myops.onnx, myops.ort
test = doctest.DocTestParser().get_doctest({text!r}, globals(), {name!r}, None, 0)
sys.exit(doctest.DocTestRunner(optionflags={flags}).run(test).failed)
"""


def public() -> dict[str, Any]:
    """The functions, classes and modules that `dir` shows for `myops` and its modules; not for
    modules within modules, such as myops.onnx.arrays."""
    found: dict[str, Any] = {"myops": myops}
    for name in _names(myops):
        found[f"myops.{name}"] = value = getattr(myops, name)
        if isinstance(value, ModuleType):
            found.update(
                {f"myops.{name}.{inner}": getattr(value, inner) for inner in _names(value)}
            )
    kinds = (ModuleType, type)
    return {name: value for name, value in found.items()
            if isinstance(value, kinds) or inspect.isroutine(value)}  # fmt: skip


def _names(module: ModuleType) -> list[str]:
    return [name for name in dir(module) if not name.startswith("__")]


PUBLIC = public()


def test_public_names_are_found() -> None:
    """Otherwise the test below could pass without testing anything."""
    for name in ("myops.resize", "myops.Input", "myops.onnx.export", "myops.onnx.GraphError",
                 "myops.ort.session", "myops.nn.MyAdd", "myops.testing.checks",
                 "myops.build.extensions", "myops.onnx.arrays"):  # fmt: skip
        assert name in PUBLIC
    assert set(ELSEWHERE) <= set(PUBLIC)


@pytest.fixture(scope="module", autouse=True)
def _vision() -> Iterator[None]:
    with stand_in():
        yield


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """upscale.onnx, opset8.onnx: our Resize; portable.onnx: with a function body; resize.onnx: that
    of ONNX; add.onnx: our MyAdd; linear.onnx: a * x + b; model.onnx: convolutions; flat.onnx: a
    Reshape to a constant shape; key.pem, maker.pem: a pair of keys."""
    monkeypatch.chdir(tmp_path)
    pem, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    secret = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    Path("key.pem").write_bytes(KEY.private_bytes(pem, *secret))
    Path("maker.pem").write_bytes(KEY.public_key().public_bytes(pem, form))
    image = _value("x", 1, 3, "h", "w"), _value("y", 1, 3, "H", "W")
    scales = _value("scales", 4)
    _save("upscale", [helper.make_node("Resize", ["x", "", "scales"], ["y"], domain="myops")],
          [image[0], scales], image[1])  # fmt: skip
    myops.onnx.add_function_bodies("upscale.onnx", "portable.onnx")
    old = onnx.load("upscale.onnx")
    old.opset_import[0].version = 8
    onnx.save(old, "opset8.onnx")
    _save("resize", [helper.make_node("Resize", ["x", "", "scales"], ["y"], "Resize_3")],
          [image[0], scales], image[1])  # fmt: skip
    _save("add", [helper.make_node("MyAdd", ["a", "b"], ["y"], domain="myops")],
          [_value("a", 3), _value("b", 3)], _value("y", 3))  # fmt: skip
    _save("linear", [helper.make_node("Mul", ["a", "x"], ["product"], "mul"),
                     helper.make_node("Add", ["product", "b"], ["y"], "add")],
          [_value(name, 2, 4) for name in "axb"], _value("y", 2, 4))  # fmt: skip
    weight = numpy_helper.from_array(np.full((3, 3, 1, 1), 0.1, np.float32))
    nodes = []
    for number, (given, made) in enumerate((("x", "relu1"), ("relu1", "relu2")), 1):
        nodes += [
            helper.make_node("Constant", [], [f"weight{number}"], value=weight),
            helper.make_node("Conv", [given, f"weight{number}"], [f"conv{number}"]),
            helper.make_node("Relu", [f"conv{number}"], [made]),
        ]
    _save("model", nodes, [_value("x", 1, 3, 8, 8)], _value("relu2", 1, 3, 8, 8))
    shape = helper.make_node("Constant", [], ["shape"], value_ints=[2, 12])
    _save("flat", [shape, helper.make_node("Reshape", ["x", "shape"], ["y"])],
          [_value("x", 2, 3, 4)], _value("y", 2, 12))  # fmt: skip


def _value(name: str, *dims: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def _save(title: str, nodes: list[Any], inputs: list[Any], output: Any) -> None:
    graph = helper.make_graph(nodes, title, inputs, [output])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("myops", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), f"{title}.onnx")


def example(name: str) -> doctest.DocTest:
    value = PUBLIC[name]
    home = value if isinstance(value, ModuleType) else _module(name.rpartition(".")[0])
    x = np.random.default_rng(0).random((1, 3, 8, 8), np.float32)
    names = {
        "np": np, "torch": torch, "onnx": onnx, "onnxruntime": onnxruntime, "os": os,
        "onnxruntime_extensions": onnxruntime_extensions, "x": x, "image": torch.from_numpy(x),
        "torchvision": SimpleNamespace(ops=SimpleNamespace(deform_conv2d=vision_deform_conv2d)),
        **{item: getattr(home, item) for item in dir(home) if not item.startswith("__")},
        "myops": myops,
    }  # fmt: skip
    return doctest.DocTestParser().get_doctest(value.__doc__ or "", names, name, None, 0)


def _module(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.mark.parametrize("name", PUBLIC)
def test_example_of_every_public_name_runs(name: str) -> None:
    test = example(name)
    assert test.examples, f"the docstring of {name} has no example (lines with >>>)"
    if name in ELSEWHERE:
        assert f'"{name}"' in (Path(__file__).parent / ELSEWHERE[name]).read_text()
        return
    if name in FOR_THE_PROCESS:
        program = PROGRAM.format(text=PUBLIC[name].__doc__, name=name, flags=FLAGS)
        done = warm.run("-c", program)
        assert done.returncode == 0, done.stdout + done.stderr
        return
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append)
    assert result.failed == 0, "\n" + "".join(said)


@pytest.mark.parametrize("name", [name for name, item in PUBLIC.items()
                                  if isinstance(item, ModuleType)])  # fmt: skip
def test_dir_shows_public_names_only(name: str) -> None:
    module = PUBLIC[name]
    names = dir(module)
    assert not [item for item in names if item.startswith("_") and not item.startswith("__")]
    imported = {item for item in names if isinstance(getattr(module, item), ModuleType)
                and not getattr(module, item).__name__.startswith("myops")}  # fmt: skip
    assert not imported
    assert not {"annotations", "Any", "TYPE_CHECKING", "Sequence", "Tensor"} & {*names}
    for item in names:
        value = getattr(module, item)
        home = getattr(value, "__module__", None) or "myops"
        assert str(home).startswith("myops"), item
    declared = getattr(module, "__all__", None)
    assert declared is None or set(declared) <= set(names)


SECTION = re.compile(r"^(Args|Attributes):\n((?:    .*\n|\n)+)", re.MULTILINE)
ITEM = re.compile(r"^    (\w[\w, ]*): ", re.MULTILINE)


@pytest.mark.parametrize("name", [name for name, item in PUBLIC.items()
                                  if not isinstance(item, ModuleType)])  # fmt: skip
def test_help_describes_every_argument_in_a_line_of_its_own(name: str) -> None:
    """And every attribute: a line that is indented wrongly hides one behind another."""
    section = SECTION.search(inspect.getdoc(PUBLIC[name]) or "")
    if section is None:
        return
    heading, text = section.groups()
    assert not re.search(r"[a-z`]\. [a-z_]+: [A-Z]", text)
    if heading == "Args":
        listed = [item for found in ITEM.findall(text) for item in found.split(", ")]
        parameters = inspect.signature(PUBLIC[name]).parameters.values()
        assert sorted(listed) == sorted(
            item.name for item in parameters
            if item.kind is not item.VAR_KEYWORD or item.name in listed
        )  # fmt: skip
