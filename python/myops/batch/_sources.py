"""The files that patterns, folders and URLs mean."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from myops.batch import _store

PICTURES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm",
            ".pbm", ".jp2", ".avif"}  # fmt: skip
TABLES = {".parquet", ".npy", ".npz"}
_MAGIC = "*?["


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
        output: A file, or a folder whose files, are no source, where they are inside of it.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: Files of several columns do not pair; kinds of files are mixed.
    """
    lists = {}
    inside = output if _store.is_remote(output) else os.path.abspath(output or os.devnull)
    for column, patterns in columns.items():
        root, found = expand(patterns)
        if inside.startswith(root.rstrip("/") + "/"):  # what earlier runs have written there
            own = inside.rstrip("/") + "/"
            found = [path for path in found if not f"{path}/".startswith(own)]
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


def _name(path: str, root: str) -> str:
    return path.removeprefix(root).replace(os.sep, "/").lstrip("/")


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
