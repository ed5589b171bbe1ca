"""Messages of our own code that are not about a model."""

from __future__ import annotations

import re

from myops.ort._doctor.report import ERROR, Finding
from myops.ort._doctor.rules import MessageContext, Rules

RULES = Rules()


@RULES.rule(r"\b(MYOPS_[A-Z_]+): (got .*)")
def wrong_variable(context: MessageContext, match: re.Match[str]) -> Finding:
    return Finding(
        "environment-variable", ERROR, f"The environment variable {match[1]} has a wrong value.",
        f"{match[1]}: {match[2].strip().rstrip('.')}.", "Correct it, or unset it.",
    )  # fmt: skip
