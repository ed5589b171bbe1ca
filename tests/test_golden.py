"""Models of the first release's schema keep running: tests/data/golden, whose README.md says how
the files were made. `make compat` runs them in other versions of ONNX Runtime."""

from __future__ import annotations

import hashlib

import golden
import numpy as np
import pytest

import myops.ort
from myops import _description

INDEX = golden.index()
WITH_BODY = [name for name, facts in INDEX.items() if facts["body"]]


@pytest.mark.parametrize("name", INDEX)
def test_golden_models_run_with_the_library(name: str) -> None:
    outputs = golden.run(name, myops.ort.get_library_path())
    golden.check(name, outputs, INDEX[name]["tolerance"])


@pytest.mark.parametrize("name", WITH_BODY)
def test_golden_models_run_by_their_function_body(name: str) -> None:
    golden.check(name, golden.run(name, None), INDEX[name]["tolerance"])


def test_golden_files_have_their_recorded_hash() -> None:
    stored = {path.stem for path in golden.FOLDER.glob("*.onnx")}
    assert stored == set(INDEX)
    for name, facts in INDEX.items():
        digest = hashlib.sha256((golden.FOLDER / f"{name}.onnx").read_bytes()).hexdigest()
        assert digest == facts["sha256"], f"{name}.onnx has changed; add a file instead"


def test_golden_models_cover_ops_dtypes_and_opsets() -> None:
    every = INDEX.values()
    nodes = {node for facts in every for node in facts["nodes"]}
    assert nodes == {info.onnx_type for info in _description.onnx_ops()}
    assert {facts["made_by"] for facts in every} == {"hand", "dynamo", "torchscript"}
    assert {facts["ir_version"] for facts in every} >= set(range(3, 12))
    for exporter, opsets in (("torchscript", {9, 11, 16, 20}), ("dynamo", {18, 20, 23})):
        of_it = [facts for facts in every if facts["made_by"] == exporter]
        assert all(facts["body"] for facts in of_it)
        assert {facts["opset"] for facts in of_it} >= opsets


@pytest.mark.parametrize("corrupt", ["a number", "a shape", "a dtype", "a name"])
def test_the_check_finds_wrong_outputs(corrupt: str) -> None:
    name = "node_add_int32_ir8"
    outputs = golden.run(name, myops.ort.get_library_path())
    golden.check(name, outputs, 0)
    ((key, value),) = outputs.items()
    changed = {
        "a number": {key: value + (np.arange(value.size) == 3).reshape(value.shape)},
        "a shape": {key: value[:1]},
        "a dtype": {key: value.astype(np.int64)},
        "a name": {"other": value},
    }[corrupt]
    with pytest.raises(AssertionError):
        golden.check(name, changed, 0)
