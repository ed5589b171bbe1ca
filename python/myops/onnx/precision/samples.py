"""Inputs for measuring and calibration: arrays, files of arrays, images, or generated ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from myops._array_files import read_array, read_arrays
from myops._extras import require
from myops._names import choose
from myops._text import printable, shorten
from myops.onnx.schema import dims_of

Data = str | os.PathLike[str] | Iterable[Mapping[str, Any]] | None
LAYERWISE = 4  # inputs whose inner values are compared
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff")


@dataclass
class Samples:
    """Inputs of several runs.

    Attributes:
        feeds: Arrays by name of the input.
        described: dtype and shape of the inputs of the first run, and whether they were generated.
        notes: Further remarks, in sentences.
    """

    feeds: list[dict[str, np.ndarray]]
    described: dict[str, Any]
    notes: list[str] = field(default_factory=list)


def of(
    model: onnx.ModelProto,
    data: Data,
    asked: tuple[Mapping[str, Any], Mapping[str, int], Mapping[str, Any]],
    run: Callable[[Mapping[str, np.ndarray]], Any],
    most: int | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
) -> Samples:
    """The given inputs, or generated ones with which the model runs.

    Raises:
        ValueError: The inputs do not fit the model.
        RuntimeError: The model does not run.
    """
    from myops.ort import _feeding

    if data is None:
        chosen = _feeding.that_run(model, asked, run)
        notes = ["The losses are those of an invented input: normally distributed numbers. Give "
                 "inputs that the model was made for."]  # fmt: skip
        if asked[0]:
            notes = []
        return Samples([chosen.feed], chosen.described(), notes)
    if any(asked):
        raise ValueError("data: got inputs, dims or shapes as well, expected one of them")
    if isinstance(data, (str, os.PathLike)):
        feeds = read_folder(model, Path(data), most, mean, std)
    else:
        if getattr(data, "ndim", 1) == 0:  # an array or tensor without axes
            raise TypeError(f"data: got {data!r}, expected a list of dicts of arrays")
        feeds = [_checked(model, item, f"item {n}") for n, item in enumerate(data)]
        feeds = feeds[:most]
    if not feeds:
        raise ValueError("data: got no inputs, expected at least one")
    shown = {name: {"dtype": str(array.dtype), "shape": list(array.shape), "invented": ""}
             for name, array in feeds[0].items()}  # fmt: skip
    return Samples(feeds, shown)


def inputs_of(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """The inputs of a model that have no default."""
    have = {item.name for item in model.graph.initializer}
    return {item.name: item for item in model.graph.input if item.name not in have}


def read_folder(
    model: onnx.ModelProto,
    folder: Path,
    most: int | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
) -> list[dict[str, np.ndarray]]:
    """The inputs in a folder, in the order of the file names.

    One of: .npz files, each with the arrays of one run by name; .npy files or images, each the
    only input of a model; a folder for each input, with as many .npy files or images in each.

    Raises:
        FileNotFoundError: There is no such folder.
        NotADirectoryError: It is a file.
        ValueError: It contains none of these, or files that do not fit the model.
    """
    if folder.is_file():
        raise NotADirectoryError(f"data: got the file {folder}, expected its folder")
    if not folder.is_dir():
        raise FileNotFoundError(f"data: no such folder: {folder}")
    wanted = inputs_of(model)
    listed = sorted(item for item in folder.iterdir() if not item.name.startswith("."))
    archives = [item for item in listed if item.suffix == ".npz"]
    if archives:
        feeds = []
        for path in archives[:most]:
            feeds.append(_checked(model, read_arrays(path, "data: "), str(path)))
        return feeds
    folders = [item for item in listed if item.is_dir() and item.name in wanted]
    if folders:
        missing = [name for name in wanted if name not in {item.name for item in folders}]
        if missing:
            raise ValueError(
                f"data: {folder}: got no folder for the input {missing[0]!r}, expected one for "
                f"each of {', '.join(map(repr, wanted))}"
            )
        columns = {item.name: _arrays(wanted[item.name], _files(item)[:most], mean, std)
                   for item in folders}  # fmt: skip
        counts = {name: len(column) for name, column in columns.items()}
        if len(set(counts.values())) > 1:
            text = ", ".join(f"{count} for {name!r}" for name, count in counts.items())
            raise ValueError(f"data: {folder}: got {text}, expected equally many files")
        rows = zip(*columns.values(), strict=True)
        made = [dict(zip(columns, row, strict=True)) for row in rows]
        return [_checked(model, row, f"{folder}, number {n}") for n, row in enumerate(made)]
    paths = _files(folder)
    if not paths:
        raise ValueError(
            f"data: {folder}: got none of .npz, .npy, {', '.join(IMAGES)}, expected such files, or "
            "a folder of them for each input"
        )
    if len(wanted) != 1:
        raise ValueError(
            f"data: {folder}: got single arrays for the inputs {', '.join(map(repr, wanted))}; "
            "expected .npz files with an array for each, or a folder for each"
        )
    ((name, item),) = wanted.items()
    arrays = _arrays(item, paths[:most], mean, std)
    return [_checked(model, {name: array}, str(path))
            for array, path in zip(arrays, paths, strict=False)]  # fmt: skip


def _files(folder: Path) -> list[Path]:
    known = (".npy", *IMAGES)
    return sorted(item for item in folder.iterdir()
                  if item.suffix.lower() in known and not item.name.startswith("."))  # fmt: skip


def _arrays(
    item: onnx.ValueInfoProto, paths: Sequence[Path], mean: Sequence[float], std: Sequence[float]
) -> list[np.ndarray]:
    return [read_array(path, "data: ") if path.suffix == ".npy" else _image(item, path, mean, std)
            for path in paths]  # fmt: skip


def _image(
    item: onnx.ValueInfoProto, path: Path, mean: Sequence[float], std: Sequence[float]
) -> np.ndarray:
    """An image in the form of the input: channels first or last, 0 to 1 or bytes, in its size."""
    pictures = require("PIL.Image", "images as data")
    dims = dims_of(item.type.tensor_type)
    where = f"data: {path}: the input {item.name!r}"
    if dims is None or len(dims) not in (3, 4):
        raise ValueError(f"{where} is no image: got rank {dims and len(dims)}, expected 3 or 4")
    first = len(dims) - 3
    last = dims[-1] in (1, 3, 4) and dims[first] not in (1, 3, 4)
    channels = dims[-1] if last else dims[first]
    size = dims[first : first + 2] if last else dims[-2:]
    if channels not in (1, 3, 4, None) and not isinstance(channels, str):
        raise ValueError(f"{where} is no image: got {channels} channels, expected 1, 3 or 4")
    mode = {1: "L", 4: "RGBA"}.get(channels if isinstance(channels, int) else 3, "RGB")
    try:
        with pictures.open(path) as picture:
            picture = picture.convert(mode)
            height, width = (length if isinstance(length, int) else own for length, own in
                             zip(size, (picture.height, picture.width), strict=True))  # fmt: skip
            if (picture.width, picture.height) != (width, height):
                picture = picture.resize((width, height), pictures.Resampling.BILINEAR)
            pixels = np.asarray(picture)
    except Exception as error:  # Pillow's readers raise SyntaxError, struct.error and others
        text = str(error) or type(error).__name__
        raise ValueError(f"data: {path}: got no image, or a damaged one: {text}") from error
    pixels = pixels.reshape(height, width, -1)
    kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(item.type.tensor_type.elem_type))
    if kind.kind == "f":
        scaled = pixels.astype(np.float32) / 255
        count = scaled.shape[-1]
        for name, given in (("mean", mean), ("std", std)):
            if given and len(given) not in (1, count):
                raise ValueError(f"{name}: got {len(given)} numbers, expected 1 or {count}")
        pixels = (scaled - np.asarray(mean or [0])) / np.asarray(std or [1])
    pixels = pixels.astype(kind) if last else pixels.transpose(2, 0, 1).astype(kind)
    return pixels if first == 0 else pixels[None]


def _checked(model: onnx.ModelProto, given: Mapping[str, Any], where: str) -> dict[str, np.ndarray]:
    """The arrays of one run, in the types of the inputs."""
    if not isinstance(given, Mapping):
        raise TypeError(
            f"data: {where}: got {shorten(printable(repr(given)), 100)}, expected a dict of arrays "
            "by the names of inputs"
        )
    wanted = inputs_of(model)
    for name in given:
        choose(name, [item.name for item in model.graph.input],
               f"data: {where}: the model has", "input")  # fmt: skip
    missing = [name for name in wanted if name not in given]
    if missing:
        raise ValueError(f"data: {where}: got no array for the input {missing[0]!r}")
    found = {}
    for name, value in given.items():
        item = next(item for item in model.graph.input if item.name == name)
        if item.type.WhichOneof("value") not in ("tensor_type", None):
            raise ValueError(
                f"data: {where}: the input {name!r} is no tensor but a sequence or an optional "
                "value, which cannot be given; `myops extract` cuts out a part behind it"
            )
        array = np.asarray(value)
        dims = dims_of(item.type.tensor_type)
        fits = dims is None or (len(dims) == array.ndim and all(
            not isinstance(dim, int) or dim == length
            for dim, length in zip(dims, array.shape, strict=True)
        ))  # fmt: skip
        if not fits:
            raise ValueError(
                f"data: {where}: the input {name!r}: got shape {list(array.shape)}, expected {dims}"
            )
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise ValueError(
                f"data: {where}: the input {name!r}: got NaN in {int(np.isnan(array).sum())} of "
                f"{array.size} elements, expected numbers"
            )
        kind = onnx.helper.tensor_dtype_to_np_dtype(item.type.tensor_type.elem_type)
        found[name] = array if array.dtype == kind else array.astype(kind)
    return found
