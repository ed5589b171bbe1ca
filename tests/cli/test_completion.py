"""Completion in the shell, through the protocol of the script and in the shell itself."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import torch
import warm
from onnx import TensorProto, helper

import myops
import myops.onnx
from myops import cli
from myops.cli import _completion
from myops.onnx import guards

NET = """
import torch

example = deep, (shallow, _hidden) = 1, (2, 3)
typed: int = 3
def make(): ...
def with_default(n=3, *, size=2): ...
def needs(n): ...
def needs_by_name(*, n): ...
def _private(): ...
raise SystemExit("it was run")
"""
HOSTILE = ["ok", "größe", "a b", "$(touch hacked)", "`touch hacked`", 'x"; touch hacked; "',
           "'; touch hacked '", "x\ntouch hacked\n", "*", "x\\", "a;touch hacked", "\x1b[31m",
           "a)b", "a|touch hacked"]  # fmt: skip


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    Path("wrong.py").write_text("def (")
    Path("no.onnx").write_text("no model")
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Conv", ["x", "w"], ["conv1"], "first"),
             helper.make_node("Relu", ["conv1"], ["relu1"]),
             helper.make_node("MyAdd", ["relu1"] * 2, ["y"], "add", domain="myops")]  # fmt: skip
    inputs = [
        value("x", TensorProto.FLOAT, [1, 3, 4, 4]),
        value("w", TensorProto.FLOAT, [3, 3, 1, 1]),
    ]
    outputs = [value("y", TensorProto.FLOAT, [1, 3, 4, 4])]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("myops", 1)]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "model.onnx")
    nodes = [helper.make_node("Relu", ["x"], [name]) for name in HOSTILE]
    graph = helper.make_graph(nodes, "g", inputs[:1], [value("ok", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=opsets[:1], ir_version=8), "hostile.onnx")


def environment() -> dict[str, str]:
    paths = os.pathsep.join(
        [str(Path(myops.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    return {**os.environ, "PYTHONPATH": paths}


def asked(**variables: str) -> str:
    done = warm.run("-m", "myops", env={**environment(), **variables})
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def bash(*words: str) -> list[str]:
    """The request of bash: the words as it splits them, the cursor at the end of the last."""
    text = asked(_MYOPS_COMPLETE="complete_bash", COMP_WORDS="\n".join(["myops", *words]),
                 COMP_CWORD=str(len(words)))  # fmt: skip
    return text.split()


def zsh(line: str) -> str:
    return asked(_MYOPS_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=line)


MODEL = ("model.onnx", "out.onnx")
CASES: list[tuple[tuple[str, ...], list[str]]] = [
    (("si",), ["simplify"]),
    (("export", "--extern"), ["--external-data"]),
    (("inspect", ""), []),  # files: left to the shell
    (("export", "ne"), [f"net.py:{name}" for name in
                        ("example", "deep", "shallow", "typed", "make", "with_default")]),
    (("export", "net.py", ":"), ["example", "deep", "shallow", "typed", "make", "with_default"]),
    (("export", "net.py", ":", "m"), ["make"]),
    (("export", "wrong.py", ":"), []),
    (("export", "no_such"), []),
    (("matrix", "int"), ["interpolate"]),
    (("export", "net.py", ":", "make", "out.onnx", "--exporter", "t"), ["torchscript"]),
    (("export", "net.py", ":", "make", "out.onnx", "--exporter", "=", "a"), ["auto"]),
    (("export", "net.py:make", "out.onnx", "--skip-check", "n"), ["numbers"]),
    (("extract", *MODEL, "--inputs", ""), ["x", "w", "conv1", "relu1", "y"]),
    (("extract", *MODEL, "--inputs", "conv1,r"), ["conv1,relu1"]),
    (("outputs", *MODEL, "r"), ["relu1"]),
    (("outputs", *MODEL, "conv1", "r"), ["relu1"]),
    (("edit", *MODEL, "--rename", "r"), ["relu1="]),
    (("edit", *MODEL, "--rename-node", ""), ["first=", "relu1=", "add="]),
    (("edit", *MODEL, "--op-type", "f"), ["first="]),
    (("edit", *MODEL, "--op-type", "first", "=", "ConvT"), ["ConvTranspose"]),
    (("edit", *MODEL, "--op-type", "add", "=", "M"), ["MyAdd"]),
    (("edit", *MODEL, "--op-type", "add", "=", "C"), []),  # Conv is of another domain
    (("edit", *MODEL, "--op-type", "nobody", "=", "C"), []),
    (("edit", *MODEL, "--dim", "x"), ["x:"]),
    (("doctor", "model.onnx", "--dim", ""), ["x=", "w="]),
    (("doctor", "model.onnx", "--shape", "w"), ["w:"]),
    (("doctor", "model.onnx", "--provider", "CPU"), ["CPUExecutionProvider"]),
    (("matrix", "interpolate", "--fail-on", "wrong,l"), ["wrong,load", "wrong,lost"]),
    (("extract", "no.onnx", "out.onnx", "--inputs", ""), []),
    (("extract", "missing.onnx", "out.onnx", "--inputs", ""), []),
    (("extract", "hostile.onnx", "out.onnx", "--outputs", ""), ["x", "ok", "größe"]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "offered"), CASES, ids=lambda item: " ".join(item))
def test_completion_in_bash(words: tuple[str, ...], offered: list[str]) -> None:
    assert bash(*words) == offered


@pytest.mark.parametrize(("line", "offered"), [
    ("myops si", ['"simplify"']),
    ("myops export net.py:m", [r'"net.py\\:make"']),
    ("myops extract model.onnx out.onnx --inputs c", ['"conv1"']),
    ("myops extract model.onnx out.onnx --inputs conv1,", [r'"conv1,relu1"']),
    ("myops inspect m", None),
    ("myops outputs hostile.onnx out.onnx ", ['"ok"', '"größe"']),
])  # fmt: skip
def test_completion_in_zsh(line: str, offered: list[str] | None) -> None:
    text = zsh(line)
    if offered is None:
        assert text == "_files\n"
        return
    assert text.startswith("_arguments '*: :((")
    for item in offered:
        assert item in text
    assert "touch" not in text


def test_completion_of_module_paths() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.ReLU()))
    myops.onnx.export(layers, torch.rand(1, 2), "net.onnx", dynamo=False)
    assert bash("extract", "net.onnx", "out.onnx", "--module", "") == ["0", "1", "1.0"]
    assert bash("outputs", "net.onnx", "out.onnx", "--module", "1") == ["1", "1.0"]


# The proposals of the shell's own functions, and the effect of a hostile answer.
IN_BASH = """
eval "$({myops} --show-completion)"
offer() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _myops_completion {myops};
          printf '%s\\n' "${{COMPREPLY[@]}}" --; }}
offer {myops} export net.py : m
offer {myops} extract hostile.onnx out.onnx --outputs ''
offer {myops} inspect ''
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_completion_script_runs_in_bash(tmp_path: Path) -> None:
    program = tmp_path / "myops"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m myops "$@"\n')
    program.chmod(0o755)
    script = IN_BASH.format(myops=program)
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True,
        env={**environment(), "SHELL": "/bin/bash"},
    )  # fmt: skip
    assert done.stdout.split() == ["make", "--", "x", "ok", "größe", "--", "--"], done.stderr
    assert not (tmp_path / "hacked").exists()


def test_completed_values_equal_those_of_the_library() -> None:
    from myops.cli import matrix
    from myops.onnx.exporting.torch_arguments import EXPORTERS
    from myops.onnx.matrix import cases
    from myops.onnx.matrix.cells import EXPORTERS as MEASURED

    assert set(_completion.BUILT_IN) == set(cases.BUILT_IN)
    assert set(_completion._CHECKS) == {*guards.CHECKS, "all"}
    assert set(_completion._VERDICTS) == {*matrix._FAILURES, "any"}
    assert set(EXPORTERS) == set(MEASURED) == {"dynamo", "torchscript"}


def test_every_completion_belongs_to_a_parameter() -> None:
    """Otherwise a renamed parameter would lose its completion unnoticed."""
    known = {
        (name, parameter)
        for name, module in cli.commands().items()
        for parameter in inspect.signature(
            getattr(module, module.__name__.rpartition(".")[2])
        ).parameters
    }
    assert set(_completion._BY_COMMAND) <= known
    assert set(_completion._BY_NAME) <= {parameter for _, parameter in known}
