"""How long comparisons took, and how long one at other lengths may take."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import torch

from myops.onnx.guards._lengths import Group, Point

_PARTS = 8  # of the way to a point: its largest input grows by the same factor in each
_STEEPEST = 2.0  # with the largest input: attention over all of it
_MARGIN = 0.25  # of a power that was measured


class RunTimes:
    """The times of the comparisons so far, by lengths.

    How the time of a model grows with its lengths is not known before long ones have been run, and
    short ones do not show it: attention over an image of 16 x 16 takes no time, and that over
    600 x 600 takes minutes.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor], example: Point, seconds: float) -> None:
        self._shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        self._example = example
        self._runs = [(example, seconds)]
        # Seconds of a point with as many elements as the example, by the last points. The median: a
        # busy machine may take a hundred times as long once, and all long axes would be left out.
        self._rates = deque([seconds], maxlen=5)
        self._too_long: list[Point] = []
        # The first point that `reached` gave up, and the limit then.
        self.left_out: tuple[Point, float] | None = None

    def add(self, point: Point, seconds: float) -> None:
        self._runs.append((point, seconds))
        self._rates.append(seconds / self._elements(point))

    def likely(self, point: Point, power: float) -> float:
        """Seconds at a point, if the time grows with this power of the largest input."""
        if any(self._growth(point, other) <= 1.0 for other in self._too_long):
            return math.inf
        return statistics.median(self._rates) * self._elements(point) ** power

    def at_most(self, point: Point) -> float:
        """Seconds at a point, if the time grows with the square of the largest input."""
        return min(
            seconds * self._growth(before, point) ** _STEEPEST for before, seconds in self._runs
        )

    def reached(
        self,
        groups: Sequence[Group],
        point: Point,
        attempt: Callable[[Point], bool],
        limit: Callable[[], float],
    ) -> bool:
        """Compares at lengths on the way to a point, as long as it may take longer than the limit.

        Returns:
            Whether it takes no longer, by the times that were seen on the way.
        """
        way = [self._between(groups, point, part) for part in range(1, _PARTS)]
        found = [item for item in way if item is not None]
        # Runs that are quick in any case show little.
        quick = sum(self.at_most(item) <= limit() / 2 for item in found)
        seen = self._runs[:1]
        for nearer in [*found[max(0, quick - 1) :], point]:
            if self.at_most(point) <= limit():
                return True
            if self._expected(seen, nearer) > limit():
                self._too_long.append(nearer)
                self.left_out = self.left_out or (point, limit())
                return False
            if nearer is not point and attempt(nearer):
                seen += [run for run in self._runs if run[0] == nearer][-1:]
        return True

    def _expected(self, seen: Sequence[tuple[Point, float]], point: Point) -> float:
        """Seconds at a point, if the power with which the time grows rises as on the last steps of
        the way to it; with the square, if they do not show it."""
        powers = []
        for (first, before), (last, after) in itertools.pairwise(seen[-3:]):
            step = math.log(self._growth(first, last))
            if step > 0:
                powers.append(math.log(max(1.0, after / before)) / step)
        if len(powers) < 2:
            return self.at_most(point)
        power = powers[1] + max(0.0, powers[1] - powers[0]) + _MARGIN
        last, seconds = seen[-1]
        expected = seconds * self._growth(last, point) ** min(power, _STEEPEST)
        return min(expected, self.at_most(point))

    def _between(self, groups: Sequence[Group], point: Point, part: int) -> Point | None:
        """The lengths at a part of the way from the example to a point."""
        found = dict(self._example)
        for group in groups:
            end = point[group.axes[0][0]]
            exact = group.length * (end / group.length) ** (part / _PARTS)
            length = group.length + group.step * round((exact - group.length) / group.step)
            if not group.possible(length):
                return None
            found |= group.at(length)
        return found

    def _elements(self, point: Point) -> float:
        """The number of elements of the largest input, divided by that in the example."""
        ratio = 1.0
        for name, shape in self._shapes.items():
            lengths = [point.get((name, axis), old) for axis, old in enumerate(shape)]
            ratio = max(ratio, math.prod(lengths) / max(1, math.prod(shape)))
        return ratio

    def _growth(self, before: Point, point: Point) -> float:
        """By which factor the largest input grows; axes that become shorter do not count."""
        return max(
            (
                math.prod(
                    max(1.0, point[name, axis] / before[name, axis])
                    for axis in range(len(shape))
                    if (name, axis) in point
                )
                for name, shape in self._shapes.items()
            ),
            default=1.0,
        )
