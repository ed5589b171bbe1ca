"""One check on one case: its data, and the comparisons that several families share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.utils import _pytree as pytree

from myops.testing import casts, variations
from myops.testing.bits import TOLERANCE, arrays_of, different_bits, too_far
from myops.testing.calls import CallOutcome, OpCall, TorchRun, run_torch
from myops.testing.cases import Case
from myops.testing.derivatives import has_gradient
from myops.testing.op_under_test import OpUnderTest, describe
from myops.testing.report import Tally
from myops.testing.runtimes import HOSTED, Runtimes

_RUNTIME_CAUSE = (
    "one kernel gives equal bits everywhere when its work is cut by parallel_for(count, grain), "
    "memory is read through the strides that it declared (Op::input().access), and all of its "
    "output is written"
)
_REFERENCE_CAUSE = (
    "the kernel or the reference is wrong here. At lengths that no power of two divides: an "
    "unrolled loop that reads past its end or counts the rest twice. At 0 and 1: a division by "
    "the length or by length - 1, or a missing branch. At one dtype only: the kernel computes in "
    "a type that is too narrow"
)


@dataclass(frozen=True)
class SuiteSettings:
    """The other arguments of `check_op`; see there."""

    reference: Callable[..., Any] | None = None
    tolerance: Mapping[str, float] = field(default_factory=dict)
    body_tolerance: Mapping[str, float] = field(default_factory=dict)
    gradients: int = 2
    no_gradient: Sequence[str] = ()  # names of inputs
    bodies: bool = True  # whether exported files must have a function body
    backend: str = "aot_eager"
    numbers_refuse: bool = False  # some case says that numbers in a tensor may be refused
    device: str = ""  # compared with the CPU


@dataclass
class Trial:
    """One check on one case."""

    tested: OpUnderTest
    case: Case
    runtimes: Runtimes
    settings: SuiteSettings
    tally: Tally

    @cached_property
    def axes(self) -> list[variations.LinkedAxes]:
        return variations.free_axes(self.tested, self.case)

    @cached_property
    def lengths(self) -> list[tuple[str, Case]]:
        """The case with other lengths, and with one where another one is broadcast."""
        tested = self.tested.function
        found = list(variations.lengths(self.case, self.axes))
        return [*found, *variations.broadcast(tested, self.case, self.axes)]

    def differentiable(self, case: Case | None = None) -> list[int]:
        """The indices of the tensors that have a gradient: floats in which torch computes, without
        lists like scales and the inputs that the author names."""
        without = {*self.settings.no_gradient, *self._inputs_without_gradient}
        floats = self._floats(self.case if case is None else case)
        return [place for place, name in floats.items() if name not in without]

    def _floats(self, case: Case) -> dict[int, str]:
        """{index of a tensor: name of its input} of the floats in which torch computes."""
        info, numbers = self.tested.info, variations.input_of_tensors(self.tested, case)
        return {
            place: info.declared(number).name
            for place, (tensor, number) in enumerate(zip(case.tensors, numbers, strict=True))
            if casts.is_float(tensor)
            and tensor.element_size() > 1
            and number is not None
            and not info.declared(number).values
        }

    @cached_property
    def _inputs_without_gradient(self) -> set[str]:
        """The inputs that the op's `backward_of` in C++ does not name, apart from those whose
        gradient is made in Python, such as a bias's."""
        without = _not_in_backward_of(self.tested)
        floats = self._floats(self.case) if without else {}
        for place, name in floats.items():
            if name in without and has_gradient(self.tested, self.case, place):
                without.remove(name)
        return without

    def run(self, case: Case | None = None) -> TorchRun:
        """The public function in torch, and the op's call inside it."""
        return run_torch(self.tested, self.case if case is None else case)

    def call(self) -> OpCall:
        """The op's call in the given case."""
        run = self.run()
        if run.result.refused or run.call is None:
            raise ValueError(
                f"{self.tested.name}: case {self.tally.case}: the op refused it: "
                f"{run.result.refusal}. Give Case(..., refused=...) for a call that it must refuse."
            )
        return run.call

    def compare_bits(
        self, variation: str, who: str, actual: CallOutcome, expected: CallOutcome, cause: str
    ) -> bool:
        """Whether two runtimes agree, in bits or in the text of a refusal; a failure if not."""
        if actual.refused or expected.refused:
            return self._compare_refusals(variation, who, actual, expected)
        self.tally.ran += 1
        got, wanted = different_bits(actual.outputs, expected.outputs)
        if got:
            self.tally.fail(variation, f"{who}: {got}", wanted, cause)
        return not got

    def _compare_refusals(
        self, variation: str, who: str, actual: CallOutcome, expected: CallOutcome
    ) -> bool:
        # ONNX Runtime compares the types of inputs itself, before it calls the op.
        types = "dtype" in expected.refusal and who == "ONNX Runtime"
        both = actual.refused and expected.refused
        if both and (types or expected.refusal in actual.refusal):
            return True
        got = f"refused: {actual.refusal}" if actual.refused else "no refusal, a result"
        wanted = f"a refusal with the text of torch: {expected.refusal}"
        if not expected.refused:
            wanted = "the result that torch gives"
        self.tally.fail(
            variation,
            f"{who}: {got}",
            wanted,
            "a check outside of the op's shape rule and kernel, or one that depends on more than "
            "the arguments. Checks that decide meaning belong into the shape rule (in C++, or "
            "`shape=` of a prototype): then every runtime has them, with the same text",
        )
        return False

    def agree(self, variation: str, case: Case) -> TorchRun:
        """Runs the case in torch and in every runtime that must give the same bits or text."""
        run = self.run(case)
        if run.call is None:  # the public function refused before it called the op
            if run.result.refused:
                self.tally.refused.append(run.result.refusal)
            return run
        alike, lacks = True, self.runtimes.host_lacks(run.call)
        if lacks:
            self.tally.note(lacks)
        for who, runtime in self.runtimes.bit_for_bit(exact=run.inner.refused).items():
            if lacks and who in HOSTED:
                continue
            if who == "PyOp" and run.inner.refused and "dtype" in run.inner.refusal:
                continue  # no PyOp is registered for this combination of dtypes
            alike &= self.compare_bits(variation, who, runtime(run.call), run.inner, _RUNTIME_CAUSE)
        for note in self.runtimes.notes():
            self.tally.note(note)
        if run.inner.refused and alike:
            self.tally.refused.append(run.inner.refusal)
        return run

    def check_reference(
        self, variation: str, case: Case, run: TorchRun, cause: str = _REFERENCE_CAUSE
    ) -> None:
        """Compares torch's result with the reference, if there is one."""
        if self.settings.reference is None:
            self.tally.note("no reference= was given, so no value was compared with one")
            return
        if run.result.refused:
            return
        self.tally.ran += 1
        try:
            expected = reference_outputs(self.settings.reference, case)
        except Exception as error:  # any exception of a reference is a refusal
            self.tally.fail(
                variation,
                "torch: a result",
                f"a refusal, as of the reference: {type(error).__name__}: {error}",
                "the shape rule lacks a check, or the reference has one too many",
            )
            return
        got, wanted = too_far(run.result.outputs, expected, self.tolerance)
        if got:
            self.tally.fail(variation, f"torch: {got}", f"reference: {wanted}", cause)

    def tolerance(self, dtype: str) -> float:
        for given in (self.case.tolerance, self.settings.tolerance, TOLERANCE):
            if dtype in given:
                return given[dtype]
        return 0.0


def reference_outputs(reference: Callable[..., Any], case: Case) -> list[Any]:
    """The reference's outputs; it gets floats as float64 or complex128."""

    def wide(item: Any) -> Any:
        if not isinstance(item, torch.Tensor) or not casts.is_float(item):
            return item
        wide = torch.complex128 if item.is_complex() else torch.float64
        return item.detach().contiguous().to(wide)

    args, kwargs = pytree.tree_map(wide, (tuple(case.args), dict(case.kwargs)))
    return arrays_of(reference(*args, **kwargs))


def _not_in_backward_of(tested: OpUnderTest) -> set[str]:
    """The inputs that the op's `backward_of` in C++ does not name."""
    below = describe(tested.namespace, f"{tested.name}_backward")
    if below is None or tested.info.is_prototype:
        return set()
    named = {item.name.removeprefix("grad_") for item in below.outputs}
    inputs = {item.name for item in tested.info.inputs}
    if not named <= inputs:  # an op of that name which `backward_of` did not describe
        return set()
    return inputs - named
