"""The results of one case at one number of threads, and which candidate is the fastest."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.case import Case, Output, Side, Target
from benchmarks.measure import Measurement, Sample

OURS: tuple[Side, ...] = ("torch", "onnxruntime")


@dataclass(frozen=True)
class Verdict:
    """One of our candidates compared with the fastest peer: `ratio` times faster."""

    ours: Measurement
    peer: Measurement
    ratio: float
    word: str


@dataclass
class Result:
    """All measurements of a case. `wrong` names candidates whose results are off, and by how much;
    `missing` those that could not be made."""

    group: str
    name: str
    shape: str
    threads: int
    target: Target | None
    flops: float
    bytes: float
    measurements: list[Measurement]
    wrong: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, case: Case, threads: int, measurements: list[Measurement]) -> Result:
        return cls(
            case.group,
            case.name,
            case.shape,
            threads,
            case.target,
            case.flops,
            case.bytes,
            measurements,
        )

    @property
    def title(self) -> str:
        return f"{self.group} {self.name}"

    def best(self, *sides: Side, output: Output | None = None) -> Measurement | None:
        """The fastest of these sides, of one kind of output or of both."""
        found = [
            item
            for item in self.measurements
            if item.side in sides and output in (None, item.output)
        ]
        return min(found, key=lambda item: item.seconds, default=None)

    def verdict(self, side: Side) -> Verdict | None:
        """Ours into a given output, where that exists, beside the fastest peer of any kind.

        A peer with a given output is allowed against ours that allocates, not the other way round:
        where the two differ, this is the stricter reading.
        """
        ours = self.best(side, output="given") or self.best(side)
        return self._compare(ours, self.best("peer"))

    def allocating(self, side: Side) -> Verdict | None:
        """Our candidate and the peer both return new memory."""
        return self._compare(
            self.best(side, output="allocated"), self.best("peer", output="allocated")
        )

    def _compare(self, ours: Measurement | None, peer: Measurement | None) -> Verdict | None:
        if ours is None or peer is None:
            return None
        ratio = peer.seconds / ours.seconds
        return Verdict(ours, peer, ratio, word(ratio, self.target))

    def as_json(self) -> dict[str, Any]:
        verdicts = {
            side: {"ours": v.ours.name, "peer": v.peer.name, "ratio": v.ratio, "word": v.word}
            for side in OURS
            if (v := self.verdict(side)) is not None
        }
        return asdict(self) | {"verdicts": verdicts}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Result:
        data = {key: value for key, value in data.items() if key != "verdicts"}
        data["target"] = Target(**data["target"]) if data["target"] else None
        data["measurements"] = [
            Measurement(**{**item, "samples": [Sample(**one) for one in item["samples"]]})
            for item in data["measurements"]
        ]
        return cls(**data)


def word(ratio: float, target: Target | None) -> str:
    """ "aim", "least" or "behind"; a target is reached when two digits after the point say so."""
    if target is None:
        return ""
    rounded = round(ratio, 2)
    if rounded >= target.aim:
        return "aim"
    return "least" if rounded >= target.least else "behind"
