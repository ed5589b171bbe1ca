"""The `g` of `standard(g)`, which adds standard nodes for a call."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import numpy_helper

from myops import _description, _dtypes, _libraries
from myops._description import OpInfo
from myops._names import choose
from myops._op_parts import Dim
from myops.onnx import rule_mistakes
from myops.onnx.arrays import Array
from myops.onnx.graph import inner_graphs
from myops.onnx.schema import attribute_proto

__all__ = ["Builder", "LoweringError"]


def __dir__() -> list[str]:
    return sorted(__all__)


class LoweringError(ValueError):
    """A node that the standard operators of an opset cannot express.

    The text names the node, the opset, the reason and what to do about it.

    Example:
        >>> try:
        ...     myops.onnx.lower("upscale.onnx", opset=8)
        ... except myops.onnx.LoweringError as error:
        ...     print(error)
        node 'y' (myops::Resize): cannot be written in ai.onnx opset 8: there is no Resize, ...
    """


@dataclass
class Site:
    """What is known about a call that has to be written in standard nodes."""

    info: OpInfo
    label: str  # for errors
    inputs: list[str]  # names in the graph; "" for what is left out
    dtypes: list[str | None]
    shapes: list[list[Dim] | None]
    values: list[np.ndarray | None]  # of constant inputs
    attributes: dict[str, Any]


class Builder:
    """The `g` of `standard(g)`: adds standard nodes, and says what is known about the call.

    opset: The version of ai.onnx that the nodes must belong to.
    hints: A Builder that may know more, namely the present lengths and numbers, on which a function
        body must not rely. Use it to choose between forms that are both right, never to add nodes.

    Example, 2a + b:
        >>> def standard(g):
        ...     two = g.constant(np.array(2, g.dtype("a")))
        ...     return [g.op("Add", g.op("Mul", g.input("a"), two), g.input("b"))]
    """

    def __init__(
        self,
        site: Site,
        opset: int,
        fresh: Callable[[str], str],
        prefix: str,
        hints: Builder | None = None,
    ) -> None:
        self.site = site
        self.opset = opset
        self.hints = hints or self
        self.rule = "standard"  # the function that adds the nodes, for errors
        self.nodes: list[onnx.NodeProto] = []
        self._fresh = fresh
        self._prefix = prefix

    def op(self, op_type: str, *inputs: str | Array, outputs: int = 1, **attributes: Any) -> Any:
        """Adds a node; returns the name of its output, or a tuple of names.

        Args:
            op_type: A standard operator of `opset`.
            inputs: Names or arrays (myops.onnx.arrays); "" leaves an optional input out.
            outputs: How many outputs the node has.
            attributes: Python values; None and empty lists are not written. The names in a graph
                (for example the body of a Scan) are made unique.
        """
        rule_mistakes.check_operator(self, op_type)
        given = rule_mistakes.input_names(self, op_type, inputs)
        hint = f"{self._prefix}/{op_type}" if self._prefix else op_type
        names = [self._fresh(hint) for _ in range(outputs)]
        written = {
            key: value
            for key, value in attributes.items()
            if value is not None and not (isinstance(value, (list, tuple)) and not value)
        }
        rule_mistakes.check_node(self, op_type, len(given), outputs, written)
        for key, value in written.items():
            if isinstance(value, onnx.GraphProto):
                written[key] = inner_graphs.with_own_names(value, self._fresh)
        self.nodes.append(onnx.helper.make_node(op_type, given, names, name=names[0], **written))
        return names[0] if outputs == 1 else tuple(names)

    def next(self, *inputs: str, **attributes: Any) -> Any:
        """Adds a node of the next version of the op; for `upgrade` of `Library.define`.

        Args:
            inputs: Names; "" leaves an optional input out.
            attributes: Python values; those that are not given have their defaults.

        Returns:
            The name of its output, or a tuple of names.
        """
        info = self.site.info
        library = _libraries.find(info.domain)
        later = [] if library is None else library.versions(info.onnx_type)
        later = [item for item in later if item.since_version > info.since_version]
        if not later:
            self.refuse(f"{info.node} has no version after {info.since_version}")
        target = later[0]
        known = {item.name: item for item in target.attributes}
        protos = [attribute_proto(known[choose(name, known, f"{target.name} has")], value)
                  for name, value in attributes.items() if value is not None]  # fmt: skip
        protos.append(onnx.helper.make_attribute(_description.VERSION, target.since_version))
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        names = [self._fresh(f"{self._prefix}/{info.onnx_type}") for _ in target.outputs]
        node = onnx.helper.make_node(info.onnx_type, given, names, names[0], domain=info.domain)
        node.attribute.extend(protos)
        self.nodes.append(node)
        return names[0] if len(names) == 1 else tuple(names)

    def constant(self, array: np.ndarray) -> str:
        """Adds a constant; returns its name."""
        array = np.asarray(array)
        if self.opset >= 9 or array.dtype.kind == "f":
            return self.op("Constant", value=numpy_helper.from_array(array))
        # Before opset 9 a Constant is floating.
        name = self.op("Constant", value=numpy_helper.from_array(array.astype(np.float64)))
        return self.op("Cast", name, to=onnx.helper.np_dtype_to_tensor_dtype(array.dtype))

    def input(self, name: str) -> str:
        """The graph name of an input, of a variadic one the first; "" if it is left out."""
        return self.site.inputs[self._place(name, "input")]

    def inputs(self, name: str) -> list[str]:
        """The graph names of a variadic input, one for each tensor."""
        if not self._is_list(name):
            self._place(name, "inputs")  # refuses a name that the op does not have
            rule_mistakes.refuse(
                self,
                f"g.inputs({name!r}): got an input of one tensor, expected a variadic one; "
                f"g.input({name!r}) is its name",
            )
        declared = [item.name for item in self.site.info.inputs]
        pairs = zip(declared, self.site.inputs, strict=True)
        return [used for item, used in pairs if re.fullmatch(rf"{name}_\d+", item)]

    def attribute(self, name: str) -> Any:
        """The value of an attribute: the node's, or the default; None for an optional one that
        the node does not have."""
        known = [item.name for item in self.site.info.attributes]
        rule_mistakes.check_name(self, "g.attribute", name, known)
        return self.site.attributes[name]

    def dtype(self, name: str) -> np.dtype:
        """The dtype of an input that is present; asking for another is an error."""
        place = self._place(name, "dtype")
        known = self.site.dtypes[place]
        if known is None and not self.site.inputs[place]:
            rule_mistakes.refuse(
                self,
                f"g.dtype({name!r}): got an input that the call leaves out, expected one that is "
                f"present: ask `if g.input({name!r}):` before",
            )
        if known is None:
            self.refuse(
                f"the dtype of {name} is unknown",
                "Give the inputs of the model their types and keep its value_info.",
            )
        return _dtypes.numpy_dtype(known)

    def shape(self, name: str) -> list[Dim] | None:
        """Lengths, names and None of an input; None if its rank is unknown or it is left out."""
        return self.site.shapes[self._place(name, "shape")]

    def value(self, name: str) -> np.ndarray | None:
        """The content of an input that is a constant; None otherwise, also if it is left out."""
        return self.site.values[self._place(name, "value")]

    def refuse(self, reason: str, remedy: str = "") -> NoReturn:
        """Raises LoweringError: this opset cannot express the node, because of `reason`."""
        raise LoweringError(
            f"{self.site.label}: cannot be written in ai.onnx opset {self.opset}: {reason}."
            + (f" {remedy}" if remedy else "")
        )

    def _is_list(self, name: str) -> bool:
        """Whether it is a variadic input, whose tensors have names with numbers here."""
        names = [item.name for item in self.site.info.inputs]
        return name not in names and f"{name}_0" in names

    def _place(self, name: str, asked: str) -> int:
        names = [item.name for item in self.site.info.inputs]
        if self._is_list(name):
            name = f"{name}_0"  # the first of a list
        rule_mistakes.check_name(self, f"g.{asked}", name, names)
        return names.index(name)
