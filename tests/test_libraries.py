"""Op libraries of packages: which are found, and which are refused with an error.

That a built package works is tested in test_your_own_op.py.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import myops
import myops.onnx
import myops.ort
from myops import _libraries, _numpy


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that has our own module `_numpy`, and so our domain."""
    folder = tmp_path / "clone_of_myops"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('op_library must not import this')")
    assert _numpy.__file__
    shutil.copy(_numpy.__file__, folder)
    monkeypatch.syspath_prepend(tmp_path)
    return folder.name


def test_a_domain_that_is_taken_is_refused(clone: str) -> None:
    with pytest.raises(ValueError, match=r"its domain 'myops' .* is taken by <op library 'myops'"):
        myops.op_library(clone)


def test_two_modules_have_their_own_types(clone: str) -> None:
    """Each with its own types and errors, as two packages have them."""
    module = _libraries._load(clone, _libraries._folder_of(clone))
    assert module is not _numpy
    (theirs,) = [op for op in module.OPS if op.describe()["name"] == "my_add"]
    (ours,) = [op for op in _numpy.OPS if op.describe()["name"] == "my_add"]
    assert type(theirs) is not type(ours)
    for op in (theirs, ours):
        assert op.call([np.ones(2), np.ones(2)], {}, 1)[0].tolist() == [3, 3]
        with pytest.raises(ValueError, match="my_add: b: got length 3"):
            op.call([np.ones(2), np.ones(3)], {}, 1)


def test_another_version_of_a_library_is_refused(
    clone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_numpy, "INTERFACE", _numpy.INTERFACE + 1)
    monkeypatch.delitem(sys.modules, f"{clone}._numpy", raising=False)
    with pytest.raises(ImportError, match="built with another version of myops"):
        myops.op_library(clone)


@pytest.mark.parametrize(
    ("package", "text"),
    [
        ("no_such_package", "got 'no_such_package', expected the name of a package"),
        ("keyword", "got 'keyword', expected the name of a package"),
        ("json", r"json has no compiled module _numpy .* Build it with `pip install .`"),
    ],
)
def test_packages_without_an_op_library_are_refused(package: str, text: str) -> None:
    with pytest.raises(ImportError, match=text):
        myops.op_library(package)


def test_a_broken_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its metadata states a domain, but its library is missing."""
    monkeypatch.setattr(_libraries, "installed", lambda: {"broken_domain": "json"})
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Op", ["x"], ["y"], domain="broken_domain")
    graph = onnx.helper.make_graph([node], "g", [value("x", 1, [2])], [value("y", 1, [2])])
    imports = [onnx.helper.make_opsetid("", 19), onnx.helper.make_opsetid("broken_domain", 1)]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    for given in (model, path, model.SerializeToString()):
        with pytest.raises(ImportError, match="has no compiled module"):
            myops.ort.session(given)


def test_unknown_domains_have_no_library() -> None:
    assert _libraries.find("com.microsoft") is None
    assert _libraries.find("") is None
    assert _libraries.find_node("myops", "NoSuchOp") is None
    info = _libraries.find_node("myops", "MyAdd")
    assert info is not None
    assert (info.node, info.qualified) == ("myops::MyAdd", "myops::my_add")
