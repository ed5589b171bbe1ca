"""Rows a second of `myops run`, beside a plain loop over session.run, and Ray Data by hand.

python benchmarks/batch.py                     # 3 minutes on 2 cores
python benchmarks/batch.py --part digits       # or pictures, rows, cores
python benchmarks/batch.py --part ray          # needs myops[ray]

Candidates run in turns, each round in another order; the table has the median of the rounds. A
plain loop is what a program does without us: it reads, decodes, runs a session with default
settings, encodes and writes, one row after the other, or 16 rows in a call. The part `cores` shows
how the defaults would do on more cores than this machine has: the calls of the model are waited
for, not computed.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import myops.batch
import myops.ort

EXAMPLES = Path(__file__).parents[1] / "examples"
FACTOR = 2.0


def exported(folder: Path) -> None:
    """The two examples as files."""
    import torch

    import myops.onnx

    torch.set_num_threads(1)
    for name in ("super_resolution", "deformable_digits"):
        sys.path.insert(0, str(EXAMPLES / name))
        for module in ("model", "data"):
            sys.modules.pop(module, None)
        import model  # type: ignore[import-not-found]

        if name == "super_resolution":
            args = torch.rand(1, 3, 32, 48), torch.tensor([1.0, 1.0, 3.0, 3.0])
            words: dict[str, Any] = {
                "input_names": ["picture", "scales"], "output_names": ["enlarged"],
                "dynamic_axes": {"picture": {2: "height", 3: "width"}},
            }  # fmt: skip
            network = model.load()
        else:
            args = (torch.rand(2, 1, 28, 28),)
            words = {"input_names": ["pictures"], "output_names": ["scores"],
                     "dynamic_axes": {"pictures": {0: "batch"}}}  # fmt: skip
            network = model.load()["deformable"]
        myops.onnx.export(network, args, folder / f"{name}.onnx", exporter="torchscript", **words)
        sys.path.pop(0)


def tiny(folder: Path) -> Path:
    """y = x + x, for rows of four numbers."""
    import onnx
    from onnx import TensorProto, helper

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "tiny",
                              values[:1], values[1:])  # fmt: skip
    imports = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), folder / "tiny.onnx")
    return folder / "tiny.onnx"


def timed(candidates: dict[str, Callable[[Path], Any]], rounds: int, rows: int) -> None:
    """Prints rows a second of each, in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    # In another order each time: what ran before decides what is in the caches and on the disk.
    order, random = list(candidates.items()), np.random.default_rng(0)
    for _ in range(rounds):
        random.shuffle(order)
        for name, run in order:
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                run(Path(folder) / "out")
                seconds[name].append(time.perf_counter() - start)
    first = statistics.median(next(iter(seconds.values())))
    for name, found in seconds.items():
        median = statistics.median(found)
        print(f"  {name:<36} {rows / median:10.1f} rows/s  {first / median:5.2f} x", flush=True)


def settings(run: Callable[..., Any], **more: Sequence[int]) -> dict[str, Callable[[Path], Any]]:
    """The defaults, and what they are chosen among."""
    found: dict[str, Callable[[Path], Any]] = {"myops run": run}
    choices: list[dict[str, int]] = [{"workers": workers, "threads": threads} for workers, threads
                                     in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1))]  # fmt: skip
    choices += [{name: value} for name, values in more.items() for value in values]
    for choice in choices:
        words = " ".join(f"--{name} {value}" for name, value in choice.items())
        found[f"  {words}"] = functools.partial(run, **choice)
    return found


def photos(folder: Path, count: int) -> Path:
    """A folder with pictures of 96 x 64."""
    source = folder / "photos"
    if source.exists():
        return source
    source.mkdir()
    random = np.random.default_rng(0)
    base = random.integers(0, 256, (24, 16, 3), np.uint8)
    for place in range(count):
        image = Image.fromarray(np.roll(base, place, 0)).resize((96, 64), Image.Resampling.BICUBIC)
        image.save(source / f"{place:05d}.png")
    return source


def enlarge(session: Any, scales: np.ndarray, path: Path, out: Path) -> None:
    """One picture, by hand."""
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    x = pixels.transpose(2, 0, 1)[None].astype(np.float32) / 255
    (y,) = session.run(None, {"picture": x, "scales": scales})
    made = np.rint(y[0].transpose(1, 2, 0).clip(0, 1) * 255).astype(np.uint8)
    Image.fromarray(made).save(out, compress_level=3)


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


class Memory:
    """The most memory that this process has written to, in MiB, while a block runs."""

    def __enter__(self) -> Memory:
        self.before = self.most = self._now()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.01):
            self.most = max(self.most, self._now())

    @staticmethod
    def _now() -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


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


class Waiting:
    """A session whose calls wait as long as a model would take on some of so many cores.

    Args:
        session: What answers.
        seconds: Of a call with one thread.
        parallel: The share of the work that threads divide among them (Amdahl's law).
        threads: Of a call.
        free: The cores; a call waits until its threads have some.
    """

    def __init__(
        self, session: Any, seconds: float, parallel: float, threads: int, free: threading.Semaphore
    ) -> None:
        self._session = session
        self._seconds = seconds * (1 - parallel + parallel / threads)
        self._threads = threads
        self._free = free

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def run(self, names: Any, feeds: dict[str, np.ndarray]) -> Any:
        rows = len(next(iter(feeds.values())))
        for _ in range(self._threads):
            self._free.acquire()
        time.sleep(self._seconds * rows)
        for _ in range(self._threads):
            self._free.release()
        return self._session.run(names, feeds)


def on_more_cores(folder: Path, cores: int, count: int) -> None:
    """The default of --workers and --threads on `cores` cores, beside all others."""
    from myops.batch import _local, _run

    np.save(folder / "waiting.npy", np.zeros((count, 4), np.float32))
    model = tiny(folder)
    free = threading.Semaphore(cores)
    make = _run.make_session

    def waiting(*words: Any) -> Any:
        return Waiting(make(*words), 0.02, 0.9, words[3] if len(words) > 3 else 1, free)

    def ours(out: Path, **words: Any) -> None:
        myops.batch.run(model, folder / "waiting.npy", out, batch=1, **words)

    candidates: dict[str, Callable[[Path], Any]] = {"myops run": ours}
    for exponent in range(cores.bit_length() + 1):
        for threads in (1, 2, 4, 8, 16):
            workers = 2**exponent
            if cores // 2 <= workers * threads <= cores * 2 and threads <= cores:
                words = {"workers": workers, "threads": threads}
                candidates[f"  --workers {workers} --threads {threads}"] = functools.partial(
                    ours, **words
                )
    before = _local.cores
    _local.cores = lambda: cores
    _run.make_session = _local.make_session = waiting
    try:
        print(f"calls of 20 ms, 90% of them parallel, {count} rows, as on {cores} cores")
        timed(candidates, 1, count)
    finally:
        _local.cores = before
        _run.make_session = _local.make_session = make


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


def main() -> None:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shown)
    parser.add_argument("--part", choices=("pictures", "digits", "rows", "cores", "ray"), nargs="*",
                        default=["pictures", "digits", "rows", "cores"])  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pictures", type=int, default=128)
    parser.add_argument("--digits", type=int, default=4096)
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--models", type=Path, help="a folder with the two exported models")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.models:
            for path in args.models.glob("*.onnx"):
                shutil.copy(path, folder)
        elif {"pictures", "digits", "rows", "ray"} & set(args.part):
            exported(folder)
        if "pictures" in args.part:
            pictures(folder, args.pictures, args.rounds)
        if "digits" in args.part:
            digits(folder, args.digits, args.rounds)
        if "rows" in args.part:
            rows(folder, args.most, args.rounds)
        if "cores" in args.part:
            for cores in (4, 8, 16):
                on_more_cores(folder, cores, 32 * cores)
        if "ray" in args.part:
            by_ray(folder, args.digits, args.pictures, args.rounds)


if __name__ == "__main__":
    main()
