"""Packages that only some tools need: the extra `myops[tools]`."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, user: str) -> Any:
    """The module of a package in `myops[tools]`.

    Args:
        module: What to import, such as "matplotlib.image".
        user: Who needs it, for the error: "simplify", "an HTML page".

    Raises:
        ImportError: It is not installed; the text names the extra.

    Example:
        >>> require("jinja2", "an HTML page").__name__
        'jinja2'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # the package is there, and something that it needs is not
        raise ImportError(
            f"{user} needs the package {error.name}, which is not installed. "
            "Install what the tools need: pip install 'myops[tools]'",
            name=error.name,
        ) from error
