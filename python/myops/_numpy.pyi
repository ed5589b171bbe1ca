from collections.abc import Callable
from typing import Any

import numpy as np

_Dims = list[int | str | None]

INTERFACE: int
DOMAIN: str
NAMESPACE: str
OPS: tuple[Op, ...]

class Error(ValueError): ...

class Op:
    def __init__(self, description: dict[str, Any], rule: Callable[..., Any]) -> None: ...
    def describe(self) -> dict[str, Any]: ...
    def dispatcher_schema(self, values: bool) -> str: ...
    def complete(self, attributes: dict[str, Any]) -> dict[str, Any]: ...
    def call(
        self, inputs: list[np.ndarray | None], attributes: dict[str, Any], threads: int
    ) -> list[np.ndarray]: ...
    def infer(
        self,
        shapes: list[_Dims | None],
        dtypes: list[str | None],
        attributes: dict[str, Any],
        values: list[list[float] | None],
    ) -> list[tuple[str, _Dims | None]]: ...

def instruction_set() -> str: ...
def instruction_sets() -> list[str]: ...
