"""Errors from functions that the author of an op gave: they get the names of the op and the part.

An author sees where the error comes from in the traceback. Callers of the op, and logs of a model
with many ops, have the text alone: "KeyError: 'limit'" tells nothing there.
"""

from __future__ import annotations

from myops._text import shorten

# Callers may expect these; others, some of which take more than a text, become RuntimeErrors.
_KEPT = (ValueError, TypeError, RuntimeError, NotImplementedError)
# Errors of these mean more than their text: too little memory, a length that a trace cannot decide.
_FOREIGN = ("torch", "onnxruntime", "myops")


def named(op: str, part: str, error: Exception) -> Exception | None:
    """The error to raise from `error`; None if that one says enough, or means something else.

    Args:
        op: The name of the op.
        part: Which function raised it: "the function", "backward".
    """
    kind = type(error)
    if kind.__module__.partition(".")[0] in _FOREIGN or isinstance(error, (MemoryError, Warning)):
        return None
    text = str(error)
    if text.startswith(f"{op}: "):  # its own refusal of the call
        return None
    kept = kind if kind in _KEPT else RuntimeError
    return kept(f"{op}: {part} raised {kind.__name__}: {shorten(text, 2000)}")
