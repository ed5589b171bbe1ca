"""Sources and outputs that are larger than the memory that a run may use."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import batch_models as models
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow

ROWS, LENGTH = 3000, 32 * 1024  # 375 MiB of float32
MOST = 300  # MiB that a run may take beyond what its libraries take

# Measured while the process runs: memory that it has written to, without the files that it reads.
CODE = """
import sys, threading, time
import onnxruntime, pyarrow.parquet
import myops.batch
from myops.batch import _plan

def now():
    with open("/proc/self/status") as stream:
        return next(int(line.split()[1]) >> 10 for line in stream if line.startswith("RssAnon"))

def watch():
    while True:
        most[0] = max(most[0], now())
        time.sleep(0.002)

model, source, output, shard = sys.argv[1:]
if int(shard):
    _plan.shard_rows = lambda *words: int(shard)
before = now()
most = [before]
threading.Thread(target=watch, daemon=True).start()
result = myops.batch.run(model, source, output, workers=2, threads=1)
print(result.done, result.failed, most[0] - before)
"""


def numbers(length: int = LENGTH, rows: int = ROWS) -> np.ndarray:
    """An array in which each row repeats its number; it takes no memory."""
    return np.broadcast_to(np.arange(rows, dtype=np.float32)[:, None], (rows, length))


def save_npy(path: Path) -> None:
    mapped = np.lib.format.open_memmap(path, "w+", np.float32, (ROWS, LENGTH))
    for row in range(0, ROWS, 100):
        mapped[row : row + 100] = numbers()[row : row + 100]
    mapped.flush()


def save_npy_fortran(path: Path) -> None:
    with path.open("wb") as stream:
        head = {"descr": "<f4", "fortran_order": True, "shape": (ROWS, LENGTH)}
        np.lib.format.write_array_header_1_0(stream, head)
        column = np.arange(ROWS, dtype=np.float32).tobytes()
        for _ in range(LENGTH // 64):
            stream.write(column * 64)


def save_npz(path: Path, kind: int = zipfile.ZIP_STORED) -> None:
    with (
        zipfile.ZipFile(path, "w", kind, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as stream,
    ):
        head = {"descr": "<f4", "fortran_order": False, "shape": (ROWS, LENGTH)}
        np.lib.format.write_array_header_1_0(stream, head)
        for row in range(0, ROWS, 100):
            stream.write(numbers()[row : row + 100].tobytes())


def save_npz_compressed(path: Path) -> None:
    save_npz(path, zipfile.ZIP_DEFLATED)


def save_parquet(path: Path) -> None:
    """One row group."""
    chunks = []
    for row in range(0, ROWS, 100):
        flat = pa.array(numbers()[row : row + 100].reshape(-1))
        chunks.append(pa.FixedSizeListArray.from_arrays(flat, LENGTH))
    table = pa.table({"x": pa.chunked_array(chunks)})
    pq.write_table(table, path, row_group_size=ROWS, compression="snappy")


@pytest.mark.parametrize(
    ("save", "ending"),
    [
        (save_npy, "npy"), (save_npy_fortran, "npy"), (save_npz, "npz"),
        (save_npz_compressed, "npz"), (save_parquet, "parquet"),
    ],
)  # fmt: skip
def test_a_source_larger_than_memory_is_read(
    save: Callable[[Path], None], ending: str, tmp_path: Path
) -> None:
    """Whatever its form is."""
    source = tmp_path / f"x.{ending}"
    save(source)
    node = models.helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)
    model = models.save(tmp_path / "most.onnx", [node], {"x": (models.FLOAT, ("N", LENGTH))},
                        {"y": (models.FLOAT, ("N",))})  # fmt: skip
    assert run(model, source, tmp_path / "out") < MOST


@pytest.mark.parametrize("output", ["out", "out.npz", "out.npy", "out.parquet"])
def test_outputs_larger_than_memory_are_written(output: str, tmp_path: Path) -> None:
    """The outputs of one shard alone would not fit, as in a run of a million rows."""
    np.save(tmp_path / "x.npy", np.arange(ROWS, dtype=np.float32)[:, None])
    node = models.helper.make_node("Expand", ["x", "shape"], ["wide"])
    add = models.helper.make_node("Add", ["wide", "place"], ["y"])
    constants = {"shape": np.int64([1, LENGTH]), "place": np.arange(LENGTH, dtype=np.float32)}
    model = models.save(tmp_path / "wide.onnx", [node, add], {"x": (models.FLOAT, ("N", 1))},
                        {"y": (models.FLOAT, ("N", LENGTH))}, constants)  # fmt: skip
    assert run(model, tmp_path / "x.npy", tmp_path / output, ROWS) < MOST


def run(model: Path, source: Path, output: Path, shard: int = 0) -> int:
    """The peak of memory in MiB, with `shard` rows in a shard."""
    command = [sys.executable, "-c", CODE, model, source, output, str(shard)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows, failed, most = map(int, done.stdout.split())
    assert (rows, failed) == (ROWS, 0)
    print(most)
    return most
