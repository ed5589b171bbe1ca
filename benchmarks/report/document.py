"""Everything that one run measured, as one JSON file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.also._row import Row
from benchmarks.random_shapes.result import Measured
from benchmarks.result import Result
from benchmarks.scaling import Point

T = TypeVar("T")


@dataclass
class Section:
    """The results of one module of `also/`."""

    title: str
    explanation: str
    rows: list[Row]


@dataclass
class Document:
    """Attributes:
    facts: The machine, the versions, the date, the command.
    absent: Peers that could not be imported, with the reason.
    limits: What the machine can do, by number of threads.
    results: The main table.
    also: The other questions.
    scaling: Cost along pixels, channels and batch.
    random: Random configurations, each beside its fastest peer.
    """

    facts: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    limits: dict[int, dict[str, float]] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    also: list[Section] = field(default_factory=list)
    scaling: list[Point] = field(default_factory=list)
    random: list[Measured] = field(default_factory=list)

    def save(self, path: Path) -> None:
        also = [
            {**asdict(section), "rows": [row.as_json() for row in section.rows]}
            for section in self.also
        ]
        results = [result.as_json() for result in self.results]
        path.write_text(json.dumps({**asdict(self), "also": also, "results": results}, indent=1))

    def update(self, newer: Document) -> None:
        """What `newer` has measured replaces the same here: a part of a run made again."""
        self.facts, self.absent = newer.facts, newer.absent
        self.limits.update(newer.limits)
        self.results = _replaced(
            self.results, newer.results, lambda item: (item.title, item.threads)
        )
        self.results.sort(key=lambda item: item.threads)
        self.also = _replaced(self.also, newer.also, lambda item: item.title)
        self.scaling = _replaced(
            self.scaling, newer.scaling, lambda item: (item.group, item.axis, item.size)
        )
        # Only files of one version of myops can be merged: with other kinds, or from other seeds.
        again = {(item.kind, item.seed, item.threads) for item in newer.random}
        kept = [item for item in self.random if (item.kind, item.seed, item.threads) not in again]
        self.random = [*kept, *newer.random]

    @classmethod
    def load(cls, path: Path) -> Document:
        data: dict[str, Any] = json.loads(path.read_text())
        return cls(
            data["facts"],
            data["absent"],
            {int(count): found for count, found in data["limits"].items()},
            [Result.from_json(item) for item in data["results"]],
            [
                Section(item["title"], item["explanation"], [_row(one) for one in item["rows"]])
                for item in data["also"]
            ],
            [Point(**item) for item in data["scaling"]],
            [Measured(**item) for item in data.get("random", [])],
        )


def _replaced(old: list[T], new: list[T], key: Callable[[T], Any]) -> list[T]:
    """In the order of `old`; items that are only in `new` come at the end."""
    return list({**{key(item): item for item in old}, **{key(item): item for item in new}}.values())


def _row(data: dict[str, Any]) -> Row:
    return Row(**{key: value for key, value in data.items() if key != "word"})
