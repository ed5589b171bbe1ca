"""Names of inputs and dynamic lengths, in the forms of torch's two exporters."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree


class Inputs:
    """The example inputs of a model, and the name of each tensor among them.

    given_names: What the caller gave, or None.
    names: One name for each tensor: the given ones, then those of forward's parameters; a
        parameter that holds several tensors has names like "pair_0", "pair_1".
    """

    def __init__(
        self,
        model: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        given_names: Sequence[str] | None,
    ) -> None:
        if args and isinstance(args[-1], dict) and not kwargs:
            args, kwargs = args[:-1], args[-1]  # torch's older way to give arguments by name
        self.args, self.kwargs = args, kwargs
        self._values = _by_parameter(model, args, kwargs)
        self.names = [name for name, _ in self._tensors()]
        self.given_names = None if given_names is None else list(given_names)
        if self.given_names is not None:
            if len(self.given_names) > len(self.names):
                raise ValueError(
                    f"export: input_names: got {len(self.given_names)} names, expected at most "
                    f"{len(self.names)}, the number of tensors among the inputs"
                )
            self.names[: len(self.given_names)] = self.given_names

    def _tensors(self) -> list[tuple[str, torch.Tensor]]:
        found = []
        for parameter, value in self._values.items():
            leaves = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
            for number, leaf in enumerate(leaves):
                single = leaf is value
                found.append((parameter if single else f"{parameter}_{number}", leaf))
        return found

    def named_axes(
        self, axes: Mapping[str, Any] | None, output_names: Any
    ) -> dict[str, dict[int, str]] | None:
        """`dynamic_axes` with a name for every axis, as the TorchScript exporter wants them."""
        if axes is None:
            return None
        self._check_names(axes, output_names)
        tensors = dict(zip(self.names, [tensor for _, tensor in self._tensors()], strict=True))
        result = {}
        for name, given in axes.items():
            items = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given)
            if name in tensors:
                items = {_axis(name, tensors[name], axis): title for axis, title in items.items()}
            result[name] = {axis: str(title or f"{name}_{axis}") for axis, title in items.items()}
        return result

    def _check_names(self, axes: Mapping[str, Any], output_names: Any) -> None:
        """Refuses dynamic axes of what is neither an input nor an output."""
        known = [*self.names, *(output_names or ())]
        for name in axes:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f". Did you mean {near[0]!r}?" if near else ""
                raise ValueError(
                    f"export: dynamic_axes: got {name!r}, expected one of {', '.join(known)}{hint}"
                )

    def shapes_from_axes(self, axes: Mapping[str, Any] | None, output_names: Any) -> Any:
        """`dynamic_axes` as the `dynamic_shapes` of torch.export; None for None."""
        if axes is None:
            return None
        self._check_names(axes, output_names)
        names = iter(self.names)

        def entry(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return None
            name = next(names)
            return _dims(name, leaf, axes.get(name))

        return {
            parameter: pytree.tree_map(entry, value) for parameter, value in self._values.items()
        }

    def axes_from_shapes(self, shapes: Any) -> dict[str, dict[int, str]] | None:
        """`dynamic_shapes` as the `dynamic_axes` of the TorchScript exporter; None for None."""
        if shapes is None:
            return None
        if not isinstance(shapes, Mapping):
            shapes = dict(zip(self._values, shapes, strict=False))
        for name in shapes:
            if name not in self._values:
                near = difflib.get_close_matches(name, list(self._values), n=1)
                raise ValueError(
                    f"export: dynamic_shapes: got {name!r}, expected parameters of forward: "
                    f"{', '.join(self._values)}" + (f". Did you mean {near[0]!r}?" if near else "")
                )
        names = iter(self.names)
        axes: dict[str, dict[int, str]] = {}
        for parameter, value in self._values.items():
            specs = _leaf_specs(value, shapes.get(parameter))
            leaves = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
            for leaf, spec in zip(leaves, specs, strict=True):
                name = next(names)
                found = _named(name, leaf, spec)
                if found:
                    axes[name] = found
        return axes


def _by_parameter(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    forward = getattr(model, "forward", None)
    if isinstance(model, torch.export.ExportedProgram):
        names = model.graph_signature.user_inputs
        return dict(zip(map(str, names), pytree.tree_leaves((args, kwargs)), strict=False))
    if forward is None:
        raise TypeError(
            f"export: model: got {type(model).__name__}, expected a torch.nn.Module. Give a "
            "function a module whose forward calls it."
        )
    if isinstance(model, torch.jit.ScriptModule):
        names = [argument.name for argument in forward.schema.arguments[1:]]
        return {**dict(zip(names, args, strict=False)), **kwargs}
    bound = inspect.signature(forward).bind(*args, **kwargs)
    return dict(bound.arguments)


def _dims(name: str, tensor: torch.Tensor, axes: Any) -> dict[int, Any] | None:
    """One entry of dynamic_axes as one of dynamic_shapes."""
    if axes is None:
        return None
    items = dict(axes) if isinstance(axes, Mapping) else dict.fromkeys(axes)
    result: dict[int, Any] = {}
    for axis, title in items.items():
        place = _axis(name, tensor, axis)
        if tensor.shape[place] < 2:
            raise ValueError(
                f"export: dynamic_axes: {name}: got an example of length {tensor.shape[place]} on "
                f"axis {axis}, expected 2 or more: torch.export takes 0 and 1 for constants"
            )
        result[place] = torch.export.Dim.DYNAMIC if title is None else str(title)
    return result


def _axis(name: str, tensor: torch.Tensor, axis: Any) -> int:
    if not isinstance(axis, int) or not -tensor.dim() <= axis < tensor.dim():
        raise ValueError(
            f"export: dynamic_axes: {name}: got axis {axis!r}, expected an int from "
            f"{-tensor.dim()} to {tensor.dim() - 1}"
        )
    return axis % tensor.dim()


def _leaf_specs(value: Any, spec: Any) -> list[Any]:
    """The entry of dynamic_shapes for each tensor in the value of a parameter."""
    if isinstance(value, torch.Tensor):
        return [spec]
    if isinstance(value, Mapping):
        return [s for key, item in value.items()
                for s in _leaf_specs(item, None if spec is None else spec[key])]  # fmt: skip
    if isinstance(value, (list, tuple)):
        return [s for number, item in enumerate(value)
                for s in _leaf_specs(item, None if spec is None else spec[number])]  # fmt: skip
    return []


def _named(name: str, tensor: torch.Tensor, spec: Any) -> dict[int, str]:
    if spec is None:
        return {}
    items = spec.items() if isinstance(spec, Mapping) else enumerate(spec)
    static = getattr(torch.export.Dim, "STATIC", None)
    found = {}
    for axis, dim in items:
        if dim is None or isinstance(dim, int) or dim is static:
            continue
        title = dim if isinstance(dim, str) else getattr(dim, "__name__", None)
        found[axis % tensor.dim()] = title or f"{name}_{axis % tensor.dim()}"
    return found
