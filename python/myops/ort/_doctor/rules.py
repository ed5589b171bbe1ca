"""Rules for messages of ONNX Runtime: a pattern, and a function that makes a finding of a match."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import onnx

from myops.ort._doctor import graph
from myops.ort._doctor.graph import Provided
from myops.ort._doctor.report import Finding


@dataclass
class MessageContext:
    """What is known when a message comes: the model (None: it could not be read) and the rest."""

    model: onnx.ModelProto | None
    provided: Provided

    def place(self, name: str, op_type: str = "") -> graph.LocatedNode | None:
        """The node that a message names."""
        return graph.find(self.model, name, op_type) if self.model is not None else None

    def labels(self, name: str, op_type: str = "") -> list[str]:
        """The same for a reader."""
        place = self.place(name, op_type)
        if place is not None:
            return [place.label]
        return [f"{name} ({op_type})" if op_type else name] if name else []


Explanation = Callable[[MessageContext, re.Match[str]], Finding]


class Rules(list[tuple[re.Pattern[str], Explanation]]):
    """The rules of one file, in the order in which they are tried."""

    def rule(self, pattern: str) -> Callable[[Explanation], Explanation]:
        """Adds the decorated function, for messages in which the pattern is found."""

        def add(function: Explanation) -> Explanation:
            self.append((re.compile(pattern, re.S), function))
            return function

        return add
