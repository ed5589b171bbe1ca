"""Errors in the user's own files: a sentence, the line, exit status 2, and never a verdict."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_commands import called, typed

import myops.cli
from myops.cli import _failures

FILES = {
    "zero.py": "x = 0\nx = 1 / x\n",
    "wrong.py": "def f(:\n",
    "missing.py": "import no_such_package_at_all\n",
    "quits.py": "import sys\nsys.exit(0)\n",
    "argument.py": "import argparse\nargparse.ArgumentParser().parse_args(['--surprise'])\n",
    "net.py": """
import torch

def make():
    return {}["key"]

class Shape(torch.nn.Module):
    def forward(self, x):
        return x.reshape(7)

class Key(torch.nn.Module):
    def forward(self, x):
        return helper({"a": x})

def helper(values):
    return values["b"]

shape = Shape(), (torch.rand(3),)
key = Key(), (torch.rand(3),)
number = 3

def needs(a, b=1, *rest, c, **more):
    return shape

def with_defaults(a=1, *rest, **more):
    return {}["default"]

print("a model prints")
""",
}
# target -> the error and the line that the message names
CASES = {
    "zero.py:x": ("ZeroDivisionError", "zero.py:2, in <module>: x = 1 / x"),
    "wrong.py:x": ("SyntaxError", "wrong.py:1: def f(:"),
    "missing.py:x": ("no_such_package_at_all", "missing.py:1, in <module>: import no_such"),
    "quits.py:x": ("ends the program (SystemExit: 0)", "quits.py:2, in <module>: sys.exit(0)"),
    "argument.py:x": ("ends the program (SystemExit: 2)", "argument.py:2, in <module>"),
    "net.py:make": ("KeyError: 'key'", 'net.py:5, in make: return {}["key"]'),
    "net.py:shape": ("invalid for input of size 3", "net.py:9, in forward: return x.reshape(7)"),
    "net.py:key": ("'b'", 'net.py:16, in helper: return values["b"]'),
    "net.py:numbr": ("Did you mean 'number'", ""),
    "net.py:number": ("got int" , ""),
    "net.py:needs": ("net.py:needs: the function has the parameters 'a', 'c'; expected", ""),
    "net.py:with_defaults": ("KeyError: 'default'", 'return {}["default"]'),
    "gone.py:x": ("no such file: gone.py", ""),
    "no_such_package.part:x": ("there is no module 'no_such_package'", ""),
    "net.py": ("file.py:name", ""),
}  # fmt: skip
COMMANDS = {
    "export": lambda target: ["export", target, "out.onnx"],
    "export-torchscript": lambda target: ["export", target, "o.onnx", "--exporter", "torchscript"],
    "compare": lambda target: ["compare", target],
    "matrix": lambda target: ["matrix", target, "--opsets", "18", "--exporter", "torchscript"],
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("target", CASES)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_in_the_users_file_names_its_line(command: str, target: str) -> None:
    what, line = CASES[target]
    status, _out, errors = called(*COMMANDS[command](target))
    assert status == 2, errors
    assert what in errors
    assert line in errors
    assert "<frozen" not in errors  # no lines of importlib
    assert "Traceback" not in errors
    assert "fault of myops" not in errors
    assert "stack trace above" not in errors
    assert not Path("out.onnx").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_the_only_output(command: str) -> None:
    """A model that prints, and an error."""
    status, out, errors = called(*COMMANDS[command]("net.py:key"), "--json")
    assert status == 2
    data = json.loads(out)
    assert data["status"] == 2
    assert "'b'" in data["error"]
    assert "a model prints" in errors


@pytest.mark.parametrize("place", ["option", "variable"])
def test_debug_shows_the_traceback(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["export", "zero.py:x", "out.onnx"]
    if place == "option":
        words.append("--debug")
    else:
        monkeypatch.setenv("MYOPS_DEBUG", "1")
    status, _out, errors = called(*words)
    assert status == 2
    assert errors.startswith("Traceback (most recent call last):")
    assert "_targets.py" in errors
    assert "error: ZeroDivisionError: division by zero" in errors


def test_an_internal_error_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    from myops.onnx.surgery import summary

    def broken(model: Any) -> None:
        raise TypeError("unhashable type")

    monkeypatch.setattr(summary, "inspect", broken)
    status, _out, errors = called("inspect", "net.py")
    assert status == 2
    assert "error: TypeError: unhashable type. This is a fault of myops" in errors


def test_ctrl_c_ends_with_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    from myops.onnx.surgery import summary

    def stopped(model: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(summary, "inspect", stopped)
    assert called("inspect", "net.py")[0] == 130


@pytest.mark.parametrize("option", ["--nodes", "--json --nodes"])
def test_a_closed_pipe_ends_silently(tmp_path: Path, option: str) -> None:
    """As `myops inspect model.onnx | head -1` with long output: no traceback and no message."""
    import subprocess
    import sys

    from onnx import helper, save

    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(20000)]
    ends = [helper.make_tensor_value_info(name, 1, [1]) for name in ("v0", "v20000")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "long.onnx")
    command = f"{sys.executable} -m myops inspect long.onnx {option}"
    result = subprocess.run(
        ["bash", "-c", f"{command} | head -1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.stdout.startswith("{" if "json" in option else "long.onnx: graph")
    assert (result.returncode, result.stderr) == (141, "")


def test_usage_errors_have_no_colours_in_a_pipe(tmp_path: Path) -> None:
    result = typed("extract", "a", "--no-such-option", cwd=tmp_path)
    assert result.returncode == 2
    assert "\x1b" not in result.stderr + result.stdout
    assert "No such option: --no-such-option" in result.stderr


@pytest.mark.parametrize(("text", "shown"), [
    ('leave it out: skip_checks=["numbers"]', "leave it out: --skip-check numbers"),
    ("fixed: constants=['a', 'b'].", "fixed: --constant a --constant b."),
    ("Export it with opset_version=18 instead", "Export it with --opset 18 instead"),
    ("export: opset_version: got 99", "export: --opset: got 99"),
    ('or exporter="torchscript"', "or --exporter torchscript"),
    ("the opset_versions=3 of others", "the opset_versions=3 of others"),
    ("pass exporter=, such as auto", "pass --exporter, such as auto"),
    ("pass it with exporter=", "pass it with --exporter"),
])  # fmt: skip
def test_messages_name_options(text: str, shown: str) -> None:
    assert _failures.in_options(text, myops.cli.commands()["export"].OPTIONS) == shown


@pytest.mark.parametrize(("command", "text", "shown"), [
    ("run", "pass range=(0, 1) or range=(-1, 1)", "pass --range 0..1 or --range -1..1"),
    ("run", "pass output_range=(0, 255).", "pass --output-range 0..255."),
    ("run", "pass layout='nchw' or layout='nhwc'", "pass --layout nchw or --layout nhwc"),
    ("run", "(say outputs=[...])", "(say --outputs)"),
    ("export", 'say dynamic_axes={"x": {2: "2*h", 3: "w"}} for', 'say --dynamic "x:2=2*h,3=w" for'),
    ("export", 'dynamic_axes={"a": {1: "n"}, "b": {0: "m"}}', "--dynamic a:1=n --dynamic b:0=m"),
    ("export", "dynamic_axes={names: {axis: 1}}", "dynamic_axes={names: {axis: 1}}"),
])  # fmt: skip
def test_values_of_python_become_those_of_options(command: str, text: str, shown: str) -> None:
    assert _failures.in_options(text, myops.cli.commands()[command].OPTIONS) == shown


def test_messages_of_the_library_are_python() -> None:
    """They name arguments as a caller in Python writes them: rows='axis0', not rows=axis0. A
    command makes options of them."""
    folder = Path(myops.__file__).parent
    bare = re.compile(r"(?:pass|with|say|give|set|or) [a-z_]+=(?:[a-z]\w*|, such as -?\d+\.\.)")
    found = []
    names = ("batch", "onnx", "ort")
    for path in (path for name in names for path in (folder / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found += [f"{path}: {text}" for text in bare.findall(node.value)]
    assert not found


# Parameters without an option: they are given in another way, or are useful only in Python.
ONLY_PYTHON = {
    "export": {"model", "args", "kwargs", "target", "input_names", "output_names",
               "dynamic_shapes", "keep_initializers_as_inputs", "unknown",
               # torch's own, for calls of torch.onnx.export
               "dynamo", "do_constant_folding", "optimize", "verify", "verbose", "custom_opsets",
               "custom_translation_table", "report", "profile", "dump_exported_program",
               "artifacts_dir"},
    "compare": {"model", "args", "kwargs", "onnx_model", "progress"},
    "edit": {"model", "f"},
    "simplify": {"model", "f"},
}  # fmt: skip


@pytest.mark.parametrize("command", ONLY_PYTHON)
def test_every_parameter_has_its_option(command: str) -> None:
    """Otherwise a message of the library could name a Python parameter to a user of the command
    line."""
    import myops.onnx

    options = myops.cli.commands()[command].OPTIONS
    parameters = set(inspect.signature(getattr(myops.onnx, command)).parameters)
    assert parameters - ONLY_PYTHON[command] <= set(options)
    shown = called(command, "--help")[1].decode()
    for option in options.values():
        assert not option.startswith("--") or option in shown
