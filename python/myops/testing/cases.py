"""A call of an op for the conformance suite: its arguments and its properties."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree


@dataclass(frozen=True, eq=False)
class Case:
    """One call of the op: `op(*args, **kwargs)`.

    The conformance suite varies the tensors among the arguments (layouts, lengths, dtypes, NaN)
    and keeps everything else. Give different values to settings that a kernel could confuse: a
    kernel that exchanges height and width is right for every square.

    Args:
        args: The positional arguments. Tensors must be on the CPU; the gradient must be defined at
            their numbers.
        kwargs: The arguments by name. Default: none.
        name: The name in test ids and messages. Default: the shapes of the tensors.
        refused: For a call that the op must refuse: a part of the message. Only the family "errors"
            runs then. Default: the op must accept the call.
        refused_by_numbers: True if the refusal depends on numbers in a tensor, such as an index
            that is out of range. The kernel must then refuse in every runtime; a fake kernel, which
            does not see numbers, must return a result. False: shapes, dtypes or settings are wrong.
        tolerance: Largest error against the reference, relative to the largest element: {dtype
            name: number}, for dtypes in which the default of `check_op` does not fit.

    Example:
        >>> case = Case((torch.ones(3, 4), torch.ones(4)))
        >>> case.title
        '3x4,4'
    """

    args: Sequence[Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    refused: str = ""
    refused_by_numbers: bool = field(default=False, kw_only=True)
    tolerance: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.args, (tuple, list)):
            raise TypeError(
                f"Case: args: got {type(self.args).__name__}, expected a tuple of the positional "
                "arguments; one argument needs a comma: Case((x,))"
            )
        if not self.tensors:
            raise ValueError("Case: args, kwargs: got no tensor, expected at least one")
        if self.refused_by_numbers and not self.refused:
            raise ValueError(
                "Case: refused_by_numbers: got True without `refused`, expected a part of the text "
                "of the refusal there"
            )

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among the arguments in order, including those in lists."""
        return [item for item in self._leaves() if isinstance(item, torch.Tensor)]

    @property
    def title(self) -> str:
        if self.name:
            return self.name
        return ",".join("x".join(map(str, item.shape)) or "scalar" for item in self.tensors)

    def _leaves(self) -> list[Any]:
        return pytree.tree_leaves((tuple(self.args), dict(self.kwargs)))

    def having(self, tensors: Sequence[torch.Tensor]) -> Case:
        """The same call with other tensors."""
        fresh = iter(tensors)
        args, kwargs = pytree.tree_map(
            lambda item: next(fresh) if isinstance(item, torch.Tensor) else item,
            (tuple(self.args), dict(self.kwargs)),
        )
        return replace(self, args=args, kwargs=kwargs)

    def changed(self, place: int, tensor: torch.Tensor) -> Case:
        """The same call with another tensor at one place."""
        tensors = self.tensors
        tensors[place] = tensor
        return self.having(tensors)

    def copied(self) -> Case:
        """The same call with copies of the tensors, in the same layout."""
        return self.having([copy_of(item) for item in self.tensors])

    def labels(self) -> list[str]:
        """The name of each tensor in messages: "argument 0", or its parameter."""
        found: list[str] = []
        for path, leaf in pytree.tree_flatten_with_path((tuple(self.args), dict(self.kwargs)))[0]:
            if isinstance(leaf, torch.Tensor):
                branch, first = pytree.keystr(path[:1]), pytree.keystr(path[1:2])
                title = first[2:-2] if branch == "[1]" else f"argument {first[1:-1]}"
                found.append(title + pytree.keystr(path[2:]))
        return found


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides."""
    return tensor.detach().clone(memory_format=torch.preserve_format)


def separate(case: Case, first: Case) -> Case:
    """The call with tensors that have memory of their own, in which the axes are in the order of
    those of `first`. torch compiles again for a view of another tensor, and for another order."""
    return case.having(
        [
            torch.empty_permuted(item.shape, _order(copy_of(like)), dtype=item.dtype).copy_(item)
            for item, like in zip(case.tensors, first.tensors, strict=True)
        ]
    )


def _order(tensor: torch.Tensor) -> list[int]:
    """The axes of a dense tensor, the outermost in memory first."""
    strides, lengths = tensor.stride(), tensor.shape
    return sorted(range(tensor.dim()), key=lambda axis: (-strides[axis], lengths[axis] == 1, axis))


def identifiers(cases: Sequence[Case]) -> list[str]:
    """One name for each case, short and different from the others."""
    names: list[str] = []
    for case in cases:
        base = re.sub(r"[^\w.,=+-]+", "_", case.title) or "case"
        name, number = base, 1
        while name in names:
            number += 1
            name = f"{base}_{number}"
        names.append(name)
    return names
