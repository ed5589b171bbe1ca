"""MYOPS_MAX_BYTES: a call that would need more memory is refused before it allocates any, with the
same
text in torch, NumPy and ONNX Runtime. Each test runs in a process of its own, because the variable
is read only once, at the first call."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import warm

PRELUDE = """
import resource, sys
import numpy as np, torch
import myops, myops.ort
from myops import _description, _numpy
from runtimes import node_model, run_numpy, run_ort, run_torch

def refusals(name, inputs, attributes=None):
    texts = []
    for run in (run_numpy, run_torch, run_ort):
        try:
            run(name, inputs, attributes)
        except Exception as error:
            texts.append(str(error))
        else:
            texts.append("accepted")
    return texts

def assert_refused(name, inputs, attributes, text):
    for got in refusals(name, inputs, attributes):
        assert text in got, got

def peak():  # KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

x = np.ones((1, 1, 4, 4), np.float32)
"""


def run(
    script: str, limit: str | None, *, fork: bool = True, **more: str
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more}
    environment.pop("MYOPS_MAX_BYTES", None)
    if limit is not None:
        environment["MYOPS_MAX_BYTES"] = limit
    if fork:
        return warm.run("-c", PRELUDE + script, env=environment)
    command = [sys.executable, "-c", PRELUDE + script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def passes(script: str, limit: str | None, *, fork: bool = True, **more: str) -> None:
    """`more`: environment variables."""
    process = run(script, limit, fork=fork, **more)
    assert process.returncode == 0, process.stderr


@pytest.mark.quick
def test_outputs_copies_and_scratch_memory_are_limited() -> None:
    passes(
        """
# Outputs: 4 GB are asked for, 1 MB is allowed.
before = peak()
assert_refused(
    "resize", [x, None, None, np.int64([1, 1, 40000, 25000])], {},
    "resize: Y: got float32 of shape [1, 1, 40000, 25000] (4000000000 bytes), expected at most "
    "1000000 bytes; MYOPS_MAX_BYTES sets the limit")
a, b = np.ones((600, 1), np.float64), np.ones((1, 600), np.float64)
assert_refused("my_add", [a, b], None, "my_add: c: got float64 of shape [600, 600] (2880000 bytes)")
assert peak() - before < 100 << 10, "memory was taken before the refusal"

# Exactly the limit is allowed.
row = np.ones((1, 1, 500, 500), np.float32)
for _ in range(3):  # also after calls that were refused
    assert refusals("my_add", [row, row]) == ["accepted"] * 3
    more = np.ones((250001,), np.float32)
    assert_refused("my_add", [more, more], None, "(1000004 bytes), expected at most 1000000 bytes")

# A copy of an input that is not in order: an expanded tensor is large only once it is copied.
large = torch.ones(1, 1, 1, 1).expand(1, 1, 40000, 40000)
small = torch.ones(1, 1, 1, 1)
text = ("resize_backward: grad: got a copy of shape [1, 1, 40000, 40000] (6400000000 bytes), "
        "expected at most")
scales = np.float32([1, 1, 40000, 40000])
for call in (
    lambda: torch.ops.myops.resize_backward(large, small, None, torch.from_numpy(scales)),
    lambda: run_numpy("resize_backward", [large.numpy(), small.numpy(), None, scales, None]),
):
    try:
        call()
    except (RuntimeError, ValueError) as error:
        assert text in str(error), error
    else:
        raise AssertionError("accepted")
assert peak() - before < 100 << 10, "memory was taken before the refusal"

# Of an input of resize, what is not read is not copied.
scales = np.float32([1, 1, 1e-3, 1e-3])
assert torch.ops.myops.resize(large, None, torch.from_numpy(scales)).shape == (1, 1, 40, 40)
(result,) = run_numpy("resize", [large.numpy(), None, scales, None])
assert result.shape == (1, 1, 40, 40)
try:
    run_numpy("resize", [large.numpy(), None, np.float32([1, 1, 1e-3, 0.9]), None])
except (RuntimeError, ValueError) as error:
    assert "bytes), expected at most" in str(error), error
else:
    raise AssertionError("accepted")

# Scratch memory counts beside the outputs.
picture, weight = np.ones((1, 16, 12, 12), np.float32), np.ones((16, 16, 3, 3), np.float32)
offset = np.zeros((1, 18, 12, 12), np.float32)
texts = refusals("deform_conv2d", [picture, weight, offset, None, None], {"pads": [1, 1, 1, 1]})
assert texts == ["accepted"] * 3, texts
""",
        "1000000",
    )


def test_tables_of_an_earlier_call_count_as_new_ones() -> None:
    passes(
        """
myops.resize  # loads the library of torch, which both calls go to
resize = torch.ops.myops.resize.values
x = torch.ones(1, 64, 2000)
strided = torch.ones(1, 2000, 64).transpose(1, 2)  # its tables are charged before the copy
for _ in range(2):
    assert resize(x, None, None, [1, 64, 2002], mode="linear").shape == (1, 64, 2002)
    try:
        resize(strided, None, None, [1, 64, 2002], mode="linear")
    except RuntimeError as error:
        assert "resize: inputs: got scratch memory (512000 bytes), " in str(error), error
    else:
        raise AssertionError("accepted")
""",
        "1100000",
    )


def test_scratch_memory_is_limited_in_every_runtime() -> None:
    passes(
        """
picture, weight = np.ones((1, 64, 30, 30), np.float32), np.ones((64, 64, 3, 3), np.float32)
offset = np.zeros((1, 18, 30, 30), np.float32)
assert_refused(
    "deform_conv2d", [picture, weight, offset, None, None], {"pads": [1, 1, 1, 1]},
    "deform_conv2d: inputs: got scratch memory (")
""",
        "240000",  # 230,400 bytes of outputs
    )


# One long axis: the tables of its indices and weights are many times the result.
TABLES = """
line = np.ones((1, 1, 4), np.float32)
MODES = [{}, {"mode": "linear"}, {"mode": "cubic"},
         {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}]

def grad_refusal(rows, columns, scale, mode):  # of the gradient, which only torch and NumPy have
    texts = []
    for run in (run_numpy, run_torch):
        try:
            run("resize_backward", [np.ones((1, 1, columns), np.float32), rows, None,
                                    np.float32([1, 1, scale]), None], mode)
        except Exception as error:
            texts.append(str(error))
    return texts
"""


def test_tables_are_limited_in_every_runtime() -> None:
    passes(
        TABLES
        + """
for mode in MODES:  # 80,000 bytes of output
    for scales, sizes in (([1, 1, 5000], None), (None, [1, 1, 20000])):
        assert_refused(
            "resize",
            [line, None, scales and np.float32(scales), sizes and np.int64(sizes)], mode,
            "resize: inputs: got tables for an axis from length 4 to 20000 (")
    texts = grad_refusal(line, 20000, 5000, mode)
    assert len(texts) == 2 and all("resize_backward: inputs: got tables" in text for text in texts)

# Few outputs, of as many inputs as there are.
long = np.ones((1, 1, 100000), np.float32)
for scale in (4e-5, 0.5):
    assert_refused(
        "resize", [long, None, np.float32([1, 1, scale]), None], {"mode": "linear", "antialias": 1},
        f"resize: inputs: got tables for an axis from length 100000 to {int(100000 * scale)} (")

# A picture with as many outputs is allowed: its axes are short.
picture = np.ones((1, 1, 10, 10), np.float32)
for mode in MODES:
    texts = refusals("resize", [picture, None, np.float32([1, 1, 14, 14]), None], mode)
    assert texts == ["accepted"] * 3, texts
""",
        "300000",
    )


def test_tables_take_no_more_than_is_counted() -> None:
    """Lengths grow until the call is refused; the process must not have grown by more than the
    limit."""
    passes(
        TABLES
        + """
LIMIT = 32 << 10  # KiB
def high():  # since reset()
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

def reset():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")

def grows(call):
    length, most = 40009, 0
    while True:
        reset()
        before = high()
        try:
            call(length)
        except ValueError as error:
            assert "got tables" in str(error) or "got scratch memory" in str(error), error
            break
        most = max(most, high() - before)
        length = length * 4 // 3
    # For arrays of the caller, and 1 MiB for what Python does meanwhile.
    assert most <= LIMIT + 1024 + length * 8 // 1024, most
    assert most >= LIMIT // 8, ("counted far too much", most)

up = np.linspace(0, 1, 4, dtype=np.float32)[None, None]
for dtype in (np.float32, np.float64, np.float16):
    for mode in MODES:
        x = up.astype(dtype)
        grows(lambda n: run_numpy("resize", [x, None, None, np.int64([1, 1, n])], mode))
        if mode.get("mode"):
            grows(lambda n: run_numpy(
                "resize_backward",
                [np.ones((1, 1, n), dtype), x, None, None, np.int64([1, 1, n])], mode))
for keep in (0.7, 0.003):
    grows(lambda n: run_numpy(
        "resize", [np.ones((1, 1, n), np.float32), None, np.float32([1, 1, keep]), None],
        {"mode": "cubic", "antialias": 1}))
""",
        str(32 << 20),
        fork=False,  # malloc reads its variable when a program starts
        MALLOC_MMAP_THRESHOLD_="65536",
    )


def test_the_default_limit_is_the_memory_of_the_machine_or_container() -> None:
    passes(
        """
import os
from pathlib import Path
limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
for line in Path("/proc/self/cgroup").read_text().splitlines():
    _, controllers, group = line.split(":", 2)
    for folder, name in (("", "memory.max"), ("memory", "memory.limit_in_bytes")):
        if folder in controllers.split(","):
            place = Path("/sys/fs/cgroup", folder)
            for above in (Path(group[1:]), *Path(group[1:]).parents):
                file = place / above / name
                if file.exists() and file.read_text().strip() != "max":
                    limits.append(int(file.read_text()))
assert _numpy.max_bytes() == min(limits), limits
before = peak()
sizes = np.int64([1, 1, 2**20, 2**20])  # 8 TiB
inputs = [x.astype(np.float64), None, None, sizes]
assert_refused("resize", inputs, {}, "(8796093022208 bytes), expected at most")
assert peak() - before < 100 << 10
""",
        None,
    )


def test_counts_near_2_to_the_63_do_not_wrap_around() -> None:
    passes(
        """
for sizes in ([1, 1, 2**31, 2**32], [1, 1, 2**32, 2**32], [1, 1, 2**40, 2**40],
              [2**16] * 4, [3037000500, 3037000500, 1, 1]):
    assert_refused("resize", [x, None, None, np.int64(sizes)], {}, "at most 2^40 elements")
for sizes in ([1, 1, 2**62, 2], [1, 1, 1, 2**63 - 1]):
    assert_refused("resize", [x, None, None, np.int64(sizes)], {}, "expected at most 2^40")
# Empty, and yet too large: the strides would overflow.
a, b = torch.empty(2**33, 1, 0), torch.empty(1, 2**33, 0)
try:
    torch.ops.myops.my_add(a, b)
except RuntimeError as error:
    assert "my_add: c: got shape [8589934592, 8589934592, 0], expected at most 2^40" in str(error)
else:
    raise AssertionError("accepted")
# Ranks that no library has, as rules look at pairs of axes.
many = torch.ones([1] * 65)
for name, inputs in (("my_add", [many, many[0]]), ("resize", [many, None, torch.ones(65)])):
    try:
        getattr(torch.ops.myops, name)(*inputs)
    except RuntimeError as error:
        assert "got rank 65, expected at most 64" in str(error), error
    else:
        raise AssertionError("accepted")
assert torch.ops.myops.my_add(many[0], many[0]).item() == 3
""",
        "9223372036854775807",
    )


def test_a_wrong_setting_is_refused() -> None:
    """A refused setting is read again at the next call."""
    passes(
        """
import os
small = np.ones(3, np.float32)
for limit in ("0", "-1", "1G", "1e9", " 5", "9223372036854775808", "bytes"):
    os.environ["MYOPS_MAX_BYTES"] = limit
    assert_refused("my_add", [small, small], None,
                   f'MYOPS_MAX_BYTES: got "{limit}", expected a number of bytes from 1 to')
    try:  # ONNX Runtime says so when the model is loaded
        myops.ort.session(node_model("my_add", [small, small]))
    except Exception as error:
        assert "MYOPS_MAX_BYTES: got" in str(error), error
    else:
        raise AssertionError("accepted")
os.environ["MYOPS_MAX_BYTES"] = "12"
assert refusals("my_add", [small, small]) == ["accepted"] * 3
""",
        None,
    )
