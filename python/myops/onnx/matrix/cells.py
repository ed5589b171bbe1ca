"""The parts of the opset matrix: cases, and the outcome of each for one exporter and opset."""

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

# From good to bad; the verdict of a cell is that of its worst size.
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
    """A model and the inputs with which it is measured.

    A matrix row is one case, or a list of them, of which it shows the worst.

    Args:
        model: A torch.nn.Module, or any function of tensors.
        args: Example inputs by position; the model is exported with them and run on them.
        kwargs: Example inputs by name.
        run_at: More inputs for the exported model, each a tuple like `args`. Axes on which their
            lengths differ from the example's are exported as dynamic. Give sizes and numbers with
            which the model will be used.
        label: Its name among the cases of a row, e.g. "x1.7".
        through: "torch": plain `torch.onnx.export`. "myops": `myops.onnx.export`.
        constants: Parameters of forward whose numbers should become constants. Every other tensor
            and number is an input; a file in which such an input is frozen is wrong.
        checks: Whether the checks of `myops.onnx.export` follow if a file agrees at these inputs:
            other values of every input, other lengths of dynamic axes, zeros, large and tiny
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
    """The cases of every row, in whichever form they were given.

    Raises:
        ValueError: There are none, or a row is not (model, args), a Case or a list of Case.
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
    """The outcome of one case: verdict, error, and reason."""

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
        opset: The requested opset.
        verdict: One of VERDICTS: that of the worst size.
        error: The largest absolute difference from PyTorch among the sizes that ran.
        written: The opset of the file, if it is not the requested one.
        reason: The reason why it is not ok.
        sizes: The number of cases that were measured.
        others: The cases that are not ok, if their reasons differ.
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
        """The cell for JSON, without empty entries."""
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
    """The cell of a row's outcomes: the verdict of the worst, and the largest error."""
    worst = max(outcomes, key=lambda item: (VERDICTS.index(item.verdict), item.error or 0.0))
    errors = [item.error for item in outcomes if item.error is not None]
    others: list[Outcome] = []
    # Sizes with the same failure need no list, but those with wrong numbers have different errors.
    if len({item.verdict for item in outcomes}) > 1 or (
        len(outcomes) > 1 and worst.verdict in (WARNED, WRONG)
    ):
        others = [item for item in outcomes if item.verdict != OK]
        # The cell already has the reason of the worst.
        others = [
            dataclasses.replace(item, reason="" if item.reason == worst.reason else item.reason)
            for item in others
        ]
    written = [item.written for item in outcomes if item.written not in (None, opset)]
    return Cell(
        case, exporter, opset, worst.verdict, max(errors, default=None),
        written[0] if written else None, worst.reason, len(outcomes), tuple(others),
    )  # fmt: skip
