"""The command `myops run`: its options, its output and its exit statuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import batch_models as models
import numpy as np
import pytest
from PIL import Image
from test_commands import called

import myops.batch


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    models.times(tmp_path)
    models.negative(tmp_path)
    np.save("x.npy", np.arange(30, dtype=np.float32).reshape(10, 3))
    Path("photos").mkdir()
    Image.new("RGB", (4, 3), (1, 2, 3)).save("photos/a=b.png")
    Path("photos/bad.png").write_text("no picture")


def test_statuses_and_output_of_a_run() -> None:
    words = ["run", "times.onnx", "-i", "x.npy", "-o", "out", "--set", "factor=2.5"]
    status, out, errors = called(*words)
    assert (status, errors) == (0, "")
    assert out.decode().startswith("{}: 10 of 10 rows as npz\n".format(Path("out").absolute()))
    np.testing.assert_array_equal(models.parts(Path("out"))["y"], np.load("x.npy") * 2.5)
    status, out, errors = called(*words, "--json")
    data = json.loads(out)
    assert (status, data["before"], data["status"]) == (0, 10, 0)
    status, out, errors = called(*words[:-1], "factor=3")
    assert (status, out) == (2, b"")
    assert "is that of another run" in errors
    pictures = ["run", "negative.onnx", "--input", "photos", "--range", "0..1", "--json"]
    status, out, errors = called(*pictures, "--output", "some")
    data = json.loads(out)
    assert (status, data["done"], data["failed"]) == (1, 1, 1)
    assert Path(data["failures"]).read_text().count("\n") == 1
    status, out, errors = called(*pictures[:-1], "--output", "some")
    assert "1 of 2 rows as png; earlier runs settled 2 rows\n1 row failed: " in out.decode()
    Path("photos/a=b.png").unlink()
    status, out, errors = called(*pictures, "--output", "none")
    assert (status, json.loads(out)["done"]) == (3, 0)
    Path("photos/bad.png").unlink()
    status, out, errors = called(*pictures, "--output", "nothing")
    assert (status, json.loads(out)["rows"]) == (3, 0)
    assert not Path("nothing").exists()


def test_what_differs_from_an_earlier_run_is_said_in_options() -> None:
    Path("arrays").mkdir()
    for number in range(2):
        np.save(f"arrays/{number}.npy", np.ones((2, 3), np.float32))
    words = ["run", "times.onnx", "--input", "arrays", "--output", "out", "--set", "factor=2"]
    assert called(*words)[0] == 0
    status, out, errors = called(*words, "--rows", "file")
    assert (status, out) == (2, b"")
    text = " ".join(errors.split())
    assert "these: --rows was 'axis0', is 'file'. Expected another --output" in text


def test_a_npy_with_failed_rows_names_the_option() -> None:
    words = ["run", "negative.onnx", "--input", "photos", "--range", "0..1", "--output", "o.npy"]
    status, out, errors = called(*words)
    assert (status, out) == (2, b"")
    text = " ".join(errors.split())
    assert "as 1 row failed" in text
    assert "run it again with --retry-failed, or choose" in text


def test_a_pattern_without_matches_is_named() -> None:
    words = ["run", "times.onnx", "--input", "none/*.npy", "--output", "out", "--set", "factor=2"]
    status, out, errors = called(*words)
    assert (status, out.decode()) == (3, "no rows in 'none/*.npy': nothing was done\n"), errors


@pytest.mark.parametrize(("words", "message"), [
    (["--set", "factor"], "--set: got 'factor', expected NAME=VALUE"),
    (["--set", "factor=two"], "--set: factor: got 'two'"),
    (["--set", "factor=1", "--set", "factor=2"], "--set: got 'factor' twice"),
    (["--set", "x=1", "--set", "factor=1"], "--set: x: got"),
    (["--set", "factor=1", "--format", "gif"], "--format: got 'gif', expected one of png"),
    (["--set", "factor=1", "--format", "png"], "for a source of tables"),
    (["--set", "factor=1", "--batch", "0"], "--batch: got 0, expected an integer from 1 on"),
    (["--set", "factor=1", "--engine", "spark"], "--engine: got 'spark'"),
    (["--set", "factor=1", "--range", "1"], "--range: got '1', expected two numbers"),
    (["--set", "factor=1", "--outputs", "z"], "have no 'z'"),
    (["--set", "factor=1", "--address", "auto"], "--address: got"),
    (["--set", "factor=1", "--keep", "a"], "--keep: got names"),
    (["--set", "factor=1", "--input", "photos"], "expected one kind"),
    (["--set", "factor=1", "--input", "gone.npy"], "no such file or folder: gone.npy"),
    (["--set", "factor=1", "--input", "x=x.npy"], "expected NAME=PATTERN for all or for none"),
    ([], "got one array for a model with the inputs 'x', 'factor'"),
])  # fmt: skip
def test_wrong_arguments_are_refused(words: list[str], message: str) -> None:
    status, out, errors = called("run", "times.onnx", "-i", "x.npy", "-o", "out", *words)
    assert (status, out) == (2, b"")
    assert message in errors
    assert "Traceback" not in errors
    assert not Path("out").exists()


def test_ctrl_c_tells_how_to_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    from myops.batch import _state

    record = _state.State.record

    def stopping(self: _state.State, item: _state.Record) -> None:
        record(self, item)
        raise KeyboardInterrupt

    monkeypatch.setattr(_state.State, "record", stopping)
    words = ["run", "times.onnx", "-i", "x.npy", "-o", "out", "--set", "factor=2"]
    status, out, errors = called(*words)
    assert (status, out) == (130, b"")
    assert "the same command goes on" in errors
    monkeypatch.setattr(_state.State, "record", record)
    assert called(*words)[0] == 0


def test_import_loads_neither_torch_nor_onnx() -> None:
    code = (
        "import sys, myops.batch, myops.batch._run, myops.batch._ray\n"
        "print(sorted({'torch', 'onnx', 'onnxruntime', 'ray', 'pyarrow', 'PIL', 'fsspec'}"
        " & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_runs_work_without_torch_and_onnx(tmp_path: Path) -> None:
    """As if only myops-runtime were installed."""
    code = (
        "import sys; sys.modules['torch'] = sys.modules['onnx'] = None\n"
        "import myops.batch\n"
        "print(myops.batch.run('times.onnx', 'x.npy', 'out', constants={'factor': 2}).done)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "10", done.stderr


def test_unwritable_outputs_are_refused(tmp_path: Path) -> None:
    """An unwritable output ends the run with a sentence."""
    Path("file").write_text("")
    status, out, errors = called("run", "times.onnx", "-i", "x.npy", "-o", "file/out", "--set",
                                 "factor=2")  # fmt: skip
    assert (status, out) == (2, b"")
    assert "Not a directory" in errors
    assert os.path.isfile("file")
    shutil.rmtree("photos")


def test_batch_has_the_documented_public_names() -> None:
    assert dir(myops.batch) == ["Result", "run"]
    assert myops.batch.run.__doc__
