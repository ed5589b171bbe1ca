"""What commands read and write: models, their weights, pipes, folders."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from every_command import WORDS, WRITERS
from onnx import TensorProto
from test_commands import called

pytestmark = pytest.mark.usefixtures("command_files")

NOISY = """
import torch

class Noisy(torch.nn.Module):
    def forward(self, x):
        print("a line of the model")
        return x.relu()

print("a line of the file")
example = (Noisy(), (torch.rand(1, 2),))
"""


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
