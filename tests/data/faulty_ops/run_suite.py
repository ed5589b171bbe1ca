"""Runs the conformance suite on faulty ops, inside the tree that has them; prints what it found.

python run_suite.py '{"tail_twice": ["values", "lengths"], ...}'

In place of families there may be a text, with which every runtime has to refuse the call.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import torch
from torch import Tensor

import myops
from myops.testing import Case, CheckError, check_op


def cases(name: str, refused: str = "") -> list[Case]:
    torch.manual_seed(0)
    if name.startswith("square_"):
        return [Case((torch.randn(2, 3, 4, 5),), name="image")]
    x, w = torch.randn(3, 8), torch.randn(8)
    if refused:
        right = Case((x, w), {"beta": 7.0}, name="right")
        return [right, Case((x, w), refused=refused, refused_by_numbers=True, name="rows")]
    return [
        Case((x, w), {"alpha": 1.5, "beta": -0.25}, name="rows"),
        Case((w, w), name="vector", refused="x: got rank 1, expected rank 2"),
        Case((x, torch.randn(9)), name="longer", refused="w: got length 9, expected 8"),
    ]


def rows(x: Tensor, w: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
    return alpha * (x @ w) + beta


def squares(x: Tensor) -> Tensor:
    return x * x


def main() -> None:
    found = {}
    for name, families in json.loads(sys.argv[1]).items():
        try:
            report = check_op(
                getattr(myops, name),
                cases(name, families if isinstance(families, str) else ""),
                reference=squares if name.startswith("square_") else rows,
                gradients=0 if name == "square_and_twice" else 1 if "square" in name else 2,
                only=["errors"] if isinstance(families, str) else families,
            )
        except CheckError as error:
            report = error.report
        compared = sum(tally.ran for tally in report.tallies)
        failures = [{**asdict(item), "text": str(item)} for item in report.failures]
        found[name] = {
            "failures": failures,
            "idle": report.idle,
            "compared": compared,
            "text": str(report),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
