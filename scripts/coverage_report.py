"""Measures which lines the tests run, of Python and of C++, and writes docs/coverage.md.

    python scripts/coverage_report.py                    # the tests of `make test`
    python scripts/coverage_report.py --only cpp
    python scripts/coverage_report.py --only python -- tests/onnx tests/cli

The page has a table for each language, by directory. `--only` leaves the other table as it is, and
what somebody has written on the page below the heading NOTES stays.
Python is measured by coverage.py, also in the processes that tests start; C++ by gcov, in the tests
of tests/native, on the instruction sets that this machine has.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "coverage.md"
BUILD = ROOT / "build" / "coverage"
NOTES = "## What is not covered"
CHOICE = ["tests", "-m", "not slow", "--ignore=tests/hosts",
          "--numprocesses", "2", "--dist", "loadfile"]  # fmt: skip
TITLES = {"python": "## Python", "cpp": "## C++"}
ABOUT = (
    "Which lines of the package and of its kernels run in the tests of `make test`; `make "
    "coverage` writes the tables, and `make test-all` runs more. That a line runs does not say "
    "that its result is compared: mutation testing (`scripts/mutants.py`) shows that."
)


def python(tests: list[str]) -> str:
    """Measures Python and returns the table."""
    folder = BUILD / "python"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(".coverage*"):
        old.unlink()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COVERAGE_FILE": str(folder / ".coverage")}
    coverage = (sys.executable, "-m", "coverage")
    # A failing test does not make the figures wrong; `make test` reports it.
    subprocess.run([*coverage, "run", "-m", "pytest", "-q", *tests], cwd=ROOT, env=environment)
    return python_table(environment)


def python_table(environment: dict[str, str]) -> str:
    """The table of what has been measured."""
    coverage = (sys.executable, "-m", "coverage")
    report = BUILD / "python.json"
    subprocess.run([*coverage, "combine", "--quiet"], cwd=ROOT, env=environment, check=True)
    subprocess.run(
        [*coverage, "json", "--quiet", "-o", str(report)], cwd=ROOT, env=environment, check=True
    )
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for name, found in json.loads(report.read_text())["files"].items():
        totals = found["summary"]
        counts = (totals["covered_lines"], totals["num_statements"],
                  totals["covered_branches"], totals["num_branches"])  # fmt: skip
        folder = str(Path(name).parent)
        rows[folder] = [a + b for a, b in zip(rows[folder], counts, strict=True)]
    return _table(rows)


def cpp() -> str:
    """Measures C++ and returns the table."""
    tree = BUILD / "cpp"
    tools = Path(sys.executable).parent
    flags = "--coverage -fprofile-update=atomic"  # tests have threads
    for command in (
        [tools / "cmake", "-S", ROOT, "-B", tree, "-G", "Ninja",
         f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}", f"-DCMAKE_CXX_FLAGS={flags}",
         "-DMYOPS_OPTIMIZATION=-O1"],
        [tools / "cmake", "--build", tree],
    ):  # fmt: skip
        subprocess.run(list(map(str, command)), check=True)
    for old in tree.rglob("*.gcda"):
        old.unlink()
    subprocess.run([str(tools / "ctest"), "--test-dir", str(tree), "--output-on-failure"])
    return cpp_table(tree)


def cpp_table(tree: Path) -> str:
    """The table of what has been measured in a build folder."""
    report = BUILD / "cpp.json"
    BUILD.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-m", "gcovr", "--root", str(ROOT), "--filter", "csrc/",
         "--merge-mode-functions=separate", "--exclude-throw-branches",
         # The tests of long axes run some lines more than 10^10 times, which gcovr takes for a
         # fault of gcov.
         "--gcov-suspicious-hits-threshold", str(10**15),
         "--json", str(report), str(tree)],
        cwd=ROOT, check=True,
    )  # fmt: skip
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for found in json.loads(report.read_text())["files"]:
        lines, branches = merged(found["lines"])
        counts = (sum(lines.values()), len(lines), sum(branches.values()), len(branches))
        folder = str(Path(found["file"]).parent)
        rows[folder] = [a + b for a, b in zip(rows[folder], counts, strict=True)]
    return _table(rows)


def merged(found: list[dict[str, Any]]) -> tuple[dict[int, bool], dict[tuple[int, int], bool]]:
    """Whether each line of a file ran, and each branch (line, number), in any instance of the
    template that it belongs to. gcovr lists a line once for each instance."""
    lines: dict[int, bool] = defaultdict(bool)
    branches: dict[tuple[int, int], bool] = defaultdict(bool)
    for line in found:
        number = line["line_number"]
        lines[number] |= line["count"] > 0
        for index, branch in enumerate(line["branches"]):
            branches[number, index] |= branch["count"] > 0
    return lines, branches


def _table(rows: dict[str, list[int]]) -> str:
    lines = ["| directory | lines | of | branches | of |", "|---|---|---|---|---|"]
    total = [sum(column) for column in zip(*rows.values(), strict=True)]
    for folder, counts in [*sorted(rows.items()), ("**all**", total)]:
        name = folder if folder.startswith("**") else f"`{folder}`"
        lines.append(f"| {name} | {_percent(*counts[:2])} | {counts[1]:,} "
                     f"| {_percent(*counts[2:])} | {counts[3]:,} |")  # fmt: skip
    return "\n".join(lines)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"


def write(tables: dict[str, str], command: str) -> None:
    """Puts the new tables into the page; one that was not measured stays."""
    old = PAGE.read_text() if PAGE.exists() else ""
    when = f"{datetime.date.today().isoformat()}, `{command}`, {_machine()}."
    parts = ["# Coverage", ABOUT]
    for language, title in TITLES.items():
        if language in tables:
            parts += [title, f"Measured on {when}", tables[language]]
        else:
            found = re.search(
                rf"^{re.escape(title)}\n.*?(?=^## |\Z)", old, re.DOTALL | re.MULTILINE
            )
            parts += [found[0].strip()] if found else []
    notes = re.search(rf"^{re.escape(NOTES)}\n.*\Z", old, re.DOTALL | re.MULTILINE)
    parts += [notes[0].strip()] if notes else []
    PAGE.write_text("\n\n".join(parts) + "\n")


def _machine() -> str:
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = names[0] if names else platform.machine()
    return f"{os.cpu_count()} cores of {name}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=TITLES, help="leave the other language as it is")
    parser.add_argument("tests", nargs="*", help="for pytest; default: those of `make test`")
    given = parser.parse_args()
    tests = given.tests or CHOICE
    tables: dict[str, Any] = {}
    if given.only != "cpp":
        tables["python"] = python(tests)
    if given.only != "python":
        tables["cpp"] = cpp()
    words = ["python", "scripts/coverage_report.py", *sys.argv[1:]]
    write(tables, shlex.join(words) if sys.argv[1:] else "make coverage")


if __name__ == "__main__":
    main()
