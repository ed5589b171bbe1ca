"""The engine ray on a local cluster, and the application for Ray Serve."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import batch_models as models
import numpy as np
import pytest

import myops.batch
import myops.ort

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray", reason="ray is of the extra ray, not of test: it is large")
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


def test_ray_gives_the_bits_of_the_local_engine(tmp_path: Path, rng: np.random.Generator) -> None:
    """A run can continue with the other engine, because the journal is the same."""
    model = models.matrix(tmp_path)
    np.save(tmp_path / "x.npy", rng.standard_normal((1500, 33)).astype(np.float32))
    words: dict[str, Any] = {"model": model, "source": tmp_path / "x.npy"}
    result = myops.batch.run(output=tmp_path / "ray", engine="ray", workers=2, threads=1, **words)
    assert (result.done, result.engine, result.workers) == (1500, "ray", 2)
    myops.batch.run(output=tmp_path / "local", **words)
    assert models.outputs_of(tmp_path / "ray") == models.outputs_of(tmp_path / "local")
    assert myops.batch.run(output=tmp_path / "ray", **words).before == 1500


def test_a_killed_actor_is_replaced(tmp_path: Path) -> None:
    """Ray starts another actor, which repeats the unfinished work of the first."""
    for place in range(40):
        np.save(tmp_path / f"{place:02d}.npy", np.float32([[place]]))
    killed = []

    def kill(done: int, failed: int, total: int) -> None:
        if done >= 3 and not killed:
            killed.append(_actor())
            threading.Thread(target=os.kill, args=(killed[0], signal.SIGKILL)).start()

    words: dict[str, Any] = {"model": models.slow(tmp_path), "source": f"{tmp_path}/*.npy",
                             "rows": "file"}  # fmt: skip
    result = myops.batch.run(output=tmp_path / "ray", engine="ray", workers=1, threads=1,
                             progress=kill, **words)  # fmt: skip
    assert killed
    assert (result.done, result.failed) == (40, 0)
    myops.batch.run(output=tmp_path / "local", **words)
    assert models.outputs_of(tmp_path / "ray") == models.outputs_of(tmp_path / "local")


def _actor() -> int:
    """The process of an actor of Ray Data, which has a worker of ours as its child."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                title = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if b"ray::" in title and b"MapWorker" in title:
                return int(folder.name)
    raise AssertionError("no actor runs")


def test_a_source_larger_than_memory_is_read(tmp_path: Path) -> None:
    """Ray transports only numbers of shards: 300 times as many rows need no more memory."""
    length = 32 * 1024
    node = models.helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)
    model = models.save(tmp_path / "most.onnx", [node], {"x": (models.FLOAT, ("N", length))},
                        {"y": (models.FLOAT, ("N",))})  # fmt: skip
    most = {}
    # 5 MiB; and 1.5 GiB as a sparse file.
    for turn, rows in enumerate((40, 40, 12_000)):
        source = tmp_path / f"{rows}.npy"
        np.lib.format.open_memmap(source, "w+", np.float32, (rows, length)).flush()
        seen = [0]
        ended = threading.Event()
        watcher = threading.Thread(target=_watch, args=(seen, ended))
        watcher.start()
        result = myops.batch.run(model, source, tmp_path / f"out {turn}", engine="ray", workers=2,
                                 threads=1)  # fmt: skip
        ended.set()
        watcher.join()
        assert (result.done, result.failed) == (rows, 0)
        most[rows] = seen[0]  # the second time: Ray has started its processes
    assert most[12_000] - most[40] < 400, most


def _watch(seen: list[int], ended: threading.Event) -> None:
    """Records the peak in MiB, with shared memory, of this process and its children."""
    while not ended.wait(0.05):
        parents: dict[int, list[int]] = {}
        sizes: dict[int, int] = {}
        for path in Path("/proc").glob("[0-9]*/status"):
            try:
                lines = dict(line.split(":", 1) for line in path.read_text().splitlines())
            except OSError:  # it has ended
                continue
            process = int(path.parent.name)
            parents.setdefault(int(lines["PPid"]), []).append(process)
            sizes[process] = sum(
                int(lines.get(kind, "0").split()[0]) for kind in ("RssAnon", "RssShmem")
            )
        total, waiting = 0, [os.getpid()]
        while waiting:
            process = waiting.pop()
            total += sizes.get(process, 0)
            waiting += parents.get(process, [])
        seen[0] = max(seen[0], total >> 10)


def test_the_application_for_ray_serve_answers(tmp_path: Path, rng: np.random.Generator) -> None:
    made = myops.ort.bundle(models.matrix(tmp_path), tmp_path / "deploy", ray_serve=True)
    code = (
        "import ray\n"
        "from ray import serve\n"
        "ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)\n"
        "serve.start(http_options={'port': 18431})\n"
        "import serve_app\n"
        "serve.run(serve_app.app)\n"
        "print('ready', flush=True)\n"
        "input()\n"
    )
    environment = {**os.environ, "BATCH_SECONDS": "0.05", "PYTHONPATH": str(made.folder)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=made.folder, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert any(line.strip() == "ready" for line in process.stdout)
        rows = rng.standard_normal((12, 33)).astype(np.float32)
        session = myops.ort.session(made.model)
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(6) as pool:
            for _ in range(2):
                answers = list(pool.map(lambda row: asked(x=row[None])["y"], rows))
                for row, answer in zip(rows, answers, strict=True):
                    np.testing.assert_array_equal(answer, session.run(None, {"x": row[None]})[0])
        with pytest.raises(urllib.error.HTTPError, match="400"):
            asked(z=rows)
    finally:
        process.terminate()
        process.wait()


def asked(**arrays: np.ndarray) -> dict[str, np.ndarray]:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    for _ in range(50):
        try:
            with urllib.request.urlopen("http://127.0.0.1:18431/", stream.getvalue()) as answer:
                data = answer.read()
            with np.load(io.BytesIO(data)) as found:
                return {name: found[name] for name in found.files}
        except urllib.error.HTTPError:
            raise
        except OSError:
            time.sleep(0.2)
    raise AssertionError("nobody answers")
