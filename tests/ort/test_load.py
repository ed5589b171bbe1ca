"""Many sessions, threads and failures for a limited time; how processes end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import golden
import numpy as np
import onnxruntime
import pytest
from runtimes import feeds, node_model, random_array, run_numpy

import myops.ort

# How long the load lasts; `make load` sets a minute.
SECONDS = float(os.environ.get("MYOPS_LOAD_SECONDS", "3"))
LINUX = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
MODELS = [
    "node_add_float32_ir8",
    "node_resize_cubic_float32_ir8",
    "node_deform_v2_float32_ir8",
    "export_deform_v2_dynamo_20",
]


@pytest.mark.quick
def test_8_sessions_in_8_threads() -> None:
    """Each session runs in all threads at once; each result has the bits of the first."""
    sessions, given, expected = [], [], []
    for number in range(8):
        name = MODELS[number % len(MODELS)]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1 + number % 3
        sessions.append(myops.ort.session(golden.FOLDER / f"{name}.onnx", session_options=options))
        given.append(golden.arrays(name)[0])
        expected.append([item.tobytes() for item in sessions[-1].run(None, given[-1])])
    end = time.monotonic() + SECONDS
    counts, failures = [0] * 8, []

    def work(thread: int) -> None:
        number = thread
        while time.monotonic() < end and not failures:
            number = (number + 1) % 8
            outputs = sessions[number].run(None, given[number])
            if [item.tobytes() for item in outputs] != expected[number]:
                failures.append(f"session {number} in thread {thread}")
            counts[thread] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    assert not failures
    assert min(counts) > 8, counts


def test_failing_calls_do_not_disturb_others(rng: np.random.Generator) -> None:
    x = random_array(rng, (1, 2, 9, 8), "float32")
    good = [x, None, np.float32([1, 1, 2.5, 1.5]), None]
    session = myops.ort.session(node_model("resize", good, {"mode": "cubic"}))
    bad = [x, None, np.float32([1, 1, -2.5, 1.5]), None]
    wanted = run_numpy("resize", good, {"mode": "cubic"})[0].tobytes()
    failures: list[str] = []

    def work(thread: int) -> None:
        for round_ in range(40):
            if (thread + round_) % 2:
                if session.run(None, feeds("resize", good))[0].tobytes() != wanted:
                    failures.append("a good call")
                continue
            try:
                session.run(None, feeds("resize", bad))
            except Exception as error:  # onnxruntime's own type
                if "resize: scales: got -2.5 on axis 2" not in str(error):
                    failures.append(str(error))
            else:
                failures.append("accepted")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


# ---- Memory, measured in a process of its own.

GROWTH = """
import gc, json, sys
import numpy as np
import golden, myops.ort

def memory():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4096

def grows(body, rounds, limit):
    for _ in range(rounds // 4):
        body()
    before = memory()
    for _ in range(rounds):
        body()
    grown = memory() - before
    assert grown < limit, f"{grown} bytes more after {rounds} rounds"
"""


def script(text: str, prelude: str = GROWTH, timeout: float = 300) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(
        [sys.executable, "-c", prelude + text], env=environment, capture_output=True, text=True,
        check=False, timeout=timeout,
    )  # fmt: skip
    assert process.returncode == 0, f"status {process.returncode}: {process.stderr[-2000:]}"
    return process.stdout


@LINUX
def test_created_and_deleted_sessions_do_not_leak() -> None:
    script(f"""
models = [(name, golden.arrays(name)[0]) for name in {MODELS!r}]
def body():
    for name, given in models:
        myops.ort.session(golden.FOLDER / f"{{name}}.onnx").run(None, given)
grows(body, 60, 4 << 20)
""")


@LINUX
def test_failing_sessions_and_calls_do_not_leak(tmp_path: Path) -> None:
    """Refused when loaded (a bad attribute), and when run (bad scales)."""
    x = np.ones((1, 2, 9, 8), np.float32)
    inputs = [x, None, np.float32([1, 1, 2, 2]), None]
    (tmp_path / "attribute").write_bytes(
        node_model("resize", inputs, {"mode": "w" * 100000}).SerializeToString()
    )
    (tmp_path / "good").write_bytes(node_model("resize", inputs).SerializeToString())
    script(f"""
import onnxruntime
folder = {str(tmp_path)!r}
session = myops.ort.session(folder + "/good")
x = np.ones((1, 2, 9, 8), np.float32)
def refused(call):
    try:
        call()
    except Exception as error:
        assert "resize" in str(error), error
    else:
        raise AssertionError("accepted")
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
myops.ort.register(options)
def body():
    refused(lambda: myops.ort.session(folder + "/attribute", session_options=options))
    for scale in (-1, np.nan, 1e9):
        bad = {{"X": x, "scales": np.float32([1, 1, scale, 1])}}
        refused(lambda: session.run(None, bad))
grows(body, 200, 4 << 20)
""")


@LINUX
def test_failing_torch_calls_free_their_tensors() -> None:
    """The first argument is refused; the second, of a megabyte, must be freed nevertheless."""
    script("""
import torch, myops.ops
myops.ops.modules()
wrong = torch.zeros(3, dtype=torch.float8_e5m2fnuz)
def body():
    for call in (
        lambda: torch.ops.myops.my_add(wrong, torch.zeros(1 << 18)),
        lambda: torch.ops.myops.resize(wrong, None, torch.zeros(1 << 18), None),
        lambda: torch.ops.myops.resize.values(wrong, None, [1.0] * (1 << 17), None),
    ):
        try:
            call()
        except RuntimeError as error:
            assert "got dtype float8_e5m2fnuz" in str(error), error
        else:
            raise AssertionError("accepted")
grows(body, 40, 8 << 20)
""")


# ---- Ends and forks.


def test_the_interpreter_ends_with_live_sessions() -> None:
    """In a reference cycle that is not collected, after calls in threads, also with PyTorch loaded.
    (A daemon thread must not be inside a run at that moment: then onnxruntime's own binding ends
    the process, with any model.)"""
    for extra in ("", "import torch, myops; myops.my_add(torch.ones(2), torch.ones(2))"):
        out = script(
            f"""
import threading
from myops import _numpy_call
{extra}
sessions = [(myops.ort.session(golden.FOLDER / f"{{name}}.onnx"), golden.arrays(name)[0])
            for name in {MODELS!r}]
def work():
    for session, given in sessions:
        session.run(None, given)
    large = np.ones(1 << 20, np.float32)
    _numpy_call.call("my_add", [large, large], threads=3)  # whose threads wait for more
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
cycle = [sessions]
cycle.append(cycle)
print("ends")
""",
            timeout=120,
        )
        assert out == "ends\n"


FORK = """
import os, signal, sys
import numpy as np
import golden, myops.ort
from runtimes import run_numpy, run_torch, run_ort

def in_child(body):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            body()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"status {status}"

a, b = np.ones((300, 1000), np.float32), np.ones(1000, np.float32)
def check(run):
    assert (run("my_add", [a, b])[0] == 3).all()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_calls_work_after_fork() -> None:
    """Right after the import, and after the parent has used its threads."""
    script(
        """
in_child(lambda: [check(run_numpy), check(run_ort)])
check(run_numpy)  # the pool of the NumPy adapter now has threads; the child has none of them
in_child(lambda: [check(run_numpy), check(run_ort)])
check(run_numpy)
""",
        FORK,
        timeout=180,
    )
    script(
        """
import torch
torch.set_num_threads(1)  # torch's own threads do not survive a fork
check(run_torch)
in_child(lambda: check(run_torch))
check(run_torch)
""",
        FORK,
        timeout=180,
    )


def test_the_measurement_notices_a_leak() -> None:
    with pytest.raises(AssertionError, match="bytes more after 40 rounds"):
        script("kept = []\ngrows(lambda: kept.append(np.ones(1 << 17)), 40, 4 << 20)")
