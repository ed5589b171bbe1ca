"""`myops run` beside a plain loop over session.run, and its cost by the number of rows."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

import myops.batch
import myops.ort
from benchmarks.batch_runs.inputs import FACTOR, enlarge, photos, tiny
from benchmarks.batch_runs.timing import Memory, settings, timed


def pictures(folder: Path, count: int, rounds: int) -> None:
    """Super-resolution: PNG in, PNG out."""
    source = photos(folder, count)
    model = folder / "super_resolution.onnx"
    scales = np.float32([1, 1, FACTOR, FACTOR])

    def plain(out: Path) -> None:
        out.mkdir()
        session = myops.ort.session(model)
        for path in sorted(source.iterdir()):
            enlarge(session, scales, path, out / path.name)

    def ours(out: Path, **words: Any) -> None:
        myops.batch.run(model, source, out, constants={"scales": scales}, range=(0, 1), **words)

    print(f"super-resolution, {count} pictures of 96 x 64, x{FACTOR:g}")
    timed({"plain loop": plain, **settings(ours)}, rounds, count)


def digits(folder: Path, count: int, rounds: int) -> None:
    """The deformable digits: one .npy in, scores out."""
    x = np.random.default_rng(0).random((count, 1, 28, 28), np.float32)
    np.save(folder / "digits.npy", x)
    model = folder / "deformable_digits.onnx"

    def plain(out: Path, rows: int = 1) -> None:
        session = myops.ort.session(model)
        pictures = np.load(folder / "digits.npy", mmap_mode="r")
        found = [session.run(None, {"pictures": np.asarray(pictures[at : at + rows])})[0]
                 for at in range(0, count, rows)]  # fmt: skip
        np.save(folder / "scores.npy", np.concatenate(found))

    def ours(out: Path, **words: Any) -> None:
        myops.batch.run(model, folder / "digits.npy", out, **words)

    print(f"deformable digits, {count} rows of 28 x 28")
    candidates = {"plain loop, a row a call": plain,
                  "plain loop, 16 rows a call": lambda out: plain(out, 16)}  # fmt: skip
    timed({**candidates, **settings(ours, batch=(1, 4, 16, 64))}, rounds, count)


def rows(folder: Path, most: int, rounds: int) -> None:
    """Cost per row and memory, from 10^3 rows on: rows of 16 bytes, and of 3 KiB."""
    tables = {
        "y = x + x, rows of four float32 in .npy": (tiny(folder), (4,)),
        "deformable digits, rows of 28 x 28 in .npy": (folder / "deformable_digits.onnx",
                                                       (1, 28, 28)),
    }  # fmt: skip
    for title, (model, shape) in tables.items():
        print(title)
        count = 1000
        while count <= most:
            path = folder / "rows.npy"
            random = np.random.default_rng(0)
            made = np.lib.format.open_memmap(path, "w+", np.float32, (count, *shape))
            for at in range(0, count, 10000):
                made[at : at + 10000] = random.random((min(10000, count - at), *shape), np.float32)
            del made
            size = path.stat().st_size / 2**20
            found, memory = [], []
            for place in range(rounds if count < 1_000_000 else 1):
                start = time.perf_counter()
                with Memory() as watched:
                    result = myops.batch.run(model, path, folder / f"out-{count}-{place}")
                found.append((time.perf_counter() - start, result.seconds))
                memory.append(watched.most - watched.before)
                shutil.rmtree(folder / f"out-{count}-{place}")
            whole, running = map(min, zip(*found, strict=True))
            each, start = running / count * 1e6, (whole - running) * 1e3
            print(f"  {count:>8} rows, {size:6.1f} MiB: {whole:6.2f} s, {each:6.2f} us a row and "
                  f"{start:.0f} ms to start; memory {max(memory):.0f} MiB", flush=True)  # fmt: skip
            path.unlink()
            count *= 10
