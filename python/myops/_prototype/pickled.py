"""Where pickle finds the prototypes of a script or a notebook.

Pickle stores a function as the name of its module and its own. What `__main__` defines is therefore
not found in another process, and the error would name neither the op nor what to do. Prototypes of
`__main__` say that they belong to this module, which knows all that the process has defined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ops: dict[str, Callable[..., Any]] = {}  # by qualified name, without dots: pickle splits at them


def keep(domain: str, op: Callable[..., Any]) -> None:
    """Lets pickle find a prototype. Those of modules are found there, as any function is."""
    name = f"{domain.replace('.', '/')}::{op.__name__}"
    _ops[name] = op
    if op.__module__ == "__main__":
        op.__module__, op.__qualname__ = __name__, name


def __getattr__(name: str) -> Any:
    if name in _ops:
        return _ops[name]
    if "::" not in name:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    domain, _, op = name.replace("/", ".").partition("::")
    # No AttributeError, in whose place pickle raises one of its own.
    raise LookupError(
        f"{op}: pickle: got a prototype of the domain {domain!r} that this process has not "
        "defined, expected one that it has. Run the code that calls myops.prototype before you "
        "unpickle, or move it to a module that both processes can import"
    )
