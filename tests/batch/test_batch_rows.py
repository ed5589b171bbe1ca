"""Rows: how many of them a call has, whatever axis 0 of the graph is, and what its outputs are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import batch_models as models
import numpy as np
import pytest
from onnx import helper

import myops.batch

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


def test_a_file_with_one_row(tmp_path: Path) -> None:
    """Its rank shows it; if the graph has no rank, nothing is guessed."""
    model = models.identity(tmp_path, models.FLOAT, ("height", "width"))
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", np.full((3, 4), ord(name), np.float32))
    with pytest.raises(ValueError, match="pass rows='axis0'"):
        myops.batch.run(model, tmp_path / "*.npy", tmp_path / "out")
    result = myops.batch.run(model, tmp_path / "*.npy", tmp_path / "out", rows="file", format="npy")
    assert result.rows == 2
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "a.npy"), np.load(tmp_path / "a.npy"))
    result = myops.batch.run(model, tmp_path / "a.npy", tmp_path / "rows", rows="axis0")
    assert result.rows == 3
    named = models.identity(tmp_path, models.FLOAT, ("N", 3, 4), "named")
    assert myops.batch.run(named, tmp_path / "*.npy", tmp_path / "by rank").rows == 2
