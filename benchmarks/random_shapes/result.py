"""A ratio for each configuration, and statistics of all configurations of a kind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.random_shapes.draw import KINDS

LEAST = 0.95  # a lower ratio counts as slower: two samples of the same code differ by this much


@dataclass
class Measured:
    """One configuration at one number of threads.

    Attributes:
        kind: One of `draw.KINDS`.
        seed, number: What it was drawn from.
        threads: Of ours and of the peers.
        text: The configuration in words.
        dtype: Of its tensors.
        ours: Seconds of ours.
        peer: The fastest peer.
        theirs: Seconds of that.
        disturbed: The samples of one of them were disturbed.
        plan: What ours ran, for the slowest.
        wrong: Candidates with wrong results, which were left out, and their errors.
    """

    kind: str
    seed: int
    number: int
    threads: int
    text: str
    dtype: str
    ours: float
    peer: str
    theirs: float
    disturbed: bool = False
    plan: list[str] = field(default_factory=list)
    wrong: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """How many times faster than the fastest peer."""
        return self.theirs / self.ours

    @property
    def width(self) -> str:
        """The group of dtypes in the report: "16-bit", or the dtype."""
        return "16-bit" if self.dtype in ("bfloat16", "float16") else self.dtype

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Summary:
    """All configurations of a kind at one number of threads."""

    kind: str
    threads: int
    results: list[Measured]  # the slowest first

    @property
    def geometric_mean(self) -> float:
        return math.exp(sum(math.log(item.ratio) for item in self.results) / len(self.results))

    def below(self, ratio: float) -> int:
        return sum(item.ratio < ratio for item in self.results)


def summaries(results: Sequence[Measured]) -> Iterator[Summary]:
    """Sorted in the order of `KINDS`, few threads first."""
    for kind in KINDS:
        for threads in sorted({item.threads for item in results}):
            found = [item for item in results if (item.kind, item.threads) == (kind, threads)]
            if found:
                yield Summary(kind, threads, sorted(found, key=lambda item: item.ratio))
