"""The part of the check "numbers" about other lengths of dynamic axes."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import torch

from myops.onnx.guards import _advice, _origin
from myops.onnx.guards._changes import noisy, resized
from myops.onnx.guards._conditions import Conditions
from myops.onnx.guards._constants import Constants
from myops.onnx.guards._difference import OutputDifference, compare
from myops.onnx.guards._errors import ExportCheckError
from myops.onnx.guards._excuses import excuse
from myops.onnx.guards._exported import Exported
from myops.onnx.guards._lengths import Group, Point, explore
from myops.onnx.guards._run_times import RunTimes

NAME = "numbers"
SECONDS = 30.0
_ELEMENTS = 2**24  # of one input
_LONG = 8200  # time and memory of a longer axis may grow with its square
_SHARE = 8  # a point may take one eighth of the remaining time
_LONGEST = 300  # characters of what ONNX Runtime says
_MIN_OR_MAX = re.compile(r"\b(min|max)\(")


def check(exported: Exported) -> None:
    """Compares at other lengths.

    Raises:
        ExportCheckError: The results differ at one, or ONNX Runtime fails there.
    """
    groups = axes(exported)
    if not groups:
        return
    search = _Search(exported, groups)
    for _, point in search.conditions.breaking(search.example, search.possible):
        if not search.more_time():
            break
        if search.reached(groups, point):
            search.attempt(point)
    taken = explore(
        search.groups, search.constants(), search.attempt, search.more_time, search.affordable,
        search.roomy, search.reached,
    )  # fmt: skip
    if not search.taken and not taken and search.refusal is not None:
        lines = str(search.refusal).strip().splitlines() or [type(search.refusal).__name__]
        exported.warn(
            f"{NAME}: PyTorch refused all other lengths of the dynamic axes that were tried, so "
            f"they were not compared: {lines[0]}"
        )
        _warn_of_static_outputs(exported)
    elif not search.taken:
        exported.warn(f"{NAME}: no other lengths of the dynamic axes could be tried.")
        _warn_of_static_outputs(exported)
    elif not search.more_time():
        search.correct_outputs()
        exported.warn(
            f"{NAME}: only {search.taken} other lengths of the dynamic axes were compared, as "
            f"{SECONDS:g} s were over; one run in PyTorch takes {exported.seconds:.2g} s."
        )
    else:
        _warn_of_lengths_of_one(search)
        _warn_of_long_runs(search)
        search.correct_outputs()


def _warn_of_long_runs(search: _Search) -> None:
    """Warns of lengths that were left out because of the times at shorter ones."""
    if search.times.left_out is not None:
        point, limit = search.times.left_out
        where = _shapes(search.changes(point))
        search.exported.warn(
            f"{NAME}: {search.taken} other lengths of the dynamic axes were compared, but none as "
            f"large as {where}: by the times at shorter ones, a run there may take more than "
            f"{limit:.2g} s."
        )


def _warn_of_lengths_of_one(search: _Search) -> None:
    """Warns of differences at length 1. They are no error, because PyTorch and ONNX treat length 1
    specially, and a height of 1 is rare."""
    for group in search.groups:
        if group.lowest > 1 >= group.limits[0] and group.unit == 1:
            (name, axis), _ = group.axes[0]
            try:
                search.attempt(dict.fromkeys((item for item, _ in group.axes), 1))
            except ExportCheckError as error:
                said = error.text.partition(" At the example's lengths")[0]
                search.exported.warn(
                    f"{NAME}: the model is right at all other lengths that were tried, but not at "
                    f"length 1 of axis {axis} of {name!r}: {said}"
                )


def axes(exported: Exported) -> list[Group]:
    """The dynamic axes of the file; axes with the same name belong together."""
    groups: dict[Any, Group] = {}
    for slot in exported.inputs.slots:
        if slot.name not in exported.graph_inputs:
            continue
        dims = exported.graph_inputs[slot.name].type.tensor_type.shape.dim
        shape = exported.inputs.tensor(slot).shape
        for axis, dim in enumerate(dims):
            if dim.HasField("dim_value") or axis >= len(shape) or not shape[axis]:
                continue
            key = (dim.dim_param or (slot.name, axis), shape[axis])
            low, high = exported.limits.get((slot.name, axis), (1, 2**31))
            low = max(low, 1)
            group = groups.setdefault(key, Group([], (low, high)))
            group.axes.append(((slot.name, axis), shape[axis]))
            group.limits = max(low, group.limits[0]), min(high, group.limits[1])
            multiple = exported.multiples.get((slot.name, axis), 1)
            group.step = group.unit = math.lcm(group.unit, multiple)
    return list(groups.values())


class _Search:
    """Runs the model at points in PyTorch and in ONNX Runtime."""

    def __init__(self, exported: Exported, groups: list[Group]) -> None:
        self.exported = exported
        self.groups = groups
        self.example: Point = {axis: old for group in groups for axis, old in group.axes}
        self.conditions = Conditions(exported.recorded, exported.program, exported.inputs)
        self.taken = 0
        self.refusal: Exception | None = None
        self._end = time.perf_counter() + SECONDS
        self._tensors = {s.name: exported.inputs.tensor(s) for s in exported.inputs.slots}
        self.times = RunTimes(self._tensors, self.example, 2 * exported.seconds)
        self._tried: dict[tuple[int, ...], bool] = {}
        self._varying: set[tuple[int, int]] = set()  # outputs by number, axis
        self._limits = {axis: group for group in groups for axis, _ in group.axes}

    def constants(self) -> set[int]:
        """The numbers with which the model computes, from the code that runs and from
        torch.export."""
        watch = Constants()
        with watch:
            self.exported.torch_run()
        for condition in self.conditions.all:
            watch.add([int(n) for n in condition.relation.atoms() if getattr(n, "is_Integer", 0)])
        return watch.found

    def more_time(self) -> bool:
        return time.perf_counter() < self._end

    def possible(self, point: Point) -> bool:
        """Whether a point is small, within the stated limits, and equal for equal names."""
        for group in self.groups:
            new = {point[axis] for axis, _ in group.axes}
            if len(new) > 1 or not group.possible(new.pop()):
                return False
        return self.affordable(point)

    def roomy(self, point: Point) -> bool:
        return self.affordable(point, 1.5)

    def affordable(self, point: Point, power: float = 1.0) -> bool:
        """power: How the time of a run grows with the largest input."""
        for name, tensor in self._tensors.items():
            lengths = [point.get((name, axis), old) for axis, old in enumerate(tensor.shape)]
            if math.prod(lengths) > max(_ELEMENTS, tensor.numel()):
                return False
        if max(point.values(), default=0) > _LONG:
            power = 2.0  # attention
        return self.times.likely(point, power) < self.limit()

    def limit(self) -> float:
        """The seconds that one point may take."""
        return max(1.0, (self._end - time.perf_counter()) / _SHARE)

    def reached(self, groups: Sequence[Group], point: Point) -> bool:
        """Compares at lengths on the way to a point until it is known to be short enough."""

        def attempt(nearer: Point) -> bool:
            return self.more_time() and self.affordable(nearer) and self.attempt(nearer)

        point = {**self.example, **point}
        return self.times.reached(groups, point, attempt, self.limit)

    def attempt(self, point: Point) -> bool:
        """Compares at a point; returns whether PyTorch accepts it."""
        point = {**self.example, **point}
        key = tuple(point.values())
        if key not in self._tried:
            start = time.perf_counter()
            self._tried[key] = self._compared(point)
            if self._tried[key]:
                self.times.add(point, time.perf_counter() - start)
        return self._tried[key]

    def changes(self, point: Point) -> dict[str, torch.Tensor]:
        lengths: dict[str, dict[int, int]] = {}
        for (name, axis), new in point.items():
            if new != self.example[name, axis]:
                lengths.setdefault(name, {})[axis] = new
        return {name: resized(self._tensors[name], changed) for name, changed in lengths.items()}

    def _compared(self, point: Point) -> bool:
        exported, changes = self.exported, self.changes(point)
        start = time.perf_counter()
        try:
            wanted = exported.torch_run(changes)
        except Exception as error:
            self.refusal = error
            return False
        self.taken += 1
        try:
            got = exported.ort_run(changes)
        except RuntimeError as error:
            text = f"{error}"[:_LONGEST]
            self._fail(
                point, changes, "PyTorch runs, but the exported model fails, so it is not as "
                f"dynamic as its axes say: {text}.", error,
            )  # fmt: skip
        found = compare(wanted, got)
        if found is None:
            self._note(wanted)
        if found is None or self._is_tie(changes, found.output):
            exported.traced_reads.compared(changes)
            return True
        reason = excuse(exported, changes, wanted, got)
        if reason:
            where = _shapes(changes)
            exported.warn_excused(f"with {where}: {found.text}", reason)
            return True
        names = [item.name for item in exported.final.graph.output]
        title = f"output {names[found.output]!r}" if found.output >= 0 else "the outputs"
        self._fail(
            point, changes, f"{title} is not what PyTorch computes: {found.text}.",
            difference=found, seconds=time.perf_counter() - start,
        )  # fmt: skip

    def _note(self, results: list[Any]) -> None:
        """Records the axes of outputs whose lengths differ from the example's."""
        self._varying |= {
            (number, axis)
            for number, (old, new) in enumerate(zip(self.exported.base, results, strict=True))
            for axis, (before, after) in enumerate(zip(old.shape, new.shape, strict=False))
            if before != after
        }

    def correct_outputs(self) -> None:
        """Corrects the declared shapes of outputs: a trace may declare the example's lengths
        although the file computes others."""
        outputs = self.exported.final.graph.output
        for number, axis in self._varying:
            dims = outputs[number].type.tensor_type.shape.dim
            if axis < len(dims) and dims[axis].HasField("dim_value"):
                dims[axis].dim_param = f"{outputs[number].name}_dim_{axis}"

    def _is_tie(self, changes: dict[str, torch.Tensor], output: int) -> bool:
        """Whether the results agree if all values of each input are different.

        The values of the example are repeated to fill a longer axis, and two runtimes may select
        different ones of equal values.
        """
        exported = self.exported
        floats = {n: t for n, t in changes.items() if t.is_floating_point()}
        if not floats or output < 0:
            return False
        other = {**changes, **{name: noisy(value, 1e-3) for name, value in floats.items()}}
        try:
            return compare(exported.torch_run(other), exported.ort_run(other)) is None
        except Exception:
            return False

    def _fail(
        self,
        point: Point,
        changes: dict[str, Any],
        text: str,
        cause: Any = None,
        difference: OutputDifference | None = None,
        seconds: float = 0.0,
    ) -> NoReturn:
        """seconds: How long it took to compare at the point."""
        where = _shapes(changes)
        broken = self.conditions.broken(point)
        said = [(item, self.conditions.text(item)) for item in broken]

        def origin() -> str:
            if difference is None:
                return _origin.of_failure(self.exported, cause)
            return _origin.of_difference(self.exported, changes, difference, seconds)

        told = difference.text if difference is not None else ""
        advice = _advice.of_lengths(self.exported, changes, said, origin, told).strip()
        # A trace decides min() and max() of lengths, of which torch.export makes nodes.
        elsewhere = self.exported.exporter == "torchscript" and bool(_MIN_OR_MAX.search(advice))
        raise ExportCheckError(
            NAME, f"with {where} {text} At the example's lengths it is right. {advice}", elsewhere
        ) from cause


def _shapes(changes: Mapping[str, torch.Tensor]) -> str:
    return ", ".join(f"{name} of shape {list(t.shape)}" for name, t in changes.items())


def _warn_of_static_outputs(exported: Exported) -> None:
    """Warns of outputs whose shape is fixed although lengths change and that were not compared at
    other lengths."""
    shapes = [item.type.tensor_type.shape for item in exported.final.graph.output]
    names = [item.name for item in exported.final.graph.output]
    fixed = [
        name
        for name, shape in zip(names, shapes, strict=True)
        if len(shape.dim) and all(dim.HasField("dim_value") for dim in shape.dim)
    ]
    if fixed and len(fixed) == len(names):
        exported.warn(
            f"{NAME}: axes of inputs are dynamic, but every output has a fixed shape "
            f"({', '.join(fixed)}), and it was not seen to be right at other lengths."
        )
