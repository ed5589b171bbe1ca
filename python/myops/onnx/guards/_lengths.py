"""Other lengths for the dynamic axes of a model: which ones it accepts, and which are best to test.

If an exporter made a length a constant, the file is wrong only at lengths for which forward
computes something else from it: 85 // 14 == 84 // 14. So lengths are chosen until, for every
constant of the model, quotients, remainders and comparisons have had every possible result.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from myops.onnx.exporting.recorded import Axis

SMALL = (2, 3, 4, 5, 7, 8, 10, 16)
# Models often require lengths that are multiples of one of these.
_STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64)
_MOST = 24  # points, when everything fits
_USUAL = 4096  # a longer length is tried only where a constant asks for it and one run is quick
_REFUSALS = 60
_MOST_MULTIPLES = 64
_BEST = 12

Point = dict[Axis, int]
Try = Callable[[Point], bool]  # compares at a point; returns whether PyTorch accepts the lengths


@dataclass
class Group:
    """Axes that change together.

    axes: The axes, with the lengths of the example.
    scaled: Whether they keep their ratio; otherwise all grow by the same number.
    step: The lengths that the model accepts differ from the example's by multiples of it.
    unit: A number of which the step has to be a multiple.
    limits: Shortest and longest length of the first axis.
    """

    axes: list[tuple[Axis, int]]
    limits: tuple[int, int] = (1, 2**31)
    scaled: bool = False
    step: int = 1
    unit: int = 1

    @property
    def length(self) -> int:
        return self.axes[0][1]

    @property
    def lowest(self) -> int:
        """1 for a batch or a short axis, otherwise 2: few models are written for a height of 1."""
        return 1 if any(axis == 0 or old <= 2 for (_, axis), old in self.axes) else 2

    def at(self, length: int) -> Point:
        if self.scaled:
            return {axis: old * length // self.length for axis, old in self.axes}
        return {axis: old + length - self.length for axis, old in self.axes}

    def possible(self, length: int) -> bool:
        low, high = self.limits
        fits = (length - self.length) % self.step == 0 and low <= length <= high
        return fits and all(item >= self.lowest for item in self.at(length).values())


def explore(
    groups: Sequence[Group],
    constants: Iterable[int],
    attempt: Try,
    more_time: Callable[[], bool],
    affordable: Try,
    roomy: Try | None = None,
    reached: Callable[[Sequence[Group], Point], bool] | None = None,
) -> bool:
    """Tries points until no point tests anything new, or until the time is over.

    Args:
        groups: The axes that may change.
        constants: Numbers that the model computes with.
        attempt: Compares at a point, or raises; returns whether PyTorch accepts it.
        more_time: Whether there is time for another point.
        affordable: Whether a point is small enough to try.
        roomy: The same for large areas, of which attention makes far more.
        reached: Compares at points on the way to one that may take too long, and returns whether
            that one can be tried then.

    Returns:
        Whether the model accepted any of them.
    """
    groups = list(groups)
    example = _example(groups)
    given = sorted(n for n in set(constants) if n > 1)
    areas = [n for n in given if _has_room(n, groups, example, roomy or affordable)]
    numbers = sorted({n for n in given if _fits(n, groups, example, affordable)} | set(SMALL))
    steps = sorted({*_STEPS, *(n for n in numbers if n <= 256)})
    taken, found = _steps(groups, steps, attempt, more_time)
    if not found:
        return False
    features = functools.cache(lambda *lengths: _features(found, lengths, numbers, areas))
    covered = set().union(*(features(*_lengths_at(found, point)) for point in taken))
    olds = [old for group in found for _, old in group.axes]
    candidates = [
        {length: features(*_lengths_at(found, example | group.at(length)))
         for length in _candidates(group, numbers, _sides(areas, olds))
         if affordable(example | group.at(length))}
        for group in found
    ]  # fmt: skip
    generator = random.Random(0)
    tried = {_lengths_at(found, point) for point in taken}
    refused_together = refusals = 0
    while more_time() and len(taken) < _MOST and refusals < _REFUSALS:
        pool = {
            _lengths_at(found, point): point
            for point in _pool(example, found, candidates, covered, generator)
            if affordable(point)
        }
        if refused_together > 1:  # the groups change alone, but not all at once
            pool = {k: p for k, p in pool.items() if _changed(found, p) < 2}
        gains = {key: len(features(*key) - covered) for key in pool if key not in tried}
        key = max(gains, key=lambda item: gains[item], default=())
        if not gains.get(key):
            break
        tried.add(key)
        if reached is not None and not reached(found, pool[key]):
            refusals += 1
        elif attempt(pool[key]):
            taken.append(pool[key])
            covered |= features(*key)
        else:
            refusals += 1
            refused_together += _changed(found, pool[key]) > 1
    return True


def _fits(n: int, groups: Sequence[Group], example: Point, affordable: Try) -> bool:
    """Whether a length just above n can be tried on any axis."""
    return n <= _USUAL or any(affordable(example | group.at(n + 1)) for group in groups)


def _has_room(n: int, groups: Sequence[Group], example: Point, roomy: Try) -> bool:
    """Whether an area just above n can be tried: one length changes, the other is the example's."""
    olds = [old for group in groups for _, old in group.axes if old > 1]
    return n <= _USUAL or any(
        roomy(example | group.at(max(n // old + 1, group.length)))
        for group in groups
        for old in olds
    )


def _sides(areas: Sequence[int], olds: Sequence[int]) -> set[int]:
    """Lengths at which the product of two lengths passes a number: the other one is the example's,
    or both are equal."""
    return {
        side + more
        for n in areas
        for side in (math.isqrt(n), *(n // old for old in olds if old > 1))
        for more in (0, 1)
    }


def _lengths_at(groups: Sequence[Group], point: Point) -> tuple[int, ...]:
    return tuple(point[group.axes[0][0]] for group in groups)


def _changed(groups: Sequence[Group], point: Point) -> int:
    return sum(point[group.axes[0][0]] != group.length for group in groups)


def _steps(
    groups: list[Group], steps: list[int], attempt: Try, more_time: Callable[[], bool]
) -> tuple[list[Point], list[Group]]:
    """Finds out which groups can change alone, in which steps, and which only together."""
    taken: list[Point] = []
    example = _example(groups)

    def takes(changed: Sequence[Group]) -> bool:
        """Whether the groups can change in this way; if so, sets their step."""
        for step in steps:
            point = dict(example)
            for number, group in enumerate(changed):
                length = group.length + step * (number + 1) * group.unit
                if not group.limits[0] <= length <= group.limits[1]:
                    length = group.length - step * group.unit
                if not group.possible(length):
                    break
                point |= group.at(length)
            else:
                if not more_time():
                    return False
                if attempt(point):
                    taken.append(point)
                    for group in changed:
                        group.step = step * group.unit
                    return True
                if changed is groups:
                    return False  # any reason; look at each
        return False

    if takes(groups):
        return taken, groups
    free = [group for group in groups if takes([group])]
    tied = [group for group in groups if group not in free]
    for joined in _joined(tied):
        if takes([joined]):
            free.append(joined)
            tied = [g for g in tied if g.axes[0] not in joined.axes]
    if tied:
        for scaled in (False, True):
            joined = _together(tied, scaled)
            if scaled:
                joined.unit = joined.length // math.gcd(*(old for _, old in joined.axes))
            if takes([joined]):
                free.append(joined)
                break
    return taken, free


def _joined(tied: Sequence[Group]) -> Iterator[Group]:
    """Joins groups with equal lengths."""
    for length in sorted({group.length for group in tied}):
        same = [group for group in tied if group.length == length]
        if len(same) > 1:
            yield _together(same, scaled=False)


def _together(groups: Sequence[Group], scaled: bool) -> Group:
    axes = [axis for group in groups for axis in group.axes]
    limits = [group.limits for group in groups]
    low, high = max(low for low, _ in limits), min(high for _, high in limits)
    return Group(axes, (low, high), scaled, unit=math.lcm(*(group.unit for group in groups)))


def _example(groups: Sequence[Group]) -> Point:
    return {axis: length for group in groups for axis, length in group.axes}


def _candidates(group: Group, numbers: Sequence[int], sides: set[int]) -> list[int]:
    """Lengths of a group's first axis at which one of its axes has a length worth testing."""
    first, step = group.length, group.step
    found: set[int] = set()
    for old in dict.fromkeys(old for _, old in group.axes):
        wanted = {old + k * step for k in (-3, -2, -1, 1, 2, 3, 5)}
        wanted |= {2 * old, 3 * old, old // 2, 2 * old + step, _prime(old), _prime(2 * old)} | sides
        for n in numbers:
            wanted |= {n - 1, n, n + 1, n * (old // n), n * (old // n + 1), n * (old // n) - 1,
                       n * (old // n + 2) + 1, 2 * n, 2 * n + 1}  # fmt: skip
            wanted |= {_rounded_down(n, least) for least in (n // 2, 2 * old)}
            # where the model takes multiples of the step only, a multiple of both
            wanted |= {n * k for k in range(1, min(step, _MOST_MULTIPLES) + 1)}
        for item in wanted:
            moved = item * first / old if group.scaled else item - old + first
            # the nearest that the model takes
            found |= {first + step * side((moved - first) / step)
                      for side in (math.floor, math.ceil)}  # fmt: skip
    return sorted(item for item in found if item != first and group.possible(item))


def _is_rounded_down(number: int, length: int) -> bool:
    """Whether number / length in float32, times the length, is less than the number: a factor that
    PyTorch computes in float64 and the file in float32 then gives another length."""
    return length > 0 and float(np.float32(number / length)) * length < number


def _rounded_down(number: int, least: int) -> int:
    tried = range(max(least, 3), max(least, 3) + 50)
    return next((length for length in tried if _is_rounded_down(number, length)), least)


def _prime(least: int) -> int:
    while any(least % n == 0 for n in range(2, math.isqrt(least) + 1)) or least < 2:
        least += 1
    return least


def _pool(
    example: Point,
    groups: Sequence[Group],
    candidates: Sequence[Mapping[int, set[object]]],
    covered: set[object],
    generator: random.Random,
) -> Iterator[Point]:
    """Points to choose from: the best lengths of each group, alone and all together."""
    best = []
    for group, features in zip(groups, candidates, strict=True):
        ranked = sorted(features, key=lambda length: (-len(features[length] - covered), length))
        best.append(ranked[:_BEST])
        for length in ranked[:_BEST]:
            yield example | group.at(length)
    for _ in range(4 * _BEST if len(groups) > 1 else 0):
        point = dict(example)
        for group, ranked, features in zip(groups, best, candidates, strict=True):
            lengths = ranked if generator.random() < 0.7 else list(features)
            if lengths:
                point |= group.at(generator.choice(lengths))
        yield point


def _features(
    groups: Sequence[Group], lengths: Sequence[int], numbers: Sequence[int], areas: Sequence[int]
) -> set[object]:
    """The results that a model may compute from the lengths: quotients, remainders, comparisons,
    also of products of two with the numbers in `areas`."""
    found: set[object] = set()
    pairs: dict[tuple[int, int], int] = {}  # new length by group and old length
    for place, (group, length) in enumerate(zip(groups, lengths, strict=True)):
        point = group.at(length)
        pairs |= {(place, old): point[axis] for axis, old in group.axes}
    for n in numbers:
        for key, new in pairs.items():
            old = key[1]
            if new // n != old // n:
                found.add((key, n, "quotient", new > old))
            found.add((key, n, "multiple", new % n == 0))
            found.add((key, n, "rounded down", _is_rounded_down(n, new)))
            found.add((key, n, "order", (new > n) - (new < n)))
        if len(pairs) > 1 and all(new // n > old // n for (_, old), new in pairs.items()):
            found.add((n, "all quotients"))
    every = list(pairs.items())
    for i, (key, one) in enumerate(every):
        for other_key, other in every[:i]:
            found.add((other_key, key, (one > other) - (one < other)))
            found.update((other_key, key, n, "product", one * other > n) for n in areas)
    return found
