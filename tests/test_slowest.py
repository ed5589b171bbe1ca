"""scripts/slowest.py: what a test takes, programs that it starts included, in a page."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from installed import ROOT, run

TESTS = """
import subprocess, sys

def test_quick():
    pass

def test_that_starts_a_program():
    code = "import time\\nwhile time.process_time() < 0.6: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def test_the_slowest_come_first_and_a_table_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(TESTS)
    page = tmp_path / "page.md"
    page.write_text("# A page\n")
    command = [sys.executable, str(ROOT / "scripts" / "slowest.py"), str(page)]
    options = ["-p", "conftest", "-p", "no:cacheprovider", str(tmp_path / "test_two.py")]
    paths = [str(ROOT / "tests"), *sys.path]  # first: other folders have a conftest.py too
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    for _ in range(2):
        run(*command, *options, cwd=ROOT, environment=environment)
    text = page.read_text()
    assert text.startswith("# A page\n")
    rows = re.findall(r"^\| (\d+) \| `\S*::(\w+)` \|$", text, re.MULTILINE)
    assert rows == [("1", "test_that_starts_a_program"), ("0", "test_quick")]
