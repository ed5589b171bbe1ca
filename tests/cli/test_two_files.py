"""`myops compare A B`, `myops diff A B`, `myops bench` and --module on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hostile_models import HOSTILE, check_signs, hostile_models, small
from onnx import TensorProto, helper
from test_commands import call, called

import myops
import myops.onnx
from myops.cli import _console


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 3, 3)
        self.act = torch.nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.conv(x))


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(small(), "good.onnx")
    wrong = small()
    wrong.graph.node[0].op_type = "Add"
    onnx.save(wrong, "wrong.onnx")
    onnx.save(ours(), "ours.onnx")


def ours() -> onnx.ModelProto:
    node = helper.make_node("MyAdd", ["a", "b"], ["y"], "sum", domain="myops")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "aby"]
    graph = helper.make_graph([node], "graph", values[:2], values[2:])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("myops", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def test_compare_two_files() -> None:
    status, out, errors = call("compare", "good.onnx", "good.onnx")
    assert status == 0, errors
    assert "PASS 1 value compared" in out
    status, out, errors = call("compare", "good.onnx", "wrong.onnx", "--html", "page.html")
    assert status == 1, errors
    assert "First difference in 'y'" in out
    assert "Mul 'mul': operator: Mul -> Add." in out
    assert "report: page.html" in out
    assert Path("page.html").read_text("utf-8").startswith("<!doctype html>")
    status, out, errors = call("compare", "good.onnx", "wrong.onnx", "--json")
    data = json.loads(out)
    assert (status, data["passed"], data["begins"]["value"]) == (1, False, "y")


def test_compare_in_two_backends_with_inputs() -> None:
    for words in (["--against", "reference"], ["--backend", "reference", "--against", "ort"]):
        status, out, errors = call("compare", "ours.onnx", *words, "--dim", "n=3")
        assert status == 0, errors
        assert "onnx.reference" in out
        assert "a float32[3]" in out
    np.save("a.npy", np.float32([1, 2]))
    status, out, errors = call("compare", "ours.onnx", "ours.onnx", "--input", "a=a.npy", "--shape",
                               "b:2")  # fmt: skip
    assert status == 0, errors
    assert "b float32[2]" in out


def test_compare_from_stdin() -> None:
    data = Path("wrong.onnx").read_bytes()
    for words in (["-", "good.onnx"], ["good.onnx", "-"]):
        assert called("compare", *words, stdin=data)[0] == 1
        assert called("diff", *words, stdin=data)[0] == 1
    for command in ("compare", "diff"):
        status, out, errors = called(command, "-", "-", stdin=data)
        assert (status, out) == (2, b"")
        assert "stdin holds one model" in errors


@pytest.mark.parametrize(("words", "text"), [
    (["compare", "good.onnx"], "expected a second file"),
    (["compare", "good.onnx", "good.onnx", "--exporter", "dynamo"], "--exporter: got ONNX files"),
    (["compare", "good.onnx", "good.onnx", "--repro", "x"], "--repro: got ONNX files"),
    (["compare", "good.onnx", "good.onnx", "--optimization", "all"], "--optimization: got ONNX"),
    (["compare", "net.py:x", "good.onnx", "--dim", "n=1"], "--dim: got a PyTorch model"),
    (["compare", "net.py:x", "--against", "ort"], "--against: got a PyTorch model"),
    (["compare", "good.onnx", "--against", "orrt"], "Did you mean 'ort'"),
    (["compare", "good.onnx", "gone.onnx"], "no such file: gone.onnx"),
    (["compare", "goood.onnx", "good.onnx"], "Did you mean 'good.onnx'"),
    (["compare", "good.onnx", "ours.onnx"], "Expected files with the same inputs"),
    (["compare", "good.onnx", "good.onnx", "--input", "z=a.npy"],
     "the model has no input 'z'; its input is x."),
    (["compare", "good.onnx", "good.onnx", "--shape", "x"], "--shape: got 'x'"),
    (["diff", "good.onnx", "gone.onnx"], "no such file: gone.onnx"),
    (["bench", "good.onnx", "--against", "lowered"], "no node of an op library"),
    (["bench", "good.onnx", "--against", "ours.onnx"], "has the inputs"),
    (["bench", "good.onnx", "ours.onnx"], "(ours.onnx): a model to compare with is given as --ag"),
    (["bench", "good.onnx", "--threads", "1,x"], "--threads: got '1,x'"),
    (["bench", "good.onnx", "--threads", "0"], "--threads: got 0"),
    (["bench", "good.onnx", "--repeat", "0"], "--repeat"),
    (["bench", "good.onnx", "--seconds", "nan"], "seconds"),
    (["bench", "good.onnx", "--shape", "x:3x4"], "--shape NAME:1x3x320x320"),
    (["explain", "good.onnx", "--shape", "x:3x4"], "--dim NAME=16, --input NAME=FILE.npy"),
    (["compare", "good.onnx", "good.onnx", "--shape", "x:3x4"], "index: 0 Got: 3 Expected: 1"),
])  # fmt: skip
def test_wrong_arguments_are_refused(words: list[str], text: str) -> None:
    status, out, errors = call(*words)
    assert (status, out) == (2, ""), out
    assert text in errors
    status, out, errors = call(*words, "--json")
    assert status == json.loads(out)["status"] == 2


def test_diff_two_files() -> None:
    status, out, _ = call("diff", "good.onnx", "good.onnx")
    assert (status, out) == (0, "good.onnx and good.onnx are equal\n")
    status, out, _ = call("diff", "good.onnx", "wrong.onnx")
    assert status == 1
    assert "~ node 'mul' (Mul): operator: Mul -> Add" in out
    assert "good.onnx and wrong.onnx differ: 1 node changed" in out
    status, out, _ = call("diff", "good.onnx", "wrong.onnx", "--json")
    data = json.loads(out)
    assert (status, data["equal"], data["changes"][0]["name"]) == (1, False, "mul")


def test_bench_two_files() -> None:
    words = ["bench", "ours.onnx", "--against", "lowered", "--threads", "1,2", "--repeat", "3"]
    status, out, errors = call(*words, "--warmup", "0", "--dim", "n=5")
    assert status == 0, errors
    assert out.count("ours.onnx") == 2
    assert "outputs of lowered: apart by" in out
    status, out, errors = call(*words, "--json", "--seconds", "1")
    assert [item["threads"] for item in json.loads(out)["timings"]] == [1, 1, 2, 2]


@pytest.mark.parametrize("command", ["compare", "diff", "bench"])
@pytest.mark.parametrize("output", ["text", "--json", "terminal"])
@pytest.mark.parametrize("kind", list(hostile_models()))
def test_hostile_names_are_printed_escaped(
    command: str, output: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared with a model with other hostile names, so that there are differences to print."""
    model = hostile_models()[kind]
    onnx.save(model, "hostile.onnx")
    other: Any = hostile_models()["runs"]
    other.graph.node[0].op_type = "Add"
    other.graph.initializer[0].name = f"w{HOSTILE}"
    other.graph.node[0].input[1] = f"w{HOSTILE}"
    onnx.save(other, "other.onnx")
    if output == "terminal":
        consoles = [
            _console.CommandConsole(force_terminal=True, width=40, stderr=flag) for flag in (0, 1)
        ]
        monkeypatch.setattr(_console, "out", consoles[0])
        monkeypatch.setattr(_console, "errors", consoles[1])
    further = {"compare": ["--html", "page.html", "--all"], "diff": ["--all"],
               "bench": ["--repeat", "1"]}[command]  # fmt: skip
    files = ["hostile.onnx", *(["--against"] * (command == "bench")), "other.onnx"]
    words = [command, *files, *further, *([output] * (output == "--json"))]
    status, out, errors = called(*words)
    assert status in (0, 1, 2)
    assert kind != "runs" or status == (0 if command == "bench" else 1), errors
    assert "Traceback" not in errors
    assert "fault of myops" not in errors.replace("\n", " "), errors
    if output == "--json":
        json.loads(out)
    check_signs(out.decode(), errors, wrapped=output == "terminal")
    if Path("page.html").exists():
        page = Path("page.html").read_text("utf-8")
        check_signs(page)
        assert "<script>" not in page


@pytest.fixture(params=["dynamo", "torchscript"])
def network(request: pytest.FixtureRequest) -> str:
    model = torch.nn.Sequential(Block(), Block())
    myops.onnx.export(model, (torch.rand(1, 3, 8, 8),), "net.onnx", exporter=request.param)
    return "net.onnx"


def test_module_without_a_path_lists_the_modules(network: str) -> None:
    for command in ("extract", "outputs"):
        status, out, errors = call(command, network, "out.onnx", "--module")
        assert (status, out) == (2, "")
        assert "--module: got no path, expected that of a PyTorch module." in errors
        assert "It has the modules '0', '0.act', '0.conv', '1', '1.act', '1.conv'." in errors
        status, out, errors = call(command, network, "out.onnx", "--json", "--module")
        assert "'1.conv'" in json.loads(out)["error"]
        status, out, errors = call(command, network, "out.onnx", "--module", "1.conf")
        assert status == 2
        assert "Did you mean '1.conv'" in errors
        assert "It has the modules '0', '0.act'" in errors
    assert not Path("out.onnx").exists()
    assert call("extract", network, "out.onnx", "--module", "1.conv")[0] == 0


def test_module_of_a_file_without_module_paths() -> None:
    for words in (["--module"], ["--module", "a"]):
        status, _, errors = call("outputs", "good.onnx", "out.onnx", *words)
        assert status == 2
        assert "say nothing of modules" in errors


def test_long_lists_of_modules_are_cut() -> None:
    from myops.onnx import module_paths

    names = [f"layers.{number}.conv" for number in range(50)] + ["head"]
    text = module_paths.listing(names)
    assert text.startswith("It has the modules 'head', 'layers.0.conv', ")
    assert "and 31 more (`myops inspect MODEL --modules` lists all)." in text


def test_commands_for_two_files_work_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {name: module for name, module in sys.modules.items()
            if name.startswith(("myops.onnx.two_files", "myops.onnx.comparison"))}  # fmt: skip
    for name in kept:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    for words in (["compare", "good.onnx", "good.onnx"], ["diff", "good.onnx", "good.onnx"],
                  ["bench", "good.onnx", "--repeat", "1"]):  # fmt: skip
        status, _, errors = call(*words)
        assert status == 0, errors
