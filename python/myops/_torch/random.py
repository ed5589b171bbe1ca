"""Random ops: the source of the seed of a call.

Below the public call, a random op is a function of its arguments like any other: its random numbers
follow from the input `key` or the attribute `seed`. So it is compiled, transformed and exported
like other ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from myops._description import OpInfo
from myops._text import shorten
from myops._torch.call import TorchOp
from myops._torch.private_names import dynamo_reads

_SEEDS = 2**63 - 1


class RandomOp(TorchOp):
    """A random op for the public functions; the inputs of `call` include the key."""

    def __call__(
        self,
        *inputs: Any,
        out: torch.Tensor | None = None,
        generator: torch.Generator | None = None,
        **attributes: Any,
    ) -> Any:
        """Calls the op with at most one of `seed=`, the last input `key` and `generator`.

        Without all three, the seed comes from the global generator, which torch.manual_seed sets.
        """
        place = len(self.info.inputs) - 1
        if len(inputs) > place and not (inputs[place] is None or torch.is_tensor(inputs[place])):
            if self.info.attributes[0].name in attributes:  # then it was meant for the key
                raise TypeError(
                    f"{self.info.name}: key: got {shorten(repr(inputs[place]), 100)}, expected a "
                    "tensor of one int64; seed= takes an integer"
                )
            inputs = (*inputs[:place], None, *inputs[place:])  # no key, but the first attribute
        inputs, attributes = self._by_place(inputs, attributes)
        return self.call(*seeded(self.info, inputs, attributes, generator), out)


def seeded(
    info: OpInfo, inputs: Sequence[Any], attributes: dict[str, Any], generator: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The call with a key or a seed.

    Raises:
        RuntimeError: More than one of seed, key and generator was given.
    """
    attributes = dict(attributes)
    seed = attributes.pop("seed", None)
    padded = [*inputs, *[None] * (len(info.inputs) - len(inputs))]
    named = (("seed", seed), ("key", padded[-1]), ("generator", generator))
    given = [name for name, value in named if value is not None]
    if len(given) > 1:
        raise RuntimeError(
            f"{info.name}: {given[1]}: got one beside {given[0]}, expected one of seed, key and "
            "generator"
        )
    if seed is not None:
        attributes["seed"] = seed
    elif padded[-1] is None:
        if not dynamo_reads() and torch.onnx.is_in_onnx_export():
            # The node has a seed, so that the file gives the same numbers in every run.
            attributes["seed"] = _constant(generator)
        else:
            padded[-1] = _draw(generator, _is_meta(padded))
    return tuple(padded), attributes


def _draw(generator: Any, on_meta: bool = False) -> torch.Tensor:
    """The key, on the CPU or, if the inputs are there, on "meta", whatever the default device
    is."""
    if on_meta:
        return torch.empty((1,), dtype=torch.int64, device="meta")
    if generator is None:
        return torch.randint(0, _SEEDS, (1,), device="cpu")
    return torch.randint(0, _SEEDS, (1,), generator=generator, device="cpu")


def _is_meta(inputs: Sequence[Any]) -> bool:
    for item in inputs:
        if isinstance(item, torch.Tensor):
            return item.is_meta
    return False


def _constant(generator: Any) -> int:
    """A number that no trace records: it is drawn in another thread, without traces and modes."""
    with ThreadPoolExecutor(1) as thread:
        return int(thread.submit(lambda: _draw(generator).item()).result())
