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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from myops.batch import _store, _tables


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


def entries(
    paired: Mapping[str, Mapping[str, str]],
    table: bool,
    limit: int | None,
    columns: Sequence[str] = (),
) -> list[Entry]:
    """The plan.

    Args:
        table: Whether a file has many rows.
        limit: At most so many rows.
        columns: Those that each table must have.
    """
    found: list[Entry] = []
    total = 0
    for name, item in paired.items():
        if limit is not None and total >= limit:
            break
        rows = 1 if not table else _tables.rows(next(iter(item.values())), columns)
        rows = rows if limit is None else min(rows, limit - total)
        found.append(Entry(name, item, rows, tuple(map(_stamp, item.values()))))
        total += rows
    return found


def _stamp(path: str) -> tuple[int, int]:
    if _store.is_remote(path):
        return _store.size(path), 0
    try:
        found = os.stat(path)
    except OSError:  # a link that leads nowhere: its row fails
        return -1, 0
    return found.st_size, found.st_mtime_ns


def digest(plan: Sequence[Entry]) -> str:
    """The SHA-256 of the plan."""
    found = hashlib.sha256()
    for entry in plan:
        found.update(entry.line())
    return found.hexdigest()


def shard_rows(plan: Sequence[Entry], parts: bool, table: bool, dense: bool) -> int:
    """The number of rows of a shard, within limits: a 64th of a table, a 256th of files.

    A shard is decoded by one thread, so files need more shards than there may be cores.

    Args:
        parts: Whether each shard becomes a file, which should not be small.
        table: Whether files have many rows.
        dense: Whether rows of a table are numbers or text, which need no decoding.
    """
    total = sum(entry.rows for entry in plan)
    if table:
        return max(256 if dense else 16, min(4096, total // 64))
    return max(16, min(1024, total // 64)) if parts else max(1, min(64, total // 256))


def shards(plan: Sequence[Entry], rows: int, table: bool) -> Iterator[Shard]:
    """The shards, each of at most `rows` rows; a shard of tables has rows of one file."""
    number = start = 0
    if not table:
        for at in range(0, len(plan), rows):
            part = tuple(plan[at : at + rows])
            yield Shard(number, at, part, None, len(part))
            number += 1
        return
    for entry in plan:
        for first in range(0, entry.rows, rows):
            count = min(rows, entry.rows - first)
            yield Shard(number, start + first, (entry,), first, count)
            number += 1
        start += entry.rows


def named(plan: Sequence[Entry], suffix: str) -> list[Entry]:
    """The plan with the names of the outputs, for formats in which a row becomes a file.

    Files that differ only in their endings keep them: a.jpg.png, a.tif.png.

    Raises:
        ValueError: Two rows would still have one output.
    """
    stems = Counter(_stem(entry) for entry in plan)
    owners: dict[str, str] = {}
    found = []
    for entry in plan:
        stem = _stem(entry)
        name = stem if stems[stem] == 1 else entry.name
        if name in owners:
            raise ValueError(
                f"output: got one name, {name + suffix!r}, for {owners[name]!r} and {entry.name!r};"
                " rename one of them"
            )
        owners[name] = entry.name
        found.append(entry if name == stem else replace(entry, output=name))
    return found


def output_of(entry: Entry) -> str:
    """The name of a row's output without its ending."""
    return entry.output or _stem(entry)


def _stem(entry: Entry) -> str:
    return entry.name[: len(entry.name) - len(PurePosixPath(entry.name).suffix)]
