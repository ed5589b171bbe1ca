"""The message for an attribute that is not constant, for the translations and the checks."""

from __future__ import annotations


class FollowsLengthError(ValueError):
    """An attribute of a node was given a value that is computed at run time.

    operator: As it is called: "acme.swish".
    more: Sentences at the end of the message.
    """

    def __init__(self, operator: str, name: str, where: str = "", more: str = "") -> None:
        self.operator, self.name, self.more = operator, name, more
        super().__init__(follows_a_length(operator, name, where) + more)

    def at(self, where: str) -> FollowsLengthError:
        """The same with the line of the model."""
        return FollowsLengthError(self.operator, self.name, where, self.more)


def follows_a_length(operator: str, name: str, where: str = "") -> str:
    return (
        f"{operator}: {name}: got a value that follows the length of an input{where}, expected a "
        "constant: an attribute of an ONNX node cannot change. Call the operator with a fixed "
        "number; or leave the axis out of dynamic_axes, if it always has this length; or make "
        f"{name} an input of the operator: a tensor, or where the operator is described an input "
        "with values=True, which takes lists of numbers too."
    )
