"""What is measured: a case (op, shape, reference) and the candidates that compute it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

Arrays = dict[str, np.ndarray]
Output = Literal["given", "allocated"]
Side = Literal["peer", "beside", "torch", "onnxruntime", "partial"]


@dataclass(frozen=True)
class Target:
    """How many times faster than the best peer: below `least` the op is too slow, `aim` is near
    what the machine can do."""

    least: float
    aim: float


@dataclass
class Case:
    """One row of the table. Subclasses in `cases/` know the op; peers look at their class.

    Attributes:
        op: The public function's name.
        group: The block of the table, e.g. "resize cubic".
        name: Unique within the group.
        shape: The shape in words.
        target: What is asked of our candidates.
        flops: Floating-point operations that the definition needs.
        bytes: Bytes that must be read and written once each.
        tolerance: Largest error allowed, relative to the largest element of the reference.
    """

    op: str
    group: str
    name: str
    shape: str
    target: Target | None
    flops: float
    bytes: float
    tolerance: float

    @property
    def title(self) -> str:
        return f"{self.group} {self.name}"

    @cached_property
    def inputs(self) -> Arrays:
        """float32 arrays, the same in every run; made at the first access."""
        raise NotImplementedError

    @cached_property
    def expected(self) -> Sequence[np.ndarray]:
        """The results in float64."""
        raise NotImplementedError

    def release(self) -> None:
        """Frees the arrays, which may be large."""
        self.__dict__.pop("inputs", None)
        self.__dict__.pop("expected", None)


def _nothing() -> None:
    return None


@dataclass
class Candidate:
    """A candidate: one way to compute a case.

    Attributes:
        name: Shown in the table.
        run: Computes once. What it returns is handed to `results`.
        results: The results as arrays in the order and layout of `Case.expected`.
        output: "given" when it writes into memory that stays the same from call to call,
            "allocated" when each call returns new memory.
        side: "peer"; one of our runtimes; "beside" (right, but not compared: no neural-network
            runtime, or a cost that is not the op's); "partial" (does only part of the work).
        close: Frees what the candidate holds.
    """

    name: str
    run: Callable[[], Any]
    results: Callable[[Any], Sequence[np.ndarray]]
    output: Output
    side: Side = "peer"
    close: Callable[[], None] = field(default=_nothing)
