"""Prototypes for tests. soft_clip is the op of a package that `myops new` makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import myops


def soft_clip(x: np.ndarray, *, limit: float) -> np.ndarray:
    """limit * tanh(x / limit), element by element."""
    return limit * np.tanh(x / limit)


def _shape(inputs: Any, attributes: dict[str, Any]) -> list[Any]:
    limit = attributes["limit"]
    if not limit > 0:
        raise ValueError(f"soft_clip: limit: got {limit:g}, expected a number above 0")
    return [inputs[0].shape]


def _save(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.save_for_backward(output)
    ctx.limit = attributes["limit"]


def _backward(ctx: Any, grad: Any) -> tuple[Any]:
    (y,) = ctx.saved_tensors
    return (grad * (1 - (y / ctx.limit) ** 2),)


def _standard(g: Any) -> list[str]:
    limit = g.constant(np.array(g.attribute("limit"), g.dtype("x")))
    return [g.op("Mul", g.op("Tanh", g.op("Div", g.input("x"), limit)), limit)]


def soft_clip_prototype(domain: str) -> Callable[..., Any]:
    return myops.prototype(
        soft_clip,
        domain=domain,
        types={"T": ["float32", "float64"]},
        inputs=[myops.Input("x", "T", "Any tensor.")],
        outputs=[myops.Output("y", "T", "Of the shape of x.")],
        attributes=[myops.Attribute("limit", 1.0, "What |y| stays below; above 0.")],
        shape=_shape,
        save=_save,
        backward=_backward,
        standard=_standard,
    )


def resample_numpy(
    x: np.ndarray,
    places: np.ndarray,
    gain: np.ndarray | None,
    *,
    offsets: list[int],
    mode: str,
    flip: bool,
) -> tuple[np.ndarray, int]:
    assert offsets == [0, 1]
    y = (x[::-1] if flip else x)[:, places]
    y = y if gain is None else y * gain
    return -y if mode == "negate" else y, places.size
