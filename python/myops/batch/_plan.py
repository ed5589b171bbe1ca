"""What a run works on: rows in an order that does not depend on anything but the source.

A plan is a list of entries, one a line of JSON: a file that is one row, or a file with many. Rows
are numbered from 0. Shards are consecutive rows, and are what is given to workers and noted when it
is done; how long they are depends on the plan alone, so that outputs do not depend on the workers.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from myops.batch import _store, _tables

PICTURES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm",
            ".pbm", ".jp2", ".avif"}  # fmt: skip
TABLES = {".parquet", ".npy", ".npz"}
_MAGIC = "*?["


@dataclass(frozen=True)
class Entry:
    """A file of the source.

    name: Its path below the folder that all files have in common, with "/".
    files: Column -> path; tables have the column "".
    rows: How many rows it has.
    stamp: Size and time of change of each file.
    output: Name of the row's output without its ending, where a row becomes a file.
    """

    name: str
    files: dict[str, str]
    rows: int
    stamp: list[list[int]]
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


def expand(given: Sequence[str]) -> tuple[str, list[str]]:
    """The files that patterns, folders and names mean, sorted; the folder that they share.

    A folder means the pictures, .npy, .npz and Parquet files in it and below it. Hidden files are
    left out, unless they are named.

    Raises:
        FileNotFoundError: A file or folder does not exist.
    """
    found: list[str] = []
    roots = []
    for item in given:
        root, files = _remote(item) if _store.is_remote(item) else _local(item)
        roots.append(root)
        found += files
    files = sorted(set(found))
    if not roots:
        return "", files
    remote = any(map(_store.is_remote, roots))
    if remote and len(set(roots)) > 1:
        root = os.path.commonprefix([f"{item}/" for item in roots])  # noqa: RUF071  (cut below)
        root = root.rpartition("/")[0]
    else:
        root = roots[0] if len(set(roots)) == 1 else os.path.commonpath(roots)
    return root, files


def _wanted(name: str) -> bool:
    return PurePosixPath(name.lower()).suffix in PICTURES | TABLES


def _local(item: str) -> tuple[str, list[str]]:
    if os.path.isdir(item):
        root = os.path.abspath(item)
        found = []
        for folder, folders, names in os.walk(root, followlinks=True):
            real = os.path.realpath(folder)
            folders[:] = [name for name in folders if not name.startswith(".")
                          and not f"{real}/".startswith(
                              os.path.realpath(os.path.join(folder, name)) + "/")]  # fmt: skip
            found += [os.path.join(folder, name) for name in names
                      if not name.startswith(".") and _wanted(name)]  # fmt: skip
        return root, found
    if os.path.lexists(item):  # also a name with * in it
        path = os.path.abspath(item)
        return os.path.dirname(path), [path]
    if not any(sign in item for sign in _MAGIC):
        raise FileNotFoundError(f"no such file or folder: {item}")
    fixed = []
    for part in PurePosixPath(item).parts:
        if any(sign in part for sign in _MAGIC):
            break
        fixed.append(part)
    root = os.path.abspath(os.path.join(*fixed)) if fixed else os.getcwd()
    files = [os.path.abspath(path) for path in glob.iglob(item, recursive=True)]
    return root, [path for path in files if not os.path.isdir(path)]


def _remote(item: str) -> tuple[str, list[str]]:
    files, inner = _store.filesystem(item)
    magic = any(sign in inner for sign in _MAGIC)
    if not magic and files.isfile(inner):
        return str(files.unstrip_protocol(inner)).rpartition("/")[0], [
            files.unstrip_protocol(inner)
        ]
    if magic:
        fixed = inner[: min(inner.find(sign) for sign in _MAGIC if sign in inner)]
        root = fixed.rpartition("/")[0]
        found = [path for path in files.glob(inner) if files.isfile(path)]
    else:
        root = inner.rstrip("/")
        found = [path for path in files.find(inner)
                 if _wanted(path) and "/." not in path[len(root) :]]  # fmt: skip
        if not found and not files.exists(inner):
            raise FileNotFoundError(f"no such file or folder: {item}")
    return files.unstrip_protocol(root), [files.unstrip_protocol(path) for path in found]


def is_table(path: str) -> bool:
    """Whether a file is one of arrays or Parquet, by its name."""
    return PurePosixPath(path.lower()).suffix in TABLES


def files(columns: Mapping[str, Sequence[str]], output: str = "") -> dict[str, dict[str, str]]:
    """Name -> column -> path of everything that patterns mean, in order.

    Args:
        columns: Column -> patterns. Tables have all columns, under "".
        output: A folder whose files are no source, where it is inside of the source.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: Files of several columns do not pair; kinds of files are mixed.
    """
    lists = {}
    inside = output if _store.is_remote(output) else os.path.abspath(output or os.devnull)
    for column, patterns in columns.items():
        root, found = expand(patterns)
        if inside.startswith(root.rstrip("/") + "/"):  # what earlier runs have written there
            found = [path for path in found if not path.startswith(inside.rstrip("/") + "/")]
        lists[column] = {_name(path, root): path for path in found}
        if len(lists[column]) < len(found):  # several buckets
            lists[column] = {path.replace("://", "/"): path for path in found}
    paired = _paired(lists)
    tables = {is_table(path) for item in paired.values() for path in item.values()}
    if len(tables) > 1:
        raise ValueError(
            "source: got pictures and files of arrays, expected one kind; name a pattern such as "
            "'photos/*.jpg'"
        )
    return paired


def entries(paired: Mapping[str, Mapping[str, str]], table: bool, limit: int | None) -> list[Entry]:
    """The plan.

    Args:
        table: Whether a file has many rows.
        limit: At most so many rows.
    """
    found: list[Entry] = []
    total = 0
    for name, item in paired.items():
        if limit is not None and total >= limit:
            break
        rows = 1 if not table else _tables.rows(next(iter(item.values())))
        rows = rows if limit is None else min(rows, limit - total)
        found.append(Entry(name, dict(item), rows, [_stamp(path) for path in item.values()]))
        total += rows
    return found


def _name(path: str, root: str) -> str:
    return path.removeprefix(root).replace(os.sep, "/").lstrip("/")


def _stamp(path: str) -> list[int]:
    if _store.is_remote(path):
        return [_store.size(path), 0]
    try:
        found = os.stat(path)
    except OSError:  # a link that leads nowhere: its row fails
        return [-1, 0]
    return [found.st_size, found.st_mtime_ns]


def _paired(lists: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Name -> column -> path. Several columns are joined by the names without their endings."""
    if len(lists) == 1:
        ((column, files),) = lists.items()
        return {name: {column: path} for name, path in files.items()}
    stems: dict[str, dict[str, str]] = {}
    shown: dict[str, str] = {}
    for column, files in lists.items():
        for name, path in files.items():
            stem = str(PurePosixPath(name).with_suffix(""))
            if column in stems.setdefault(stem, {}):
                raise ValueError(
                    f"source: got two files for {column!r} with the name {stem!r}; files of "
                    "several inputs are joined by their names without endings"
                )
            stems[stem][column] = path
            shown.setdefault(stem, name)
    for stem, files in stems.items():
        for column in lists:
            if column not in files:
                raise ValueError(
                    f"source: got no file for {column!r} that goes with "
                    f"{next(iter(files.values()))} (name {stem!r}); files of several inputs are "
                    "joined by their names without endings"
                )
    return {shown[stem]: files for stem, files in stems.items()}


def digest(plan: Sequence[Entry]) -> str:
    """The SHA-256 of the plan."""
    found = hashlib.sha256()
    for entry in plan:
        found.update(entry.line())
    return found.hexdigest()


def shard_rows(plan: Sequence[Entry], parts: bool, table: bool) -> int:
    """How many rows a shard has: a 64th of all, within limits.

    Args:
        parts: Whether each shard becomes a file, which should not be small.
        table: Whether files have many rows.
    """
    least, most = (256, 4096) if table else (64, 1024) if parts else (1, 64)
    return max(least, min(most, sum(entry.rows for entry in plan) // 64))


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
        found.append(replace(entry, output=name))
    return found


def _stem(entry: Entry) -> str:
    return entry.name[: len(entry.name) - len(PurePosixPath(entry.name).suffix)]
