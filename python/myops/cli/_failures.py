"""Errors for the user: ours as sentences, those of the user's code with the lines of that code.

Only the lines of the user's own files are shown, as `myops._text` makes them printable; --debug has
the whole traceback.
"""

from __future__ import annotations

import ast
import os
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from myops._text import without_colours

# Errors that a user can correct; any other is a defect of myops.
EXPECTED = (ValueError, OSError, ImportError, RuntimeError)

_OURS = Path(__file__).resolve().parents[1]
_NOT_THE_USERS = ("site-packages", "dist-packages", "lib/python")
_TORCHS_TRACEBACK = "(Refer to the full stack trace above for more information.)"
_MOST_LINES = 6
_DICT = r"\{(?:[^{}]|\{[^{}]*\})*\}"
_folders: set[Path] = set()  # with files of the user's that were loaded


class UserCodeError(RuntimeError):
    """The user's file does something that no command can work with."""


def watch(file: Path) -> None:
    """Lines of the files in this file's folder are shown when they raise an error."""
    _folders.add(file.resolve().parent)


def describe(error: BaseException, options: Mapping[str, str]) -> str:
    """The text of an error for somebody at a command line.

    Args:
        options: Parameters of the library's function -> options of the command.
    """
    text = without_colours(str(error)).strip()
    text = text.replace(_TORCHS_TRACEBACK, "(--debug shows the whole traceback.)")
    lines = _users_lines(error)
    origin = _frames(error)[-1:]
    ours = not origin or Path(origin[0].filename).is_relative_to(_OURS)
    if isinstance(error, SyntaxError):
        lines = [f"{_short(error.filename or '')}:{error.lineno}: {(error.text or '').strip()}"]
        text = f"{type(error).__name__}: {error.msg}"
    elif (lines and not ours) or not text:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    elif not isinstance(error, EXPECTED):
        text = (
            f"{type(error).__name__}: {text}. This is a fault of myops itself: --debug shows "
            "where it happened; please report it."
        )
    return "\n".join([in_options(text, options), *lines])


def in_options(text: str, options: Mapping[str, str]) -> str:
    """A message of the library with `name=value` as the command line says it: `--option value`."""
    for name, option in options.items():

        def typed(match: re.Match[str], option: str = option) -> str:
            items = re.findall(r"[^\s,'\"\[\]()]+", match[1])
            if match[1] == "[...]":
                return option
            if match[1].startswith("(") and option.endswith("range") and len(items) == 2:
                return f"{option} {items[0]}..{items[1]}"
            if match[1] == "True" or (match[1] == "False" and option.startswith("--no-")):
                return option
            return " ".join(f"{option} {item}" for item in items) or option

        if option == "--dynamic":
            text = re.sub(rf"(?<![\w.]){name}=({_DICT})", _axes, text)
        if option in ("--shape", "--dim", "--input"):
            text = re.sub(rf"(?<![\w.]){name}=(\{{[^{{}}]*\}})", _pairs(option), text)
        value = r"(\[[^\]]*\]|\([^)]*\)|\"[^\"]*\"|'[^']*'|[\w.]+)"
        text = re.sub(rf"(?<![\w.]){name}={value}", typed, text)
        # "pass range=, such as 0..1"
        text = re.sub(rf"(?<![\w.]){name}=(?=[,;.]?(?:\s|$))", option, text)
        text = re.sub(rf"(?<![\w.-]){name}(?=[:,] | was )", option, text)
    return text


def _pairs(option: str) -> Callable[[re.Match[str]], str]:
    """Replaces {"x": [1, 3]} by --shape x:1x3, and {"n": 4} by --dim n=4."""

    def typed(match: re.Match[str]) -> str:
        try:
            items = ast.literal_eval(match[1]).items()
        except (ValueError, SyntaxError):
            return match[0]
        return " ".join(
            f"{option} {name}:{'x'.join(map(str, value))}" if isinstance(value, (list, tuple))
            else f"{option} {name}={value}"
            for name, value in items
        )  # fmt: skip

    return typed


def _axes(match: re.Match[str]) -> str:
    """Replaces {"x": {2: "2*h"}} by --dynamic "x:2=2*h", in quotes because of the shell."""
    try:
        items = ast.literal_eval(match[1]).items()
        words = [f"{name}:{','.join(f'{axis}={title}' for axis, title in axes.items())}"
                 for name, axes in items]  # fmt: skip
    except (AttributeError, ValueError, SyntaxError):
        return match[0]
    return " ".join(f'--dynamic "{word}"' if "*" in word else f"--dynamic {word}" for word in words)


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    return list(traceback.extract_tb(error.__traceback__))


def _users_lines(error: BaseException) -> list[str]:
    """ "file:line, in function: the line", innermost last, of the user's code that was running."""
    for item in _chain(error):
        found = [frame for frame in _frames(item) if _is_users(frame.filename)]
        if found:
            shown = [f"{_short(frame.filename)}:{frame.lineno}, in {frame.name}: {frame.line}"
                     for frame in found[-_MOST_LINES:]]  # fmt: skip
            return ["..."] * (len(found) > _MOST_LINES) + shown
    return []


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, then what caused it."""
    seen: set[int] = set()
    item: BaseException | None = error
    while item is not None and id(item) not in seen:
        seen.add(id(item))
        yield item
        item = item.__cause__ or item.__context__


def _is_users(filename: str) -> bool:
    if filename.startswith("<"):  # the code is in no file
        return False
    path = Path(os.path.abspath(filename))
    if path.is_relative_to(_OURS) or any(part in path.as_posix() for part in _NOT_THE_USERS):
        return False
    return any(path.resolve().is_relative_to(folder) for folder in _folders)


def _short(filename: str) -> str:
    near = os.path.relpath(filename)
    return filename if near.startswith("..") else near
