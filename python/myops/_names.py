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


def choose(name: str, known: Iterable[str], where: str, noun: str = "") -> str:
    """The name itself when it is known.

    Args:
        name: What was given.
        known: The names that there are.
        where: The beginning of the error, such as "the model has" or "mode: there is".
        noun: What the names are, such as "input".

    Raises:
        ValueError: "{where} no {noun} 'name'", with near misses or all names.
    """
    names = list(known)
    if isinstance(name, str) and name in names:
        return name
    listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    near = near_misses(name, names) if isinstance(name, str) else ""
    if noun:
        verb = "is" if len(names) == 1 else "are"
        whose = "its" if where.endswith(" has") else "the"
        plural = noun if len(names) == 1 else noun.replace(" or ", "s or ") + "s"
        all_names = f"; {whose} {plural} {verb} {listed or 'none'}."
        raise ValueError(f"{where} no {noun} {name!r}{f'.{near}' if near else all_names}")
    verb = {"have": "They have", "is": "There is"}.get(where.rpartition(" ")[2], "It has")
    hint = near or (f" {verb} {listed}." if names else "")
    raise ValueError(f"{where} no {name!r}.{hint}")
