"""Weights that a model keeps in other files ("external data")."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import onnx

from myops._names import near_misses
from myops.onnx.graph.external import check_place
from myops.ort._doctor import graph
from myops.ort._doctor.report import ERROR, Finding


def check(model: onnx.ModelProto, folder: Path) -> tuple[dict[str, int], list[Finding]]:
    """The files with external data that are there and their sizes, and what is wrong with them."""
    files: dict[str, int] = {}
    wrong: dict[str, list[str]] = {}
    damaged: list[str] = []  # what is said of tensors without a place
    for tensor in _tensors(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        info = {item.key: item.value for item in tensor.external_data}
        name = info.get("location", "")
        path = folder / name
        try:
            size = path.stat().st_size if name and path.is_file() else None
        except (ValueError, OSError):  # not a name of a file
            size = None
        try:
            check_place(tensor)
        except ValueError as error:
            damaged.append(str(error))
            continue
        end = int(info.get("offset") or 0) + int(info.get("length") or 0)
        outside = os.path.isabs(name) or ".." in Path(name).parts
        if size is not None:
            files[name] = size
        if outside:
            wrong.setdefault(f"outside\0{name}", []).append(tensor.name)
        elif size is None:
            wrong.setdefault(f"missing\0{name}", []).append(tensor.name)
        elif end > size:
            wrong.setdefault(f"short\0{name}", []).append(tensor.name)
    found = [
        Finding(
            "weights-damaged", ERROR, "The model does not say where its weights are.",
            f"{damaged[0]}." + (f" So do {len(damaged) - 1} more." if len(damaged) > 1 else ""),
            "Copy or export the model again.",
        )
        for _ in damaged[:1]
    ]  # fmt: skip
    for key, names in wrong.items():
        kind, name = key.split("\0")
        found.append(_finding(kind, name, names, folder, files))
    return files, found


def _finding(
    kind: str, name: str, tensors: list[str], folder: Path, files: dict[str, int]
) -> Finding:
    which = f"{tensors[0]!r}" + (f" and {len(tensors) - 1} more" if len(tensors) > 1 else "")
    if kind == "outside":
        return Finding(
            "weights-outside", ERROR, f"Weights are outside the model's folder: {name!r}.",
            f"The model says so of {which}; ONNX Runtime reads no file outside that folder.",
            "Save the model again with the weights beside it: onnx.save(model, path, "
            "save_as_external_data=True, location='weights.bin').",
        )  # fmt: skip
    if kind == "short":
        return Finding(
            "weights-cut-off", ERROR, f"The file with the weights is too short: {name!r}.",
            f"It has {files[name]} bytes and ends before {which}.",
            "It was cut off while it was copied, or belongs to another model: copy both files "
            "again.",
        )  # fmt: skip
    beside = [item.name for item in folder.iterdir() if item.is_file()] if folder.is_dir() else []
    return Finding(
        "weights-missing", ERROR, f"The file with the weights is missing: {name!r}.",
        f"The model keeps {which} in that file, which has to lie in {folder}."
        f"{near_misses(name, beside)}",
        "Copy it to the model, under the same name; an .onnx file with external data is never "
        "complete alone.",
    )  # fmt: skip


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    graphs = [model.graph]
    nodes = [place.node for place in graph.places(model)]
    graphs += [inner for node in nodes for _, inner in graph.inner_graphs(node)]
    for body in graphs:
        yield from body.initializer
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
