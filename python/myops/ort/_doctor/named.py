"""Whether the libraries that a bundled model names are here and have the right hash.

None of them is loaded because a model names it: the caller decides that, by `--library` or, in a
session, by `named_libraries`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from myops.ort import _named_libraries
from myops.ort._doctor.report import ERROR, WARNING, Finding
from myops.ort._loaders.load import sha256, this_platform
from myops.ort._named_libraries import NamedLibrary

_REFUSED = "myops.ort.session refuses the model for it"


def check(
    model: str, folder: Path | None, paths: Sequence[str], use_installed: bool
) -> tuple[list[NamedLibrary], list[Finding]]:
    """The named libraries, and what is wrong with them.

    Args:
        model: The file.
        folder: Where the files of its bundle would be; None for a model that came as bytes.
        paths: The libraries that the examination uses.
        use_installed: Whether installed packages count.
    """
    try:
        named = _named_libraries.named_by(model)
    except ValueError as error:
        return [], [Finding(
            "named-libraries-unreadable", ERROR,
            "What the model says about the libraries that it needs makes no sense.", f"{error}.",
            "Get the model from where it was bundled, or bundle it again: myops bundle.",
        )]  # fmt: skip
    found: list[Finding] = []
    for item in named:
        found += _check(item, folder, paths, use_installed)
    return named, found


def _check(
    item: NamedLibrary, folder: Path | None, paths: Sequence[str], use_installed: bool
) -> list[Finding]:
    if item.platform != this_platform():
        return [Finding(
            "named-library-platform", ERROR,
            f"The model was bundled for another machine: {item.platform}.",
            f"It names {item}; this is {this_platform()}, so {_REFUSED}.",
            "Bundle it again on a machine like this one. named_libraries='ignore' loads it with "
            "the installed libraries.",
        )]  # fmt: skip
    files = [path for path in paths if os.path.isfile(path)]
    at_hand = any(sha256(Path(path)) == item.sha256 for path in files)
    beside = None if folder is None else folder / item.file
    there = beside is not None and beside.is_file()
    sound = beside is not None and there and sha256(beside) == item.sha256
    found = []
    if there and not sound:
        found.append(Finding(
            "named-library-damaged", WARNING if at_hand else ERROR,
            f"{beside} is not the library that was bundled with the model.",
            f"The model names {item}; the file has SHA-256 {_short(str(beside))}. The bundle's "
            "loaders refuse it.",
            "Copy the whole bundle again: the file is damaged, or of another version.",
        ))  # fmt: skip
    if at_hand:
        return found
    others = [(path, "") for path in files if os.path.basename(path) == item.file]
    if use_installed:
        others = [other for domain in item.domains if (other := _installed(domain))] + others
    if others:
        return [*found, _another(item, *others[0], sound)]
    if sound:
        return [*found, Finding(
            "named-library-beside", WARNING,
            f"Only the bundle itself has {item.file}: no installed package provides it.",
            f"The model names {item}. A name in a model does not decide which code runs, so "
            f"{beside} was not loaded, and myops.ort.session asks first.",
            f"If you trust whoever made the folder: --library {beside} here, "
            "named_libraries='trust' in a session, or the load.py beside the model.",
        )]  # fmt: skip
    if there:
        return found
    return [*found, Finding(
        "named-library-missing", ERROR, f"{item.file} is missing, which the model names.",
        f"It names {item}. No installed package provides it"
        + (f", and there is no {beside}" if beside else "") + f", so {_REFUSED}.",
        "Copy the whole bundle, not only the model; or install the package that provides "
        f"{', '.join(map(repr, item.domains))}; or give the library: --library FILE.",
    )]  # fmt: skip


def _installed(domain: str) -> tuple[str, str] | None:
    try:
        return _named_libraries.installed(domain)
    except (ImportError, FileNotFoundError, ValueError):  # the examination reports it: op-library
        return None


def _another(item: NamedLibrary, path: str, version: str, sound: bool) -> Finding:
    """An installed library serves the domain, and is another than the named one."""
    other = bool(item.version and version and item.version != version)
    wanted = f"{item.file} {item.version}".strip()
    instead = "named_libraries='trust' takes the file beside the model, if you trust its maker; "
    return Finding(
        "named-library-version" if other else "named-library-differs", ERROR,
        f"The model names {wanted}, and here is {version}." if other
        else f"{path} is another build of {wanted} than the model names.",
        f"The model names {item}; {path} has SHA-256 {_short(path)} and may give other results, "
        f"so {_REFUSED}.",
        (f"Install version {item.version}, " if other else "Install the same build, ")
        + "or bundle the model again with this one. " + (instead if sound else "")
        + "named_libraries='ignore' uses what is installed.",
    )  # fmt: skip


def _short(path: str) -> str:
    return f"{sha256(Path(path))[:12]}..."
