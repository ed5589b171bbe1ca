"""One result: a number, its limit, and whether it is within the limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from benchmarks.case import Candidate
from benchmarks.measure import Measurement, Plan, measure


@dataclass(frozen=True)
class Row:
    """`value` is in `unit`; "at most" or "at least" `limit`, where there is one.

    `disturbed`: one of the measurements behind it had too few clean samples.
    """

    name: str
    threads: int
    value: float
    unit: Literal["x", "us", "ms"]
    sense: Literal["at most", "at least"]
    limit: float | None
    detail: str
    disturbed: bool = False

    @property
    def word(self) -> str:
        if self.limit is None:
            return ""
        rounded = round(self.value, 2)
        kept = rounded <= self.limit if self.sense == "at most" else rounded >= self.limit
        return "kept" if kept else "missed"

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"word": self.word}


def measured(candidates: Sequence[Candidate], plan: Plan) -> dict[str, Measurement]:
    """The rows by their names."""
    return {item.name: item for item in measure(candidates, plan)}


def any_disturbed(found: Mapping[str, Measurement]) -> bool:
    return any(item.disturbed for item in found.values())
