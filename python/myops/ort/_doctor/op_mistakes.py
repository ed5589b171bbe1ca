"""Messages that blame the code of an op: its shape rule or its kernel does not do what the op's
description says. The model and its inputs are not at fault then."""

from __future__ import annotations

import re
from collections.abc import Sequence

from myops.ort._doctor.report import ERROR, Finding

CODE = "op-code"
# What csrc/core and _prototype say of a result that no call can justify.
_BLAMED = re.compile(
    r" from the (shape rule|rule|kernel|function), expected "
    r"|got this index from the code of the op"
    r"|got \d+ results, expected \d+"
    r"|(the shape rule|the function) raised \w+: "
)


def finding(text: str, nodes: Sequence[str]) -> Finding | None:
    """What to say of an error of an op; None if it refuses its arguments."""
    if _BLAMED.search(text) is None:
        return None
    return Finding(
        CODE, ERROR, f"The code of an op is wrong: {text.rstrip('.')}.",
        "The shape rule or the kernel of the op does not do what the description of the op says. "
        "The model is not at fault.",
        "Correct the op in its package and build it again; myops.testing.check_op tests it in "
        "every runtime.",
        nodes=list(nodes),
    )  # fmt: skip
