"""`myops new`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from myops.cli import _console, _graphs


def new(
    name: Annotated[str, typer.Argument(help="Name of the package, its domain and namespace.")],
    directory: Annotated[Path, typer.Option(help="Where the new folder goes.")] = Path("."),
    op: Annotated[str, typer.Option(help="Name of the op in it, in snake_case.")] = "soft_clip",
    cuda: Annotated[bool, typer.Option("--cuda", help="A kernel for NVIDIA GPUs too.")] = False,
    json: _graphs.Json = False,
) -> None:
    """Start a package with an operator of your own: kernel, gradient, ONNX, tests.

    Example: myops new my_kernels --op swish
    """
    from myops.scaffold import new_package

    folder = new_package(name, directory, op=op, cuda=cuda)
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    if json:
        _console.print_json({"folder": str(folder), "files": files})
        return
    _console.say(f"{folder}: {', '.join(files)}")
    _console.say("Build it, test it:")
    _console.say(f"  cd {folder}")
    _console.say("  pip install 'myops[build]'  # setuptools, ninja, pybind11; once")
    _console.say("  pip install --no-build-isolation '.[test]'")
    _console.say("  pytest")
