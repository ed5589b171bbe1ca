from typing import Any

import numpy as np

class Error(ValueError): ...

def describe_all() -> list[dict[str, Any]]: ...
def call(
    name: str, inputs: list[np.ndarray | None], attributes: dict[str, Any], threads: int
) -> list[np.ndarray]: ...
def infer(
    name: str,
    shapes: list[list[int | str | None] | None],
    dtypes: list[str | None],
    attributes: dict[str, Any],
    values: list[list[float] | None],
) -> list[tuple[str, list[int | str | None] | None]]: ...
