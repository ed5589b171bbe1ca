"""Damaged Parquet files are refused; none ends the process."""

from __future__ import annotations

from pathlib import Path

import batch_models as models
import numpy as np
import pytest
import warm

import myops.batch
from myops.batch import _parquet, _parquet_opening

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is of the extra batch")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is of the extra batch")

# Changes bytes of files at random and looks at them as a run does. A file that passes is read.
PROGRAM = """
import random, sys
from myops.batch import _parquet, _tables
path, *sources = sys.argv[1:]
data = [open(name, "rb").read() for name in sources]
refused = 0
for seed in range(1500):
    random.seed(seed)
    made = bytearray(random.choice(data))
    footer = len(made) - 8 - int.from_bytes(made[-8:-4], "little")
    for _ in range(random.choice([1, 1, 2, 3])):
        # Most of what pyarrow does not expect is in the footer.
        place = random.randrange(footer if random.random() < 0.9 else 4, len(made) - 8)
        made[place] = random.choice([made[place] ^ 1 << random.randrange(8), random.randrange(256)])
    with open(path, "wb") as stream:
        stream.write(made)
    try:
        if "x" not in _tables.names(path):
            continue
        _parquet.tensors(path, "x")
        _tables.row_bytes(path, ["x"])
        rows = _tables.rows(path, ["x"])
        _tables.Reader().read(path, ["x"], 0, rows, ["z"])
    except ValueError as error:
        refused += str(error).startswith(path + ": ")
print(refused)
"""


def written(path: Path, **options: object) -> Path:
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    table = pyarrow.table({"x": list(x), "z": ["a", None, "b", "b", "c"]})
    parquet.write_table(table, path, row_group_size=3, **options)
    return path


def test_random_damage_is_refused(tmp_path: Path) -> None:
    files = [written(tmp_path / "plain.parquet"), written(tmp_path / "v1.parquet", version="1.0"),
             written(tmp_path / "page_index.parquet", write_page_index=True,
                     data_page_version="2.0", use_dictionary=False)]  # fmt: skip
    done = warm.run("-c", PROGRAM, tmp_path / "bad.parquet", *files)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 500


def test_metadata_of_columns_is_examined(tmp_path: Path) -> None:
    """The schema says that elements of lists are required, but counts of definition levels stand
    there as for optional ones. pyarrow ends the process when it is asked for this metadata."""
    path = written(tmp_path / "bad.parquet")
    optional = b"\x25\x02\x18\x07element"  # repetition_type, and the name, in Thrift's compact form
    assert path.read_bytes().count(optional) == 1
    path.write_bytes(path.read_bytes().replace(optional, b"\x25\x00\x18\x07element"))
    program = "import sys; from myops.batch import _tables; _tables.row_bytes(sys.argv[1], ['x'])"
    done = warm.run("-c", program, path)
    assert done.returncode == 1
    assert "ValueError" in done.stderr
    assert "bad.parquet: cannot be read as a Parquet file, it may be damaged" in done.stderr


def test_examination_reads_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(written(tmp_path / "good.parquet"))
    tried: list[int] = []

    class Counted(_parquet_opening._Unread):
        def read(self, size: int = -1) -> bytes:
            tried.append(size)
            return super().read(size)

    monkeypatch.setattr(_parquet_opening, "_Unread", Counted)
    assert _parquet.groups(path, ["x"])[1][0] == 2
    assert len(tried) <= 2
    assert _parquet.row_bytes(path, ["x"]) >= 12


@pytest.mark.parametrize("beside", [[3] * 5, [[1.5]] * 5, ["3"] * 5])
def test_a_column_of_shapes_that_holds_none(beside: list[object], tmp_path: Path) -> None:
    table = pyarrow.table({"x": [[1.0, 2.0, 3.0]] * 5, "x.shape": beside})
    parquet.write_table(table, tmp_path / "x.parquet")
    model = models.identity(tmp_path, models.FLOAT, ("N", 3))
    with pytest.raises(ValueError, match=r"column 'x.shape': got .*, expected lists of integers"):
        myops.batch.run(model, tmp_path / "x.parquet", tmp_path / "out")


def test_a_shape_with_null(tmp_path: Path) -> None:
    table = pyarrow.table({"x": [[1.0, 2.0, 3.0]] * 2, "x.shape": [[3], [None]]})
    parquet.write_table(table, tmp_path / "x.parquet")
    model = models.identity(tmp_path, models.FLOAT, ("N", 3))
    result = myops.batch.run(model, tmp_path / "x.parquet", tmp_path / "out")
    assert (result.done, result.failed) == (1, 1)


def test_a_footer_whose_rows_do_not_add_up(tmp_path: Path) -> None:
    path = written(tmp_path / "bad.parquet")
    data = bytearray(path.read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    place = data.index(b"\x16\x0a", footer)  # the rows of the file: int64 (0x16), 5 in zigzag
    data[place + 1] = 0x7E
    path.write_bytes(data)
    with pytest.raises(ValueError, match="it has 63 rows by its footer, expected 5"):
        _parquet.rows(str(path))


def test_an_error_of_the_system_stays_one() -> None:
    with pytest.raises(FileNotFoundError), _parquet.readable("x"):
        raise FileNotFoundError(2, "not there")
    with pytest.raises(ValueError, match="x: cannot be read"), _parquet.readable("x"):
        raise pyarrow.ArrowInvalid("bad")
