"""The tools of the tests: programs in forks, covering arrays, shared folders."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import coverage_report
import numpy as np
import pairs
import pytest
import shared
import warm

SCRIPT = "import os, sys; print(sys.argv[1:], os.getcwd(), os.environ['WORD'], __name__)\n"


@pytest.mark.parametrize("without_myops", [False, True])
def test_a_forked_program_behaves_as_a_process(without_myops: bool, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT + "import beside\n")
    (tmp_path / "beside.py").write_text("raise SystemExit(7)\n")
    environment = {**os.environ, "WORD": "a b"}
    for words in (
        ["-c", SCRIPT, "one", "two"],
        ["-c", "import sys; print('said'); print('error', file=sys.stderr); sys.exit('why')"],
        ["-c", "1 / 0"],
        ["-c", "import os; os.abort()"],
        ["-c", "import atexit; atexit.register(print, 'last'); print('first')"],
        ["-m", "beside"],
        ["script.py", "one"],
        ["-c", "import torch; print(torch.get_num_threads(), torch.ones(2).sum())"],
    ):
        command = [sys.executable, *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        fork = warm.run(*words, cwd=tmp_path, env=environment, without_myops=without_myops)
        assert fork.returncode == done.returncode, words
        assert fork.stdout == done.stdout
        assert fork.stderr.splitlines()[-1:] == done.stderr.splitlines()[-1:]


def test_a_hanging_fork_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        warm.run("-c", "import time; print('begun', flush=True); time.sleep(60)", timeout=0.5)
    before = warm.used
    code = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint('torch' in sys.modules)"
    assert warm.run("-c", code).stdout == "True\n"
    assert warm.used > before


def test_forks_do_not_share_state() -> None:
    code = "import torch; print(hasattr(torch, 'left')); torch.left = 1; torch.set_num_threads(3)"
    assert [warm.run("-c", code).stdout for _ in range(2)] == ["False\n"] * 2


def test_covering_arrays_have_every_pair(rng: np.random.Generator) -> None:
    for _ in range(10):
        axes = [[*range(n)] for n in rng.integers(1, 6, rng.integers(2, 5))]
        rows = pairs.covering(*axes)
        assert len({*rows}) == len(rows) <= np.prod([len(axis) for axis in axes])
        for i, j in itertools.combinations(range(len(axes)), 2):
            found = {(row[i], row[j]) for row in rows}
            assert found == {*itertools.product(axes[i], axes[j])}


def test_a_shared_folder_is_made_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "file").touch()
        if len(made) == 1:
            raise ValueError("the first attempt")

    with pytest.raises(ValueError, match="the first attempt"):
        shared.once(tmp_path_factory, "own_tools", make)
    folders = {shared.once(tmp_path_factory, "own_tools", make) for _ in range(3)}
    assert len(made) == 2
    assert [*folders] == made[1:]


def test_coverage_counts_a_line_of_a_template_once() -> None:
    def line(number: int, count: int, *branches: int) -> dict[str, object]:
        return {"line_number": number, "count": count, "branches": [{"count": b} for b in branches]}

    lines, branches = coverage_report.merged(
        [line(3, 0, 0, 0), line(3, 2, 2, 0), line(4, 0), line(3, 0)]
    )
    assert lines == {3: True, 4: False}
    assert branches == {(3, 0): True, (3, 1): False}
