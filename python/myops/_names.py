"""Names that a user gave: the one that was meant."""

from __future__ import annotations

import re
from collections.abc import Iterable


def near_misses(name: object, known: Iterable[str]) -> str:
    """ " Did you mean 'a' or 'b'?", or nothing when no known name is near or it is no name."""
    if not isinstance(name, str):
        return ""
    names = list(dict.fromkeys(known))
    found = [(score, place) for place, item in enumerate(names)
             if (score := _likeness(name.lower(), item.lower()))]  # fmt: skip
    chosen = [names[place] for score, place in sorted(found, key=lambda pair: -pair[0])][:3]
    return f" Did you mean {' or '.join(map(repr, chosen))}?" if chosen else ""


def _likeness(name: str, item: str) -> float:
    """How near two names are: 1 for equal ones, 0 for names that have nothing to do with each
    other, below 0.6 where one is only a part of the other."""
    import difflib  # takes longer than a name that is right

    ending = name[name.rfind(".") :] if "." in name[1:] else ""
    if ending and item.endswith(ending) and len(item) > len(ending):
        # Files of one kind, and parameters of modules, are not alike because they end alike.
        return _likeness(name.removesuffix(ending), item.removesuffix(ending))
    # In short names many letters are the same by chance.
    shorter = min(len(name), len(item))
    least = 0.7 if 4 <= shorter < 6 else 0.6
    if name and (shorter >= 4 or name[:1] == item[:1]):
        matcher = difflib.SequenceMatcher(None, item, name)
        if matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least:
            ratio = matcher.ratio()
            if ratio >= least:
                return ratio
    if len(name) >= 3:
        contained = name in item
    else:  # a word of it, or two letters with which it begins
        contained = name in re.split(r"[\W_]+", item) or (len(name) == 2 and item.startswith(name))
    return len(name) / len(item) * 0.5 if name and contained else 0


def unknown_argument(function: str, name: str, known: Iterable[str]) -> TypeError:
    """The error for an argument that a function does not have."""
    names = list(known)
    hint = near_misses(name, names).replace("'", "") or f" It knows {', '.join(names) or 'none'}."
    return TypeError(f"{function}: got an unknown argument {name!r}.{hint}")


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
