"""MYOPS_ISA forces an instruction set; all of them compute the same, to rounding."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import warm

from myops import _numpy

SETS = _numpy.instruction_sets()

RUN = """
import hashlib, json, sys
import numpy as np
import torch
import myops
import myops.ort
from myops import _numpy
from deform_cases import CASES, arrays, build
from runtimes import assert_parity, random_array

results = {"set": _numpy.instruction_set()}
torch.manual_seed(0)
for number in (0, 3, 6):
    tensors, attributes = build(CASES[number], dtype="float32")
    (y,) = assert_parity("deform_conv2d", arrays(tensors), attributes)
    results[f"deform {number}"] = y.ravel().tolist()
x = random_array(np.random.default_rng(0), (2, 3, 17, 23), "float32")
for mode in ("nearest", "linear", "cubic"):
    for factor in (0.6, 2.0, 2.3):
        scales = np.array([1, 1, factor, factor], np.float32)
        inputs = [x, None, scales, None]
        (y,) = assert_parity("resize", inputs, {"mode": mode})
        results[f"{mode} {factor}"] = y.ravel().tolist()
json.dump(results, sys.stdout)
"""


def run(name: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MYOPS_ISA": name, "PYTHONPATH": os.pathsep.join(sys.path)}
    return warm.run("-c", RUN, env=environment)


def test_the_portable_set_is_always_available() -> None:
    assert SETS[-1] == "portable"


@pytest.mark.quick
@pytest.mark.skipif(len(SETS) < 2, reason="this CPU has the portable set alone")
def test_every_set_agrees_with_the_portable_one() -> None:
    found = {}
    for name in SETS:
        process = run(name)
        assert process.returncode == 0, process.stderr
        found[name] = json.loads(process.stdout)
        assert found[name].pop("set") == name
    for name in SETS[:-1]:
        for case, wanted in found["portable"].items():
            np.testing.assert_allclose(found[name][case], wanted, rtol=1e-4, atol=1e-5)


def test_an_unknown_set_is_refused() -> None:
    process = run("sse9")
    assert process.returncode != 0
    assert 'MYOPS_ISA: got "sse9", expected an instruction set of this CPU: ' in process.stderr
    assert "portable. Unset it to use the best one" in process.stderr


STREAMS = """
import hashlib
import torch
import myops

torch.manual_seed(0)
x = torch.randn(1, 3, 700, 1101)
long = torch.randn(4_500_001)
results = [myops.my_add(long, long + 1), myops.my_add(long.double(), long.double())]
results += [myops.resize(x, [1, 1, 2, 2], mode=mode) for mode in ("nearest", "linear", "cubic")]
whole = x[..., :1088].contiguous()  # whose rows are aligned like the first one
results += [myops.resize(whole, [1, 1, 2, 2], mode=mode) for mode in ("nearest", "linear")]
for image in (x, whole):  # the bits of both layouts are equal, so these are not new ones
    image = image.contiguous(memory_format=torch.channels_last)
    results.append(myops.resize(image, [1, 1, 2, 2], mode="cubic"))
results.append(myops.resize(whole, [1, 1, 2, 2], mode="cubic"))
results += [myops.resize(x.tile(1, 2, 1, 4), [1, 1, 0.9, 0.9], mode=m) for m in ("linear", "cubic")]
assert all(result.nbytes > 16 << 20 for result in results)
for result in results:
    print(hashlib.sha256(result.numpy().tobytes()).hexdigest())
"""


@pytest.mark.parametrize("name", [SETS[0], "portable"])
def test_non_temporal_stores_change_no_bit(name: str) -> None:
    found = []
    for streaming in "01":
        environment = {**os.environ, "MYOPS_ISA": name, "MYOPS_STREAMING_STORES": streaming}
        done = warm.run("-c", STREAMS, env=environment)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    assert found[0] == found[1]
    assert len(set(found[0])) == 10
