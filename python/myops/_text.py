"""Text that comes from elsewhere, such as names in a model file, on its way to a reader.

A model file may hold any characters: an escape sequence in the name of a node would recolour, clear
or rename the reader's terminal, a newline would forge lines of output. Everything that is shown,
in a terminal or in a page, goes through `printable`. JSON has escapes of its own.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def printable(text: object) -> str:
    """The text on one line: what is no visible character or space becomes an escape.

    That is: controls, newlines, lone surrogates, and the signs that change the direction of text.

    Example:
        >>> printable("relu\\x1b[2J")
        'relu\\\\x1b[2J'
    """
    text = str(text)
    return text if text.isprintable() else "".join(map(_shown, text))


def printable_lines(text: object) -> str:
    """The same for a text of several lines, such as a traceback."""
    return "\n".join(map(printable, str(text).expandtabs(4).split("\n")))


class Lines(str):
    """Several lines for a page; each is printable."""

    def __new__(cls, text: str) -> Lines:
        return super().__new__(cls, printable_lines(text))


def shown_in_html(value: Any) -> Any:
    """A value for a template; the template engine escapes < and &."""
    return printable(value) if type(value) is str else value


def for_markup(text: object) -> str:
    """The same as `printable`, for the markup of rich: [view] in it is text."""
    from rich.markup import escape

    return escape(printable(text))


def without_colours(text: str) -> str:
    """A message of another program without its colour codes."""
    return _COLOURS.sub("", text)


# The beginning of ONNX Runtime's messages, before the reason.
_RUNTIME = re.compile(
    r"^(\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : )?(Load model from .*? failed: ?)?"
    r"(Exception during (initialization|loading): )?"
    r"(/\S+:\d+ .{0,300}?\) )?"
)

_CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")  # behind words of ours


def reason(error: object, limit: int = 300) -> str:
    """The first line of an error without ONNX Runtime's preamble, ending in a full stop."""
    text = _CODE.sub("", _RUNTIME.sub("", str(error).strip())).strip() or type(error).__name__
    first, *more = text.splitlines()
    if first.endswith("for the following indices"):  # which and why is in the next lines
        first = " ".join([f"{first}:", *(line for line in more if line.strip()[:6] == "index:")])
    line = shorten(" ".join(first.split()), limit)
    return line if line.endswith((".", "...")) else f"{line}."


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, cut between words, with "..." for what is left out."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 3]
    if not text[limit - 3].isspace():
        words = re.match(r"(.*\S)\s", cut, re.DOTALL)
        cut = words[1] if words and len(words[1]) > limit // 2 else cut
    return cut.rstrip() + "..."


def number_of(count: int, noun: str) -> str:
    """ "1 node", "2 nodes"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def byte_size(count: float) -> str:
    """ "3 bytes", "1.2 MiB"."""
    if count < 1024:
        return f"{count} bytes"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024 or unit == "GiB":
            break
    return f"{count:.1f} {unit}"


def _shown(sign: str) -> str:
    if sign.isprintable() or unicodedata.category(sign) == "Zs":
        return sign
    return sign.encode("unicode_escape").decode("ascii")
