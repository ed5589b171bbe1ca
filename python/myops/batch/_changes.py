"""What differs between the identities of two runs, in the words of their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def described(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The differences, such as "rows was 'axis0', is 'file'"; "" if there are none."""
    found: list[str] = []
    for name in {**before, **now}:
        one: Any = before.get(name)
        two: Any = now.get(name)
        if one == two or name == "shard_rows":
            continue
        if name == "options" and _both(one, two, Mapping):
            found += _options(one, two)
        elif _both(one, two, Mapping):
            title = "" if name == "versions" else f"{name}: "
            found += [_file(f"{title}{key}", one.get(key), two.get(key))
                      for key in {**one, **two} if one.get(key) != two.get(key)]  # fmt: skip
        else:
            found.append(_file(name, one, two))
    # The list of rows is part of the source.
    if any(text.startswith("rows was ") for text in found):
        found = [text for text in found if not text.startswith("source has changed")]
    if not found and before.get("shard_rows") != now.get("shard_rows"):
        # It follows from the others, unless myops itself has changed.
        found.append(_was("rows per part", before.get("shard_rows"), now.get("shard_rows")))
    return "; ".join(found)


def _file(name: str, before: Any, now: Any) -> str:
    """A file by its hash, or a version."""
    if before is None or now is None:
        return f"{name} is {'new' if before is None else 'gone'}"
    if isinstance(before, str) and len(before) == 64:
        return f"{name} has changed (SHA-256 {before[:12]}..., now {str(now)[:12]}...)"
    return _was(name, before, now)


def _options(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    found: dict[str, tuple[Any, Any]] = {}
    for name in {**before, **now}:
        one: Any = before.get(name)
        two: Any = now.get(name)
        if one == two:
            continue
        if name == "pixels" and _both(one, two, Mapping):
            found.update((key, (one.get(key), two.get(key))) for key in {**one, **two})
        elif name == "constants" and _both(one, two, Mapping):
            keys = [key for key in {**one, **two} if one.get(key) != two.get(key)]
            found[name] = _constants(one, keys), _constants(two, keys)
        elif name == "inputs" and _both(one, two, Sequence):
            found.update(_inputs(one, two))
        elif name == "outputs" and _both(one, two, Sequence):
            found.update(_outputs(one, two))
        else:
            found[name] = one, two
    formats = [str(item).removesuffix("-parts") for item in found.get("format", ("", "?"))]
    if len(found) > 1 and formats[0] == formats[1]:
        del found["format"]  # only the number of rows in a file differs
    if "rows" in found:
        found.pop("whole", None)
    found = {name: pair for name, pair in found.items() if pair[0] != pair[1]}
    outer = [name for name in found if not name.startswith("of ")]
    for name, (one, two) in found.items():
        # What of an input or output follows from other options would only repeat them.
        if name in outer or not outer:
            yield _was(name, one, two)


def _inputs(one: Sequence[Any], two: Sequence[Any]) -> dict[str, tuple[Any, Any]]:
    found: dict[str, tuple[Any, Any]] = {}
    first, second = _by_name(one), _by_name(two)
    if first.keys() != second.keys():
        found["inputs"] = [*first], [*second]
    for name in [name for name in first if name in second]:
        for key, value in first[name].items():
            other = second[name].get(key)
            if value == other:
                continue
            if key == "stack":
                found["rows"] = _rows(value), _rows(other)
            elif key == "column":
                found["columns"] = {name: value}, {name: other}
            else:
                found[f"of the input {name!r}, {key}"] = value, other
    return found


def _outputs(one: Sequence[Any], two: Sequence[Any]) -> dict[str, tuple[Any, Any]]:
    found: dict[str, tuple[Any, Any]] = {}
    first, second = _by_name(one), _by_name(two)
    if [*first] != [*second]:
        found["outputs"] = [*first], [*second]
    shared = [name for name in first if name in second]
    whole = [[name for name in shared if not item[name].get("rows")] for item in (first, second)]
    found["whole"] = whole[0], whole[1]
    for name in shared:
        for key, value in first[name].items():
            if key != "rows" and value != second[name].get(key):
                found[f"of the output {name!r}, {key}"] = value, second[name].get(key)
    return found


def _rows(stack: Any) -> str:
    return "axis0" if stack else "file"


def _by_name(items: Sequence[Any]) -> dict[str, Mapping[str, Any]]:
    return {str(item.get("name")): item for item in items}


def _constants(items: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: items[name].get("value") for name in names if name in items}


def _both(one: Any, two: Any, kind: Any) -> bool:
    return all(isinstance(item, kind) and not isinstance(item, str) for item in (one, two))


def _was(name: str, before: Any, now: Any) -> str:
    return f"{name} was {_shown(before)}, is {_shown(now)}"


def _shown(value: Any) -> str:
    if value in (None, "", [], {}):
        return "not given"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={item}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return repr(value)
