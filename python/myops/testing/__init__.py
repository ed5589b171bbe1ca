"""The conformance suite for any op: derives all checks, in every runtime, from one list of cases.

    Case(args, kwargs)           a call of the op
    check_op(op, cases, ...)     all checks; raises CheckError with every failure
    checks(op, cases, ...)       the same checks one by one, for pytest.mark.parametrize

    Report, Failure, Tally       the results
    FAMILIES                     the names of the checks

docs/testing.md says what each family of checks compares.

Example:
    >>> cases = [myops.testing.Case((torch.ones(3, 4), torch.ones(4)))]
    >>> myops.testing.check_op(myops.my_add, cases, only=["values"]).failures
    []
    >>> list(myops.testing.FAMILIES)[:3]
    ['values', 'purity', 'lengths']
"""

from myops.testing.cases import Case
from myops.testing.families import FAMILIES
from myops.testing.report import CheckError, Failure, Report, Tally
from myops.testing.suite import Check, check_op, checks

__all__ = [
    "FAMILIES",
    "Case",
    "Check",
    "CheckError",
    "Failure",
    "Report",
    "Tally",
    "check_op",
    "checks",
]


def __dir__() -> list[str]:
    return sorted(__all__)
