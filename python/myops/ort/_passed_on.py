"""The arguments that a session passes on to onnxruntime.InferenceSession, which ignores those that
it does not know."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from myops import _names

# InferenceSession has these in its **kwargs, so that its signature does not name them.
_HIDDEN = ("enable_fallback", "read_config_from_model", "disabled_optimizers")


def refuse_unknown(function: Callable[..., Any], given: Mapping[str, Any], runtime: Any) -> None:
    """Refuses names that neither a function nor InferenceSession has.

    A misspelt `named_libraries="signed"` would load a model that nobody signed.

    Raises:
        TypeError: One of the names is unknown.
    """
    mine = inspect.signature(function).parameters.values()
    own = [item.name for item in mine if item.kind != item.VAR_KEYWORD]
    theirs = _parameters(runtime.InferenceSession)
    for name in given:
        if name in theirs or name in _HIDDEN:
            continue
        what = f"{function.__name__}: got the argument {name!r}, which neither it nor "
        what += "onnxruntime.InferenceSession has."
        if name == "sess_options":
            raise TypeError(f"{what} It is called session_options here.")
        if hasattr(runtime.SessionOptions, name):
            raise TypeError(
                f"{what} It is an attribute of onnxruntime.SessionOptions: set it there, and give "
                "these as session_options."
            )
        raise TypeError(f"{what}{_names.near_misses(name, [*own, *theirs, *_HIDDEN])}")


def _parameters(session: Any) -> list[str]:
    """Those that are passed on; the others have names of their own in our functions."""
    taken = ("self", "path_or_bytes", "sess_options", "providers", "kwargs")
    return [name for name in inspect.signature(session.__init__).parameters if name not in taken]
