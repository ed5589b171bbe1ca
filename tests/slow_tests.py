"""Which tests get the mark `slow` because of their time; `make test` leaves these out; and the
order of the files.

tests/slow_tests.txt has the CPU time of every test that took more than SECONDS in a full run; `make
slowest` writes it. These tests get the mark, with one exception: of each function, the cheapest
tests stay in `make test` that are needed to run it at all, and with every value of arguments that
have few values, such as the exporter, provided that they take less than MOST seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from slowest import SECONDS, slow

FILE = Path(__file__).with_suffix(".txt")
MOST = 0.7
OTHERS = 0.04  # of a test that is not in the list, on average
FEW = 3  # values of an argument
# What it takes to make fixtures of the session. In a full run this time may count for another file
# than in `make test`.
FIXTURES = {"python": 12.0, "site": 10.0, "tutorial": 40.0, "probe_library": 4.0}


def mark(items: Iterable[pytest.Item]) -> None:
    """Marks the slow tests."""
    seconds = slow(FILE)
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not any(item.get_closest_marker(name) for name in ("slow", "quick")):
            functions[item.nodeid.partition("[")[0]].append(item)
    for tests in functions.values():
        for item in slow_ones(tests, seconds):
            item.add_marker(pytest.mark.slow)


def longest_files_first(items: Iterable[Any]) -> list[Any]:
    """The tests, which stay in order within a file. Two processes that take one file after the
    other end at about the same time if the last files are short."""
    seconds = slow(FILE)
    tests = list(items)
    files: dict[str, float] = defaultdict(float)
    used: dict[str, set[str]] = defaultdict(set)
    for item in tests:
        file = item.nodeid.partition("::")[0]
        files[file] += seconds.get(item.nodeid, OTHERS)
        used[file].update(getattr(item, "fixturenames", ()))
    for file, names in used.items():
        files[file] += sum(FIXTURES.get(name, 0.0) for name in names)
    return sorted(tests, key=lambda item: -files[item.nodeid.partition("::")[0]])


def slow_ones(tests: list[Any], seconds: dict[str, float]) -> list[Any]:
    """The slow tests among those of one function, without those that it needs in `make test`."""
    values = {item.nodeid: _values(item) for item in tests}
    every = set().union(*values.values())
    counts: dict[str, int] = defaultdict(int)
    for argument, _ in every:
        counts[argument] += 1
    missing = {item for item in every if counts[item[0]] <= FEW} | {("", 0)}
    slow = []
    for item in sorted(tests, key=lambda item: seconds.get(item.nodeid, 0.0)):
        took = seconds.get(item.nodeid, 0.0)
        if took > SECONDS and (took > MOST or not values[item.nodeid] & missing):
            slow.append(item)
        else:
            missing -= values[item.nodeid]
    return slow


def _values(item: Any) -> set[tuple[str, int]]:
    """(argument, number of its value) for each argument; ("", 0) for the function itself."""
    call = getattr(item, "callspec", None)
    return {("", 0), *(call.indices.items() if call else ())}
