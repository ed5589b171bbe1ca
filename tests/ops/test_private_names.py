"""Private names of torch make calls faster, but none is required: each is removed in turn."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import warm

from myops._torch import fast_call, out_overloads

PACKAGE = Path(fast_call.__file__).parent.parent
NAMES = [
    *fast_call.PRIVATE,
    *[name for name in out_overloads.PRIVATE if name != "_AutoDispatchBelowAutograd"],
    "_AutoDispatchBelowAutograd",
    "_get_tracing_state",
    "_get_value_trace",
    "_set_value_trace",
    "DispatchKeySet",
    "_ExcludeDispatchKeyGuard",
    "forward_ad._current_level",
    "Tensor.__dlpack_c_exchange_api__",
]


def test_every_private_name_in_use_is_listed() -> None:
    found = set()
    folders = ("_torch", "_prototype", "ops")
    files = [file for folder in folders for file in PACKAGE.glob(f"{folder}/*.py")]
    assert len(files) > 20
    for file in [*PACKAGE.glob("*.py"), *files]:
        found |= {
            f"{file.name}: {name}" for name in re.findall(r"torch\._C\._\w+", file.read_text())
        }
    assert not found


@pytest.mark.parametrize("name", NAMES)
def test_ops_work_without_a_private_name(name: str) -> None:
    script = Path(__file__).with_name("without_private_name.py")
    done = warm.run(script, name, without_myops=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split()[-1] == "right"
