"""A damaged journal or manifest: the run goes on, with right outputs, or says what is damaged."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import batch_models as models
import numpy as np
import pytest

import myops.batch

X = np.arange(900, dtype=np.float32).reshape(300, 3)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, its data, and the output of a run."""
    folder = tmp_path_factory.mktemp("journal")
    model = models.identity(folder, models.FLOAT, ("N", 3))
    np.save(folder / "x.npy", X)
    myops.batch.run(model, folder / "x.npy", folder / "out", workers=1)
    return folder


def changed(folder: Path, name: str, data: bytes) -> None:
    shutil.rmtree(folder / "copy", ignore_errors=True)
    shutil.copytree(folder / "out", folder / "copy")
    (folder / "copy" / ".myops-run" / name).write_bytes(data)


def run_copy(folder: Path) -> Any:
    return myops.batch.run(folder / "identity.onnx", folder / "x.npy", folder / "copy", workers=1)


def journal(folder: Path) -> Path:
    (found,) = (folder / "out" / ".myops-run").glob("journal*.jsonl")
    return found


LINES = [b"5", b"[]", b"null", b'"begin"', b'{"begin": "x"}', b'{"begin": -1}', b'{"joined": []}',
         b'{"number": 0}', b'{"number": 0, "done": "many"}', b'{"other": 1}', b"[" * 100_000,
         b'{"number": 0, "done": 1, "failed": [1], "sizes": {}, "at": 0}',
         b'{"number": 0, "done": 1, "failed": [], "sizes": {"a": "b"}, "at": 0}',
         b'{"number": 0, "done": 1, "failed": [], "sizes": {}, "at": null}']  # fmt: skip


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_a_line_that_no_run_writes_is_left_out(line: bytes, finished: Path) -> None:
    whole = journal(finished).read_bytes()
    changed(finished, journal(finished).name, line + b"\n" + whole)
    assert run_copy(finished).before == 300
    changed(finished, journal(finished).name, line + b"\n")
    result = run_copy(finished)
    assert (result.before, result.done) == (0, 300)
    np.testing.assert_array_equal(models.parts(finished / "copy")["y"], X)


@pytest.mark.parametrize("text", ["5", "[]", "null", '{"options": 3}', "[" * 100_000,
                                  '{"options": {"inputs": [3], "outputs": ["x"]}}'])  # fmt: skip
def test_a_damaged_manifest_is_refused(text: str, finished: Path) -> None:
    changed(finished, "manifest.json", text.encode())
    with pytest.raises(ValueError, match=r"manifest\.json: |that of another run"):
        run_copy(finished)


@pytest.mark.parametrize("which", ["journal", "manifest"])
def test_random_damage(which: str, finished: Path) -> None:
    path = journal(finished)
    path = path if which == "journal" else path.with_name("manifest.json")
    whole = path.read_bytes()
    for seed in range(40):
        draw = random.Random(seed)
        data = bytearray(whole)
        for _ in range(draw.choice([1, 1, 3])):
            place = draw.randrange(len(data))
            if draw.random() < 0.5:
                data[place] = draw.randrange(32, 127)
            else:
                del data[place : place + draw.randrange(1, 6)]
        changed(finished, path.name, bytes(data))
        try:
            result = run_copy(finished)
        except ValueError:
            continue
        assert result.failed == 0
        np.testing.assert_array_equal(models.parts(finished / "copy")["y"], X)
