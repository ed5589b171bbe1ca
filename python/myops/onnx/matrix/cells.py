"""What the opset matrix is made of: cases, and what became of each in one exporter and opset."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

OK = "ok"
CHANGED = "opset changed"
LOST = "node lost"
REFUSED = "refused"
LOAD_ERROR = "load error"
WARNED = "wrong, with a warning"
WRONG = "silently wrong"

# From good to bad: a cell is what its worst size is.
VERDICTS = (OK, CHANGED, LOST, REFUSED, LOAD_ERROR, WARNED, WRONG)

MEANINGS = {
    OK: "exports, runs and agrees with PyTorch",
    CHANGED: "agrees with PyTorch, but the file is in another opset than the one asked for",
    LOST: "agrees with PyTorch, but a custom operator of the model is not in the file",
    REFUSED: "the exporter raises an error",
    LOAD_ERROR: "exports, but ONNX Runtime does not load or run it",
    WARNED: "exports and runs, disagrees with PyTorch; the exporter warned about it",
    WRONG: "exports and runs, disagrees with PyTorch, without a warning",
}

EXPORTERS = {
    "torchscript": "torch.onnx.export(dynamo=False)",
    "dynamo": "torch.onnx.export(dynamo=True)",
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and what it is measured with.

    A matrix row is one case, or a list of them: then the row tells the worst.

    Args:
        model: A torch.nn.Module, or any function of tensors.
        args: Example inputs by position; the model is exported with them and run on them.
        kwargs: Example inputs by name.
        run_at: More inputs to run the exported model on, each a tuple like `args`. Axes on which
            their lengths differ from the example's are exported as dynamic. The place for sizes
            and numbers at which the model will be used.
        label: What to call it among the cases of a row, e.g. "x1.7".
        through: "torch": `torch.onnx.export` as it is. "myops": `myops.onnx.export`.
        constants: Parameters of forward whose numbers are meant to be built in. Every other
            tensor and number is an input, and a file in which it froze is wrong.
        checks: Whether a file that agrees so far goes through the checks of `myops.onnx.export`
            too: other values of every input, other lengths of dynamic axes, zeros, large and tiny
            numbers, custom operators that must not be lost.
    """

    model: Any
    args: Any
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    run_at: Sequence[Any] = ()
    label: str = ""
    through: str = "torch"
    constants: Sequence[str] = ()
    checks: bool = True

    def __post_init__(self) -> None:
        if self.through not in ("torch", "myops"):
            raise ValueError(
                f'Case: through: got {self.through!r}, expected "torch" (torch.onnx.export) or '
                '"myops" (myops.onnx.export)'
            )
        if not callable(self.model):
            raise TypeError(
                f"Case: model: got {type(self.model).__name__}, expected a torch.nn.Module or a "
                "function of tensors"
            )
        object.__setattr__(self, "args", as_tuple(self.args))
        object.__setattr__(self, "run_at", tuple(as_tuple(item) for item in self.run_at))


def as_tuple(args: Any) -> tuple[Any, ...]:
    return tuple(args) if isinstance(args, (tuple, list)) else (args,)


Cases = Mapping[str, Any]


def as_cases(given: Cases) -> dict[str, list[Case]]:
    """The cases of every row, whatever form they were given in.

    Raises:
        ValueError: There are none, or something else than (model, args), a Case or a list of them.
    """
    if not isinstance(given, Mapping) or not given:
        raise ValueError(
            f"opset_matrix: cases: got {given!r}, expected a dict from names to (model, args), "
            "Case, or lists of Case"
        )
    return {str(name): _row(str(name), item) for name, item in given.items()}


def _row(name: str, item: Any) -> list[Case]:
    if isinstance(item, Case):
        return [item]
    if isinstance(item, (list, tuple)) and item:
        if all(isinstance(part, Case) for part in item):
            return list(item)
        if len(item) in (2, 3) and callable(item[0]):
            return [Case(*item)]
    raise ValueError(
        f"opset_matrix: cases: {name!r}: got {type(item).__name__}, expected (model, args), "
        "(model, args, kwargs), a Case or a list of Case; args are example inputs"
    )


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one case: verdict, error, and why."""

    verdict: str
    error: float | None = None  # largest absolute difference; None when nothing ran
    written: int | None = None  # opset of the file
    reason: str = ""
    label: str = ""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell of the matrix: a row in one exporter and one opset.

    Attributes:
        case: The row.
        exporter: "torchscript" or "dynamo".
        opset: The opset that was asked for.
        verdict: One of VERDICTS: that of the worst among the sizes.
        error: The largest absolute difference from PyTorch among the sizes that ran.
        written: The opset of the file, when it is not the one asked for.
        reason: Why it is not ok.
        sizes: How many cases were measured.
        others: The cases that are not ok, where they are not all alike.
    """

    case: str
    exporter: str
    opset: int
    verdict: str
    error: float | None = None
    written: int | None = None
    reason: str = ""
    sizes: int = 1
    others: tuple[Outcome, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON; what says nothing is left out."""
        found = {key: value for key, value in vars(self).items() if value not in (None, "", ())}
        if self.others:
            found["others"] = [
                {key: value for key, value in vars(item).items() if value not in (None, "")}
                for item in self.others
            ]
        return found

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Cell:
        others = tuple(Outcome(**item) for item in found.get("others", ()))
        return cls(**{**found, "others": others})


def combine(case: str, exporter: str, opset: int, outcomes: Sequence[Outcome]) -> Cell:
    """The cell that a row's outcomes make: the worst decides, the largest error is told."""
    worst = max(outcomes, key=lambda item: (VERDICTS.index(item.verdict), item.error or 0.0))
    errors = [item.error for item in outcomes if item.error is not None]
    others: list[Outcome] = []
    # Sizes that fail alike need no list, but those with wrong numbers differ in how wrong.
    if len({item.verdict for item in outcomes}) > 1 or (
        len(outcomes) > 1 and worst.verdict in (WARNED, WRONG)
    ):
        others = [item for item in outcomes if item.verdict != OK]
        # The cell tells the reason of the worst; do not repeat it.
        others = [
            dataclasses.replace(item, reason="" if item.reason == worst.reason else item.reason)
            for item in others
        ]
    written = [item.written for item in outcomes if item.written not in (None, opset)]
    return Cell(
        case, exporter, opset, worst.verdict, max(errors, default=None),
        written[0] if written else None, worst.reason, len(outcomes), tuple(others),
    )  # fmt: skip
