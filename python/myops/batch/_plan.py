"""The plan of a run: its rows, in an order that depends on the source only.

A plan is a list of entries, one per line of JSON: a file that is one row, or a file with many rows.
Rows are numbered from 0. A shard is a group of consecutive rows; workers get shards, and the
journal records each finished shard. Their sizes depend on the plan only, so that outputs do not
depend on the workers.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from myops.batch import _store, _tables
from myops.batch._sources import Files, stem


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the source.

    name: Its path below the folder that all files have in common, with "/".
    files: Column -> path; tables have the column "".
    rows: How many rows it has.
    stamp: Size and time of change of each file.
    output: Name of the row's output without its ending, where a row becomes a file; "" for that of
        the file.
    """

    name: str
    files: Mapping[str, str]
    rows: int
    stamp: tuple[tuple[int, int], ...]
    output: str = ""

    def line(self) -> bytes:
        """As it stands in the plan's file."""
        return json.dumps([self.name, self.files, self.rows, self.stamp]).encode() + b"\n"


@dataclass(frozen=True)
class Shard:
    """Consecutive rows.

    number: Of the shard.
    start: Number of the first row.
    entries: The files.
    first: Of one table: the row in it with which the shard begins; None for files of one row.
    rows: How many.
    """

    number: int
    start: int
    entries: tuple[Entry, ...]
    first: int | None
    rows: int


class RunPlan(Sequence[Entry]):
    """The entries of a run, in order; each object is made when it is asked for.

    Args:
        files: Those of the source.
        rows: Of each, where they have many.
        count: How many of the files belong to the plan; default: all.
    """

    def __init__(self, files: Files, rows: Sequence[int] = (), count: int | None = None) -> None:
        self._files = files
        self._rows = array("q", rows)
        self._count = len(files) if count is None else count
        columns = files.paths.values()
        self._stamps = array("q")
        for place in range(self._count):
            for paths in columns:
                self._stamps.extend(_stamp(paths[place]))
        self._outputs: dict[int, str] = {}

    @property
    def total(self) -> int:
        """The number of rows."""
        return sum(self._rows) if self._rows else self._count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, at: int | slice) -> Entry | tuple[Entry, ...]:
        places = range(self._count)[at]
        return self._entry(places) if isinstance(places, int) else tuple(map(self._entry, places))

    def __iter__(self) -> Iterator[Entry]:
        return map(self._entry, range(self._count))

    def _entry(self, place: int) -> Entry:
        each = 2 * len(self._files.paths)
        numbers = iter(self._stamps[place * each : (place + 1) * each])
        return Entry(
            self._files.names[place],
            self._files.at(place),
            self._rows[place] if self._rows else 1,
            tuple(zip(numbers, numbers, strict=True)),
            self._outputs.get(place, ""),
        )

    def name_outputs(self, suffix: str) -> None:
        """Chooses the names of the outputs, for formats in which a row becomes a file.

        Files that differ only in their endings keep them: a.jpg.png, a.tif.png.

        Raises:
            ValueError: Two rows would still have one output.
        """
        names = self._files.names
        if self._count < len(names):
            names = names[: self._count]
        # Numbers instead of a dict of all names; those that are there twice are looked at closely.
        numbers = np.fromiter((hash(stem(name)) for name in names), np.int64, len(names))
        numbers.sort()
        doubtful = set(numbers[1:][numbers[1:] == numbers[:-1]].tolist())
        places = [place for place, name in enumerate(names) if hash(stem(name)) in doubtful]
        stems = Counter(stem(names[place]) for place in places)
        self._outputs = {place: names[place] for place in places if stems[stem(names[place])] > 1}
        owners = set(self._outputs.values())
        for place, name in enumerate(names if owners else ()):
            if place not in self._outputs and stem(name) in owners:
                raise ValueError(
                    f"output: got one name, {stem(name) + suffix!r}, for {stem(name)!r} and "
                    f"{name!r}; rename one of them"
                )


def plan(files: Files, table: bool, limit: int | None, columns: Sequence[str] = ()) -> RunPlan:
    """The plan.

    Args:
        table: Whether a file has many rows.
        limit: At most so many rows.
        columns: Those that each table must have.
    """
    if not table:
        return RunPlan(files, count=None if limit is None else min(limit, len(files)))
    rows: list[int] = []
    total = 0
    for place in range(len(files)):
        if limit is not None and total >= limit:
            break
        found = _tables.rows(next(iter(files.at(place).values())), columns)
        rows.append(found if limit is None else min(found, limit - total))
        total += rows[-1]
    return RunPlan(files, rows, len(rows))


def _stamp(path: str) -> tuple[int, int]:
    if _store.is_remote(path):
        return _store.size(path), 0
    try:
        found = os.stat(path)
    except OSError:  # a link that leads nowhere: its row fails
        return -1, 0
    return found.st_size, found.st_mtime_ns


def digest(plan: RunPlan) -> str:
    """The SHA-256 of the plan."""
    found = hashlib.sha256()
    for entry in plan:
        found.update(entry.line())
    return found.hexdigest()


def shard_rows(plan: RunPlan, parts: bool, table: bool, dense: bool) -> int:
    """The number of rows of a shard, within limits: a 64th of a table, a 256th of files.

    A shard is decoded by one thread, so files need more shards than there may be cores.

    Args:
        parts: Whether each shard becomes a file, which should not be small.
        table: Whether files have many rows.
        dense: Whether rows of a table are numbers or text, which need no decoding.
    """
    total = plan.total
    if table:
        return max(256 if dense else 16, min(4096, total // 64))
    return max(16, min(1024, total // 64)) if parts else max(1, min(64, total // 256))


def shards(plan: RunPlan, rows: int, table: bool) -> Iterator[Shard]:
    """The shards, each of at most `rows` rows; a shard of tables has rows of one file."""
    number = start = 0
    if not table:
        for at in range(0, len(plan), rows):
            part = plan[at : at + rows]
            yield Shard(number, at, part, None, len(part))
            number += 1
        return
    for entry in plan:
        for first in range(0, entry.rows, rows):
            count = min(rows, entry.rows - first)
            yield Shard(number, start + first, (entry,), first, count)
            number += 1
        start += entry.rows


def output_of(entry: Entry) -> str:
    """The name of a row's output without its ending."""
    return entry.output or stem(entry.name)
