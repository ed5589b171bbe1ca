"""`myops verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from myops.cli import _console, _graphs

OPTIONS = {"trusted_keys": "--key", "bundle": "FOLDER"}


def verify(
    folder: Annotated[Path, typer.Argument(help="The signed bundle.", metavar="FOLDER")],
    key: Annotated[
        list[Path] | None,
        typer.Option(help="A public key that you trust (Ed25519, PEM), which did not come with the "
                     "bundle. May be given several times. Default: those that the variable "
                     "MYOPS_TRUSTED_KEYS lists.", metavar="FILE", show_default=False),
    ] = None,
    json: _graphs.Json = False,
) -> None:  # fmt: skip
    """Check who signed a bundle, that no file of it was changed, and that there are no others.

    Nothing in the folder is run or loaded.

    Example: myops verify deploy --key maker.pem
    """
    from myops.ort import verify as check

    found = check(folder, key)
    if json:
        _console.print_json({"key": found.key, "model": found.model, "files": found.files})
        return
    _console.say(f"{folder}: signed by the key {found.key}")
    for name, digest in found.files.items():
        _console.say(f"{digest}  {name}")
