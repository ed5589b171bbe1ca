"""A dispatch mode that also sees the operators inside of torch.cond and similar ones."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class ObservingMode(TorchDispatchMode):
    """While it is entered, `observed` calls the operators.

    An operator that takes functions, such as torch.cond, refuses modes while it runs, so the mode
    is entered again in these functions.
    """

    supports_higher_order_operators = True
    _depth = 0
    _seen = False  # an operator that takes functions

    def __enter__(self) -> Any:
        self._depth += 1
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._depth -= 1
        if self._seen and not self._depth:
            # Such operators compile their code, which fails under a mode, and torch would not try
            # it again.
            self._seen = False
            torch._dynamo.reset()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = dict(kwargs or {})
        if not isinstance(function, torch._ops.HigherOrderOperator):
            return self.observed(function, args, given)
        self._seen = True
        inner = {name: self._entered(item) for name, item in given.items()}
        # torch.cond compiles its caller, and would compile what runs from here.
        call: Any = torch.compiler.disable(function.__call__)
        result = call(*map(self._entered, args), **inner)
        self.returned((args, given), result)
        return result

    def observed(self, function: Any, args: Any, given: dict[str, Any]) -> Any:
        raise NotImplementedError

    def returned(self, arguments: Any, result: Any) -> None:
        """After a call of an operator that takes functions."""

    def _entered(self, item: Any) -> Any:
        if not callable(item) or isinstance(item, torch.Tensor):
            return item

        def entered(*args: Any, **kwargs: Any) -> Any:
            with self:
                return item(*args, **kwargs)

        return functools.update_wrapper(entered, item, updated=())
