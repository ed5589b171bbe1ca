"""Tables: Parquet, .npy and .npz; rows become inputs, outputs become rows."""

from __future__ import annotations

import io
import zipfile
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


@pytest.mark.parametrize("batch", [None, 1, 3, 16])
@pytest.mark.parametrize("workers", [1, 3])
def test_equal_bits_with_any_workers_and_batch(
    batch: int | None, workers: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    """The results equal those of the model called with each row alone."""
    import onnxruntime

    model = models.matrix(tmp_path)
    x = rng.standard_normal((601, 33)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    myops.batch.run(model, tmp_path / "x.npy", tmp_path / "out", batch=batch, workers=workers)
    found = models.parts(tmp_path / "out")
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    expected = np.concatenate([session.run(None, {"x": row[None]})[0] for row in x])
    assert found["row"].tolist() == list(range(601))
    assert found["y"].tobytes() == expected.tobytes()


@pytest.mark.parametrize("equal", [0, 300])
@pytest.mark.parametrize("workers", [1, 2])
def test_dependent_rows_are_run_alone(equal: int, workers: int, tmp_path: Path) -> None:
    """A graph with a mean over axis 0 gives other values for several rows in a call. If the first
    rows are all equal, they do not show it."""
    nodes = [helper.make_node("ReduceMean", ["x"], ["m"], axes=[0], keepdims=1),
             helper.make_node("Sub", ["x", "m"], ["y"])]  # fmt: skip
    kind = (models.FLOAT, ("N", 2))
    model = models.save(tmp_path / "mean.onnx", nodes, {"x": kind}, {"y": kind})
    x = np.arange(1200, dtype=np.float32).reshape(600, 2)
    x[:equal] = 1
    np.save(tmp_path / "x.npy", x)
    result = myops.batch.run(model, tmp_path / "x.npy", tmp_path / "out", workers=workers)
    assert not models.parts(tmp_path / "out")["y"].any()
    assert result.done == 600


def test_a_dependence_found_late_repeats_the_shard(tmp_path: Path) -> None:
    """The first call shows no dependence; the shard is run again when a later call does."""
    nodes = [helper.make_node("ReduceMean", ["x"], ["m"], axes=[0], keepdims=1),
             helper.make_node("Sub", ["x", "m"], ["d"]),
             helper.make_node("Max", ["m", "limit"], ["over"]),
             helper.make_node("Sub", ["over", "limit"], ["k"]),
             helper.make_node("Mul", ["d", "k"], ["e"]),
             helper.make_node("Add", ["x", "e"], ["y"])]  # fmt: skip
    kind = (models.FLOAT, ("N", 2))
    model = models.save(tmp_path / "late.onnx", nodes, {"x": kind}, {"y": kind},
                        {"limit": np.float32(100)})  # fmt: skip
    x = np.arange(512, dtype=np.float32).reshape(256, 2) / 10
    x[64:] += 200
    np.save(tmp_path / "x.npy", x)
    myops.batch.run(model, tmp_path / "x.npy", tmp_path / "out", batch=16)
    np.testing.assert_array_equal(models.parts(tmp_path / "out")["y"], x)


@pytest.mark.parametrize("side", [4, 200])
def test_pictures_with_a_fixed_axis_0(side: int, tmp_path: Path) -> None:
    """Calls have the number of rows of the graph, however large the rows are."""
    kind = (models.FLOAT, (4, side, side))
    node = helper.make_node("Neg", ["x"], ["y"])
    model = models.save(tmp_path / "four.onnx", [node], {"x": kind}, {"y": kind})
    x = np.arange(10 * side * side, dtype=np.float32).reshape(10, side, side)
    np.save(tmp_path / "x.npy", x)
    result = myops.batch.run(model, tmp_path / "x.npy", tmp_path / "out")
    np.testing.assert_array_equal(models.parts(tmp_path / "out")["y"], -x)
    assert result.rows_per_call == 4


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_a_fixed_number_of_rows_is_filled_up(count: int, tmp_path: Path) -> None:
    """Calls are completed with copies of a row, whose results are dropped."""
    kind = (models.FLOAT, (4, 2))
    node = helper.make_node("Identity", ["x"], ["y"])
    model = models.save(tmp_path / "four.onnx", [node], {"x": kind}, {"y": kind})
    x = np.arange(2 * count, dtype=np.float32).reshape(count, 2)
    np.save(tmp_path / "x.npy", x)
    myops.batch.run(model, tmp_path / "x.npy", tmp_path / "out")
    np.testing.assert_array_equal(models.parts(tmp_path / "out")["y"], x)


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


def test_an_output_that_counts_no_rows_says_how_to_name_it(tmp_path: Path) -> None:
    node = helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0)
    model = models.save(tmp_path / "sum.onnx", [node], {"x": (models.FLOAT, ("N", 3))},
                        {"sum": (models.FLOAT, [])})  # fmt: skip
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    result = myops.batch.run(model, tmp_path / "x.npy", tmp_path / "out")
    (reason, _) = models.failures(result).values()
    assert "pass whole=['sum'] (--whole sum) where" in reason
    result = myops.batch.run(model, tmp_path / "x.npy", tmp_path / "other", whole=["sum"])
    assert (result.done, result.failed) == (2, 0)


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


@pytest.mark.parametrize("format", ["npz", "parquet"])
def test_outputs_of_different_sizes(format: str, tmp_path: Path) -> None:
    """The positions at which x is not 0: their number differs for each row; axis 0 is no axis of
    rows."""
    nodes = [helper.make_node("NonZero", ["x"], ["places"])]
    model = models.save(tmp_path / "nonzero.onnx", nodes, {"x": (models.FLOAT, (1, 4))},
                        {"places": (models.INT64, (2, "n"))})  # fmt: skip
    x = np.float32([[0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    np.save(tmp_path / "x.npy", x)
    result = myops.batch.run(model, tmp_path / "x.npy", tmp_path / "out", format=format)
    assert result.done == 3
    expected = [np.argwhere(row[None]).T.tolist() for row in x]
    if format == "parquet":
        found = [np.reshape(row["places"], row["places.shape"]).tolist()
                 for row in table(tmp_path / "out").to_pylist()]  # fmt: skip
    else:
        arrays = models.parts(tmp_path / "out")
        ends = np.cumsum(arrays["places.shape"].prod(1))[:-1]
        pieces = zip(np.split(arrays["places"], ends), arrays["places.shape"], strict=True)
        found = [piece.reshape(shape).tolist() for piece, shape in pieces]
    assert found == expected


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


def test_a_file_with_one_row(tmp_path: Path) -> None:
    """Its rank shows it; if the graph has no rank, nothing is guessed."""
    model = models.identity(tmp_path, models.FLOAT, ("height", "width"))
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", np.full((3, 4), ord(name), np.float32))
    with pytest.raises(ValueError, match="pass rows=axis0"):
        myops.batch.run(model, tmp_path / "*.npy", tmp_path / "out")
    result = myops.batch.run(model, tmp_path / "*.npy", tmp_path / "out", rows="file", format="npy")
    assert result.rows == 2
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "a.npy"), np.load(tmp_path / "a.npy"))
    result = myops.batch.run(model, tmp_path / "a.npy", tmp_path / "rows", rows="axis0")
    assert result.rows == 3
    named = models.identity(tmp_path, models.FLOAT, ("N", 3, 4), "named")
    assert myops.batch.run(named, tmp_path / "*.npy", tmp_path / "by rank").rows == 2


@pytest.mark.parametrize(("value", "message"), [
    ("x", "factor: got 'x', expected"), ([1, 2], "factor: got"), ("1,2", "factor: got"),
    (2.5, "factor: got 2.5"), (True, "factor: got True"), (2**70, "factor: got"),
])  # fmt: skip
def test_unsuitable_constants_are_refused(value: Any, message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.int64))
    model = models.times(tmp_path, models.INT64)
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        myops.batch.run(model, tmp_path / "x.npy", tmp_path / "out", constants={"factor": value})
    with pytest.raises(ValueError, match=r"have no 'fctor'\. Did you mean 'factor'"):
        myops.batch.run(model, tmp_path / "x.npy", tmp_path / "out", constants={"fctor": 1})


@pytest.mark.parametrize("bad", [b"", b"junk", b"PAR1PAR1", b"\x93NUMPY"])
@pytest.mark.parametrize("ending", ["npy", "npz", "parquet"])
def test_damaged_tables_are_refused(bad: bytes, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{ending}"
    path.write_bytes(bad)
    model = models.identity(tmp_path, models.FLOAT, ("N", 3))
    with pytest.raises(ValueError, match=rf"x\.{ending}"):
        myops.batch.run(model, path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("column", ["a", "b"])
def test_a_changed_number_in_an_npz_is_refused(save: Any, column: str, tmp_path: Path) -> None:
    """In either of its arrays; nothing runs, and no row gets a wrong number."""
    node = helper.make_node("Add", ["a", "b"], ["c"])
    kind = (models.FLOAT, ("batch", 3))
    model = models.save(tmp_path / "add.onnx", [node], {"a": kind, "b": kind}, {"c": kind})
    random = np.random.default_rng(0)
    arrays = {name: random.random((5000, 3), np.float32) for name in ("a", "b")}
    path = tmp_path / "x.npz"
    save(path, **arrays)
    with zipfile.ZipFile(path) as archive:
        item = archive.getinfo(f"{column}.npy")
    data = bytearray(path.read_bytes())
    data[item.header_offset + item.compress_size // 2] ^= 0x10
    (tmp_path / "changed.npz").write_bytes(data)
    with pytest.raises(ValueError, match=r"changed\.npz: (Bad CRC-32|Error -3)"):
        myops.batch.run(model, tmp_path / "changed.npz", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert myops.batch.run(model, path, tmp_path / "out").done == 5000


@pytest.mark.parametrize("ending", ["npy", "npz"])
@pytest.mark.parametrize("length", [-5, 2, 4 * 10**18])
def test_a_header_with_wrong_lengths_is_refused(length: int, ending: str, tmp_path: Path) -> None:
    """Otherwise each of very many rows would fail."""
    head = io.BytesIO()
    words = {"descr": "<f4", "fortran_order": False, "shape": (length, 3)}
    np.lib.format.write_array_header_1_0(head, words)
    data = head.getvalue() + bytes(12)  # one row
    path = tmp_path / f"x.{ending}"
    if ending == "npz":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", data)
    else:
        path.write_bytes(data)
    model = models.identity(tmp_path, models.FLOAT, ("N", 3))
    with pytest.raises(ValueError, match=r"no negative length|shorter than an array"):
        myops.batch.run(model, path, tmp_path / "out")


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


def test_columns_that_nothing_has_are_refused(tmp_path: Path) -> None:
    """Files by input and single arrays have no columns; a table may have others."""
    model = models.identity(tmp_path, models.FLOAT, ("N", 3))
    x = np.zeros((2, 3), np.float32)
    np.save(tmp_path / "a.npy", x)
    np.savez(tmp_path / "b.npz", image=x)
    parquet.write_table(pyarrow.table({"image": list(x)}), tmp_path / "c.parquet")
    one = tmp_path / "a.npy"
    for source, text in (
        (one, "columns: got 'nope' for .*one array, expected none"),
        ({"x": one}, "columns: got 'nope' for files by input"),
        (tmp_path / "b.npz", r"columns: .*b\.npz has no array 'nope'; its array is image"),
        (tmp_path / "c.parquet", r"columns: .*parquet has no column 'nope'; its column is image"),
    ):
        with pytest.raises(ValueError, match=text):
            myops.batch.run(model, source, tmp_path / "out", columns={"x": "nope"})
