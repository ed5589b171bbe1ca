"""Tables: Parquet, .npy and .npz; every row is read, decoded and written as it is."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import batch_models as models
import numpy as np
import pytest
from onnx import helper
from PIL import Image

import myops.batch
from myops.batch import _sinks, _tables

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is of the extra batch")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is of the extra batch")


def table(folder: Path) -> Any:
    files = sorted(folder.glob("part-*.parquet"))
    return pyarrow.concat_tables([parquet.read_table(path) for path in files])


def test_parquet_with_kept_columns(tmp_path: Path, rng: np.random.Generator) -> None:
    """float64 lists of all elements, names of columns, row groups, columns that are kept."""
    model = models.times(tmp_path, shape=("N", 2, 3))
    x = rng.standard_normal((700, 6))
    rows = pyarrow.table(
        {"key": [f"k{i}" for i in range(700)], "values": list(x), "other": [0] * 700}
    )
    parquet.write_table(rows, tmp_path / "a.parquet", row_group_size=90)
    result = myops.batch.run(model, tmp_path / "a.parquet", tmp_path / "out", keep=["key"],
                             columns={"x": "values"}, constants={"factor": 2.5})  # fmt: skip
    assert result.format == "parquet"
    made = table(tmp_path / "out")
    assert made.column("key").to_pylist() == [f"k{i}" for i in range(700)]
    assert made.column("row").to_pylist() == list(range(700))
    got = np.array(made.column("y").to_pylist(), np.float32)
    np.testing.assert_array_equal(got, (x.astype(np.float32) * np.float32(2.5)))
    assert made.column("y.shape").to_pylist()[5] == [2, 3]
    # The output is read again: lists together with their shapes.
    again = myops.batch.run(model, tmp_path / "out" / "part-*.parquet", tmp_path / "again",
                            columns={"x": "y"}, constants={"factor": 1})  # fmt: skip
    assert again.done == 700
    np.testing.assert_array_equal(
        np.array(table(tmp_path / "again").column("y").to_pylist(), np.float32), got
    )


def test_wrong_rows_of_a_table_fail_alone(tmp_path: Path) -> None:
    """Nulls, numbers out of range, an index beyond the end: each row fails alone."""
    node = helper.make_node("Gather", ["data", "x"], ["y"])
    model = models.save(tmp_path / "gather.onnx", [node], {"x": (models.INT64, ("N",))},
                        {"y": (models.FLOAT, ("N",))},
                        {"data": np.float32([10, 11, 12])})  # fmt: skip
    rows = pyarrow.table({"x": pyarrow.array([0, 1, None, 9, 2, 2], pyarrow.int32())})
    parquet.write_table(rows, tmp_path / "a.parquet")
    result = myops.batch.run(model, tmp_path / "a.parquet", tmp_path / "out")
    assert (result.done, result.failed, result.status) == (4, 2, 1)
    reasons = models.failures(result)
    assert "got null" in reasons["a.parquet:2"]
    assert "out of" in reasons["a.parquet:3"]
    made = table(tmp_path / "out")
    assert made.column("row").to_pylist() == [0, 1, 4, 5]
    assert made.column("y").to_pylist() == [10, 11, 12, 12]


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_a_number_beyond_the_range_of_the_input_fails_its_row(ending: str, tmp_path: Path) -> None:
    """It would become infinite. Infinities and NaN of the source are passed on."""
    x = np.ones((5, 2))
    x[1, 0], x[2, 1], x[3, 0] = 1e39, np.inf, np.nan
    source = tmp_path / f"x.{ending}"
    if ending == "npy":
        np.save(source, x)
    else:
        parquet.write_table(pyarrow.table({"x": pyarrow.array(x.tolist())}), source)
    kind = (models.FLOAT, ("N", 2))
    model = models.save(
        tmp_path / "same.onnx", [helper.make_node("Identity", ["x"], ["y"])], {"x": kind},
        {"y": kind},
    )  # fmt: skip
    result = myops.batch.run(model, source, tmp_path / "out", format="npz")
    assert (result.done, result.failed) == (4, 1)
    assert "got 1e+39, expected at most 3.40" in (tmp_path / "out" / "failed.jsonl").read_text()
    np.testing.assert_array_equal(models.parts(tmp_path / "out")["y"], x[[0, 2, 3, 4]])


def test_pictures_in_parquet_are_decoded(tmp_path: Path, rng: np.random.Generator) -> None:
    images, data = [], []
    for place in range(5):
        images.append(rng.integers(0, 256, (3 + place, 4, 3), np.uint8))
        stream = io.BytesIO()
        Image.fromarray(images[-1]).save(stream, "PNG")
        data.append(stream.getvalue())
    data[2] = b"broken"
    parquet.write_table(pyarrow.table({"x": data}), tmp_path / "a.parquet")
    model = models.identity(tmp_path, models.UINT8, ("N", "h", "w", 3))
    result = myops.batch.run(model, tmp_path / "a.parquet", tmp_path / "out")
    assert (result.done, result.failed) == (4, 1)
    for row in table(tmp_path / "out").to_pylist():
        np.testing.assert_array_equal(np.reshape(row["y"], row["y.shape"]), images[row["row"]])


@pytest.mark.parametrize("shape", [("N",), ("N", 1)])
def test_text_columns_become_string_inputs(shape: tuple[Any, ...], tmp_path: Path) -> None:
    model = models.identity(tmp_path, models.STRING, shape)
    words = ["", "ü", "two words", "x"] * 10
    parquet.write_table(pyarrow.table({"x": words}), tmp_path / "a.parquet")
    myops.batch.run(model, tmp_path / "a.parquet", tmp_path / "out")
    expected = words if len(shape) == 1 else [[word] for word in words]
    assert table(tmp_path / "out").column("y").to_pylist() == expected


def test_npz_with_one_array_for_each_input(tmp_path: Path) -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    kind = (models.FLOAT, ("batch", 2))
    model = models.save(tmp_path / "add.onnx", [node], {"a": kind, "b": kind}, {"c": kind})
    a, b = np.float32([[1, 2], [3, 4]]), np.float32([[10, 20], [30, 40]])
    np.savez(tmp_path / "x.npz", a=a, b=b)
    myops.batch.run(model, tmp_path / "x.npz", tmp_path / "out")
    np.testing.assert_array_equal(models.parts(tmp_path / "out")["c"], a + b)
    np.savez(tmp_path / "short.npz", a=a, b=b[:1])
    with pytest.raises(ValueError, match="one length on axis 0"):
        myops.batch.run(model, tmp_path / "short.npz", tmp_path / "again")
    np.savez(tmp_path / "none.npz", a=a)
    with pytest.raises(ValueError, match="got nothing for the input 'b'"):
        myops.batch.run(model, tmp_path / "none.npz", tmp_path / "again")


@pytest.mark.parametrize("ending", ["npy", "npz", "parquet"])
def test_a_source_changed_between_runs_is_read_again(ending: str, tmp_path: Path) -> None:
    """A process that runs several times reads the present source."""
    model = models.identity(tmp_path, models.FLOAT, ("N", 3))
    for place in range(2):
        x = np.full((300, 3), place, np.float32)
        if ending == "parquet":
            parquet.write_table(pyarrow.table({"x": list(x)}), tmp_path / "x.parquet")
        elif ending == "npz":
            np.savez(tmp_path / "x.npz", x=x)
        else:
            np.save(tmp_path / "x.npy", x)
        output = tmp_path / f"out{place}.npy"
        myops.batch.run(model, tmp_path / f"x.{ending}", output)
        np.testing.assert_array_equal(np.load(output), x)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npz_arrays_in_any_memory_order(
    save: Any, order: Any, tmp_path: Path, rng: np.random.Generator
) -> None:
    """Arrays in Fortran order, and empty and narrow ones."""
    x = rng.standard_normal((700, 3)).astype(np.float32)
    save(tmp_path / "x.npz", x=np.asarray(x, order=order), unused=np.zeros((700, 0)))
    model = models.identity(tmp_path, models.FLOAT, ("N", 3))
    myops.batch.run(model, tmp_path / "x.npz", tmp_path / "out.npy", workers=2)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), x)


@pytest.mark.parametrize("small", [0, 2**24])
def test_row_groups_of_any_size(
    small: int, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups that are read as a whole, and groups that each thread reads in order."""
    monkeypatch.setattr(_tables, "_SMALL_BYTES", small)
    monkeypatch.setattr(_tables, "_PLACE_BYTES", 100)
    x = rng.standard_normal((3000, 3)).astype(np.float32)
    made = pyarrow.table({"x": list(x), "id": np.arange(3000)})
    parquet.write_table(made, tmp_path / "x.parquet", row_group_size=1700)
    model = models.identity(tmp_path, models.FLOAT, ("N", 3))
    for workers in (1, 3):
        output = tmp_path / f"{workers}.parquet"
        myops.batch.run(model, tmp_path / "x.parquet", output, workers=workers, keep=["id"])
        found = parquet.read_table(output)
        np.testing.assert_array_equal(np.stack(found["y"].to_numpy()), x)
        np.testing.assert_array_equal(found["id"], np.arange(3000))


@pytest.mark.parametrize("format", ["npz", "parquet"])
def test_parts_written_in_pieces_equal_whole_ones(
    format: str, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They equal parts written at once, also if rows have different shapes."""
    model = models.identity(tmp_path, models.FLOAT, ("N", "length"))
    rows = [rng.standard_normal(1 + place // 200).astype(np.float32) for place in range(500)]
    parquet.write_table(pyarrow.table({"x": rows}), tmp_path / "x.parquet")
    found = []
    for size in (1, 2**30):
        monkeypatch.setattr(_sinks, "_PART_BYTES", size)
        output = tmp_path / f"{size}.{format}"
        myops.batch.run(model, tmp_path / "x.parquet", output)
        found.append(output)
        assert not list(tmp_path.rglob(".*.part"))
    if format == "npz":
        assert found[0].read_bytes() == found[1].read_bytes()
    else:
        assert parquet.read_table(found[0]).equals(parquet.read_table(found[1]))
