"""The slowest tests of Python, as a table in a page of the documentation (`make slowest`).

    python scripts/slowest.py docs/testing.md --from build/test_seconds
    python scripts/slowest.py docs/testing.md [PYTEST OPTION...]

The first reads what the last `make test` or `make test-all` measured, the second runs the tests.
What counts is CPU time, that of programs which a test starts included: it says the same on a busy
machine. The table stands between two comments of the page, at its end where it has none.
"""

import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = re.compile(r"(<!-- slowest tests -->\n).*?(<!-- end of slowest tests -->)", re.DOTALL)
SHOWN = 20
SECTION = """
## The slowest tests of myops

`make test` and `make test-all` write what each of their tests took into `build/test_seconds`, and
tables like these into `build/slowest.md`; `make slowest` writes those of the last run here.

<!-- slowest tests -->
<!-- end of slowest tests -->
"""


def measure(options: list[str]) -> list[tuple[float, str]]:
    """Seconds and id of every test, the slowest first."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "seconds")
        command = [sys.executable, "-m", "pytest", "-q", "--ignore=tests/hosts", *options]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "MYOPS_TEST_SECONDS": str(file)})
        return read(file)


def read(file: str | Path) -> list[tuple[float, str]]:
    """The same of a file that tests/conftest.py wrote."""
    lines = [line.split(" ", 1) for line in Path(file).read_text().splitlines()]
    return sorted(((float(seconds), name) for seconds, name in lines), reverse=True)


def page(found: list[tuple[float, str]]) -> str:
    """The slowest tests, and the slowest files."""
    files: Counter[str] = Counter()
    for seconds, name in found:
        files[name.partition("::")[0]] += round(seconds, 2)  # type: ignore[assignment]
    rows = (f"| {seconds:.0f} | `{name}` |\n" for name, seconds in files.most_common(SHOWN))
    return table(found) + "\n| seconds | file |\n|---|---|\n" + "".join(rows)


def table(found: list[tuple[float, str]]) -> str:
    total = sum(seconds for seconds, _ in found)
    return "".join(
        [
            f"{len(found)} tests in {total / 60:.1f} minutes of CPU time on {platform.machine()} "
            f"with {os.cpu_count()} cores.\n\n",
            "| seconds | test |\n|---|---|\n",
            *(f"| {seconds:.0f} | `{name}` |\n" for seconds, name in found[:SHOWN]),
        ]
    )


def main() -> None:
    target, *options = sys.argv[1:]
    text = Path(target).read_text()
    if not PLACE.search(text):
        text += SECTION
    given = options[1:] if options[:1] == ["--from"] else []
    made = page(read(*given) if given else measure(options))
    Path(target).write_text(PLACE.sub(lambda place: place[1] + made + place[2], text))
    print(made)


if __name__ == "__main__":
    main()
