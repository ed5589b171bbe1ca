"""How the API pages show our docstrings and classes."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Makes "Example:", as Google's style has it, the section of examples, whose code is shown as
    code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """The package's own docstring, which comes when its type stub is merged with it."""
        self.on_object(obj=pkg)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Leaves out private base classes, which are of no use to readers."""
        cls.bases = [base for base in cls.bases if not str(base).startswith("_")]
