"""One file for all rows: it is complete or absent, has the same rows as a folder, and a run
continues."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import batch_models as models
import numpy as np
import pytest
from onnx import helper

import myops.batch

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is of the extra batch")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is of the extra batch")
ENDINGS = ("parquet", "npz", "npy")


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    """The columns of an output."""
    if path.suffix == ".parquet":
        table = parquet.read_table(path)
        return {name: np.array(table.column(name).to_pylist()) for name in table.column_names}
    found = np.load(path)
    return {"y": found} if path.suffix == ".npy" else dict(found)


@pytest.mark.parametrize("ending", ENDINGS)
def test_all_rows_are_in_one_file(ending: str, tmp_path: Path, rng: np.random.Generator) -> None:
    """No row is run twice unless the file was deleted."""
    x = rng.standard_normal((900, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    output = tmp_path / f"out.{ending}"
    words: dict[str, Any] = {"model": models.times(tmp_path), "source": tmp_path / "x.npy",
                             "output": output, "constants": {"factor": 2}}  # fmt: skip
    result = myops.batch.run(**words)
    assert (result.output, result.format, result.done) == (str(output), ending, 900)
    found = arrays_of(output)
    np.testing.assert_array_equal(found["y"].astype(np.float32), x * 2)
    if ending != "npy":
        assert found["row"].tolist() == list(range(900))
    hidden = tmp_path / f".out.{ending}.myops-run"
    assert os.listdir(hidden) == [".myops-run"]
    before = output.read_bytes()
    assert myops.batch.run(**words).before == 900
    output.unlink()
    assert myops.batch.run(**words).before == 0
    assert output.read_bytes() == before
    output.unlink()
    with pytest.raises(ValueError, match="is that of another run") as caught:
        myops.batch.run(**{**words, "constants": {"factor": 3}})
    assert f"To begin anew, delete {hidden} and the file" in str(caught.value)
    shutil.rmtree(hidden)
    assert myops.batch.run(**{**words, "constants": {"factor": 3}}).done == 900


def test_a_file_of_no_run_is_refused(tmp_path: Path) -> None:
    """The file stays unchanged."""
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    (tmp_path / "out.npz").write_text("mine")
    words: dict[str, Any] = {"model": models.times(tmp_path), "source": tmp_path / "x.npy",
                             "constants": {"factor": 2}}  # fmt: skip
    with pytest.raises(ValueError, match="exists, and is not of a run"):
        myops.batch.run(output=tmp_path / "out.npz", **words)
    assert (tmp_path / "out.npz").read_text() == "mine"
    with pytest.raises(ValueError, match=r"got 'npz' for an output that ends in \.npy"):
        myops.batch.run(output=tmp_path / "out.npy", format="npz", **words)
    (tmp_path / "folder.npy").mkdir()
    assert myops.batch.run(output=tmp_path / "folder.npy", **words).done == 2
    assert (tmp_path / "folder.npy" / "part-0000000.npz").exists()


def test_failed_rows_are_left_out(tmp_path: Path) -> None:
    """The other rows are in the file; the parts remain, so that the failed rows can be run
    again."""
    node = helper.make_node("Gather", ["data", "x"], ["y"])
    model = models.save(tmp_path / "gather.onnx", [node], {"x": (models.INT64, ("N",))},
                        {"y": (models.FLOAT, ("N",))},
                        {"data": np.float32([10, 11, 12])})  # fmt: skip
    np.save(tmp_path / "x.npy", np.int64([0, 9] + [2] * 600))
    words: dict[str, Any] = {"model": model, "source": tmp_path / "x.npy",
                             "output": tmp_path / "out.parquet"}  # fmt: skip
    result = myops.batch.run(**words)
    assert (result.done, result.failed) == (601, 1)
    assert result.failures == str(tmp_path / "out.parquet.failed.jsonl")
    found = arrays_of(tmp_path / "out.parquet")
    assert found["row"].tolist() == [0, *range(2, 602)]
    again = myops.batch.run(**words, retry_failed=True)
    assert (again.before, again.done, again.failed) == (346, 601, 1)
    assert arrays_of(tmp_path / "out.parquet")["y"].tolist() == found["y"].tolist()
    with pytest.raises(ValueError, match="no place for the numbers"):
        myops.batch.run(model, tmp_path / "x.npy", tmp_path / "out.npy")
    assert not (tmp_path / "out.npy").exists()


KILLED = """
import json, os, sys
import myops.batch
from myops.batch import _single
replace = os.replace
def end(*arguments):
    os.kill(os.getpid(), 9)
def renamed(source, target):
    (end if str(target).endswith("out.npz") else replace)(source, target)
if sys.argv[2] == "before":
    os.replace = renamed
else:
    _single.remove_parts = end
myops.batch.run(**json.loads(sys.argv[1]))
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_run_killed_while_writing_the_file_continues(moment: str, tmp_path: Path) -> None:
    """Killed just before the file is renamed, and just before its parts are removed."""
    x = np.arange(3000, dtype=np.float32).reshape(1000, 3)
    np.save(tmp_path / "x.npy", x)
    words = {"model": str(models.times(tmp_path)), "source": str(tmp_path / "x.npy"),
             "output": str(tmp_path / "out.npz"), "constants": {"factor": 2}}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", KILLED, json.dumps(words), moment], check=False)
    assert done.returncode == -9
    assert (tmp_path / "out.npz").exists() == (moment == "after")
    hidden = tmp_path / ".out.npz.myops-run"
    assert len(os.listdir(hidden)) > 1
    assert myops.batch.run(**words).before == 1000  # type: ignore[arg-type]
    assert os.listdir(hidden) == [".myops-run"]
    np.testing.assert_array_equal(arrays_of(tmp_path / "out.npz")["y"], x * 2)


@pytest.mark.parametrize("uneven", [0, 300, 900])
def test_rows_of_different_shapes_are_written(
    uneven: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    """Different shapes in some parts, in all, in none."""
    node = helper.make_node("NonZero", ["x"], ["places"])
    model = models.save(tmp_path / "nonzero.onnx", [node], {"x": (models.FLOAT, (1, 4))},
                        {"places": (models.INT64, (2, "n"))})  # fmt: skip
    x = np.ones((900, 4), np.float32)
    x[:uneven] = rng.integers(0, 2, (uneven, 4))
    np.save(tmp_path / "x.npy", x)
    for ending in ENDINGS[:2]:
        myops.batch.run(model, tmp_path / "x.npy", tmp_path / f"out.{ending}")
    table = parquet.read_table(tmp_path / "out.parquet")
    rows = zip(table["places"].to_pylist(), table["places.shape"].to_pylist(), strict=True)
    expected = [np.argwhere(row[None]).T.tolist() for row in x]
    assert [np.reshape(values, shape).tolist() for values, shape in rows] == expected
    with np.load(tmp_path / "out.npz") as arrays:
        if not uneven:
            assert arrays["places"].tolist() == expected
            return
        ends = np.cumsum(arrays["places.shape"].prod(1))[:-1]
        rows = zip(np.split(arrays["places"], ends), arrays["places.shape"], strict=True)
        assert [values.reshape(shape).tolist() for values, shape in rows] == expected
    with pytest.raises(ValueError, match=r"rows of different shapes, which a \.npy cannot hold"):
        myops.batch.run(model, tmp_path / "x.npy", tmp_path / "out.npy")


def test_kept_columns_are_unchanged(tmp_path: Path) -> None:
    """Dates, decimals, structures, nulls; also if a file of the source has only nulls."""
    kept = {
        "when": pyarrow.array([1, None, 3], pyarrow.timestamp("us", tz="UTC")),
        "price": pyarrow.array([1, None, 3], pyarrow.decimal128(9, 2)),
        "struct": pyarrow.array([{"a": 1}, None, {"a": 3}]),
        "word": pyarrow.array(["a", "b", None]).dictionary_encode(),
    }
    x = [[1.0, 2.0, 3.0]] * 3
    parquet.write_table(pyarrow.table({"x": x, **kept}), tmp_path / "a.parquet")
    nulls = {name: pyarrow.nulls(3) for name in kept}
    parquet.write_table(pyarrow.table({"x": x, **nulls}), tmp_path / "b.parquet")
    words: dict[str, Any] = {"model": models.times(tmp_path), "constants": {"factor": 2},
                             "keep": list(kept)}  # fmt: skip
    myops.batch.run(source=tmp_path / "a.parquet", output=tmp_path / "out.parquet", **words)
    found = parquet.read_table(tmp_path / "out.parquet").select(list(kept))
    assert found.equals(parquet.read_table(tmp_path / "a.parquet", columns=list(kept)))
    both = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    myops.batch.run(source=both, output=tmp_path / "both.parquet", **words)
    table = parquet.read_table(tmp_path / "both.parquet")
    assert table["price"].to_pylist()[3:] == [None] * 3
    assert table["when"].type == found["when"].type


def test_pictures_from_a_bucket(tmp_path: Path) -> None:
    from PIL import Image

    fsspec = pytest.importorskip("fsspec", reason="fsspec is of the extra batch")
    for name in "ab":
        Image.new("RGB", (2, 3), ord(name)).save(tmp_path / f"{name}.png")
    model = models.identity(tmp_path, models.UINT8, ("h", "w", 3))
    files = fsspec.filesystem("memory")
    try:
        for _ in range(2):
            result = myops.batch.run(model, tmp_path / "*.png", "memory://one/out.npz")
            assert (result.done, result.format) == (2, "npz")
        with files.open("/one/out.npz") as stream, np.load(stream) as arrays:
            assert arrays["file"].tolist() == ["a.png", "b.png"]
            assert arrays["y"].shape == (2, 3, 2, 3)
    finally:
        files.rm("/one", recursive=True)


def test_file_urls_are_paths(tmp_path: Path) -> None:
    """file:// is a path like any other; outputs are renamed there too."""
    np.save(tmp_path / "x.npy", np.ones((3, 3), np.float32))
    words: dict[str, Any] = {"model": models.times(tmp_path), "constants": {"factor": 2}}
    source = f"file://{tmp_path}/*.npy"
    assert myops.batch.run(source=source, output=f"file://{tmp_path}/out.npz", **words).done == 3
    result = myops.batch.run(source=f"{tmp_path}/*.npy", output=tmp_path / "out.npz", **words)
    assert (result.before, result.output) == (3, str(tmp_path / "out.npz"))
