"""New memory for large results requests huge pages; MYOPS_HUGE_PAGES=0 turns that off."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import warm

# A Linux kernel with huge pages states for each mapping whether they were requested ("hg"), even if
# none are free.
KNOWN = Path("/sys/kernel/mm/transparent_hugepage/enabled").is_file()
CALL = """
import re, torch, myops

def asked(result):
    '''Whether the mapping that holds the middle of the result asks for huge pages.'''
    middle = result.data_ptr() + result.nbytes // 2
    flags, inside = [], False
    with open("/proc/self/smaps") as mappings:
        for line in mappings:
            if found := re.match("([0-9a-f]+)-([0-9a-f]+) ", line):
                inside = int(found[1], 16) <= middle < int(found[2], 16)
            elif inside and line.startswith("VmFlags:"):
                flags = line.split()
    return "hg" in flags

x = torch.arange(16 << 20, dtype=torch.float32)
past_the_dispatcher = myops.my_add(x, x)
with torch.no_grad():
    through_the_dispatcher = torch.ops.myops.my_add(x, x)
assert torch.equal(past_the_dispatcher, 3 * x)
assert torch.equal(through_the_dispatcher, 3 * x)
print(asked(past_the_dispatcher), asked(through_the_dispatcher))
"""


def run(huge_pages: str) -> subprocess.CompletedProcess[str]:
    return warm.run("-c", CALL, env={**os.environ, "MYOPS_HUGE_PAGES": huge_pages})


@pytest.mark.parametrize("setting", ["0", "1"])
def test_large_results_request_huge_pages(setting: str) -> None:
    finished = run(setting)
    assert finished.returncode == 0, finished.stderr
    asks = setting == "1" and KNOWN
    assert finished.stdout.split() == [str(asks)] * 2


def test_a_wrong_setting_is_refused() -> None:
    refused = run("yes")
    assert refused.returncode != 0
    assert 'MYOPS_HUGE_PAGES: got "yes", expected 0 or 1' in refused.stderr
