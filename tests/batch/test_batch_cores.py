"""How calls of the model are divided among the cores."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import batch_models as models
import numpy as np
import pytest

import myops.batch
from myops.batch import _calls, _job, _local, _plan, _recipe, _run


class Waiting:
    """A session whose calls take a given time, and which counts the calls that run at once."""

    def __init__(self, session: Any, seconds: float) -> None:
        self._session = session
        self._seconds = seconds
        self._lock = threading.Lock()
        self.now = self.most = 0
        self.rows: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def run(self, names: Any, feeds: dict[str, np.ndarray]) -> Any:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.rows.append(len(feeds["x"]))
        time.sleep(self._seconds)
        try:
            return self._session.run(names, feeds)
        finally:
            with self._lock:
                self.now -= 1


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[Waiting]:
    made: list[Waiting] = []
    make = _run.make_session

    def session(*words: Any) -> Waiting:
        made.append(Waiting(make(*words), 0.003))
        return made[-1]

    for module in (_run, _local):
        monkeypatch.setattr(module, "make_session", session)
    return made


@pytest.mark.parametrize("workers", [1, 3])
def test_idle_cores_help_with_one_shard(
    workers: int, waiting: list[Waiting], tmp_path: Path
) -> None:
    """A table with one shard keeps all cores busy if its calls take long."""
    x = np.arange(360, dtype=np.float32).reshape(120, 3)
    np.save(tmp_path / "x.npy", x)
    model = models.identity(tmp_path, models.FLOAT, ("N", 3))
    myops.batch.run(model, tmp_path / "x.npy", tmp_path / "out", workers=workers, threads=1)
    np.testing.assert_array_equal(models.parts(tmp_path / "out")["y"], x)
    assert len(waiting) == 1
    assert waiting[0].most == workers


def test_an_error_in_a_helping_thread_ends_the_run(
    waiting: list[Waiting], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends the run, as an error in the thread with the shard does."""
    part = _calls.RowRunner._part

    def failing(self: Any, task: Any, session: Any, rows: list[int], feeds: Any) -> None:
        part(self, task, session, rows, feeds)
        if threading.current_thread().name.startswith("myops-batch-helper"):
            raise OSError("a helper")

    monkeypatch.setattr(_calls.RowRunner, "_part", failing)
    np.save(tmp_path / "x.npy", np.zeros((120, 3), np.float32))
    model = models.identity(tmp_path, models.FLOAT, ("N", 3))
    with pytest.raises(OSError, match="a helper"):
        myops.batch.run(model, tmp_path / "x.npy", tmp_path / "out", workers=2, threads=1, batch=1)


@pytest.mark.parametrize(
    ("seconds", "size", "expected"),
    [(1e-6, 4, 256), (1e-6, 1024, 64), (0.005, 4, 4), (1.0, 4, 1), (1e-6, 1_000_000, 1)],
)
def test_rows_of_a_call_follow_its_time(seconds: float, size: int, expected: int) -> None:
    """A call has at least 64 KiB and takes about 20 ms; other cores can take the other rows."""
    inputs = _recipe.Input("x", "x", "array", True, "uint8", (None, size))
    recipe = _recipe.Recipe((inputs,), {}, (_recipe.Output("y", True),))
    calls = _calls.RowRunner(recipe, lambda rows: None)
    assert calls._most({"x": np.zeros((2, size), np.uint8)}, 2, seconds) == expected


@pytest.mark.parametrize(
    ("calls", "expected"), [(100, (8, 1)), (8, (8, 1)), (3, (3, 2)), (1, (1, 8))]
)
def test_default_numbers_of_workers_and_threads(
    calls: int, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread for each call, and more if there are fewer calls than cores."""
    monkeypatch.setattr(_local, "cores", lambda: 8)
    assert _local.sizes(None, None, calls) == expected
    assert _local.sizes(2, None, calls) == (2, 4)
    assert _local.sizes(None, 4, calls) == (2, 4)
    assert _local.sizes(3, 3, calls) == (3, 3)


class Answering:
    """A session of y = x, or of y = x - mean(x) over the rows."""

    def __init__(self, mixing: bool) -> None:
        self._mixing = mixing

    def run(self, names: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        x = feeds["x"]
        return [x - x.mean(0, keepdims=True)] if self._mixing else [x]


@pytest.mark.parametrize(
    ("mixing", "rows", "expected"),
    [(False, np.arange(4), [True]), (True, np.arange(4), [False]), (False, np.zeros(4), [])],
)
def test_the_first_call_shows_whether_rows_are_independent(
    mixing: bool, rows: np.ndarray, expected: list[bool]
) -> None:
    """Whether rows may share calls. If all rows are equal, the call shows nothing."""
    item = _recipe.Input("x", "x", "array", True, "float32", (None, 1))
    recipe = _recipe.Recipe((item,), {}, (_recipe.Output("y", True),), batch=4)
    calls = _calls.RowRunner(recipe, lambda rows: None)
    kept: list[Any] = []
    task = _job.ShardTask(_plan.Shard(0, 0, (), 0, 4), SimpleNamespace(add=kept.append), {})
    calls._part(task, Answering(mixing), [0, 1, 2, 3], {"x": rows.astype(np.float32)[:, None]})
    assert [*calls._equal.values()] == expected
    assert [block.rows for block in kept] == [[0], [1], [2], [3]]
