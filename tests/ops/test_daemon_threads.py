"""A daemon thread that is inside one of our calls when the interpreter ends waits there, and the
process ends as it should. Python (until 3.13) unwinds such a thread's stack instead, and the first
destructor of C++ that asks for the interpreter ends the process with std::terminate."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import threading

import numpy as np
import torch

import myops
from myops import _numpy_call

COUNT = 20_000  # enough for a call to let other threads run


def in_torch():
    # With `out`: what ends a thread that frees a tensor at that moment is torch's own code.
    x, y = torch.rand(COUNT), torch.empty(COUNT)
    return lambda: myops.my_add(x, x, out=y)


def in_numpy():
    x = np.ones(COUNT, np.float32)
    return lambda: _numpy_call.call("my_add", [x, x])


def loop(make, several):
    call = make()
    for _ in range(200):
        call()
    several.set()
    while True:
        call()


torch.set_num_threads(1)
events = [threading.Event() for _ in range(4)]
for several in events:
    given = ({"torch": in_torch, "numpy": in_numpy}[sys.argv[1]], several)
    threading.Thread(target=loop, args=given, daemon=True).start()
for several in events:
    assert several.wait(100)
print("ends")
"""


@pytest.mark.parametrize("runtime", ["torch", "numpy"])
def test_the_process_ends_during_calls_in_daemon_threads(runtime: str) -> None:
    for _ in range(4):
        command = [sys.executable, "-c", SCRIPT, runtime]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")
