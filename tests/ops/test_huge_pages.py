"""New memory for large results: how many pages the system must find for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
CALL = """
import hashlib, resource, torch, myops
from torch.profiler import profile

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

x = torch.arange(16 << 20, dtype=torch.float32)
before = faults()
past_the_dispatcher = myops.my_add(x, x)
between = faults()
with torch.no_grad():
    through_the_dispatcher = torch.ops.myops.my_add(x, x)
print(between - before, faults() - between)
assert torch.equal(past_the_dispatcher, 3 * x)
assert torch.equal(through_the_dispatcher, 3 * x)
"""


def run(huge_pages: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CALL],
        env={
            **os.environ,
            "MYOPS_HUGE_PAGES": huge_pages,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(
    not SETTING.is_file() or "[madvise]" not in SETTING.read_text(),
    reason="this system has no huge pages, or gives them unasked",
)
def test_large_results_ask_for_huge_pages() -> None:
    small, huge = (run(setting).stdout.split() for setting in "01")
    assert len(small) == len(huge) == 2
    for few, many in zip(huge, small, strict=True):
        assert int(many) >= 16384  # 64 MiB in pages of 4 KiB
        assert int(few) < int(many) / 4


def test_a_setting_that_is_none() -> None:
    refused = run("yes")
    assert refused.returncode != 0
    assert 'MYOPS_HUGE_PAGES: got "yes", expected 0 or 1' in refused.stderr
