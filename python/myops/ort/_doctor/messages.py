"""Explains ONNX Runtime's messages: what they mean and what to do.

The first pattern that is found in a message decides. A message that no pattern knows is shown as
it is.
"""

from __future__ import annotations

import onnx

from myops.ort._doctor import model_messages, op_messages, own_messages, run_messages
from myops.ort._doctor.report import ERROR, Finding
from myops.ort._doctor.rules import MessageContext

RULES = [
    *own_messages.RULES,
    *op_messages.RULES,
    *model_messages.RULES,
    *run_messages.RULES,
]


def explain(message: str, context: MessageContext) -> Finding:
    """The finding that a message of ONNX Runtime stands for; the message itself is kept in it."""
    for pattern, function in RULES:
        match = pattern.search(message)
        if match:
            finding = function(context, match)
            finding.message = finding.message or message.strip()
            return finding
    return _unknown(message, context)


def _unknown(message: str, context: MessageContext) -> Finding:
    why = ""
    if context.model is not None:
        try:
            from myops.onnx.schema import register_schemas

            register_schemas()
            onnx.checker.check_model(context.model)
            why = "onnx.checker has no objection to the model."
        except Exception as error:  # the checker only gives additional information
            # It demands a shape for each output, unlike ONNX Runtime, so this complaint is no help.
            if "Field 'shape' of 'type'" not in str(error):
                why = f"onnx.checker says: {str(error).strip()}"
    return Finding(
        "runtime-error", ERROR, "ONNX Runtime fails, in words that the doctor does not know.",
        why, "Read the message; if it does not help, look for it in the issues of ONNX Runtime.",
        message.strip(),
    )  # fmt: skip
