"""torch.autocast for ops whose description has a policy: decides which tensors of a call are
cast."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from myops._description import OpInfo
from myops._torch.private_names import private

# For other devices, such as meta, torch cannot tell whether autocast is on. (Evaluated here,
# because torch.compile of torch 2.10 cannot trace it.)
_KEYS = {
    device: key
    for device, key in (
        ("cpu", "AutocastCPU"),
        ("cuda", "AutocastCUDA"),
        ("mps", "AutocastMPS"),
        ("xpu", "AutocastXPU"),
    )
    if torch.amp.is_autocast_available(device)
}

is_any_enabled: Callable[[], bool] = private("_is_any_autocast_enabled") or (
    lambda: any(torch.is_autocast_enabled(device) for device in _KEYS)
)
_kept: list[torch.library.Library] = []  # torch removes the kernels of a Library that is freed


class Policy:
    """The policy of one op."""

    def __init__(self, info: OpInfo) -> None:
        self._info = info

    def cast(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The inputs with the casts of the policy; unchanged if autocast is off."""
        given = self._info.flat(inputs)
        devices = (item.device.type for item in given if isinstance(item, torch.Tensor))
        device = next(devices, "")
        if device not in _KEYS or not torch.is_autocast_enabled(device):
            return tuple(inputs)
        results = list(given)
        for kind in dict.fromkeys(item.type for item in self._info.inputs):
            places = [place for place, item in enumerate(given) if self._follows(place, item, kind)]
            if not places:
                continue
            dtype = self._target(device, [given[place].dtype for place in places])
            if str(dtype).removeprefix("torch.") not in self._info.types[kind]:
                continue  # the op has no kernel for that dtype, so the tensor is not cast
            for place in places:
                results[place] = given[place].to(dtype)
        return tuple(self._info.nested(results))

    def _follows(self, place: int, item: Any, kind: str) -> bool:
        declared = self._info.declared(place)
        return (
            declared.type == kind
            and not declared.values
            and isinstance(item, torch.Tensor)
            and item.is_floating_point()
            and item.dtype != torch.float64
        )

    def _target(self, device: str, dtypes: Sequence[torch.dtype]) -> torch.dtype:
        if self._info.autocast == "lower":
            return torch.get_autocast_dtype(device)
        if self._info.autocast == "float32":
            return torch.float32
        return functools.reduce(torch.promote_types, dtypes)

    def register(self, overloads: Sequence[Any]) -> None:
        """Registers the casts for calls through torch's dispatcher: torch.ops, compiled
        programs."""
        library = torch.library.Library(self._info.namespace, "FRAGMENT")
        for overload in overloads:
            title = overload.name().partition("::")[2]
            for device, key in _KEYS.items():
                library.impl(title, self._kernel(overload, device, key), key)
        _kept.append(library)

    def _kernel(self, overload: Any, device: str, key: str) -> Callable[..., Any]:
        keys, guard = private("DispatchKeySet"), private("_ExcludeDispatchKeyGuard")
        names = private("DispatchKey")

        def below() -> Any:
            if None in (keys, guard, names) or not hasattr(names, key):
                return torch.autocast(device, enabled=False)
            return guard(keys(getattr(names, key)))

        def run(*inputs: Any, **attributes: Any) -> Any:
            cast = self.cast(inputs)
            with below():
                return overload(*cast, **attributes)

        return run
