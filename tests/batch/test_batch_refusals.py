"""Tables that are damaged, and constants and columns that nothing has: no row is run."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import batch_models as models
import numpy as np
import pytest
from onnx import helper

import myops.batch

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is of the extra batch")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is of the extra batch")


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
