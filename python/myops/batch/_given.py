"""The arguments of a run, checked before anything is read."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from myops._given import whole
from myops._names import choose
from myops.batch import _parquet, _pixels, _tables
from myops.batch._arrays import SHAPE, kind
from myops.batch._pixels import PixelSettings
from myops.batch._recipe import Recipe
from myops.batch._sources import Files

FORMATS = ("png", "jpg", "webp", "bmp", "tif", "bytes", "npy", "npz", "parquet")


def checked_model(model: Any) -> str:
    """The absolute path of the model.

    Raises:
        FileNotFoundError, IsADirectoryError, ValueError: It is no file.
    """
    path = os.path.abspath(os.fspath(model))
    if not os.path.exists(path):
        raise FileNotFoundError(f"no such file: {os.fspath(model)}")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{os.fspath(model)}: got a folder, expected a model")
    if not os.path.isfile(path):
        raise ValueError(f"{os.fspath(model)}: got no regular file, expected a model")
    return path


def settings(
    layout: str, channels: int, range: Any, output_range: Any, mean: Any, std: Any, resize: str
) -> PixelSettings:
    """The settings for pixels.

    Raises:
        ValueError: An argument is invalid.
    """
    if layout and layout not in _pixels.LAYOUTS:
        raise ValueError(f"layout: got {layout!r}, expected one of {', '.join(_pixels.LAYOUTS)}")
    if channels and channels not in _pixels.MODES:
        raise ValueError(f"channels: got {channels}, expected 1, 3 or 4")
    if resize and resize not in _pixels.FILTERS:
        raise ValueError(f"resize: got {resize!r}, expected one of {', '.join(_pixels.FILTERS)}")
    for name, item in (("range", range), ("output_range", output_range)):
        if item is not None and (len(item) != 2 or not item[0] < item[1]):
            raise ValueError(f"{name}: got {item!r}, expected two numbers, the smaller one first")
    if bool(mean) != bool(std) or len(mean) != len(std) or 0 in std:
        raise ValueError(
            f"mean: got {list(mean)} with std {list(std)}, expected as many numbers for both, and "
            "no 0 in std"
        )
    pairs = [None if item is None else (float(item[0]), float(item[1]))
             for item in (range, output_range)]  # fmt: skip
    return PixelSettings(layout, channels, pairs[0], pairs[1], tuple(mean), tuple(std), resize)


# The least and the largest number of each argument that is a count.
_COUNTS = {
    "max_failures": (0, 2**63 - 1),
    "readers": (0, 1024),
    "threads": (1, 1024),
    "workers": (1, 100_000),
}


def check_words(**words: Any) -> None:
    """Raises ValueError for unknown words, and for numbers that are too small or too large."""
    known = {"format": ("", *FORMATS), "engine": ("local", "ray"), "rows": ("", "axis0", "file")}
    for name, value in words.items():
        if name in known and value not in known[name]:
            listed = ", ".join(filter(None, known[name]))
            raise ValueError(f"{name}: got {value!r}, expected one of {listed}")
        least, most = _COUNTS.get(name, (1, 2**63 - 1))
        if name not in known and value is not None:
            whole(name, value, least, most)


def chosen_format(said: str, recipe: Recipe, table: bool, files: Files) -> str:
    """The format of the outputs.

    Raises:
        ValueError: The one that was said does not fit.
    """
    outputs = recipe.outputs
    if not said:
        first = files.at(0) if len(files) else {}
        parquet = any(kind(path) == "parquet" for path in first.values())
        if table:
            said = "parquet" if parquet else "npz"
        elif outputs and all(item.is_bytes for item in outputs):
            said = "bytes"
        else:
            said = "png" if outputs and all(item.axes for item in outputs) else "npz"
    if table and said not in ("npz", "parquet"):
        raise ValueError(f"format: got {said!r} for a source of tables, expected npz or parquet")
    if said in _pixels.FORMATS and len(files):
        for item in outputs:
            if not item.axes:
                raise ValueError(
                    f"format: got {said!r}, but output {item.name!r} is no picture by its shape in "
                    "the graph; expected npz, npy or parquet"
                )
    if said == "bytes" and not all(item.is_bytes for item in outputs):
        raise ValueError("format: got 'bytes', expected outputs of uint8 with one axis")
    if said in ("npy", "bytes", *_pixels.FORMATS) and len(outputs) > 1:
        bad = [item.name for item in outputs if not re.fullmatch(r"[\w+-][\w.+-]*", item.name)]
        if bad:
            raise ValueError(
                f"format: got {said!r} with the output {bad[0]!r}, whose name cannot be part of a "
                "file's; expected npz or parquet"
            )
    if said in _pixels.FORMATS:
        _pixels.pillow()
    if said == "parquet":
        _parquet.arrow()
    return "npz-parts" if table and said == "npz" else said


def single_format(said: str, single: str, recipe: Recipe) -> str:
    """The format of the parts that become one file.

    Raises:
        ValueError: Something else was said, or a .npy was to hold several outputs.
    """
    if said not in ("", single):
        raise ValueError(f"format: got {said!r} for an output that ends in .{single}")
    if single == "npy" and len(recipe.outputs) != 1:
        raise ValueError(
            f"output: got .npy for {len(recipe.outputs)} outputs of the model, expected one (say "
            "outputs=[...]), or a file that ends in .npz or .parquet"
        )
    if single == "parquet":
        _parquet.arrow()
        return "parquet"
    return "npz-parts"


def check_keep(keep: Sequence[str], format: str, table: bool, files: Files) -> None:
    if not keep:
        return
    if format != "parquet" or not table:
        raise ValueError("keep: got names, expected a source of tables and format='parquet'")
    path = next(iter(files.at(0).values()))
    for name in keep:
        choose(name, _tables.names(path), f"keep: {path} has")


def check_names(format: str, recipe: Recipe, keep: Sequence[str], table: bool) -> None:
    """Raises ValueError where two columns of a part would have one name."""
    if format not in ("parquet", "npz-parts"):
        return
    outputs = [item.name for item in recipe.outputs]
    found = ["row" if table else "file", *outputs, *keep]
    found += [name + SHAPE for name in (*outputs, *keep)]
    twice = [name for name in found if found.count(name) > 1]
    if twice:
        raise ValueError(
            f"output: got two columns {twice[0]!r}, expected different names for the number or "
            "file of a row, the outputs, the columns that are kept, and NAME.shape of these; "
            "`myops edit` renames outputs of a model, outputs=[...] leaves some out"
        )


def check_pixels(format: str, recipe: Recipe, session: Any) -> None:
    """Raises ValueError where pictures are written from floats without a range."""
    if format not in _pixels.FORMATS:
        return
    said = recipe.pixels
    types = {item.name: item.type for item in session.get_outputs()}
    for item in recipe.outputs:
        kind = types[item.name]
        if kind.startswith(("tensor(float", "tensor(double")) and not (
            said.output_range or said.range
        ):
            raise ValueError(
                f"output {item.name!r}: got floats, which do not say what black and white are; "
                "pass output_range=(0, 1), output_range=(0, 255) or output_range=(-1, 1)"
            )
