"""How much memory the calls of leak_calls.py leak. ask() measures it in a process of its own:

PYTHONMALLOC=malloc python leaks.py GROUP

All memory then comes from malloc, which counts the bytes in use exactly: pages, pools and the
garbage collector do not change the sum. Prints a JSON object, {kind: [calls, bytes leaked]}.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leak_calls import GROUPS, OTHERS

# The collector and torch's tables vary by less than this. A third of the calls of each way may keep
# it: 0.6 bytes per call where 100,000 calls are made, 40 bytes where 1,500 are made.
LIMIT = 20_000  # bytes


class _Mallinfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


def in_use() -> int:
    """Bytes that were allocated and not freed, in the heaps of malloc and in separate mappings."""
    gc.collect()
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = _Mallinfo
    found = ask()
    return int(found.uordblks + found.hblkhd)


def kept(call: Callable[[], Any], count: int) -> int:
    """Bytes that a third of `count` calls leak, after the caches have been filled.

    The least of three rounds, because a table of torch that grows for a while is no leak. After a
    round within LIMIT no other round is needed.
    """
    for _ in range(200):
        call()
    gc.freeze()  # collections then look only at what the calls below make, in half of the time
    least = sys.maxsize
    for _ in range(3):
        before = in_use()
        for _ in range(count // 3):
            call()
        least = min(least, in_use() - before)
        if least <= LIMIT:
            break
    return least


def ask(group: str, interpreter: str | Path = sys.executable) -> dict[str, tuple[int, int]]:
    """The number of calls, and the bytes that they leaked, for each kind of call in the group."""
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "MALLOC_ARENA_MAX": "1"}
    if interpreter != sys.executable:  # which has a myops of its own
        environment.pop("PYTHONPATH", None)
    command = [str(interpreter), __file__, group]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    answer: dict[str, tuple[int, int]] = json.loads(done.stdout.splitlines()[-1])
    return answer


def grown(found: dict[str, tuple[int, int]]) -> dict[str, str]:
    """The kinds of calls that leaked more than LIMIT."""
    return {
        name: f"{kept / count:.1f} bytes a call"
        for name, (count, kept) in found.items()
        if kept > LIMIT
    }


if __name__ == "__main__":
    ways = {**GROUPS, **OTHERS}[sys.argv[1]]()
    print(json.dumps({name: [count // 3, kept(call, count)] for name, count, call in ways}))
