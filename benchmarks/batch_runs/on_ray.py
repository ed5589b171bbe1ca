"""`myops run` on Ray, beside Ray Data by hand."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import myops.batch
import myops.ort
from benchmarks.batch_runs.inputs import FACTOR, enlarge, photos
from benchmarks.batch_runs.timing import timed


def by_ray(folder: Path, count: int, pictures: int, rounds: int) -> None:
    """Both examples on Ray's local cluster: ours, and map_batches by hand, one and two workers."""
    import ray

    np.save(folder / "digits.npy", np.random.default_rng(0).random((count, 1, 28, 28), np.float32))
    source = photos(folder, pictures)
    model = {name: str(folder / f"{name}.onnx")
             for name in ("deformable_digits", "super_resolution")}  # fmt: skip
    scales = np.float32([1, 1, FACTOR, FACTOR])
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False

    class Scores:
        def __init__(self) -> None:
            self.session = session_of_one_thread(model["deformable_digits"])

        def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {"scores": self.session.run(None, {"pictures": batch["data"]})[0]}

    class Enlarged:
        def __init__(self, out: Path) -> None:
            self.session = session_of_one_thread(model["super_resolution"])
            self.out = out

        def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            for path in batch["item"]:
                enlarge(self.session, scales, Path(path), self.out / Path(path).name)
            return batch

    def scores_by_hand(out: Path, workers: int) -> None:
        made = ray.data.from_numpy(np.load(folder / "digits.npy")).repartition(64)
        pool = ray.data.ActorPoolStrategy(size=workers)
        made = made.map_batches(Scores, compute=pool, batch_size=16, num_cpus=1)
        made.write_parquet(str(out))

    def enlarged_by_hand(out: Path, workers: int) -> None:
        out.mkdir()
        made = ray.data.from_items([str(path) for path in sorted(source.iterdir())])
        pool = ray.data.ActorPoolStrategy(size=workers)
        made = made.repartition(16).map_batches(
            Enlarged, fn_constructor_args=(out,), compute=pool, batch_size=8, num_cpus=1
        )
        assert made.materialize().count() == pictures

    def scores(out: Path, workers: int) -> None:
        myops.batch.run(model["deformable_digits"], folder / "digits.npy", out, engine="ray",
                        workers=workers, threads=1)  # fmt: skip

    def enlarged(out: Path, workers: int) -> None:
        myops.batch.run(model["super_resolution"], source, out, constants={"scales": scales},
                        range=(0, 1), engine="ray", workers=workers, threads=1)  # fmt: skip

    for title, rows, by_hand, ours in (
        (f"deformable digits on Ray, {count} rows", count, scores_by_hand, scores),
        (f"super-resolution on Ray, {pictures} pictures", pictures, enlarged_by_hand, enlarged),
    ):
        print(f"{title}, without the start of Ray")
        named = (("Ray Data by hand", by_hand), ("myops run --engine ray", ours))
        candidates: dict[str, Callable[[Path], Any]] = {
            f"{name}, {workers} workers": functools.partial(run, workers=workers)
            for workers in (1, 2) for name, run in named
        }  # fmt: skip
        timed(candidates, rounds, rows)
    ray.shutdown()


def session_of_one_thread(model: str) -> Any:
    """What a program makes in each of several processes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return myops.ort.session(model, session_options=options)
