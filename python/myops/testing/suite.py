"""`check_op` and `checks`: every family on every case."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import time
import traceback
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ParamSpec, TypeVar

import torch

from myops._description import OpInfo
from myops._names import choose
from myops._torch import seeds
from myops.testing.cases import Case, identifiers
from myops.testing.families import FAMILIES, ON_DEVICE, REFUSED, WRITING
from myops.testing.op_under_test import OpUnderTest, op_under_test
from myops.testing.report import CheckError, Report, Tally
from myops.testing.runtimes import Runtimes
from myops.testing.surrounded import Surrounded
from myops.testing.trial import SuiteSettings, Trial

_SEED = 20240229
_CREATED = 20_000  # objects between two garbage collections during a check

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@dataclass
class Suite:
    """An op with its cases; nothing runs before `run`. `check_op` describes the fields."""

    op: Any
    cases: Sequence[Case]
    _: KW_ONLY
    reference: Callable[..., Any] | None = None
    only: Sequence[str] = ()
    skip: Mapping[str, str] | None = None
    gradients: int = 2
    no_gradient: Sequence[str] = ()
    tolerance: Mapping[str, float] | None = None
    body_tolerance: Mapping[str, float] | None = None
    backend: str = "aot_eager"
    libraries: Sequence[Any] = ()
    device: str = ""

    def __post_init__(self) -> None:
        if self.gradients not in (0, 1, 2):
            raise ValueError(f"check_op: gradients: got {self.gradients!r}, expected 0, 1 or 2")
        if not self.cases or not all(isinstance(case, Case) for case in self.cases):
            raise ValueError("check_op: cases: expected a list of Case, with at least one")
        self.skipped = dict(self.skip or {})
        beside = ON_DEVICE if self.device else {}
        if self.device:
            _expect_device(self.device)
        families = {**FAMILIES, **beside, **WRITING}
        for name in (*self.only, *self.skipped):
            choose(name, families, "check_op: only, skip: there is")
        info = getattr(self.op, "info", None)
        self.is_unsafe = False  # after a write outside of the tensors
        self.families = WRITING if isinstance(info, OpInfo) and info.writes else FAMILIES | beside
        self.named = dict(zip(identifiers(self.cases), self.cases, strict=True))
        self.settings = SuiteSettings(
            self.reference,
            dict(self.tolerance or {}),
            dict(self.body_tolerance or {}),
            self.gradients,
            tuple(self.no_gradient),
            "bodies" not in self.skipped,
            self.backend,
            any(case.refused_by_numbers for case in self.cases),
            self.device,
        )

    @cached_property
    def tested(self) -> OpUnderTest:
        for case in self.cases:
            for tensor in case.tensors:
                if tensor.device.type != "cpu":
                    raise ValueError(f"Case: got a tensor on {tensor.device}, expected the CPU")
        copies = [case.copied() for case in self.cases]  # the op may write into its inputs
        with Surrounded():  # before "values" has looked for writes beside the results
            tested = op_under_test(self.op, copies, self.libraries)
        if tested.info.writes and self.families is not WRITING:
            raise ValueError(
                f"check_op: op: got a function that calls {tested.info.qualified}, which writes "
                "into an input, expected the op itself, as library.define returned it"
            )
        for name in self.no_gradient:
            choose(
                name, [item.name for item in tested.info.inputs], "check_op: no_gradient: there is"
            )
        return tested

    @cached_property
    def runtimes(self) -> Runtimes:
        return Runtimes(self.tested)

    def run(self, family: str, case: str) -> Tally:
        """One check on one case."""
        tally = Tally(self.tested.name, family, case)
        if self.is_unsafe:
            tally.note("not run, because the kernel writes outside of its memory: see the failure")
            return tally
        function = REFUSED if self.named[case].refused else self.families[family]
        given = self.named[case].copied() if self.tested.info.writes else self.named[case]
        trial = Trial(self.tested, given, self.runtimes, self.settings, tally)
        seeds.seed(_SEED)
        start = time.perf_counter()
        try:
            with _rare_collections():
                function(trial)
        except Exception as error:  # unexpected in op and suite: report it and continue
            where = traceback.extract_tb(error.__traceback__)[-1]
            tally.fail(
                "",
                f"{type(error).__name__}: {error}",
                "a result, or a refusal before this check",
                f"raised in {where.filename}:{where.lineno}; see `error.__cause__`, or run the "
                "case by hand",
            )
        tally.seconds = time.perf_counter() - start
        self.is_unsafe = tally.is_unsafe
        return tally

    def checks(self) -> list[Check]:
        chosen = [
            name
            for name in self.families
            if name not in self.skipped and name in (self.only or self.families)
        ]
        found = [
            Check(self, family, title)
            for family in chosen
            for title, case in self.named.items()
            if not case.refused
        ]
        return found + [
            Check(self, "errors", title)
            for title, case in self.named.items()
            if case.refused and ("errors" in chosen or "writes" in chosen)
        ]


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Exporters and compilers create many objects. With Python's own threshold, garbage collections
    take a tenth of the time of a check."""
    thresholds = gc.get_threshold()
    if 0 < thresholds[0] < _CREATED:  # 0: there are no automatic collections
        gc.set_threshold(_CREATED, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _expect_device(device: str) -> None:
    try:
        torch.zeros(1, device=device).item()  # "meta" has no numbers
    except Exception as error:  # torch's own, of many types
        raise ValueError(
            f"check_op: device: got {device!r}, which this PyTorch cannot use on this machine "
            f"({str(error).splitlines()[0]}), expected a device such as 'cuda', or none"
        ) from error


class Check:
    """One check on one case, as a callable for `pytest.mark.parametrize`.

    `str(check)` and `check.__name__` are its id, such as "layouts-3x4,4".

    Example:
        >>> check = checks(myops.my_add, [Case((torch.ones(3), torch.ones(3)))])[0]
        >>> str(check), check().failures
        ('values-3,3', [])
    """

    def __init__(self, suite: Suite, family: str, case: str) -> None:
        self.family, self.case = family, case
        self._suite = suite
        self.__name__ = f"{family}-{case}"

    def __call__(self) -> Tally:
        """Runs it.

        Returns:
            The results.

        Raises:
            CheckError: The op failed.
            unittest.SkipTest: Nothing ran; the text gives the reason. pytest reports a skipped
            test.
        """
        tally = self._suite.run(self.family, self.case)
        report = Report(tally.op, [tally], {})
        if tally.failures:
            raise CheckError(report)
        if not tally.ran:
            raise unittest.SkipTest(f"{self}: nothing ran: {report.idle[self.family]}")
        return tally

    def __str__(self) -> str:
        return self.__name__

    def __repr__(self) -> str:
        return f"<check {self}>"


def _called_as(
    suite: Callable[_Arguments, Suite],
) -> Callable[[Callable[[Suite], _Result]], Callable[_Arguments, _Result]]:
    """Replaces a function's parameter, a Suite, by the Suite's arguments, which are declared there
    only."""

    def decorate(function: Callable[[Suite], _Result]) -> Callable[_Arguments, _Result]:
        @functools.wraps(function)
        def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            return function(suite(*args, **kwargs))

        given = inspect.signature(suite).parameters.values()
        result = inspect.signature(function).return_annotation
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # for help()
            list(given), return_annotation=result
        )
        return run

    return decorate


@_called_as(Suite)
def checks(suite: Suite) -> list[Check]:
    """The checks of the suite, one for each family and case. Arguments as for `check_op`.

    The op does not run until a check is called.

    Give them to `pytest.mark.parametrize("check", ...)`, and call `check()` in the test.

    Example:
        >>> found = checks(myops.my_add, [Case((torch.randn(3, 4), torch.randn(4)))])
        >>> str(found[0])
        'values-3x4,4'
    """
    return suite.checks()


@_called_as(Suite)
def check_op(suite: Suite) -> Report:
    """Runs the whole conformance suite on an op, in every runtime, on every case.

    From each case it derives other calls: other lengths if the op allows them (0, 1, odd ones),
    other memory layouts, every dtype that the op declares, NaN, Inf and extreme numbers, and wrong
    calls. If the op refuses a derived call, every runtime must refuse it with the same text.
    docs/testing.md says what each family compares.

    Args:
        op: A public function around one op, such as `myops.resize`, a function of your own package
            or the result of `myops.prototype`; or the torch op itself, such as
            `torch.ops.myops.resize`. For an op that writes into an input, give the result of
            `library.define`; its only family is "writes".
        cases: Calls of it. Also calls that must be refused: `Case(..., refused=text)`.
        reference: The op in the simplest code, which may be slow: it is called like the op, with
            torch tensors, floats as float64, and returns tensors or arrays. Without it, runtimes
            are compared with each other only.
        only: Names of the families to run. Default: all.
        skip: {name: reason} of families to leave out; the report repeats the reason. Without
            "bodies", as for an op that has no standard form, exported files need no body either.
        gradients: How often the op is differentiable: 2, 1, or 0 for not at all (asking for a
            gradient must then be an error).
        no_gradient: Names of float inputs without a gradient, such as boxes that contain the index
            of their image. Inputs that `backward_of` in C++ does not name need not be listed.
        tolerance: {dtype name: largest error against the reference, relative to its largest
            element}. Default: 1e-12 for float64, 1e-5 for float32, 2e-3 for float16, 2e-2 for
            bfloat16. For integers the largest difference, default 0; an op that rounds may need 1.
        body_tolerance: The same for the function body against the kernel. Default: 1e-7, 1e-4,
            4e-3, 4e-2.
        backend: The backend of torch.compile; "aot_eager" tests everything except the code
            generation, which "inductor" adds at a cost of seconds per case.
        libraries: Custom-op libraries for ONNX Runtime that the op's models need, in addition to
            those of packages of ops, which are found automatically.
        device: A device such as "cuda" on which the op has a kernel too. Adds the family "device",
            which compares it with the CPU: within `tolerance` (relative to the largest element; 0
            for equal bits), and within four times that for gradients. Cases stay on the CPU.

    Returns:
        A report; print it to see what ran, what was refused and what did not run.

    Raises:
        CheckError: There are failures; the message lists all of them, and `error.report` has them
            as objects.
        ValueError: An argument is invalid.

    Example:
        >>> cases = [Case((torch.randn(3, 4), torch.randn(4)))]
        >>> def slow(a, b):
        ...     return 2 * a + b
        >>> report = check_op(myops.my_add, cases, reference=slow, only=["values", "lengths"])
        >>> report.failures
        []
    """
    tallies = [suite.run(check.family, check.case) for check in suite.checks()]
    report = Report(suite.tested.name, tallies, suite.skipped)
    if report.failures:
        raise CheckError(report)
    return report
