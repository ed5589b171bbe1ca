"""The result of `diff`, as data and in a terminal."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from myops._text import for_markup, printable, shorten

if TYPE_CHECKING:
    from rich.console import Console

_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}
_MOST = 30  # changes of one kind in the terminal
_LONGEST = 120  # characters of a value


@dataclass(frozen=True)
class Detail:
    """One thing that differs.

    Attributes:
        field: The property, such as "attribute pads", "shape", "inputs"; "" for the whole thing.
        before, after: Its value on both sides; None if there is none, or it is too long to show.
        differing, size, largest: For the values of a constant: the number of those that differ, the
            number of all, and the largest difference. None for other fields.
    """

    field: str
    before: Any
    after: Any
    differing: int | None = None
    size: int | None = None
    largest: float | None = None

    def __str__(self) -> str:
        name = f"{self.field}: " if self.field else ""
        text = ""
        if self.differing is not None:
            by = "" if self.largest is None else f", by up to {self.largest:.3g}"
            text = f"{self.differing} of {self.size} differ{by}"
            if self.before is None:
                return name + text
            text += ": "
        if self.before is None and self.after is not None:
            return f"{name}{text}{_short(self.after)}" if not self.field else (
                f"{name}{text}not given -> {_short(self.after)}")  # fmt: skip
        if self.after is None and self.before is not None:
            return f"{name}{text}{_short(self.before)}" if not self.field else (
                f"{name}{text}{_short(self.before)} -> not given")  # fmt: skip
        return f"{name}{text}{_short(self.before)} -> {_short(self.after)}"


def _short(value: Any) -> str:
    if isinstance(value, list):
        value = [float(f"{item:.6g}") if isinstance(item, float) else item for item in value]
    return shorten(value if isinstance(value, str) else repr(value), _LONGEST)


@dataclass(frozen=True)
class Change:
    """One thing that was added, removed or changed.

    Attributes:
        kind: "added", "removed" or "changed".
        what: "model", "opset", "metadata", "input", "output", "node", "constant" or "function".
        name: Its name in the first file, or in the second if it was added; for a node without a
            name, the name of its first output.
        where: The nodes and functions around it; "" in the main graph.
        details: The differences.
        op: The operator of a node that was changed.
    """

    kind: str
    what: str
    name: str
    where: str
    details: list[Detail]
    op: str = ""

    def __str__(self) -> str:
        op = f" ({self.op})" if self.op else ""
        where = f", in {self.where}" if self.where else ""
        details = "; ".join(map(str, self.details))
        return printable(f"{self.what} {self.name!r}{op}{where}: {details}")


@dataclass
class Difference:
    """The result of `myops.onnx.diff`.

    Attributes:
        first, second: The files, or "the first" and "the second" for models without a file.
        changes: The differences.
        renamed: Things that only have another name: "value", "node" or "constant", the nodes around
            it, the name in the first file and in the second.
    """

    first: str
    second: str
    changes: list[Change] = field(default_factory=list)
    renamed: list[tuple[str, str, str, str]] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether nothing differs except inner names."""
        return not self.changes

    @property
    def summary(self) -> str:
        """One sentence."""
        if not self.changes:
            names = ", but for names inside" if self.renamed else ""
            return printable(f"{self.first} and {self.second} are equal{names}")
        counts = Counter((change.kind, change.what) for change in self.changes)
        parts = [f"{count} {_plural(what, count)} {kind}" for (kind, what), count in counts.items()]
        return printable(f"{self.first} and {self.second} differ: {', '.join(parts)}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        names = ("what", "where", "before", "after")
        return {
            "equal": self.equal,
            "first": self.first,
            "second": self.second,
            "changes": [dataclasses.asdict(change) for change in self.changes],
            "renamed": [dict(zip(names, item, strict=True)) for item in self.renamed],
        }

    def to_json(self) -> str:
        """The same as text; infinities and NaN are strings."""
        from myops.cli._console import _plain

        return json.dumps(_plain(self.to_dict()), indent=2, allow_nan=False)

    def __str__(self) -> str:
        return "\n".join([self.summary, *(f"{_SIGNS[c.kind][0]} {c}" for c in self.changes)])

    def print(self, console: Console | None = None, *, all_changes: bool = False) -> None:
        """Prints the changes, in colours if the terminal has them.

        Args:
            console: A `rich.console.Console`. Default: stdout.
            all_changes: True: every change and every new name; False: the first ones of each kind.
        """
        from myops._terminal import Console as Terminal
        from myops._terminal import line

        console = console or Terminal()
        for text in self._lines(all_changes):
            line(console, text, wrap=False)

    def _lines(self, all_changes: bool) -> Iterator[str]:
        counts: Counter[tuple[str, str]] = Counter()
        for change in self.changes:
            key = change.what, change.kind
            counts[key] += 1
            if all_changes or counts[key] <= _MOST:
                sign, colour = _SIGNS[change.kind]
                yield f"[{colour}]{sign}[/] {for_markup(change)}"
        for (what, kind), count in counts.items():
            if count > _MOST and not all_changes:
                more = count - _MOST
                yield f"[dim]... {more} more {_plural(what, more)} {kind} (--all has them)[/]"
        names = Counter(item[0] for item in self.renamed)
        if names and not all_changes:
            listed = ", ".join(f"{count} {_plural(what, count)}" for what, count in names.items())
            yield f"[dim]renamed only: {listed} (--all has them)[/]"
        for what, where, before, after in self.renamed if all_changes else ():
            inside = f", in {where}" if where else ""
            yield for_markup(f"= {what} {before!r}{inside}: renamed to {after!r}")
        colour = "green" if self.equal else "red"
        yield f"[bold {colour}]{for_markup(self.summary)}[/]"


def _plural(what: str, count: int) -> str:
    if what == "model":
        return "property of the model" if count == 1 else "properties of the model"
    fixed = what in ("metadata",)
    return what if count == 1 or fixed else f"{what}s"
