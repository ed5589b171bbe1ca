"""The files that patterns, folders and URLs mean."""

from __future__ import annotations

import glob
import itertools
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from myops.batch import _store
from myops.batch._strings import Strings

PICTURES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm",
            ".pbm", ".jp2", ".avif"}  # fmt: skip
TABLES = {".parquet", ".npy", ".npz"}
_WANTED = PICTURES | TABLES
_MAGIC = "*?["


@dataclass(frozen=True)
class Files:
    """The files of a source, in order.

    names: Of each row, or table: its path below the folder that all files share, with "/".
    paths: Column -> the path of each. Tables have all columns, under "".
    """

    names: Strings
    paths: Mapping[str, Strings]

    def __len__(self) -> int:
        return len(self.names)

    def at(self, place: int) -> dict[str, str]:
        """Column -> path of one of them."""
        return {column: paths[place] for column, paths in self.paths.items()}


def expand(given: Sequence[str]) -> tuple[str, list[str]]:
    """The folder that the files share, with a "/", and their paths below it, sorted.

    A folder means the pictures, .npy, .npz and Parquet files in it and below it. Hidden files are
    left out, unless they are named.

    Raises:
        FileNotFoundError: A file or folder does not exist.
    """
    parts = [_remote(item) if _store.is_remote(item) else _local(item) for item in given]
    if len({root for root, _ in parts}) == 1:
        root, found = parts[0]
        for _, more in parts[1:]:
            found += more
    else:
        whole = [root + name for root, names in parts for name in names]
        root, found = _below(_shared([root for root, _ in parts]), whole)
    found.sort()
    # No set: ten million names would need gigabytes for a moment.
    return root, [name for name, _ in itertools.groupby(found)]


def _shared(roots: Sequence[str]) -> str:
    """The folder in which all of these are, or "" where there is none."""
    if not roots:
        return ""
    if any(map(_store.is_remote, roots)):
        return os.path.commonprefix(list(roots)).rpartition("/")[0] + "/"  # noqa: RUF071  (cut)
    return os.path.commonpath(roots).rstrip("/") + "/"


def suffix(name: str) -> str:
    """The ending of a name, with its dot, as that of `PurePath`, which would keep all names."""
    last = name.rpartition("/")[2]
    dot = last.rfind(".")
    return last[dot:] if 0 < dot < len(last) - 1 else ""


def stem(name: str) -> str:
    """A name without its ending."""
    return name.removesuffix(suffix(name))


def _wanted(name: str) -> bool:
    return suffix(name.lower()) in _WANTED


def _local(item: str) -> tuple[str, list[str]]:
    if os.path.isdir(item):
        root = os.path.abspath(item)
        within = root.rstrip("/") + "/"
        found = []
        for folder, folders, names in os.walk(root, followlinks=True):
            real = os.path.realpath(folder)
            folders[:] = [name for name in folders if not name.startswith(".")
                          and not f"{real}/".startswith(
                              os.path.realpath(os.path.join(folder, name)) + "/")]  # fmt: skip
            below = folder[len(within) :] + "/" if len(folder) > len(within) else ""
            found += [below + name for name in names
                      if not name.startswith(".") and _wanted(name)]  # fmt: skip
        return within, found
    if os.path.lexists(item):  # also a name with * in it
        folder, name = os.path.split(os.path.abspath(item))
        return folder.rstrip("/") + "/", [name]
    if not any(sign in item for sign in _MAGIC):
        raise FileNotFoundError(f"no such file or folder: {item}")
    fixed = []
    for part in PurePosixPath(item).parts:
        if any(sign in part for sign in _MAGIC):
            break
        fixed.append(part)
    root = os.path.abspath(os.path.join(*fixed)) if fixed else os.getcwd()
    within = root.rstrip("/") + "/"
    found = []
    for path in glob.iglob(item, recursive=True):
        if not os.path.isdir(path):
            found.append(os.path.abspath(path)[len(within) :])
    return within, found


def _remote(item: str) -> tuple[str, list[str]]:
    files, inner = _store.filesystem(item)
    magic = any(sign in inner for sign in _MAGIC)
    if not magic and files.isfile(inner):
        folder, slash, name = str(files.unstrip_protocol(inner)).rpartition("/")
        return folder + slash, [name]
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
    within = str(files.unstrip_protocol(root)).rstrip("/") + "/"
    return _below(within, [str(files.unstrip_protocol(path)) for path in found])


def _below(root: str, paths: list[str]) -> tuple[str, list[str]]:
    if all(path.startswith(root) for path in paths):
        return root, [path[len(root) :] for path in paths]
    return "", paths


def is_table(path: str) -> bool:
    """Whether a file is one of arrays or Parquet, by its name."""
    return suffix(path.lower()) in TABLES


def files(columns: Mapping[str, Sequence[str]], output: str = "") -> Files:
    """Everything that patterns mean.

    Args:
        columns: Column -> patterns. Tables have all columns, under "".
        output: A file, or a folder whose files, are no source, where they are inside of it.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: Files of several columns do not pair; kinds of files are mixed.
    """
    found = {column: _listed(patterns, output) for column, patterns in columns.items()}
    tables = {is_table(name) for item in found.values() for name in item.names}
    if len(tables) > 1:
        raise ValueError(
            "source: got pictures and files of arrays, expected one kind; name a pattern such as "
            "'photos/*.jpg'"
        )
    if len(found) > 1:
        return _paired(found)
    ((column, item),) = found.items()
    return Files(item.names, {column: item.paths})


class _Listed(NamedTuple):
    """The files of one column."""

    names: Strings
    paths: Strings


def _listed(patterns: Sequence[str], output: str) -> _Listed:
    root, found = expand(patterns)
    inside = output if _store.is_remote(output) else os.path.abspath(output or os.devnull)
    if root and inside.startswith(root):  # what earlier runs have written there
        own = inside[len(root) :].rstrip("/") + "/"
        others = [name for name in found if not f"{name}/".startswith(own)]
        if found and not others:
            raise ValueError(
                f"output: all files of the source are {inside} or in it, expected another output"
            )
        found = others
    if root and not any(name.startswith("/") for name in found):
        names = Strings(found)
        return _Listed(names, names.under(root))
    # Several stores; or a bucket, where "a//b" is another object than "a/b".
    paths = Strings(root + name for name in found)
    plain = [name.replace("://", "/").lstrip("/") for name in found]
    if len(set(plain)) < len(plain):
        plain = [path.replace("://", "/") for path in paths]
    return _Listed(Strings(plain), paths)


def _paired(lists: Mapping[str, _Listed]) -> Files:
    """Several columns, joined by the names without their endings, in the order of the first one."""
    orders, stems = {}, {}
    for column, item in lists.items():
        unsorted = [stem(name) for name in item.names]
        orders[column] = sorted(range(len(unsorted)), key=unsorted.__getitem__)
        stems[column] = Strings(unsorted[place] for place in orders[column])
        for before, after in itertools.pairwise(stems[column]):
            if before == after:
                raise ValueError(
                    f"source: got two files for {column!r} with the name {after!r}; files of "
                    "several inputs are joined by their names without endings"
                )
    first = next(iter(lists))
    for column, found in stems.items():
        if len(found) != len(stems[first]) or any(map(operator.ne, found, stems[first])):
            raise ValueError(_alone(lists, stems, first, column))
    paths = {}
    for column, item in lists.items():
        places = [0] * len(item.names)
        for mine, others in zip(orders[first], orders[column], strict=True):
            places[mine] = others
        paths[column] = item.paths.taken(places)
    return Files(lists[first].names, paths)


def _alone(
    lists: Mapping[str, _Listed], stems: Mapping[str, Strings], first: str, second: str
) -> str:
    """The message for the first file of one column that has none in the other one."""
    alone = min(set(stems[first]) ^ set(stems[second]))
    has, lacks = (first, second) if alone in set(stems[first]) else (second, first)
    paths = lists[has].paths
    path = next(path for name, path in zip(lists[has].names, paths, strict=True)
                if stem(name) == alone)  # fmt: skip
    return (
        f"source: got no file for {lacks!r} that goes with {path} (name {alone!r}); files of "
        "several inputs are joined by their names without endings"
    )
