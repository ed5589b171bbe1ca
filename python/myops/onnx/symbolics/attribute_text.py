"""The message for an attribute that is not constant, for the translations and the checks."""

from __future__ import annotations


def follows_a_length(operator: str, name: str, where: str = "") -> str:
    return (
        f"{operator}: {name}: got a value that follows the length of an input{where}, expected a "
        "constant: an attribute of an ONNX node cannot change. Make it an input of the operator: a "
        "tensor, or where the operator is described an input with values=True, which takes lists "
        "of numbers too; or call the operator with a fixed number."
    )
