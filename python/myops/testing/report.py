"""The results of the conformance suite: how much ran, refusals, failures and their causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_MOST_FAILURES = 4  # of one check on one case; further ones usually have the same cause


@dataclass(frozen=True)
class Failure:
    """One disagreement.

    Attributes:
        op: Name of the op.
        check: Name of the family, such as "layouts".
        case: Name of the case.
        variation: The change of the case; empty for the case as given.
        got: The result, and where it is wrong.
        expected: The expected result.
        cause: The likely cause and what to do.

    Example:
        >>> try:
        ...     check_op(myops.my_add, [Case((torch.ones(3), torch.ones(3)))],
        ...              reference=lambda a, b: a + b, only=["values"])
        ... except CheckError as error:
        ...     print(error.report.failures[0].check)
        values
    """

    op: str
    check: str
    case: str
    variation: str
    got: str
    expected: str
    cause: str

    def __str__(self) -> str:
        varied = f", {self.variation}" if self.variation else ""
        return (
            f"{self.op}: {self.check}: case {self.case}{varied}\n"
            f"  got       {_indented(self.got)}\n"
            f"  expected  {_indented(self.expected)}\n"
            f"  likely    {_indented(self.cause)}"
        )


def _indented(text: str) -> str:
    return text.strip().replace("\n", "\n            ")


@dataclass
class Tally:
    """The results of one check on one case.

    Attributes:
        ran: The number of calls that were compared.
        refused: The text of each call that every runtime refused alike.
        notes: What could not be compared, and why.
        failures: The first few failures; `more` counts the others.
        is_unsafe: Whether the kernel writes outside of its memory, so that it must not be called
            again.

    Example:
        >>> check = checks(myops.my_add, [Case((torch.ones(3), torch.ones(3)))])[0]
        >>> tally = check()
        >>> tally.op, tally.check, tally.ran > 0
        ('my_add', 'values', True)
    """

    op: str
    check: str
    case: str
    ran: int = 0
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    more: int = 0
    seconds: float = 0.0
    is_unsafe: bool = False

    def fail(self, variation: str, got: str, expected: str, cause: str) -> None:
        """Adds a failure, or counts it if there are many."""
        if len(self.failures) == _MOST_FAILURES:
            self.more += 1
            return
        self.failures.append(
            Failure(self.op, self.check, self.case, variation, got, expected, cause)
        )

    def note(self, text: str) -> None:
        """Adds a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def text(self) -> str:
        """The failures, as an error message."""
        more = [f"... and {self.more} more of this check on this case"] if self.more else []
        return "\n\n".join([*map(str, self.failures), *more])


class CheckError(AssertionError):
    """The op failed the conformance suite.

    Attributes:
        report: The report of everything that ran; `report.failures` is the list of failures.

    Example:
        >>> try:
        ...     check_op(myops.my_add, [Case((torch.ones(3), torch.ones(3)))],
        ...              reference=lambda a, b: a + b, only=["values"])
        ... except CheckError as error:
        ...     print(error.report.op, len(error.report.failures) > 0)
        my_add True
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__(f"\n{report.text()}")


@dataclass(frozen=True)
class Report:
    """The results of a suite. `str(report)` is a table with one line per family.

    Attributes:
        op: Name of the op.
        tallies: One for each check on each case.
        skipped: Families that were left out on purpose, with the reason.

    Example:
        >>> cases = [Case((torch.ones(3), torch.ones(3)))]
        >>> report = check_op(myops.my_add, cases, only=["values"])
        >>> print(report)
        my_add: passed
          values ... compared, ...
    """

    op: str
    tallies: Sequence[Tally]
    skipped: dict[str, str]

    @property
    def failures(self) -> list[Failure]:
        return [item for tally in self.tallies for item in tally.failures]

    @property
    def idle(self) -> dict[str, str]:
        """The families that compared nothing, with the reason if there is one."""
        found = dict(self.skipped)
        for name, tallies in self._families().items():
            if not any(tally.ran for tally in tallies):
                notes = dict.fromkeys(note for tally in tallies for note in tally.notes)
                refused = sum(len(tally.refused) for tally in tallies)
                found[name] = "; ".join(notes) or (
                    f"all {refused} variations were refused" if refused else "nothing applied"
                )
        return found

    @property
    def notes(self) -> dict[str, list[str]]:
        """Notes on what could not be compared, of families that compared something else."""
        found: dict[str, list[str]] = {}
        for name, tallies in self._families().items():
            for note in dict.fromkeys(note for tally in tallies for note in tally.notes):
                if name not in self.idle:
                    found.setdefault(note, []).append(name)
        return found

    def text(self) -> str:
        """The failures, then the table of what ran."""
        failed = [tally.text() for tally in self.tallies if tally.failures]
        return "\n\n".join([*failed, str(self)])

    def _families(self) -> dict[str, list[Tally]]:
        found: dict[str, list[Tally]] = {}
        for tally in self.tallies:
            found.setdefault(tally.check, []).append(tally)
        return found

    def __str__(self) -> str:
        count = sum(len(tally.failures) + tally.more for tally in self.tallies)
        lines = [f"{self.op}: {count} failures" if count else f"{self.op}: passed"]
        families, idle = self._families(), self.idle
        for name, tallies in families.items():
            ran = sum(tally.ran for tally in tallies)
            refused = sum(len(tally.refused) for tally in tallies)
            failures = sum(len(tally.failures) + tally.more for tally in tallies)
            words = f"{ran:5} compared, {refused:4} refused alike, {failures:3} failed"
            seconds = sum(tally.seconds for tally in tallies)
            lines.append(f"  {name:12} {words}, {seconds:6.1f} s")
            if name in idle and not failures:
                lines.append(f"  {'':12} NOTHING RAN: {idle[name]}")
        lines += [f"  note: {text} ({', '.join(where)})" for text, where in self.notes.items()]
        lines += [f"  {name:12} LEFT OUT: {why}" for name, why in self.skipped.items()]
        return "\n".join(lines)
