"""Names that a user gave: the one that was meant."""

from __future__ import annotations

from collections.abc import Iterable


def near_misses(name: str, known: Iterable[str]) -> str:
    """ " Did you mean 'a' or 'b'?", or nothing when no known name is near."""
    import difflib  # takes longer than a name that is right

    names = list(known)
    lowered = {item.lower(): item for item in reversed(names)}
    near = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)
    near += [item.lower() for item in names if name and name.lower() in item.lower()]
    chosen = [lowered[item] for item in dict.fromkeys(near)][:3]
    return f" Did you mean {' or '.join(map(repr, chosen))}?" if chosen else ""


def choose(name: str, known: Iterable[str], where: str) -> str:
    """The name itself when it is known.

    Raises:
        ValueError: "{where} no 'name'", with near misses or all names.
    """
    names = list(known)
    if name in names:
        return name
    listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    hint = near_misses(name, names) or (f" It has {listed}." if names else "")
    raise ValueError(f"{where} no {name!r}.{hint}")
