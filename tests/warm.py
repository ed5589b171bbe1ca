"""Programs in processes of their own, without the seconds in which a new interpreter imports torch.

    done = warm.run("-m", "myops", "inspect", "model.onnx", cwd=folder)

is `subprocess.run([sys.executable, "-m", "myops", ...], capture_output=True, text=True)`: a process
with its own memory, environment, folder and streams, and with the status that Python ends with. It
is the fork of an interpreter that has imported torch, onnx, onnxscript and myops, but called none
of their functions. (onnxruntime starts a thread when it is imported, so it is not among them.)

Do not use it for programs that test what an import does: those that look at sys.modules, hide one
of the packages above, or set a variable that is read when a program starts or when torch is loaded.
(The libraries of myops are loaded by the first call, after the fork, so their variables can be
set.) With `without_myops` it is the fork of an interpreter that has imported torch only. With
`python` it is the fork of another interpreter, such as that of an environment with the wheel.
"""

from __future__ import annotations

import atexit
import gc
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

# Imports of the programs that take long. None of them may start a thread.
TORCH = ("torch", "torch._dynamo", "torch.export")
IMPORTS = (
    *TORCH, "onnx", "onnxscript", "torch.onnx", "torch.onnx._internal.exporter._core",
    "myops", "myops.onnx", "myops.ort", "typer", "rich.console",
)  # fmt: skip
SECONDS = 600.0
_lock = threading.Lock()
_servers: dict[tuple[str, tuple[str, ...]], tuple[subprocess.Popen[bytes], socket.socket]] = {}
used = 0.0  # seconds of CPU time of all programs so far


def run(
    *arguments: Any,
    cwd: Path | str | None = None,
    env: dict[str, str] | None = None,
    timeout: float = SECONDS,
    without_myops: bool = False,
    python: Path | str = sys.executable,
) -> subprocess.CompletedProcess[str]:
    """Like `subprocess.run` of `python ARGUMENTS`: "-c" CODE, "-m" MODULE or a file, and the
    arguments of the program."""
    global used
    words = [str(item) for item in arguments]
    with _lock, tempfile.TemporaryDirectory() as folder:
        streams = [os.path.join(folder, name) for name in ("stdout", "stderr")]
        request = words, os.fspath(cwd or os.getcwd()), dict(env or os.environ), streams, timeout
        status, seconds = _ask(str(python), TORCH if without_myops else IMPORTS, request)
        said = [Path(stream).read_text() for stream in streams]
    used += seconds
    if status is None:
        raise subprocess.TimeoutExpired(words, timeout, *said)
    return subprocess.CompletedProcess(words, status, *said)


def _ask(
    python: str, imports: tuple[str, ...], request: tuple[Any, ...]
) -> tuple[int | None, float]:
    server = python, imports
    if server not in _servers or _servers[server][0].poll() is not None:
        ours, theirs = socket.socketpair()
        command = [python, __file__, str(theirs.fileno()), *imports]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        if python != sys.executable:
            environment.pop("PYTHONPATH", None)  # it has packages of its own
        process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment
        )
        theirs.close()
        _servers[server] = process, ours
        atexit.register(_end, process, ours)
    stream = _servers[server][1].makefile("rwb")
    pickle.dump(request, stream)
    stream.flush()
    answer: tuple[int | None, float] = pickle.load(stream)
    return answer


def _end(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    connection.close()
    process.wait()


# ---- The interpreter that is forked.


def _serve(connection: socket.socket) -> tuple[Any, ...] | None:
    """Serves requests until the connection is closed; then returns None. In a fork: returns its
    request."""
    stream = connection.makefile("rwb")
    while True:
        try:
            request = pickle.load(stream)
        except EOFError:
            return None
        child = os.fork()
        if child == 0:
            connection.close()
            return request  # type: ignore[no-any-return]
        pickle.dump(_wait(child, request[-1]), stream)
        stream.flush()


def _wait(child: int, timeout: float) -> tuple[int | None, float]:
    """The status of the child, None if it took too long; and its CPU time."""
    late = threading.Event()

    def kill() -> None:
        late.set()
        os.kill(child, signal.SIGKILL)

    timer = threading.Timer(timeout, kill)
    timer.start()
    _, status, usage = os.wait4(child, 0)
    timer.cancel()
    timer.join()
    code = os.waitstatus_to_exitcode(status)
    return None if late.is_set() else code, usage.ru_utime + usage.ru_stime


def _become(request: tuple[Any, ...]) -> None:
    """Runs the program as a fresh interpreter does."""
    words, folder, environment, streams, _ = request
    for number, file in enumerate(streams, 1):
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, number)
        os.close(handle)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    kind, *rest = words
    paths = [item for item in environment.get("PYTHONPATH", "").split(os.pathsep) if item]
    sys.path[:0] = paths
    if kind == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *rest[1:]]
        main = sys.modules["__main__"] = ModuleType("__main__")
        main.__dict__["__builtins__"] = __builtins__
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    elif kind == "-m":
        sys.path.insert(0, folder)
        sys.argv = ["-m", *rest[1:]]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(kind)))
        sys.argv = words
        main = sys.modules["__main__"] = ModuleType("__main__")
        main.__dict__.update(__builtins__=__builtins__, __file__=kind)
        exec(compile(Path(kind).read_bytes(), kind, "exec"), main.__dict__)


def _status(request: tuple[Any, ...]) -> int:
    """The exit status that Python would have."""
    try:
        _become(request)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 0xFF
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error, trace)
        return 1
    return 0


def _end_with(status: int) -> None:
    """Ends as Python does, but does not finalize the modules, which is as slow as an import."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are not daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _main() -> None:
    import importlib

    del sys.path[0]  # this folder
    for name in sys.argv[2:]:
        importlib.import_module(name)
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, "a fork of a process with threads would lack them"
    gc.collect()
    gc.freeze()  # no collection in a fork writes to, and so copies, the memory that it shares
    gc.set_threshold(20_000, 10, 10)  # as in conftest.py
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    _end_with(0 if request is None else _status(request))


if __name__ == "__main__":
    _main()
