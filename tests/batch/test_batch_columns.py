"""Columns of Parquet of every kind: each row is right, or fails alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import batch_models as models
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import myops.batch

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is of the extra batch")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is of the extra batch")

NUMBERS = ("float32", "float64", "float16", "int8", "uint16", "int64")
LISTS = {"list": pyarrow.list_, "large": pyarrow.large_list, "fixed": None}


def lists(shape: tuple[int, ...], kind: str) -> Any:
    """Nested lists of numbers; some are null or have another length, where Arrow can hold that."""
    number = some.integers(0, 9) | some.just(None) if kind == "nulls" else some.integers(0, 9)
    if not shape:
        return number
    inner = lists(shape[1:], kind)
    even = some.lists(inner, min_size=shape[0], max_size=shape[0])
    return even | some.lists(inner, max_size=3) if kind == "uneven" else even


def is_right(value: Any, shape: tuple[int, ...]) -> bool:
    """Whether a value is a tensor of this shape."""
    if not shape:
        return value is not None
    return (value is not None and len(value) == shape[0]
            and all(is_right(item, shape[1:]) for item in value))  # fmt: skip


@some.composite
def columns(draw: Any) -> tuple[list[Any], Any, tuple[int, ...], int]:
    shape = draw(some.sampled_from([(), (2,), (3, 2)]))
    container = draw(some.sampled_from(list(LISTS)))
    kinds = ["even", "nulls"] if container == "fixed" else ["even", "nulls", "uneven"]
    rows = draw(some.lists(lists(shape, draw(some.sampled_from(kinds))) | some.just(None),
                           min_size=1, max_size=12))  # fmt: skip
    type_ = getattr(pyarrow, draw(some.sampled_from(NUMBERS)))()
    for length in reversed(shape):
        type_ = pyarrow.list_(type_, length) if container == "fixed" else LISTS[container](type_)
    return rows, type_, shape, draw(some.integers(1, 5))


@settings(max_examples=40, deadline=None)
@given(columns())
def test_each_row_is_right_or_fails_alone(
    column: tuple[list[Any], Any, tuple[int, ...], int],
) -> None:
    rows, type_, shape, group = column
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        array = pyarrow.array(rows, type_)
        parquet.write_table(pyarrow.table({"x": array}), folder / "x.parquet", row_group_size=group)
        model = models.identity(folder, models.FLOAT, ("N", *shape))
        result = myops.batch.run(model, folder / "x.parquet", folder / "out.npz", workers=1)
        # A list of all elements is one of the ways to write a tensor.
        right = [place for place, row in enumerate(rows) if is_right(row, shape)]
        assert result.done == len(right)
        if right:
            with np.load(folder / "out.npz") as found:
                assert found["row"].tolist() == right
                expected = np.array([rows[place] for place in right], np.float32)
                np.testing.assert_array_equal(found["y"], expected)


@pytest.mark.parametrize(("values", "message"), [
    (["a", "b"], "got text, expected float32"),
    ([True, False], "got bool, expected float32"),
    (pyarrow.array([1, 2], pyarrow.timestamp("s")), "expected numbers or text"),
    (pyarrow.array([1, 2], pyarrow.decimal128(5, 2)), "got decimal128"),
    ([{"a": 1.0}, {"a": 2.0}], "got struct"),
])  # fmt: skip
def test_a_column_that_cannot_fit_is_refused(values: Any, message: str, tmp_path: Path) -> None:
    """The run is refused before it starts, not row by row."""
    parquet.write_table(pyarrow.table({"x": values}), tmp_path / "x.parquet")
    model = models.identity(tmp_path, models.FLOAT, ("N",))
    with pytest.raises(ValueError, match=message):
        myops.batch.run(model, tmp_path / "x.parquet", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("shape", [("N", 3), (1, 3), (4, 3), ("N", 3, 1), ("N", "a", 3)])
@pytest.mark.parametrize("save", [np.save, np.savez])
def test_rows_of_a_shape_that_cannot_fit_are_refused(save: Any, shape: Any, tmp_path: Path) -> None:
    """The run is refused before it starts, because the header of the file states the shape."""
    rows = [6, 5] if "a" in shape else [5]
    ending = "npy" if save is np.save else "npz"
    made = np.zeros((100, *rows), np.float32)
    save(tmp_path / f"x.{ending}", **({"arr": made} if save is np.save else {"x": made}))
    model = models.identity(tmp_path, models.FLOAT, shape)
    with pytest.raises(ValueError, match=r"got rows of shape \[.*5\], expected \[.*3.*\]"):
        myops.batch.run(model, tmp_path / f"x.{ending}", tmp_path / "out", rows="axis0")
    assert not (tmp_path / "out").exists()


def test_files_with_other_columns_fail_their_rows(tmp_path: Path) -> None:
    model = models.identity(tmp_path, models.FLOAT, ("N",))
    parquet.write_table(pyarrow.table({"x": [1.0]}), tmp_path / "a.parquet")
    parquet.write_table(pyarrow.table({"more": [1], "x": [2.0]}), tmp_path / "b.parquet")
    assert myops.batch.run(model, tmp_path / "*.parquet", tmp_path / "out").done == 2
    parquet.write_table(pyarrow.table({"z": [1.0]}), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"c\.parquet: got no column 'x'"):
        myops.batch.run(model, tmp_path / "*.parquet", tmp_path / "again")
    twice = pyarrow.Table.from_arrays([pyarrow.array([1.0])] * 2, names=["x", "x"])
    parquet.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(ValueError, match="two columns 'x'"):
        myops.batch.run(model, tmp_path / "twice.parquet", tmp_path / "again")


@pytest.mark.parametrize("name", ["row", "y"])
def test_two_output_columns_of_one_name_are_refused(name: str, tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"x": [1.0], name: [7]}), tmp_path / "x.parquet")
    model = models.identity(tmp_path, models.FLOAT, ("N",))
    with pytest.raises(ValueError, match=f"two columns '{name}'"):
        myops.batch.run(model, tmp_path / "x.parquet", tmp_path / "out", keep=[name])


@pytest.mark.parametrize("gone", [False, True])
def test_a_table_truncated_while_it_is_read_fails_its_rows(gone: bool, tmp_path: Path) -> None:
    """Its rows fail; those of the other files do not."""
    x = np.arange(3000, dtype=np.float32).reshape(1000, 3)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", x)
    model = models.identity(tmp_path, models.FLOAT, ("N", 3))

    def cut(done: int, failed: int, total: int) -> None:
        if gone and not done + failed:
            os.remove(tmp_path / "a.npy")
        elif not done + failed:
            os.truncate(tmp_path / "a.npy", 6000)

    result = myops.batch.run(model, tmp_path / "*.npy", tmp_path / "out", progress=cut)
    assert (result.done, result.failed) == (1000, 1000)
    np.testing.assert_array_equal(models.parts(tmp_path / "out")["y"], x)
