"""Requests a second and latency of the application for Ray Serve, on this machine.

python benchmarks/serving.py --models FOLDER   # needs myops[ray]; a minute

The model is that of the deformable digits. A request has one picture. Clients are threads that send
their next request when the last one is answered, over loopback, on the same cores as the server.
"""

from __future__ import annotations

import argparse
import http.client
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import myops.ort

PORT = 18437
SERVER = f"""
import ray
from ray import serve
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
serve.start(http_options={{"host": "127.0.0.1", "port": {PORT}}})
import serve_app
serve.run(serve_app.app)
print("ready", flush=True)
input()
"""


def client(data: bytes, requests: int) -> list[float]:
    """Seconds of each request."""
    found = []
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    for _ in range(requests):
        started = time.perf_counter()
        connection.request("POST", "/", data)
        answer = connection.getresponse()
        body = answer.read()
        found.append(time.perf_counter() - started)
        assert answer.status == 200, body
    connection.close()
    return found


def load(data: bytes, clients: int, requests: int) -> None:
    """Prints requests per second and latency with this number of clients."""
    with ThreadPoolExecutor(clients) as pool:
        started = time.perf_counter()
        each = list(pool.map(client, [data] * clients, [requests // clients] * clients))
        seconds = time.perf_counter() - started
    times = sorted(item for found in each for item in found)
    middle, late = statistics.median(times), times[int(len(times) * 0.99)]
    print(f"  {clients:>3} clients: {len(times) / seconds:7.1f} requests/s, median "
          f"{middle * 1e3:6.1f} ms, 99% within {late * 1e3:6.1f} ms", flush=True)  # fmt: skip


def served(folder: Path, settings: dict[str, str], requests: int) -> None:
    """Starts the application, sends it requests, and ends it."""
    environment = {**os.environ, **settings, "PYTHONPATH": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], cwd=folder, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert any(line.strip() == "ready" for line in process.stdout), "Serve did not start"
        stream = io.BytesIO()
        np.savez(stream, pictures=np.random.default_rng(0).random((1, 1, 28, 28), np.float32))
        client(stream.getvalue(), 20)
        print(", ".join(f"{name}={value}" for name, value in settings.items()))
        for clients in (1, 4, 16, 32):
            load(stream.getvalue(), clients, requests)
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shown)
    parser.add_argument("--models", type=Path, required=True,
                        help="a folder with deformable_digits.onnx")  # fmt: skip
    parser.add_argument("--requests", type=int, default=1600, help="for each number of clients")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        made = myops.ort.bundle(args.models / "deformable_digits.onnx", Path(name) / "deploy",
                                ray_serve=True)  # fmt: skip
        for settings in ({"BATCH_ROWS": "16", "BATCH_SECONDS": "0.005"}, {"BATCH_ROWS": "1"}):
            served(made.folder, settings, args.requests)


if __name__ == "__main__":
    main()
