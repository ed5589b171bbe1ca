"""scripts/slowest.py: the times of tests, with the programs that they start, and the list of slow
ones."""

from __future__ import annotations

import itertools
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import slow_tests
import slowest
from installed import ROOT, run

TESTS = """
import subprocess, sys

def test_quick():
    pass

def test_that_starts_a_program():
    code = "import time\\nwhile time.process_time() < 0.6: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def test_the_slowest_come_first(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(TESTS)
    seconds, slow = tmp_path / "seconds", tmp_path / "slow.txt"
    paths = [str(ROOT / "tests"), *sys.path]  # first: other folders have a conftest.py too
    path = os.pathsep.join(paths)
    options = ["-p", "conftest", "-p", "no:cacheprovider", str(tmp_path / "test_two.py")]
    environment = {**os.environ, "PYTHONPATH": path, "MYOPS_TEST_SECONDS": str(seconds)}
    run(sys.executable, "-m", "pytest", "-q", *options, cwd=ROOT, environment=environment)
    text = run(sys.executable, ROOT / "scripts" / "slowest.py", seconds, slow, cwd=ROOT)
    rows = re.findall(r"^\| (\d+) \| `\S*::(\w+)` \|$", text, re.MULTILINE)
    assert rows == [("1", "test_that_starts_a_program"), ("0", "test_quick")]
    assert [name.partition("::")[2] for name in slowest.slow(slow)] == [rows[0][1]]


def test_the_list_keeps_tests_that_did_not_run(tmp_path: Path) -> None:
    file = tmp_path / "slow.txt"
    file.write_text(
        "9.0 tests/test_slowest.py::test_make_test_leaves_out_the_slow_tests[a]\n"
        "8.5 tests/test_slowest.py::test_renamed\n"
        "8.0 tests/no_such_file.py::test_gone\n"
        "7.0 tests/test_docs.py::test_quicker_now\n"
    )
    new, quicker = "tests/test_help.py::test_new[a b]", "tests/test_docs.py::test_quicker_now"
    found = [(0.9, new), (slowest.SECONDS, quicker)]
    slowest.update(found, file)
    assert slowest.slow(file) == {
        new: 0.9,
        "tests/test_slowest.py::test_make_test_leaves_out_the_slow_tests[a]": 9.0,
    }


def made(**seconds: float) -> tuple[list[Any], dict[str, float]]:
    """Tests of one function with two exporters and six models, slow in these places."""
    tests = []
    for place, name in enumerate(itertools.product("dt", "abcdef")):
        call = SimpleNamespace(indices={"exporter": place // 6, "model": place % 6})
        tests.append(SimpleNamespace(nodeid="".join(name), callspec=call))
    return tests, seconds


def test_make_test_leaves_out_the_slow_tests() -> None:
    def left_out(**seconds: float) -> str:
        tests, took = made(**seconds)
        return " ".join(item.nodeid for item in slow_tests.slow_ones(tests, took))

    assert left_out() == ""
    assert left_out(da=slowest.SECONDS, tf=9) == "tf"
    # The quickest test stays for an exporter that is slow with every model; none stays for a model,
    # because there are many.
    assert left_out(da=1, db=3, dc=0.5, dd=1, de=3, df=1) == "da dd df db de"
    assert left_out(da=9, db=9, dc=8, dd=9, de=9, df=9) == "dc da db dd de df"
    assert left_out(da=1, ta=1.1) == "da ta"
    # A function that has only slow tests keeps the quickest, if it is quick enough.
    alone = [SimpleNamespace(nodeid="da")]
    assert slow_tests.slow_ones(alone, {"da": slow_tests.MOST}) == []
    assert slow_tests.slow_ones(alone, {"da": slow_tests.MOST + 1}) == alone


def test_the_longest_files_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "slow.txt").write_text("5.0 b.py::two\n0.3 c.py::one\n")
    monkeypatch.setattr(slow_tests, "FILE", tmp_path / "slow.txt")
    names = ["a.py::one", "a.py::two", "b.py::one", "b.py::two", "c.py::one"]
    sorted_items = slow_tests.longest_files_first(SimpleNamespace(nodeid=name) for name in names)
    assert [item.nodeid for item in sorted_items] == [*names[2:], *names[:2]]
    # A file that uses a fixture which takes long comes before.
    with_site = SimpleNamespace(nodeid="d.py::one", fixturenames=["site"])
    others = (SimpleNamespace(nodeid=name) for name in names)
    assert slow_tests.longest_files_first([*others, with_site])[0] is with_site
