"""`myops stubs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from myops.cli import _console, _graphs, _targets

VERDICT = "with --check, a file is missing or is not what would be written"
OPTIONS = {"package_stub": "PACKAGE"}


def stubs(
    package: Annotated[
        str, typer.Argument(help="Name of the package, which has to be built and installed.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to write; - is stdout. Default: __init__.pyi "
                     "beside the package's __init__.py.", metavar="FILE", show_default=False),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing: is the file up to date?")
    ] = False,
    json: _graphs.Json = False,
) -> None:  # fmt: skip
    """Write what type checkers and editors know of a package of ops: __init__.pyi, py.typed.

    The types of an op are those of its description; other functions are referred to.

    Example: myops stubs my_kernels -o src/my_kernels/__init__.pyi
    """
    import myops

    if output == Path("-") and (json or check):
        raise ValueError(
            f"--output: got - as well as {'--json' if json else '--check'}, expected one of them"
        )
    place = Path(_targets.package(package).__file__ or "")
    text = myops.package_stub(package)
    if output == Path("-"):
        print(text, end="")
        return
    contents = {output or place.with_name("__init__.pyi"): text}
    marker = (output or place).with_name("py.typed")
    if not marker.is_file():
        contents[marker] = ""
    stale = [file for file, content in contents.items()
             if not file.is_file() or file.read_text("utf-8") != content]  # fmt: skip
    if not check:
        for file in stale:
            file.write_text(contents[file], encoding="utf-8")
    if json:
        kind = "stale" if check else "written"
        _console.print_json({"files": list(map(str, contents)), kind: list(map(str, stale))})
    for file in [] if json else contents:
        state = "up to date" if file not in stale else "not up to date" if check else "written"
        _console.say(f"{file}: {state}")
    if check and stale:
        raise typer.Exit(1)
