"""PyTorch models on the command line: `file.py:name` or `package.module:name`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from myops._names import choose
from myops.cli._failures import UserCodeError, watch

HELP = (
    "Where the PyTorch model is: file.py:name or package.module:name. The name stands for "
    "(model, args) or (model, args, kwargs), or for a function without parameters that returns it."
)


def load(target: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The model, example inputs by position and by name that a target stands for.

    Raises:
        ValueError: The target has no such form, or the name stands for something else.
        FileNotFoundError: No such file.
        ValueError: The module has no such name.
        UserCodeError: The file ends the program.

    What the file itself raises comes through.
    """
    found = attribute(target)
    if callable(found) and not is_module(found):
        found = called(target, found)
    if isinstance(found, (tuple, list)) and len(found) in (2, 3) and is_module(found[0]):
        model, args = found[0], found[1]
        kwargs = found[2] if len(found) == 3 else {}
        if not isinstance(kwargs, Mapping):
            raise ValueError(f"{target}: got {type(kwargs).__name__}, expected a dict of kwargs")
        return model, tuple(args) if isinstance(args, (tuple, list)) else (args,), dict(kwargs)
    raise ValueError(
        f"{target}: got {type(found).__name__}, expected (model, args), (model, args, kwargs) or "
        "a function without parameters that returns it; args are example inputs of the model"
    )


def attribute(target: str) -> Any:
    """The object `name` of `file.py:name` or `package.module:name`."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise ValueError(f"got {target!r}, expected file.py:name or package.module:name")
    with _not_ending(target):
        module = _from_file(Path(place)) if place.endswith(".py") else _imported(place)
    for part in name.split("."):
        choose(part, [item for item in vars(module) if not item.startswith("_")], f"{place} has")
        module = getattr(module, part)
    return module


def called(target: str, function: Any) -> Any:
    """The result of the function that a target names.

    Raises:
        ValueError: The function needs arguments.
    """
    needed = _needed(function)
    if needed:
        noun = "parameter" if len(needed) == 1 else "parameters"
        raise ValueError(
            f"{target}: the function has the {noun} {', '.join(map(repr, needed))}; expected a "
            "function without parameters, or with defaults for all"
        )
    with _not_ending(target):
        return function()


def _needed(function: Any) -> list[str]:
    """The parameters without which a function cannot be called."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # functions written in C++ may have no signature
        return []
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in several]


@contextlib.contextmanager
def _not_ending(target: str) -> Iterator[None]:
    """A script that ends the program, for example after reading its arguments: its exit status must
    not be taken for a result of the command."""
    try:
        yield
    except SystemExit as stop:
        raise UserCodeError(
            f"{target}: the file ends the program (SystemExit: {stop.code}). What is to run only "
            "as a script belongs under: if __name__ == '__main__':"
        ) from stop


def package(name: str) -> Any:
    """The package of a name, imported.

    Raises:
        ValueError: There is no such package.
        UserCodeError: It ends the program.
    """
    with _not_ending(name):
        return _imported(name, "the name of a package that Python finds")


def _imported(
    name: str,
    expected: str = "file.py:name or package.module:name, with a package that Python finds",
) -> Any:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name and not name.startswith(f"{error.name}."):
            raise  # a module that the module itself imports
        raise ValueError(f"there is no module {error.name!r}; expected {expected}") from None
    if module.__file__:
        watch(Path(module.__file__))
    return module


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    watch(path)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # pickle and dataclasses look it up there
    sys.path.insert(0, str(path.parent.resolve()))  # as `python file.py` does
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def is_module(item: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(item, (torch.nn.Module, torch.export.ExportedProgram))
