"""The example inputs of a model: for torch, for the graph, and their names."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from myops._names import choose

NUMBERS = (bool, int, float)


@dataclass(frozen=True)
class Slot:
    """One tensor or number among the inputs, which becomes one input of the graph."""

    name: str
    parameter: str
    place: int  # among the leaves of (args, kwargs)
    number: type | None  # bool, int or float where the caller gave a Python number


class Inputs:
    """The example inputs of a model.

    args, kwargs: The arguments for the exporters: numbers are tensors of rank 0, except those of
        the parameters in `constants`.
    values: The same by parameter of forward.
    slots: The inputs of the graph, in the order of forward's parameters; several tensors in one
        parameter have names like "pair_0", "pair_1", in a dict "batch_image", "batch_mask".
    names: The names of the slots.
    given_names: What the caller gave, or None.
    """

    def __init__(
        self,
        model: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        given_names: Sequence[str] | None,
        constants: Sequence[str] = (),
    ) -> None:
        args, given = _split(model, args, dict(kwargs))
        kwargs = _in_order(model, args, given)
        self._model = model
        self._leaves, self._spec = pytree.tree_flatten((args, kwargs))
        _, self._export_spec = pytree.tree_flatten(_without_sizes((args, kwargs)))
        self._numbers_stay = isinstance(model, torch.export.ExportedProgram)
        self.constants = list(constants)
        self.given_names = None if given_names is None else list(given_names)
        self.slots = self._find_slots()
        self.args, self.kwargs = self._exported()

    @property
    def names(self) -> list[str]:
        return [slot.name for slot in self.slots]

    @property
    def values(self) -> dict[str, Any]:
        return _by_parameter(self._model, self.args, self.kwargs)

    def build_in(self, parameters: Sequence[str]) -> None:
        """Makes the numbers of these parameters Python numbers again, which become constants."""
        self.constants = [*self.constants, *parameters]
        self.slots = self._find_slots()
        self.args, self.kwargs = self._exported()

    def exported_call(self) -> tuple[Any, Any]:
        """`args` and `kwargs` with copies of the tensors, because forward may write into them."""
        return self._exported()

    def replaced(self, changes: Mapping[str, torch.Tensor]) -> Inputs:
        """The same inputs with other tensors in some places."""
        other = copy.copy(self)
        other._leaves = list(self._leaves)
        for slot in self.slots:
            if slot.name in changes:
                new = changes[slot.name]
                other._leaves[slot.place] = new if slot.number is None else slot.number(new.item())
        other.args, other.kwargs = other._exported()
        return other

    def tensor(self, slot: Slot) -> torch.Tensor:
        """The example of a slot, as an input of the graph."""
        leaf = self._leaves[slot.place]
        if slot.number is None:
            return leaf
        scripted = isinstance(self._model, torch.jit.ScriptModule)
        double = scripted and slot.number is float  # as the program declares it
        return torch.tensor(leaf, dtype=torch.float64 if double else None)

    def call(
        self,
        changes: Mapping[str, torch.Tensor] = {},
        as_tensor: Mapping[str, torch.Tensor] = {},
    ) -> tuple[Any, Any]:
        """Arguments for a call in PyTorch, in the caller's own types; tensors are copies.

        Args:
            changes: Other values, by name of the slot.
            as_tensor: Values that stay tensors, even if the caller gave a number.
        """
        leaves = [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in self._leaves]
        for slot in self.slots:
            if slot.name in changes:
                new = changes[slot.name]
                leaves[slot.place] = new.clone() if slot.number is None else slot.number(new.item())
            leaves[slot.place] = as_tensor.get(slot.name, leaves[slot.place])
        return pytree.tree_unflatten(leaves, self._export_spec if as_tensor else self._spec)

    def _find_slots(self) -> list[Slot]:
        args, kwargs = pytree.tree_unflatten(list(range(len(self._leaves))), self._export_spec)
        places = _by_parameter(self._model, args, kwargs)
        if self.constants and isinstance(self._model, torch.jit.ScriptModule):
            raise ValueError(
                f"export: constants: got {self.constants} for a scripted module, whose numbers "
                "always are inputs. Make them attributes of the module instead."
            )
        for name in self.constants:
            choose(name, places, "export: constants: forward has")
        slots = []
        for parameter, tree in places.items():
            found = [place for place in pytree.tree_leaves(tree) if self._is_slot(parameter, place)]
            titles = _titles(parameter, tree, found, list(places))
            for name, place in zip(titles, found, strict=True):
                leaf = self._leaves[place]
                kind = None if isinstance(leaf, torch.Tensor) else type(leaf)
                slots.append(Slot(name, parameter, place, kind))
        return self._renamed(slots)

    def _is_slot(self, parameter: str, place: int) -> bool:
        leaf = self._leaves[place]
        number = isinstance(leaf, NUMBERS) and not self._numbers_stay
        return isinstance(leaf, torch.Tensor) or (number and parameter not in self.constants)

    def _renamed(self, slots: list[Slot]) -> list[Slot]:
        given = self.given_names or []
        if len(given) > len(slots):
            raise ValueError(
                f"export: input_names: got {len(given)} names, expected at most {len(slots)}, the "
                "number of tensors among the inputs"
            )
        names = [*given, *[slot.name for slot in slots[len(given) :]]]
        if "" in names:
            raise ValueError("export: input_names: got '', expected a name")
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"export: input_names: got {min(twice)!r} twice, expected it once")
        return [
            Slot(name, slot.parameter, slot.place, slot.number)
            for name, slot in zip(names, slots, strict=True)
        ]

    def _exported(self) -> tuple[Any, Any]:
        leaves = list(self._leaves)
        for slot in self.slots:  # copies, because forward may write into its inputs
            leaves[slot.place] = self.tensor(slot).detach().clone()
        return pytree.tree_unflatten(leaves, self._export_spec)


def _titles(parameter: str, tree: Any, found: list[int], parameters: list[str]) -> list[str]:
    """The names of a parameter's tensors: "batch_image" for the key "image" of a dict, "pair_0" in
    a list, and where the keys of a dict make no names, or ambiguous ones."""
    if isinstance(tree, int):
        return [parameter] * len(found)
    numbered = [f"{parameter}_{number}" for number in range(len(found))]
    if not isinstance(tree, dict) or not all(str(key).isidentifier() for key in tree):
        return numbered
    titles: dict[int, str] = {}  # by place: pytree may order the keys in another way
    for key, item in tree.items():
        mine = [place for place in pytree.tree_leaves(item) if place in found]
        titles |= zip(mine, _titles(f"{parameter}_{key}", item, mine, parameters), strict=True)
    names = [titles[place] for place in found]
    ambiguous = len({*names, *parameters}) < len(names) + len(parameters)
    return numbered if ambiguous else names


def _split(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Splits off a dict at the end of args, torch's older way to give arguments by name."""
    if kwargs or not args or not isinstance(args[-1], dict):
        return args, kwargs
    last = args[-1]
    forward = getattr(model, "forward", None)
    if last and forward is not None and not isinstance(model, torch.jit.ScriptModule):
        try:
            inspect.signature(forward).bind(*args[:-1], **last)
        except TypeError:  # then it is an argument like any other
            return args, kwargs
    return args[:-1], last


def _in_order(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """kwargs in the order of forward's parameters, because torch names the graph's inputs by
    position."""
    order = [name for name in _by_parameter(model, args, kwargs) if name in kwargs]
    return {name: kwargs[name] for name in [*order, *(n for n in kwargs if n not in order)]}


def _without_sizes(tree: Any) -> Any:
    """Replaces every torch.Size by a tuple, because a torch.Size cannot contain tensors."""
    return pytree.tree_map(
        lambda item: tuple(item) if isinstance(item, torch.Size) else item,
        tree,
        is_leaf=lambda item: isinstance(item, torch.Size),
    )


def _by_parameter(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    forward = getattr(model, "forward", None)
    if isinstance(model, torch.export.ExportedProgram):
        names = model.graph_signature.user_inputs
        return dict(zip(map(str, names), pytree.tree_leaves((args, kwargs)), strict=False))
    if isinstance(model, type):
        raise TypeError(
            f"export: model: got the class {model.__name__}, expected a module: "
            f"{model.__name__}(...)"
        )
    if forward is None:
        raise TypeError(
            f"export: model: got {type(model).__name__}, expected a torch.nn.Module. Give a "
            "function a module whose forward calls it."
        )
    if isinstance(model, torch.jit.ScriptModule):
        names = [argument.name for argument in forward.schema.arguments[1:]]
        return {**dict(zip(names, args, strict=False)), **kwargs}
    signature = inspect.signature(forward)
    try:
        return dict(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        raise TypeError(
            f"export: args, kwargs: {error}, expected arguments for forward{signature}"
        ) from None
