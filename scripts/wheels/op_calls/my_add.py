"""Calls of my_add whose bits are compared; see ../calls.py."""

from __future__ import annotations

from collections.abc import Iterator

from call_values import FLOATS, Call, values


def calls() -> Iterator[Call]:
    for dtype in (*FLOATS, "int32", "int64"):
        for a, b in (((1037,), (1037,)), ((7, 13, 33), (33,)), ((5, 1, 9), (1, 17, 9)), ((4,), ())):
            title = f"my_add {dtype} {a} {b}"
            yield (
                title,
                "my_add",
                [values(a, dtype, title + "a"), values(b, dtype, title + "b")],
                {},
            )
