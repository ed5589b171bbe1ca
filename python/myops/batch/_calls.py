"""Calls of the model: with one row, or with several rows of one shape if that changes no bit.

This is tested: the first call with each shape and number of rows is repeated row by row. Some of
the later calls are compared at one row, because a test with rows of zeros says nothing about other
rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from myops.batch._cores import Cores
from myops.batch._job import Block, ShardTask
from myops.batch._recipe import Recipe

_CALL_BYTES = 64 * 1024  # of inputs in one call: more rows are not faster, because of the caches
_CALL_ROWS = 256
_CALL_SECONDS = 0.02  # more rows gain nothing, and other cores may have nothing to do meanwhile
_WAITING_BYTES = 4 * 2**20  # of decoded rows that wait for others of their shape
_WAITING_ROWS = 16

Feeds = Mapping[str, np.ndarray]


class DiffersError(Exception):
    """Rows that ran in one call gave other bits than alone; their shard runs again."""


class RowRunner:
    """Runs rows of shards.

    Args:
        recipe: What the inputs and outputs are.
        on_rows: Is told which rows are about to be run.
    """

    def __init__(self, recipe: Recipe, on_rows: Callable[[Sequence[int]], None]) -> None:
        self.recipe = recipe
        self.largest = 0  # rows of a call
        self._on_rows = on_rows
        self._wanted = [item.name for item in recipe.outputs]
        self._seconds: dict[Any, float] = {}  # shapes: of a row alone, at best
        self._equal: dict[Any, bool] = {}  # (shapes, rows of a call): whether it may be one call

    def enough(self, rows: int, size: int) -> bool:
        """Whether to run this number of rows, with this number of bytes, instead of waiting for
        others."""
        recipe = self.recipe
        if recipe.one_by_one or recipe.fixed > 1:
            return rows >= max(1, recipe.fixed)
        if recipe.batch is None:
            return rows >= _WAITING_ROWS or size > _CALL_BYTES
        return rows >= max(_WAITING_ROWS, recipe.batch) or size >= _WAITING_BYTES

    def alone(self, task: ShardTask, session: Any, row: int, feeds: Feeds) -> None:
        """Runs one row."""
        try:
            block = Block([row], self._single(session, feeds))
        except Exception as error:  # what ONNX Runtime raises has no common base
            task.fail(row, error)
            return
        task.keep(block)

    def together(self, task: ShardTask, cores: Cores, rows: Sequence[int], feeds: Feeds) -> None:
        """Runs rows of one shape, in as few calls as possible without changing their bits.

        Raises:
            Stopped: The run is to end.
            DiffersError: A row differs, so earlier calls of this shard may have had too many rows.
        """

        def run(session: Any, part: tuple[int, int]) -> None:
            start, end = part
            self._on_rows(rows[start:end])
            inner = {name: item[start:end] for name, item in feeds.items()}
            self._part(task, session, list(rows[start:end]), inner)

        at = 0
        key = shapes(feeds)
        if key not in self._seconds:  # how long a row takes says how many may be in a call
            at = min(2, len(rows))
            cores.each([(place, place + 1) for place in range(at)], run)
        parts = []
        most = self._most(feeds, len(rows), self._seconds.get(key, _CALL_SECONDS))
        while at < len(rows):
            count = min(most, len(rows) - at)
            if self.recipe.fixed < 2:  # a power of two, so that few numbers of rows occur
                count = 1 << count.bit_length() - 1
            parts.append((at, at + count))
            at += count
        cores.each(parts, run)

    def _most(self, feeds: Feeds, rows: int, seconds: float) -> int:
        """The most rows of a call."""
        recipe = self.recipe
        if recipe.one_by_one or not all(item.rows for item in recipe.outputs):
            return 1
        if recipe.fixed:
            return min(recipe.fixed, recipe.batch or recipe.fixed)
        size = sum(item.nbytes for item in feeds.values()) // rows
        most = min(_CALL_ROWS, _CALL_BYTES // max(1, size), int(_CALL_SECONDS / seconds))
        return recipe.batch or max(1, most)

    def _part(self, task: ShardTask, session: Any, rows: list[int], feeds: Feeds) -> None:
        key = (shapes(feeds), len(rows))
        if len(rows) == 1 or self._equal.get(key) is False:
            self._each(task, session, rows, feeds)
            return
        try:
            values = self._batch(session, feeds, len(rows))
        except Exception:  # a row that fails is found alone; what ONNX Runtime raises has no base
            self._each(task, session, rows, feeds)
            return
        if key not in self._equal:
            before = len(task.failed)
            singles = self._each(task, session, rows, feeds)
            same = len(task.failed) == before and _same(values, singles)
            if not same:
                self._equal[key] = False
            elif not _alike(singles):
                self._equal[key] = True
            return
        task.calls[key] += 1
        number = task.calls[key]
        if number & (number - 1) == 0:  # the first, the second, the fourth ...
            place = number % len(rows)
            if not self._is_same(session, feeds, values, place):
                self._equal[key] = False
                raise DiffersError
        task.keep(Block(rows, values))

    def _is_same(self, session: Any, feeds: Feeds, values: Sequence[Any], place: int) -> bool:
        """Whether one row of a call has the same bits as alone."""
        try:
            single = self._single(session, _row(feeds, place))
        except Exception:  # what ONNX Runtime raises has no common base
            return False
        return _same([item[place : place + 1] for item in values], [single])

    def _each(
        self, task: ShardTask, session: Any, rows: Sequence[int], feeds: Feeds
    ) -> list[list[Any]]:
        """Runs rows one by one; the outputs of those that did not fail."""
        found = []
        key = shapes(feeds)
        for place, row in enumerate(rows):
            started = time.perf_counter()
            try:
                values = self._single(session, _row(feeds, place))
            except Exception as error:  # what ONNX Runtime raises has no common base
                task.fail(row, error)
                continue
            seconds = time.perf_counter() - started
            self._seconds[key] = min(seconds, self._seconds.get(key, seconds))
            found.append(values)
            task.keep(Block([row], values))
        return found

    def _call(self, session: Any, feeds: Feeds) -> list[Any]:
        found = session.run(self._wanted, {**feeds, **self.recipe.constants})
        if not all(isinstance(item, np.ndarray) for item in found):
            raise ValueError("output: got a sequence or a map, expected tensors")
        return list(found)

    def _single(self, session: Any, feeds: Feeds) -> list[Any]:
        """Outputs of one row: arrays with an axis 0 of length 1, or a list of one value."""
        if self.recipe.fixed > 1:
            feeds = {name: np.repeat(item, self.recipe.fixed, 0) for name, item in feeds.items()}
        self.largest = max(self.largest, 1)
        found = self._call(session, feeds)
        for place, item in enumerate(self.recipe.outputs):
            if not item.rows:
                found[place] = [found[place]]
            elif self.recipe.fixed > 1:
                found[place] = found[place][:1]
            elif found[place].shape[:1] != (1,):
                raise ValueError(
                    f"output {item.name!r}: got shape {list(found[place].shape)} for one row, "
                    f"expected length 1 on axis 0; pass whole={[item.name]!r} (--whole "
                    f"{item.name}) where axis 0 of this output does not count rows"
                )
        return found

    def _batch(self, session: Any, feeds: Feeds, count: int) -> list[Any]:
        if 1 < self.recipe.fixed != count:
            rest = self.recipe.fixed - count
            feeds = {name: np.concatenate([item, np.repeat(item[-1:], rest, 0)])
                     for name, item in feeds.items()}  # fmt: skip
        found = self._call(session, feeds)
        if any(item.shape[:1] != (max(count, self.recipe.fixed),) for item in found):
            raise ValueError("output: got another length on axis 0 than the batch has rows")
        self.largest = max(self.largest, count)
        return [item[:count] for item in found]


def shapes(feeds: Feeds) -> Any:
    """The properties that rows of one call must share."""
    return tuple((name, item.shape[1:]) for name, item in feeds.items())


def _row(feeds: Feeds, place: int) -> dict[str, np.ndarray]:
    return {name: item[place : place + 1] for name, item in feeds.items()}


def _bits(item: np.ndarray) -> Any:
    return item.tolist() if item.dtype == object else item.tobytes()


def _same(values: Sequence[np.ndarray], singles: Sequence[Sequence[np.ndarray]]) -> bool:
    """Whether a call with several rows gave the same bits as calls with one row."""
    for place, item in enumerate(values):
        for row, single in enumerate(singles):
            mine, theirs = item[row : row + 1], single[place]
            if mine.shape != theirs.shape or _bits(mine) != _bits(theirs):
                return False
    return True


def _alike(singles: Sequence[Sequence[np.ndarray]]) -> bool:
    """Whether all rows gave equal results, as empty ones do, which says little about other rows."""
    return all(_bits(item) == _bits(singles[0][place])
               for single in singles for place, item in enumerate(single))  # fmt: skip
