"""Which Python tests are slow, from the times of the last run (`make slowest`).

    python scripts/slowest.py build/test_seconds tests/slow_tests.txt

reads what the last `make test-all` measured, writes the list that tests/slow_tests.py reads, and
prints the slowest tests and files. The times are CPU times, including those of programs that a test
starts, because these do not depend on how busy the machine is.
"""

import os
import platform
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHOWN = 20
SECONDS = 0.15  # of CPU time; a test that takes more is slow


def read(file: str | Path) -> list[tuple[float, str]]:
    """Seconds and id of every test, the slowest first, from a file that tests/conftest.py wrote."""
    lines = [line.split(" ", 1) for line in Path(file).read_text().splitlines()]
    return sorted(((float(seconds), name) for seconds, name in lines), reverse=True)


def page(found: list[tuple[float, str]]) -> str:
    """The slowest tests and the slowest files, as tables."""
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


def slow(file: Path) -> dict[str, float]:
    """Seconds of the slow tests, by their id, as update() wrote them."""
    lines = [line.split(" ", 1) for line in file.read_text().splitlines()]
    return {name: float(seconds) for seconds, name in lines}


def update(found: list[tuple[float, str]], file: Path) -> None:
    """Writes the slow tests to the file. Tests that this run left out stay if they still exist."""
    old = slow(file) if file.exists() else {}
    kept = {name: took for name, took in old.items() if _exists(name)}
    kept.update((name, took) for took, name in found)
    lines = [f"{took:.1f} {name}\n" for name, took in sorted(kept.items()) if took > SECONDS]
    file.write_text("".join(lines))


def _exists(name: str) -> bool:
    """Whether there is a test of such an id, whatever its parameters are."""
    file, _, function = name.partition("::")
    path = ROOT / file
    return path.exists() and f"def {function.partition('[')[0]}(" in path.read_text()


def main() -> None:
    seconds, slow_tests = sys.argv[1:]
    found = read(seconds)
    update(found, Path(slow_tests))
    print(page(found))


if __name__ == "__main__":
    main()
