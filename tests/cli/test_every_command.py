"""Properties of every command, with every kind of input and every way to read its output.

A new command needs a line in WORDS; without it these tests fail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from pairs import covering
from test_commands import COMMANDS, called

import myops.cli
from myops.cli import _console

FORGED = "FORGED: all is well"
HOSTILE = f"n\x1b[31m\x1b]0;t\x07\n{FORGED}\r\u202e\u2028\x9b2J\x85[bold]:x:<script>$\\frac$&amp;"
NET = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2

class Deep(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module(HOSTILE, torch.nn.Linear(2, 3))

    def forward(self, x):
        return next(self.children())(x).relu()

example = (Net(), (torch.rand(1, 2),))
deep = (Deep(), (torch.rand(1, 2),))
hostile = {HOSTILE: example}
"""

NOISY = """
import torch

class Noisy(torch.nn.Module):
    def forward(self, x):
        print("a line of the model")
        return x.relu()

print("a line of the file")
example = (Noisy(), (torch.rand(1, 2),))
"""

# How each command is given a model and a file to write; None: it reads no model.
WORDS: dict[str, Callable[[Any, Any], list[Any]] | None] = {
    "bench": lambda model, out: [model, "--repeat", "2"],
    "bundle": lambda model, out: [model, "--output", out],
    "compare": lambda model, out: ["net.py:example", model],
    "diff": lambda model, out: [model, "good.onnx" if model == "-" else model],
    "doctor": lambda model, out: [model, "--run"],
    "edit": lambda model, out: [model, out, "--dim", "x:0=batch"],
    "explain": lambda model, out: [model],
    "export": None,
    "extract": lambda model, out: [model, out, "--outputs", "y"],
    "half": lambda model, out: [model, out, "--runtime", "any"],
    "inspect": lambda model, out: [model, "--nodes"],
    "lower": lambda model, out: [model, out],
    "matrix": None,
    "new": None,
    "outputs": lambda model, out: [model, out, "--all"],
    "quantize": lambda model, out: [model, out, "--data", "inputs"],
    "run": lambda model, out: [model, "--input", "inputs", "--output", out, "--rows", "axis0"],
    "upgrade": lambda model, out: [model, out],
    "simplify": lambda model, out: [model, out],
    "stubs": None,
    "verify": None,
    "view": lambda model, out: [model, "--no-browser"],
}
READERS = sorted(name for name, words in WORDS.items() if words)
OUTPUTS = ("text", "--json")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from myops.onnx.surgery.viewer import Viewer

    (tmp_path / "net.py").write_text(NET.replace("HOSTILE", repr(HOSTILE)))
    onnx.save(small(), tmp_path / "good.onnx")
    (tmp_path / "inputs").mkdir()
    np.save(tmp_path / "inputs" / "one.npy", np.float32([[1, 2]]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Viewer, "wait", lambda self: None)


def small(names: Callable[[str], str] = lambda name: name) -> onnx.ModelProto:
    """x * 2, in which every name is changed by `names`."""
    values = [helper.make_tensor_value_info(names(name), TensorProto.FLOAT, [1, 2])
              for name in "xy"]  # fmt: skip
    two = numpy_helper.from_array(np.float32([2.0]), names("two"))
    node = helper.make_node("Mul", [names("x"), names("two")], [names("y")], names("mul"))
    graph = helper.make_graph([node], names("graph"), values[:1], values[1:], [two])
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def ways(kind: str, folder: Path) -> Path:
    """A file of a kind that users may give instead of a model."""
    good = (folder / "good.onnx").read_bytes()
    contents = {
        "empty": b"", "zeros": bytes(1000), "junk": np.random.default_rng(0).bytes(5000),
        "truncated": good[:-20], "web page": b"<!doctype html><html></html>",
        "pickle": b"\x80\x02}q\x00.", "archive": b"PK\x03\x04 and more", "text": b"hello\n" * 9,
        "no graph": onnx.ModelProto(ir_version=8).SerializeToString(),
    }  # fmt: skip
    if kind == "folder":
        return folder
    if kind == "device":
        return Path("/dev/zero")
    path = folder / f"{kind.replace(' ', '_')}.onnx"
    if kind in contents:
        path.write_bytes(contents[kind])
    return path


KINDS = ("missing", "folder", "device", "empty", "zeros", "junk", "truncated", "web page", "pickle",
         "archive", "text", "no graph")  # fmt: skip
EXAMINED = set(KINDS) - {"missing", "folder", "device"}  # what doctor has a verdict on


def test_every_command_is_tested() -> None:
    assert sorted(WORDS) == COMMANDS


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("command", READERS)
def test_valid_models_succeed(command: str, output: str, tmp_path: Path) -> None:
    words = WORDS[command]
    assert words is not None
    given = [command, *words("good.onnx", "out"), *([output] * (output != "text"))]
    status, out, errors = called(*given)
    assert status == 0, errors
    assert out
    if output == "--json":
        assert "error" not in json.loads(out)
    check_signs(out.decode(), errors)


@pytest.mark.parametrize(("command", "kind", "output"), covering(READERS, KINDS, OUTPUTS))
def test_files_that_are_no_model_are_refused(
    command: str, kind: str, output: str, tmp_path: Path
) -> None:
    words = WORDS[command]
    assert words is not None
    path = ways(kind, tmp_path)
    before = sorted(tmp_path.iterdir())
    given = [command, *words(path, tmp_path / "out"), *([output] * (output != "text"))]
    status, out, errors = called(*given)
    verdict = command == "doctor" and kind in EXAMINED
    assert status == (1 if verdict else 2), errors
    said = out.decode() if verdict else errors
    assert path.name in said.replace("\n", "") if kind != "folder" else "folder" in said
    assert "Traceback" not in errors
    if output == "--json":
        data = json.loads(out)
        assert verdict or (data["status"] == 2 and data["error"].split("\n")[0] in errors)
    elif not verdict:
        assert errors.startswith("error: ")
        assert not out
    check_signs(out.decode(), errors)
    after = [path for path in sorted(tmp_path.iterdir()) if path.name != "__pycache__"]
    assert after == before, "a file was written"


def hostile_models() -> dict[str, onnx.ModelProto]:
    """Models with hostile text wherever the format has a string: one that runs, and some that do
    not."""
    good = small(lambda name: name + HOSTILE)
    for field in ("producer_name", "producer_version", "doc_string", "domain"):
        setattr(good, field, HOSTILE)
    good.metadata_props.add(key=HOSTILE, value=HOSTILE)
    good.graph.node[0].doc_string = HOSTILE
    good.graph.input[0].type.tensor_type.shape.dim[0].dim_param = HOSTILE
    good.graph.output[0].type.tensor_type.shape.dim[0].dim_param = HOSTILE
    good.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value=repr([HOSTILE]))
    found = {"runs": good}

    def another(name: str) -> onnx.ModelProto:
        found[name] = onnx.ModelProto.FromString(good.SerializeToString())
        return found[name]

    another("op").graph.node[0].op_type = HOSTILE
    model = another("domain")
    model.graph.node[0].domain = HOSTILE
    model.opset_import.add(domain=HOSTILE, version=3)
    another("not imported").graph.node[0].domain = HOSTILE
    another("myops").graph.node[0].domain = "myops"
    node = another("attribute").graph.node[0]
    node.attribute.append(helper.make_attribute(HOSTILE, HOSTILE.encode() + b"\xff"))
    another("undefined").graph.node[0].input[0] = f"gone{HOSTILE}"
    tensor = another("weights").graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=HOSTILE)
    tensor.external_data.add(key="length", value="8")
    model = another("function")
    model.functions.append(helper.make_function(
        HOSTILE, HOSTILE, [HOSTILE], [f"o{HOSTILE}"],
        [helper.make_node("Relu", [HOSTILE], [f"o{HOSTILE}"])], [helper.make_opsetid("", 17)],
    ))  # fmt: skip
    model.graph.node[0].domain = model.graph.node[0].op_type = HOSTILE
    del model.graph.node[0].input[1]
    model.opset_import.add(domain=HOSTILE, version=1)
    another("dtype").graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    another("shape").graph.initializer[0].dims[0] = 3
    another("lengths").graph.input[0].type.tensor_type.shape.dim[1].dim_value = -3
    return found


@pytest.mark.parametrize(
    ("command", "kind", "output"), covering(READERS, [*hostile_models()], [*OUTPUTS, "terminal"])
)
def test_hostile_names_are_printed_escaped(
    command: str, kind: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No text of a file reaches the terminal as a control sequence, or forges a line."""
    onnx.save(hostile_models()[kind], tmp_path / "hostile.onnx")
    words = WORDS[command]
    assert words is not None
    if output == "terminal":
        consoles = [
            _console.CommandConsole(force_terminal=True, width=40, stderr=flag) for flag in (0, 1)
        ]
        monkeypatch.setattr(_console, "out", consoles[0])
        monkeypatch.setattr(_console, "errors", consoles[1])
    hostile = {"x": "x" + HOSTILE, "y": "y" + HOSTILE}
    given = [re.sub(r"^([xy])(?=$|:)", lambda match: hostile[match[1]], word) if place > 1 else word
             for place, word in enumerate(words("hostile.onnx", "out"))]  # fmt: skip
    status, out, errors = called(command, *given, *([output] * (output == "--json")))
    assert status in (0, 1, 2)
    assert kind != "runs" or command in ("compare", "edit") or status == 0, errors
    assert "Traceback" not in errors
    assert "fault of myops" not in errors.replace("\n", " "), errors
    if output == "--json":
        json.loads(out)
    check_signs(out.decode(), errors, wrapped=output == "terminal")


def check_signs(*streams: str, wrapped: bool = False) -> None:
    for text in streams:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text) if wrapped else text
        plain = re.sub(r"\x1b\[(\?25[lh]|[12]K|1A)|\r", "", plain) if wrapped else plain
        bad = {sign for sign in plain if sign != "\n" and not sign.isprintable()}
        assert not bad, (bad, text)
        assert wrapped or not any(line.startswith(FORGED) for line in plain.splitlines()), text


@pytest.mark.parametrize("words", [
    ["export", "net.py:hostile", "out.onnx"],
    ["export", "net.py:example", "no\x1b[31m\nfolder/out.onnx"],
    ["matrix", "net.py:hostile", "--opsets", "18", "--exporter", "torchscript", "--details"],
    ["new", HOSTILE],
    ["inspect", f"no{HOSTILE}.onnx"],
    [f"inspect{HOSTILE}"],
    ["inspect", f"--{HOSTILE}"],
    ["doctor", f"no{HOSTILE}.onnx"],
    ["extract", "good.onnx", "out.onnx", "--outputs", HOSTILE],
    ["outputs", "good.onnx", "out.onnx", HOSTILE],
])  # fmt: skip
def test_hostile_arguments_are_printed_escaped(words: list[str]) -> None:
    status, out, errors = called(*words)
    assert status in (0, 2)
    check_signs(out.decode(), errors)


@pytest.mark.parametrize("words", [
    ["compare", "net.py:deep", "--html", "page.html", "--exporter", "torchscript"],
    ["matrix", "net.py:hostile", "-o", "page.html", "--opsets", "18", "--exporter", "torchscript"],
])  # fmt: skip
def test_hostile_names_are_escaped_in_pages(words: list[str]) -> None:
    status, out, errors = called(*words)
    assert status == 0, errors
    check_signs(out.decode(), errors)
    page = Path("page.html").read_text("utf-8")
    check_signs(page)
    assert "<script>" not in page
    assert "n\\x1b[31m" in page
    assert "&lt;script&gt;$\\frac$&amp;amp;" in page


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_all_of_its_text(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No part of it, such as [view], is taken for markup; --debug and the statuses are listed."""
    monkeypatch.setenv("COLUMNS", "5000")
    monkeypatch.setattr(_console.sys.stdout, "columns", 5000, raising=False)
    status, out, _ = called(command, "--help")
    assert status == 0
    shown = re.sub(r"[\s│]+", " ", out.decode())
    module = myops.cli.commands()[command]
    documented = getattr(module, module.__name__.rpartition(".")[2]).__doc__
    for word in documented.replace("\b", "").split():
        assert word in shown
    assert "Exit status: 0 all is well;" in shown
    assert "2 wrong usage, or it could not be done." in shown
    assert ("; 1 " in shown) == hasattr(module, "VERDICT")
    for option in ("--json", "--debug"):
        assert option in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_usage_has_status_2(command: str) -> None:
    for output in ([], ["--json"]):
        status, out, errors = called(command, "--no-such-option", *output)
        assert status == 2
        assert errors.startswith("error: No such option")
        assert bool(out) == bool(output)
        if output:
            assert json.loads(out)["error"].startswith("No such option")


WRITERS = ("edit", "extract", "half", "lower", "outputs", "quantize", "simplify", "upgrade")


@pytest.mark.parametrize("command", WRITERS)
def test_the_model_itself_is_never_overwritten(command: str, tmp_path: Path) -> None:
    words = WORDS[command]
    assert words is not None
    before = (tmp_path / "good.onnx").read_bytes()
    (tmp_path / "link.onnx").symlink_to(tmp_path / "good.onnx")
    for target in ("good.onnx", tmp_path / "good.onnx", "./link.onnx"):
        status, out, errors = called(command, *words("good.onnx", target))
        assert (status, out) == (2, b"")
        assert "which is the model that is read" in errors
        assert (tmp_path / "good.onnx").read_bytes() == before


@pytest.mark.parametrize("command", WRITERS)
def test_weights_of_the_model_are_never_overwritten(command: str, tmp_path: Path) -> None:
    words = WORDS[command]
    assert words is not None
    model = onnx.load(tmp_path / "good.onnx")
    onnx.save(model, tmp_path / "outside.onnx", save_as_external_data=True, location="w.bin",
              size_threshold=0)  # fmt: skip
    before = (tmp_path / "w.bin").read_bytes()
    (tmp_path / "link.bin").symlink_to(tmp_path / "w.bin")
    for target in ("w.bin", tmp_path / "w.bin", "./link.bin"):
        status, out, errors = called(command, *words("outside.onnx", target))
        assert (status, out) == (2, b"")
        assert "which holds weights of the model that is read" in errors
        assert errors.count("OUT: got") == 1
        assert (tmp_path / "w.bin").read_bytes() == before


@pytest.mark.parametrize("command", WRITERS)
def test_models_are_read_from_and_written_to_pipes(command: str, tmp_path: Path) -> None:
    words = WORDS[command]
    assert words is not None
    assert called(command, *words("good.onnx", "file.onnx"))[0] == 0
    data = (tmp_path / "good.onnx").read_bytes()
    status, out, errors = called(command, *words("-", "-"), stdin=data)
    assert status == 0, errors
    assert onnx.load_from_string(out) == onnx.load("file.onnx")
    assert errors.startswith("stdout: ")
    status, out, errors = called(command, *words("-", "-"), "--json", stdin=data)
    assert status == 2
    assert "both are for stdout" in errors
    status, out, errors = called(command, *words("-", "-"))
    assert (status, out) == (2, b"")
    assert "stdin: got an empty file" in errors
    status, out, errors = called(command, *words("-", "-"), stdin=None)
    assert (status, out) == (2, b"")
    assert "expected a model piped into stdin, which is closed" in errors
    for place in ("/proc/out.onnx", "none/out.onnx"):
        status, out, errors = called(command, *words("good.onnx", place))
        assert (status, out) == (2, b"")
        assert f"OUT: {place}: " in errors


def test_an_exported_model_is_written_to_stdout(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    words = ["--exporter", "torchscript"]
    status, out, errors = called("export", "noisy.py:example", "-", *words)
    assert status == 0, errors
    onnx.checker.check_model(onnx.load_from_string(out))
    assert "stdout: " in errors
    assert "opset 20, 1 node\n" in errors
    assert "a line of the file" in errors
    assert not (tmp_path / "-").exists()
    for option, text in (
        ("--json", "both are for stdout"), ("--external-data", "got OUTPUT - as well"),
    ):  # fmt: skip
        status, out, errors = called("export", "noisy.py:example", "-", *words, option)
        assert status == 2
        assert text in errors


def test_a_bundle_is_not_written_to_stdout(tmp_path: Path) -> None:
    status, out, errors = called("bundle", "good.onnx", "-o", "-")
    assert (status, out) == (2, b"")
    assert "--output: got -, expected a folder" in errors
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("command", ["inspect", "doctor", "bench", "diff"])
def test_stdin_without_a_model_is_named(command: str) -> None:
    words = WORDS[command]
    assert words is not None
    status, out, errors = called(command, *words("-", "out"), stdin=b"no model")
    assert (status > 0, "stdin: got 8 bytes that are no ONNX model" in f"{out!r}{errors}") == (
        True,
        True,
    )


@pytest.mark.parametrize(
    "command", ["bundle", "inspect", "doctor", "compare", "view", "diff", "bench"]
)
def test_commands_without_output_read_stdin(command: str, tmp_path: Path) -> None:
    words = WORDS[command]
    assert words is not None
    data = (tmp_path / "good.onnx").read_bytes()
    status, out, errors = called(command, *words("-", "out"), stdin=data)
    assert status == 0, errors
    assert out
    status, out, errors = called(command, *words("-", "out2"), stdin=None)
    assert (status, out) == (2, b"")
    assert "expected a model piped into stdin, which is closed" in errors


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("compare", "good.onnx", "good.onnx", "--html", "none/a.html"), "--html: none/a.html: no"),
        (("compare", "good.onnx", "good.onnx", "--html", "/proc/a.html"), "cannot be written"),
        (("matrix", "interpolate", "-o", "/proc/a.html"), "the report: /proc/a.html: cannot be"),
        (("bundle", "good.onnx", "-o", "/proc/dep"), "/proc/dep: cannot be written"),
        (("verify", "none", "--key", "good.onnx"), "FOLDER: no such folder: none; expected"),
        (("verify", "good.onnx"), "FOLDER: got the file good.onnx; expected"),
        (("quantize", "good.onnx", "q.onnx", "--data", "good.onnx"), "got the file good.onnx"),
    ],
)
def test_places_are_checked_first_and_named_as_typed(
    words: tuple[str, ...], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from myops.onnx.two_files import comparing

    monkeypatch.setattr(comparing, "trace", None)  # what takes the time
    status, out, errors = called(*words)
    assert (status, out) == (2, b"")
    assert text in " ".join(errors.split())
    assert ".out." not in errors


def test_a_bundle_of_stdin_is_written_to_the_current_folder(tmp_path: Path) -> None:
    data = (tmp_path / "good.onnx").read_bytes()
    status, out, errors = called("bundle", "-", stdin=data)
    assert status == 0, errors
    made = onnx.load(tmp_path / "model_bundle" / "model.onnx")
    assert made.graph == onnx.load_from_string(data).graph
    status, out, errors = called("bundle", "-", stdin=data)
    assert (status, out) == (2, b"")
    assert "exists and is not empty" in errors
    assert called("bundle", "-", "-o", "other", stdin=b"")[0] == 2
    assert not (tmp_path / "other").exists()
    outside = onnx.load_from_string(data)
    tensor = outside.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    status, out, errors = called("bundle", "-", "-o", "other", stdin=outside.SerializeToString())
    assert (status, out) == (2, b"")
    assert "weights" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(("text", "option"), [
    ("compare net.py:example good.onnx", "--rtol"),
    ("compare net.py:example good.onnx", "--atol"),
    ("simplify good.onnx out.onnx", "--tolerance"),
    ("matrix net.py:example", "--tolerance"),
])  # fmt: skip
@pytest.mark.parametrize("value", ["-1", "-1e-9", "nan", "x"])
def test_negative_tolerances_are_refused(text: str, option: str, value: str) -> None:
    status, out, errors = called(*text.split(), option, value)
    assert (status, out) == (2, b"")
    assert option in errors
    assert "Traceback" not in errors
