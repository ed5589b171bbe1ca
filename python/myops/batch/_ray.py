"""The engine of a cluster: Ray Data distributes shards to a pool of actors.

Model and libraries are sent as a bundle, through Ray's object store, and each machine compares
hashes before it loads them. An actor runs the model in a separate process, so that a row that ends
this process affects only that row; if the actor itself or its machine fails, Ray gives its shards
to another. Actors read the source and write the outputs themselves, so all machines need access to
both.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import pickle
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import myops
from myops._distribution import RUNTIME_ONLY
from myops.batch import _store
from myops.batch._isolated import Isolated
from myops.batch._job import Job
from myops.batch._plan import Shard
from myops.batch._state import Record

_BLOCKS = 64, 4096  # of shards: each costs Ray some milliseconds, and is noted when it is whole


def ray() -> Any:
    """The package ray with ray.data, or ImportError that says how to get it."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ImportError(
            f"engine='ray': {error}; get what it needs: pip install 'myops[ray]'"
        ) from error
    return ray


def bundled(job: Job) -> dict[str, bytes]:
    """The files that are sent: those of the bundle, and the given libraries."""
    if RUNTIME_ONLY:
        raise ImportError(
            "engine='ray': got myops-runtime, expected all of myops on the machine that starts a "
            "run, which makes a bundle; the others need myops-runtime only"
        )
    from myops.onnx.graph import files as graphs
    from myops.ort import _bundle, _named_libraries

    used = _bundle._used_domains(graphs.load(job.model, weights=False))
    unknown = [domain for domain in used if _named_libraries.installed(domain) is None]
    given = dict.fromkeys(unknown, job.libraries[0]) if job.libraries else {}
    with tempfile.TemporaryDirectory() as folder:
        made = _bundle.bundle(job.model, Path(folder) / "bundle", libraries=given, check=False)
        found = {name: (made.folder / name).read_bytes() for name in made.files}
    found["model"] = os.path.basename(job.model).encode()
    for library in job.libraries:
        found[f"given/{os.path.basename(library)}"] = Path(library).read_bytes()
    return found


def hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    """The SHA-256 of each file."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def _blocks(shards: int) -> int:
    least, most = _BLOCKS
    return min(shards, max(least, min(most, shards // 16)))


class Actor:
    """An actor of the pool.

    Args:
        job: The job.
        files: A Ray reference to the result of `bundled`.
        expected: The result of `hashes`.
        version: The version of myops on the machine that started the run.
    """

    def __init__(self, job: Job, files: Any, expected: Mapping[str, str], version: str) -> None:
        if version != myops.__version__:
            raise RuntimeError(
                f"this machine has myops {myops.__version__}, expected {version}, which the run "
                "was started with"
            )
        found: dict[str, bytes] = ray().get(files)
        if hashes(found) != dict(expected):
            raise RuntimeError(
                "the bundle that arrived has other hashes than the one that was sent"
            )
        self._folder = tempfile.TemporaryDirectory(prefix="myops-bundle-")
        root = Path(self._folder.name)
        for name, data in found.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        given = [str(root / name) for name in found if name.startswith("given/")]
        model = str(root / found["model"].decode())
        self._worker = Isolated(
            replace(job, model=model, libraries=tuple(given), named_libraries="trust"),
            threading.Event(),
        )
        self._worker.start()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Works on shards; returns their records."""
        found = []
        for data in batch["shard"]:
            try:
                record = self._worker.process(pickle.loads(zlib.decompress(data)))
                found.append(json.dumps({"record": asdict(record)}))
            except Exception as error:
                found.append(json.dumps({"error": f"{error}"}))
        return {"answer": np.array(found, object)}


class Cluster:
    """Runs shards.

    Args:
        job: What to do. Its paths are absolute.
        workers: Actors; None: as many as the cluster has cores for.
        address: Of a cluster that runs; None: one is started here, and ended.
    """

    def __init__(self, job: Job, workers: int | None, address: str | None) -> None:
        self.job = job
        self.workers = workers or 0
        self.address = address
        self.calls = self.in_memory = 0

    def run(self, shards: Iterable[Shard], suspected: set[int]) -> Iterator[tuple[str, Any]]:
        """Yields ("record", Record).

        Raises:
            WriteError: An output cannot be written, or is not seen from here.
            RuntimeError: What else a worker raises.
        """
        # Compressed, because the names of ten million files are all in memory, and alike.
        items = [{"shard": zlib.compress(pickle.dumps(item), 1)} for item in shards]
        if not items:
            return
        package = ray()
        files = bundled(self.job)
        count = len(items)
        with self._connected(package, count):
            data = package.data.DataContext.get_current()
            data.enable_progress_bars = False
            data.execution_options.preserve_order = False
            made = package.data.from_items(items, override_num_blocks=_blocks(count))
            del items
            reference = package.put(files)
            arguments = (self.job, reference, hashes(files), myops.__version__)
            answers = made.map_batches(
                Actor, fn_constructor_args=arguments, batch_size=1, batch_format="numpy",
                compute=package.data.ActorPoolStrategy(size=self.workers),
                num_cpus=self.job.threads,
            )  # fmt: skip
            for row in answers.iter_rows():
                answer = json.loads(row["answer"])
                if "error" in answer:
                    raise RuntimeError(f"a worker of the cluster: {answer['error']}")
                record = Record(**answer["record"])
                self._check(record)
                yield "record", record

    @contextlib.contextmanager
    def _connected(self, package: Any, shards: int) -> Iterator[None]:
        before = package.is_initialized()
        if not before:
            given: dict[str, Any] = {"address": self.address} if self.address else {
                # One more than the actors take: Ray Data needs it for what is no actor.
                "num_cpus": (self.workers or 1) * self.job.threads + 1,
                "include_dashboard": False,
            }  # fmt: skip
            package.init(log_to_driver=False, logging_level="ERROR", **given)
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        try:
            if not self.workers:
                cpus = int(package.cluster_resources().get("CPU", 1))
                self.workers = max(1, cpus // self.job.threads)
            self.workers = min(self.workers, shards)
            yield
        finally:
            if not before:
                package.shutdown()

    def _check(self, record: Record) -> None:
        for name, size in list(record.sizes.items())[:1]:
            path = _store.join(self.job.output, name)
            if _store.size(path) != size:
                raise _store.WriteError(
                    f"output: a worker has written {path}, which is not visible on this "
                    "machine; expected an output that all machines reach, such as a bucket"
                )
