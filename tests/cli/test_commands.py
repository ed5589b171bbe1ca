"""Properties of all commands, and one run of each graph command as a user types it."""

from __future__ import annotations

import io
import json
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
import warm
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

import myops.cli

COMMANDS = sorted(
    item.name.rstrip("_").replace("_", "-")
    for item in pkgutil.iter_modules(myops.cli.__path__)
    if not item.name.startswith("_")
)
WRITERS = ["extract", "outputs", "edit", "upgrade", "lower", "simplify"]
FURTHER = {"extract": ["--outputs", "c"], "outputs": ["c"], "edit": ["--op-type", "output=Sub"]}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """a * x + b, and an enlargement of it."""
    info = helper.make_tensor_value_info
    inputs = [info(name, TensorProto.FLOAT, [1, 1, 4, 4]) for name in "axb"]
    nodes = [
        helper.make_node("Mul", ["a", "x"], ["c"]),
        helper.make_node("Add", ["c", "b"], ["output"]),
        helper.make_node("Resize", ["output", "", "s"], ["large"], "up", mode="linear"),
    ]
    import numpy as np

    scales = numpy_helper.from_array(np.float32([1, 1, 2, 2]), "s")
    outputs = [info("large", TensorProto.FLOAT, [1, 1, 8, 8])]
    graph = helper.make_graph(nodes, "linear", inputs, outputs, [scales])
    path = tmp_path / "linear.onnx"
    imports = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


def typed(*words: Any, cwd: Path) -> subprocess.CompletedProcess[str]:
    return warm.run("-m", "myops", *words, cwd=cwd)


def call(*words: Any, stdin: bytes | None = b"") -> tuple[int, str, str]:
    """The same in this process: status, stdout, and stderr without line breaks."""
    status, out, errors = called(*words, stdin=stdin)
    return status, out.decode(), " ".join(errors.split())


def called(*words: Any, stdin: bytes | None = b"") -> tuple[int, bytes, str]:
    """Status, the bytes of stdout, and stderr unchanged; stdin None is closed."""
    streams = [io.TextIOWrapper(io.BytesIO(data), "utf-8") for data in (stdin or b"", b"", b"")]
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    sys.argv = ["myops", *map(str, words)]
    sys.stdin, sys.stdout, sys.stderr = streams
    if stdin is None:
        sys.stdin = None  # type: ignore[assignment]
    status = 0
    try:
        myops.cli.main()
    except SystemExit as stop:
        status = int(stop.code or 0)
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
    for stream in streams[1:]:
        stream.flush()
    found = [stream.buffer.getvalue() for stream in streams[1:]]  # type: ignore[attr-defined]
    return status, found[0], found[1].decode()


def test_the_list_of_commands(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "myops", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert {*WRITERS, "inspect", "view"} <= set(COMMANDS)
    for command in COMMANDS:
        assert f" {command} " in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_arguments_and_options(command: str) -> None:
    result = CliRunner().invoke(myops.cli.app(), [command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "--json" in result.output
    if command in (*WRITERS, "inspect", "view"):
        assert f"Example: myops {command} " in result.output


def test_only_the_typed_command_is_described() -> None:
    """Describing all takes as long as most commands run; without a known command, all are."""

    def described(typed: str) -> set[str | None]:
        return {command.name for command in myops.cli.app(typed).registered_commands}

    assert described("inspect") == {"inspect"}
    assert described("raise") == {"upgrade", "raise"}
    assert described("extrct") == described("") == {*COMMANDS, "raise"}


def test_an_unknown_command_is_refused(tmp_path: Path) -> None:
    result = typed("extrct", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("error: No such command 'extrct'. Did you mean 'extract'")


@pytest.mark.parametrize("command", ["inspect", "view", *WRITERS])
def test_broken_and_missing_files_are_refused(command: str, model: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(model.read_bytes()[:-40])
    archive = tmp_path / "model.pt"
    archive.write_bytes(b"PK\x03\x04 and more")
    target = [] if command in ("inspect", "view") else [tmp_path / "out.onnx"]
    further = FURTHER.get(command, [])
    for name, text in (
        (broken, "no ONNX model (broken protobuf"),
        (archive, "a zip archive"),
        (tmp_path / "liner.onnx", "no such file"),
        (tmp_path, "got a folder"),
    ):
        status, out, errors = call(command, name, *target, *further)
        assert status == 2
        assert text in errors
        assert "Traceback" not in errors
        assert not out
    assert "Did you mean 'linear.onnx'?" in call(command, tmp_path / "liner.onnx", *target,
                                                 *further)[2]  # fmt: skip
    assert not (tmp_path / "out.onnx").exists()


def test_graph_commands_run_in_a_sequence(model: Path, tmp_path: Path) -> None:
    """One after the other; the last file computes a * x - b, enlarged, by our kernel."""
    steps: list[tuple[Any, ...]] = [
        ("inspect", "linear.onnx", "--nodes"),
        ("edit", "linear.onnx", "1.onnx", "--op-type", "output=Sub", "--rename", "x=image"),
        ("upgrade", "1.onnx", "2.onnx"),
        ("simplify", "2.onnx", "3.onnx"),
        ("outputs", "3.onnx", "4.onnx", "output"),
        ("extract", "4.onnx", "5.onnx", "--inputs", "c,b", "--outputs", "large"),
        ("lower", "5.onnx", "6.onnx"),
    ]
    for step in steps:
        result = typed(*step, cwd=tmp_path)
        assert (result.returncode, result.stderr) == (0, ""), result.stderr
        assert result.stdout
    raised, lowered = onnx.load(tmp_path / "5.onnx"), onnx.load(tmp_path / "6.onnx")
    assert [node.op_type for node in raised.graph.node] == ["Sub", "Resize"]
    assert raised.graph.node[1].domain == "myops"
    assert {node.domain for node in lowered.graph.node} == {""}


def test_earlier_names_of_commands_work(model: Path, tmp_path: Path) -> None:
    old = typed("raise", "linear.onnx", "old.onnx", "--json", cwd=tmp_path)
    new = typed("upgrade", "linear.onnx", "new.onnx", "--json", cwd=tmp_path)
    assert (old.returncode, new.returncode) == (0, 0), old.stderr + new.stderr
    assert json.loads(old.stdout) == json.loads(new.stdout) | {"output": "old.onnx"}
    assert json.loads(new.stdout)["raised"] == json.loads(new.stdout)["upgraded"]
    assert (tmp_path / "old.onnx").read_bytes() == (tmp_path / "new.onnx").read_bytes()
    assert "raise" not in typed("--help", cwd=tmp_path).stdout.split()


@pytest.mark.parametrize("command", ["inspect", *WRITERS])
def test_json_output_is_valid(command: str, model: Path, tmp_path: Path) -> None:
    target = [] if command == "inspect" else [tmp_path / "out.onnx"]
    status, out, errors = call(command, model, *target, *FURTHER.get(command, []), "--json")
    assert status == 0, errors
    data = json.loads(out)
    if target:
        assert data["output"] == str(target[0])
        assert target[0].exists()
    else:
        assert data["op_counts"] == {"Add": 1, "Mul": 1, "Resize": 1}


def test_warnings_are_printed_as_sentences(model: Path, tmp_path: Path) -> None:
    words = ("extract", model, tmp_path / "out.onnx", "--inputs", "c,b,x", "--outputs", "large")
    status, out, errors = call(*words, "--json")
    assert status == 0
    assert errors.startswith("warning: extract: inputs: 'x' does nothing")
    assert "'x' does nothing" in json.loads(out)["warnings"][0]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("extract", "--inputs", "c", "--outputs", "output"), "also need the model's input 'b'"),
        (("extract", "--outputs", "outptu"), "Did you mean 'output'"),
        (("outputs", "d"), "no value 'd'"),
        (("edit",), "no edit was given"),
        (("edit", "--dim", "x=3"), "expected INPUT:AXIS=LENGTH"),
        (("edit", "--attribute", "up=3"), "expected NODE:NAME=VALUE"),
        (("edit", "--attribute", "up:mod=cubic"), "Did you mean 'mode'"),
        (("edit", "--rename", "x"), "expected OLD=NEW"),
        (("simplify", "--shape", "x=1,a"), "expected INPUT=1,3,32,32"),
        (("simplify", "--data", "none.npz"), "none.npz"),
    ],
)
def test_wrong_arguments_are_refused(
    words: tuple[str, ...], text: str, model: Path, tmp_path: Path
) -> None:
    status, out, errors = call(words[0], model, tmp_path / "out.onnx", *words[1:])
    assert (status, out) == (2, "")
    assert text in errors
    assert not (tmp_path / "out.onnx").exists()


def test_names_with_colons_commas_and_equals_signs(tmp_path: Path) -> None:
    """Colons, commas and equals signs are valid in names, and exporters write some of them."""
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Softmax", ["in:0"], ["a,b=c"], "n:1", axis=0),
             helper.make_node("Relu", ["a,b=c"], ["y"])]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [info("in:0", 1, [2, 2])], [info("y", 1, [2, 2])])
    path, target = tmp_path / "m.onnx", tmp_path / "out.onnx"
    imports = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    words = ("--dim", "in:0:0=n", "--attribute", "n:1:axis=1", "--rename", "a,b=c=d")
    assert call("edit", path, target, *words)[0] == 0
    changed = onnx.load(target).graph
    assert changed.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert changed.node[0].attribute[0].i == 1
    assert list(changed.node[1].input) == ["d"]
    assert call("extract", path, target, "--inputs", "a,b=c", "--outputs", "y")[0] == 0
