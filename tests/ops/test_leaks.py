"""No call leaks memory: each op, called in each way, refused calls too (tests/leaks.py; those of
another package: tests/test_gallery.py)."""

from __future__ import annotations

import leaks
import pytest

# Groups that take half a minute or more.
SLOW = {"derivatives", "programs", "prototypes"}


@pytest.mark.parametrize(
    "group",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in leaks.GROUPS],
)
def test_calls_leak_no_memory(group: str) -> None:
    found = leaks.ask(group)
    assert len(found) >= 4
    assert not leaks.grown(found)


def test_a_leak_of_one_byte_is_found() -> None:
    found = leaks.ask("probe")
    assert [*found] == [*leaks.grown(found)] == ["probe"]
