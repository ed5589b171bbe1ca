"""Runs that are killed, that find a full disk, or that use one output at the same time lose no
row."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import batch_models as models
import numpy as np
import pytest
from PIL import Image

import myops.batch
from myops.batch import _plan, _single, _sources, _state, _store
from myops.batch._strings import Strings

# A shell that starts tests in the background lets their processes ignore SIGINT.
RUN = """
import json, signal, sys, myops.batch
signal.signal(signal.SIGINT, signal.default_int_handler)
myops.batch.run(**json.loads(sys.argv[1]))
"""


def started(program: str = RUN, **arguments: Any) -> subprocess.Popen[str]:
    words = json.dumps({name: str(value) if isinstance(value, Path) else value
                        for name, value in arguments.items()})  # fmt: skip
    command = [sys.executable, "-c", program, words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def journal(output: Path) -> list[dict[str, Any]]:
    path = output / ".myops-run" / "journal.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def wait_for(condition: Any, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_continues(ending: int, tmp_path: Path) -> None:
    """After kill -9 and after Ctrl-C, the files that exist are complete and are not written
    again."""
    for place in range(40):
        np.save(tmp_path / f"{place:02d}.npy", np.float32([[place]]))
    model = models.slow(tmp_path, 900)  # a run of seconds
    words: dict[str, Any] = {"model": model, "source": f"{tmp_path}/*.npy", "rows": "file",
                             "workers": 1, "threads": 1}  # fmt: skip
    output = tmp_path / "out"
    process = started(output=output, **words)
    wait_for(lambda: sum("done" in item for item in journal(output)) >= 3, process)
    process.send_signal(ending)
    assert process.wait() != 0
    settled = sum("done" in item for item in journal(output))
    assert settled < 40
    for data in models.outputs_of(output).values():
        assert data.startswith(b"PK") or data == b""  # complete, or not yet renamed
    whole = {name: data for name, data in models.outputs_of(output).items() if name[0] != "."}
    result = myops.batch.run(output=output, **words)
    assert (result.done, result.before) == (40, settled)
    myops.batch.run(output=tmp_path / "again", **words)
    expected = models.outputs_of(tmp_path / "again")
    assert models.outputs_of(output) == expected
    assert whole.items() <= expected.items()
    nothing = myops.batch.run(output=output, **words)
    assert (nothing.before, nothing.status) == (40, 0)


@pytest.fixture
def words(tmp_path: Path) -> dict[str, Any]:
    np.save(tmp_path / "x.npy", np.arange(3000, dtype=np.float32).reshape(1000, 3))
    return {"model": str(models.times(tmp_path)), "source": str(tmp_path / "x.npy"),
            "output": str(tmp_path / "out"), "constants": {"factor": 2}}  # fmt: skip


def test_a_changed_model_source_or_option_is_refused(words: dict[str, Any], tmp_path: Path) -> None:
    """If the model, the source or an option has changed, the error states the earlier value."""
    myops.batch.run(**words)
    before = models.outputs_of(tmp_path / "out")
    with pytest.raises(ValueError, match=r"options was|constants was .*2\.0.*is .*3\.0"):
        myops.batch.run(**{**words, "constants": {"factor": 3}})
    with pytest.raises(ValueError, match="format was 'npz-parts', is 'parquet'"):
        myops.batch.run(**words, format="parquet")
    for changed, told in (
        ({"constants": {"factor": 3}}, "these: constants was factor=2.0, is factor=3.0. Expected"),
        ({"whole": ["y"]}, "these: whole was not given, is y. Expected"),
        ({"range": (0, 1)}, "these: range was not given, is 0.0, 1.0. Expected"),
    ):
        with pytest.raises(ValueError, match="another run") as caught:
            myops.batch.run(**{**words, **changed})
        assert told in str(caught.value)
    x = np.load(words["source"])
    x[5] = 7
    np.save(words["source"], x)
    with pytest.raises(ValueError, match="source has changed"):
        myops.batch.run(**words)
    np.save(words["source"], np.arange(3000, dtype=np.float32).reshape(1000, 3))
    with open(words["model"], "ab") as stream:
        stream.write(b"\x3a\x00")  # another empty graph, which changes nothing
    with pytest.raises(ValueError, match="model has changed"):
        myops.batch.run(**words)
    assert models.outputs_of(tmp_path / "out") == before


def test_changed_external_weights_are_refused(tmp_path: Path) -> None:
    import onnx

    from myops.batch._identity import external_files

    model = onnx.load(models.matrix(tmp_path))
    path = tmp_path / "outside.onnx"
    onnx.save(model, path, save_as_external_data=True, location="wéights.bin", size_threshold=0)
    assert external_files(str(path)) == ["wéights.bin"]
    np.save(tmp_path / "x.npy", np.zeros((2, 33), np.float32))
    myops.batch.run(path, tmp_path / "x.npy", tmp_path / "out")
    (tmp_path / "wéights.bin").write_bytes(bytes(33 * 17 * 4))
    with pytest.raises(ValueError, match=r"these: weights: wéights\.bin has changed"):
        myops.batch.run(path, tmp_path / "x.npy", tmp_path / "out")


def test_a_folder_with_other_files_is_refused(words: dict[str, Any], tmp_path: Path) -> None:
    """Also the folder of the source: no file of a user is overwritten."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds 'precious\.txt'"):
        myops.batch.run(**words)
    Image.new("RGB", (3, 3)).save(tmp_path / "a.png")
    before = (tmp_path / "a.png").read_bytes()
    model = models.identity(tmp_path, models.UINT8, ("h", "w", 3))
    with pytest.raises(ValueError, match="expected an empty folder"):
        myops.batch.run(model, tmp_path / "*.png", tmp_path)
    assert (tmp_path / "a.png").read_bytes() == before


def test_implausible_outputs_are_refused(words: dict[str, Any], tmp_path: Path) -> None:
    """The path of an unset shell variable, the source, the model."""
    for output, message in (
        ("", "output: got an empty text"),
        (words["source"], r"output: all files of the source are .*x\.npy"),
        (words["model"], "exists and is no folder"),
        ("/dev/null", "exists and is no folder"),
    ):
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(ValueError, match=message):
            myops.batch.run(**{**words, "output": output})
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_output_inside_of_the_source_is_not_read(tmp_path: Path) -> None:
    """Files that a run has written are no source of the next run."""
    Image.new("RGB", (3, 3)).save(tmp_path / "a.png")
    model = models.identity(tmp_path, models.UINT8, ("h", "w", 3))
    for _ in range(2):
        result = myops.batch.run(model, tmp_path, tmp_path / "out")
        assert (result.rows, result.done) == (1, 1)


def test_two_runs_on_one_output_are_refused(words: dict[str, Any], tmp_path: Path) -> None:
    state = _state.State(_single.target(words["output"]))
    state.lock()
    with pytest.raises(_state.LockedError, match=f"process {os.getpid()} on"):
        myops.batch.run(**words)
    state.close()
    assert myops.batch.run(**words).done == 1000


FULL = """
import json, resource, sys
import myops.batch
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    myops.batch.run(**json.loads(sys.argv[1]))
except OSError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("limit", [5, 300, 5000])  # for the lock, the manifest, a part
def test_a_full_disk_ends_the_run(limit: int, words: dict[str, Any], tmp_path: Path) -> None:
    """A full disk ends the run, but fails no row; no incomplete file remains."""
    x = np.arange(60000, dtype=np.float32).reshape(20000, 3)
    np.save(words["source"], x)
    done = subprocess.run([sys.executable, "-c", FULL, json.dumps(words), str(limit)],
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout.startswith("WriteError"), done.stderr
    name = {5: ".myops-run/lock", 300: ".myops-run/manifest.json", 5000: "part-0000"}[limit]
    assert f"{tmp_path}/out/{name}" in done.stdout
    assert models.outputs_of(tmp_path / "out") == {}
    result = myops.batch.run(**words)
    assert (result.done, result.failed) == (20000, 0)
    np.testing.assert_array_equal(models.parts(tmp_path / "out")["y"], x * 2)


def test_failed_rows_are_run_again_on_request(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    Image.new("RGB", (3, 3)).save(folder / "good.png")
    (folder / "bad.png").write_bytes(b"x")
    model = models.identity(tmp_path, models.UINT8, ("h", "w", 3))
    words: dict[str, Any] = {"model": model, "source": folder, "output": tmp_path / "out"}
    assert myops.batch.run(**words).status == 1
    again = myops.batch.run(**words)
    assert (again.before, again.failed) == (2, 1)
    again = myops.batch.run(**words, retry_failed=True)
    assert (again.before, again.failed) == (1, 1)
    with pytest.raises(RuntimeError, match=r"expected at most 0; row 0 \(bad.png\)"):
        myops.batch.run(**words, retry_failed=True, max_failures=0)


def decoder(folder: Path) -> tuple[Path, str]:
    """A model that ends the process for bytes that are no picture, and its library."""
    from onnx import helper

    extensions = pytest.importorskip("onnxruntime_extensions", reason="of the extra pyops")
    node = helper.make_node("DecodeImage", ["x"], ["y"], domain="com.microsoft.extensions")
    kind = {"x": (models.UINT8, ("bytes",))}, {"y": (models.UINT8, ("h", "w", 3))}
    model = models.save(folder / "decode.onnx", [node], *kind, domain="com.microsoft.extensions")
    return model, extensions.get_library_path()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for place in range(6):
        Image.new("RGB", (3, 3), (place, 0, 0)).save(folder / f"{place}.png")
    (folder / "3.png").write_bytes(b"this ends the process")
    return folder


def test_a_row_that_ends_the_process_fails_alone(files: Path, tmp_path: Path) -> None:
    """With a process for each row, only that row fails."""
    model, library = decoder(tmp_path)
    result = myops.batch.run(model, files, tmp_path / "out", libraries=[library], isolate=True,
                             format="npz")  # fmt: skip
    assert (result.done, result.failed) == (5, 1), models.failures(result)
    assert "The process that ran it ended: " in models.failures(result)["3.png"]


def test_a_run_continues_after_a_row_that_ended_it(files: Path, tmp_path: Path) -> None:
    """The shard in which the process ended is run in a process of its own."""
    model, library = decoder(tmp_path)
    words: dict[str, Any] = {"model": model, "source": files, "output": tmp_path / "out",
                             "libraries": [library], "format": "npz"}  # fmt: skip
    process = started(**words)
    assert process.wait() != 0, process.stderr.read() if process.stderr else ""
    result = myops.batch.run(**words)
    assert (result.done, result.failed) == (5, 1), models.failures(result)
    assert "ended: " in models.failures(result)["3.png"]


SLOW_JOURNAL = """
import time
from myops.batch import _state
begin = _state.State.begin
_state.State.begin = lambda state, number: (time.sleep(0.3), begin(state, number))
"""


def test_a_shard_is_in_the_journal_before_it_is_run(files: Path, tmp_path: Path) -> None:
    """However late the journal is written: a row that ends the process is known afterwards."""
    model, library = decoder(tmp_path)
    words: dict[str, Any] = {"model": model, "source": files, "output": tmp_path / "out",
                             "libraries": [library], "format": "npz"}  # fmt: skip
    process = started(SLOW_JOURNAL + RUN, **words)
    assert process.wait() != 0, process.stderr.read() if process.stderr else ""
    begun = {line["begin"] for line in journal(tmp_path / "out") if "begin" in line}
    result = myops.batch.run(**words, isolate=True)
    assert (result.done, result.failed) == (5, 1), models.failures(result)
    (number,) = {line["number"] for line in journal(tmp_path / "out") if line.get("failed")}
    assert number in begun


@pytest.mark.parametrize(("workers", "readers"), [(1, 0), (2, 1)])
def test_few_pictures_are_in_memory(
    workers: int, readers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only as many pictures are in memory as there are threads."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for place in range(120):
        Image.new("RGB", (3, 3)).save(folder / f"{place}.bmp")
    lock, live, most = threading.Lock(), [0], [0]
    read, write = _store.read, _store.write

    def reading(path: str) -> bytes:
        with lock:
            live[0] += path.endswith(".bmp")
            most[0] = max(most)
            most.append(live[0])
        return read(path)

    def writing(path: str, data: bytes) -> int:
        time.sleep(0.002)  # slow writing must delay the reading
        with lock:
            live[0] -= path.endswith(".png")
        return write(path, data)

    monkeypatch.setattr(_store, "read", reading)
    monkeypatch.setattr(_store, "write", writing)
    model = models.identity(tmp_path, models.UINT8, ("h", "w", 3))
    result = myops.batch.run(model, folder, tmp_path / "out", workers=workers, readers=readers)
    assert result.done == 120
    assert max(most) <= workers + readers
    assert result.rows_in_memory <= workers + readers


def test_output_names_are_unique(tmp_path: Path) -> None:
    """Two rows never have the same output name."""

    def planned(*names: str) -> _plan.RunPlan:
        found = Strings(names)
        plan = _plan.RunPlan(_sources.Files(found, {"x": found.under("/nowhere/")}))
        plan.name_outputs(".png")
        return plan

    plan = planned("a.jpg", "a.png", "b.jpg", "c/a.jpg", "\udcff \u00fc\n.jpg")
    outputs = [_plan.output_of(item) for item in plan]
    assert outputs == ["a.jpg", "a.png", "b", "c/a", "\udcff \u00fc\n"]
    assert plan[-1].files == {"x": "/nowhere/\udcff \u00fc\n.jpg"}
    with pytest.raises(ValueError, match=r"one name, 'a.jpg.png', for 'a.jpg' and 'a.jpg.tif'"):
        planned("a.jpg", "a.png", "a.jpg.tif")


def test_a_list_of_many_files_takes_little_memory(tmp_path: Path) -> None:
    """Ten million files need less than 2.5 GB at any time; a dict of their names needs more."""
    count = 5_000
    folder = tmp_path / "photographs"
    folder.mkdir()
    for number in range(count):
        (folder / f"photograph-{number:010d}.jpg").touch()
    for pattern in (str(folder), f"{folder}/*.jpg"):
        tracemalloc.start()
        plan = _plan.plan(_sources.files({"x": [pattern]}), False, None)
        plan.name_outputs(".png")
        _plan.digest(plan)
        kept, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert plan.total == count
        assert most / count < 250, pattern
        assert kept / count < 75, pattern


def test_equal_names_in_several_folders(tmp_path: Path) -> None:
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        Image.new("RGB", (2, 2), side and (9, 9, 9)).save(tmp_path / side / "same.png")
    model = models.identity(tmp_path, models.UINT8, ("h", "w", 3))
    sources = [tmp_path / "left", tmp_path / "right"]
    assert myops.batch.run(model, sources, tmp_path / "out").done == 2
    assert set(models.outputs_of(tmp_path / "out")) == {"left/same.png", "right/same.png"}


def test_a_bucket_as_source_and_output(tmp_path: Path) -> None:
    """Source and output through fsspec; a second run finds everything done."""
    fsspec = pytest.importorskip("fsspec", reason="fsspec is of the extra batch")
    files = fsspec.filesystem("memory")
    files.pipe_file("/bucket/in/a/x.npy", _array(np.float32([[1, 2, 3]])))
    files.pipe_file("/bucket/in/y.npy", _array(np.float32([[4, 5, 6], [7, 8, 9]])))
    words: dict[str, Any] = {
        "model": models.times(tmp_path), "source": "memory://bucket/in",
        "output": "memory://bucket/out", "constants": {"factor": 3},
    }  # fmt: skip
    try:
        result = myops.batch.run(**words)
        assert (result.done, result.before) == (3, 0)
        made = sorted(path for path in files.find("/bucket/out") if "part-" in path)
        with files.open(made[1]) as stream, np.load(stream) as arrays:
            np.testing.assert_array_equal(arrays["y"], [[12, 15, 18], [21, 24, 27]])
        assert myops.batch.run(**words).before == 3
        with pytest.raises(ValueError, match="is that of another run"):
            myops.batch.run(**{**words, "constants": {"factor": 4}})
        state = _state.State(_single.target("memory://bucket/out"))
        state.lock()
        with pytest.raises(_state.LockedError, match="another run"):
            myops.batch.run(**words)
    finally:
        files.rm("/bucket", recursive=True)


def _array(array: np.ndarray) -> bytes:
    from myops.batch import _arrays

    return _arrays.array_file(array)
