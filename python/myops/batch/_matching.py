"""Matches files and columns with the inputs of the graph."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from myops._names import choose
from myops.batch import _arrays, _parquet, _recipe, _sources, _store, _tables
from myops.batch._arrays import kind
from myops.batch._pixels import PixelSettings
from myops.batch._recipe import Recipe
from myops.batch._sources import Files


def _patterns(source: Any) -> list[str]:
    items = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    return [_store.plain(os.fspath(item)) for item in items]


def paired(session: Any, constants: Mapping[str, Any], source: Any, output: str) -> Files:
    """The files of the source; the column "" means all columns of a table."""
    needed = [item.name for item in _recipe.columns_of(session, constants)]
    if isinstance(source, Mapping):
        _recipe.check_columns(needed, list(source))
        return _sources.files({name: _patterns(item) for name, item in source.items()}, output)
    found = _sources.files({"": _patterns(source)}, output)
    if not len(found) or _sources.is_table(found.names[0]):
        return found
    if len(needed) != 1:
        listed = ", ".join(map(repr, needed)) or "none"
        raise ValueError(
            f"source: got files for a model with the inputs {listed}, expected files for each of "
            "them by name, or constants (constants={...}, --set NAME=VALUE)"
        )
    return Files(found.names, {needed[0]: found.paths[""]})


def recipe_of(
    session: Any,
    constants: dict[str, Any],
    files: Files,
    columns: Mapping[str, str],
    rows: str,
    settings: PixelSettings,
) -> tuple[Recipe, bool]:
    """How rows become inputs, and whether files have many rows."""
    needed = _recipe.columns_of(session, constants)
    if not len(files):
        return Recipe((), constants, ()), False
    first = files.at(0)
    if not any(map(_sources.is_table, first.values())):
        if columns or rows:
            word = "columns" if columns else "rows"
            raise ValueError(
                f"{word}: got a value for files of pictures, expected none: they have no columns"
            )
        found = [_recipe.of_files(item, item.name, settings) for item in needed]
        return _finished(tuple(found), constants, settings), False
    if "" not in first:
        _refuse_columns(columns, "files by input, each of which is one array")
        return _recipe_of_arrays(needed, first, constants, rows, settings)
    path = first[""]
    have, is_parquet = _tables.names(path), kind(path) == "parquet"
    for name in columns:
        if name not in [item.name for item in needed]:
            raise ValueError(f"columns: the model has no input {name!r} without a constant")
    if have == [""]:
        if len(needed) != 1:
            listed = ", ".join(repr(item.name) for item in needed) or "none"
            raise ValueError(
                f"source: got one array for a model with the inputs {listed}, expected an array "
                "for each of them in a .npz, or constants (constants={...}, --set NAME=VALUE)"
            )
        _refuse_columns(columns, f"{path}, which is one array")
        wanted = {needed[0].name: ""}
    else:
        for column in columns.values():
            choose(column, have, f"columns: {path} has", "column" if is_parquet else "array")
        wanted = {item.name: columns.get(item.name, item.name) for item in needed}
        given = [name for name, column in wanted.items() if column in have]
        _recipe.check_columns(list(wanted), given)
    if not is_parquet:
        heads = _arrays.headers(path)
        alone = {_recipe.rows_of_arrays(item, heads[wanted[item.name]][0], rows, path)
                 for item in needed}  # fmt: skip
        if alone == {True}:
            inputs = tuple(
                _checked(
                    _recipe.of_array(item, column, len(heads[column][0]), path),
                    heads[column][1],
                    path,
                )
                for item in needed
                for column in [wanted[item.name]]
            )
            return _finished(inputs, constants, settings), False
        if True in alone:
            raise ValueError(
                f"{path}: some arrays are one row and some have many; pass rows='axis0' or "
                "rows='file'"
            )
    found = []
    for item in needed:
        column = wanted[item.name]
        found.append(_of_column(item, column, path, settings))
    return _finished(tuple(found), constants, settings), True


def _refuse_columns(columns: Mapping[str, str], what: str) -> None:
    if columns:
        raise ValueError(
            f"columns: got {', '.join(map(repr, columns.values()))} for {what}, expected none: "
            "only tables (Parquet, .npz) have columns"
        )


def _of_column(value: Any, column: str, path: str, settings: PixelSettings) -> _recipe.Input:
    if kind(path) == "parquet":
        if _parquet.is_bytes(path, column):
            return _recipe.of_files(value, column, settings)
        rank, dtype = _parquet.tensors(path, column)
    else:
        shape, dtype = _arrays.headers(path)[column]
        rank = len(shape) - 1
        _recipe.check_lengths(_recipe.of_array(value, column, rank, path), shape[1:], path)
    return _checked(_recipe.of_array(value, column, rank, path), dtype, path)


def _checked(made: _recipe.Input, dtype: Any, path: str) -> _recipe.Input:
    """An input, if it takes arrays of this dtype."""
    if dtype is not None:
        try:
            _recipe.cast(np.empty(0, dtype), made)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return made


def _recipe_of_arrays(
    needed: Sequence[Any],
    first: Mapping[str, str],
    constants: Any,
    rows: str,
    settings: PixelSettings,
) -> tuple[Recipe, bool]:
    """Files of arrays for each input by name: each file is one row."""
    if rows == "axis0":
        raise ValueError("rows: got axis0 for files by input, where each file is one row")
    found = []
    for item in needed:
        path = first[item.name]
        if kind(path) != "npy":
            raise ValueError(f"source: got {path} for the input {item.name!r}, expected .npy files")
        shape, dtype = _arrays.headers(path)[""]
        found.append(_checked(_recipe.of_array(item, item.name, len(shape), path), dtype, path))
    return _finished(tuple(found), constants, settings), False


def _finished(inputs: tuple[_recipe.Input, ...], constants: Any, settings: PixelSettings) -> Recipe:
    lengths = {item.shape[0] for item in inputs if item.stack and item.shape}
    fixed = [item for item in lengths if item is not None]
    if len(fixed) > 1:
        raise ValueError(
            f"model: its inputs fix axis 0 to {sorted(fixed)}, expected one number of rows a call"
        )
    stacks = all(item.stack for item in inputs)
    return Recipe(inputs, constants, (), settings, None, fixed[0] if fixed and stacks else 0)


def with_outputs(
    recipe: Recipe, session: Any, outputs: Any, whole: Sequence[str], batch: int | None
) -> Recipe:
    """The recipe with its outputs.

    Raises:
        ValueError: The model has no such output.
    """
    known = {item.name: item for item in session.get_outputs()}
    for name in (*(outputs or ()), *whole):
        choose(name, known, "outputs: the outputs of the model have")
    wanted = list(dict.fromkeys(outputs)) if outputs else list(known)
    made = tuple(_recipe.output(known[name], recipe.inputs, whole)
                 for name in wanted)  # fmt: skip
    return replace(recipe, outputs=made, batch=batch)
