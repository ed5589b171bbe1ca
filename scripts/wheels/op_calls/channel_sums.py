"""Calls of channel_sums whose bits are compared; see ../calls.py."""

from __future__ import annotations

from collections.abc import Iterator

from call_values import FLOATS, Call, values


def calls() -> Iterator[Call]:
    for dtype in FLOATS:
        for shape in ((2, 3, 40, 50), (1, 20, 7, 9), (5, 3, 1, 1)):
            title = f"channel_sums {dtype} {shape}"
            yield title, "channel_sums", [values(shape, dtype, title)], {}
