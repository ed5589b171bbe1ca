"""Writes the measured tables of docs/precision.md: what half precision and int8 cost and gain.

python scripts/make_precision.py [--only NAME]     # minutes; with --only it prints the rows

Five networks of tests/zoo (random weights, so the loss is the error of the output) and the two
examples (trained, so it is what they are for). Inputs that give the losses here are neither those
of the calibration nor those that `to_half` and `quantize` chose nodes on.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from zoo import cases as zoo_cases  # noqa: E402
from zoo import running  # noqa: E402

import myops.onnx  # noqa: E402
import myops.ort  # noqa: E402

PAGE = ROOT / "docs" / "precision.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
# The size of the inputs, where those of the tests are too small to time.
ZOO = {"EDVR": (64, 96), "DLA34": (96, 128), "U-Net": (96, 128), "Swin": (96, 128),
       "ArbRCAN": (48, 64, 2.5, 2.0)}  # fmt: skip
MAX_LOSS = 0.02  # the limit in the row with an accuracy gate
ROUNDS = 15

Feeds = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model, what it is measured with, and how its results are judged.

    score: The accuracy of what a session gives, in words.
    calibration, timed: Inputs.
    """

    name: str
    model: onnx.ModelProto
    calibration: Sequence[Feeds]
    timed: Feeds
    score: Callable[[Any], str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of models")
    only = parser.parse_args().only
    lines = []
    for name, make in _cases().items():
        if only in name:
            lines += _rows(make())
    if only:
        return
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    versions = (
        f"Measured on {_cpu()}, {torch.get_num_threads()} threads, onnx {onnx.__version__}, "
        f"onnxruntime {onnxruntime.__version__}, by `make precision`.\n"
    )
    head = (
        "| model | precision | accuracy | nodes | casts | size, kB | a run, ms |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    table = f"{head}{''.join(lines)}\n{versions}"
    PAGE.write_text(f"{before}{BEGIN}\n{table}{END}{after}")


def _cases() -> dict[str, Callable[[], Case]]:
    found: dict[str, Callable[[], Case]] = {
        name: lambda name=name: _network(name)  # type: ignore[misc]
        for name in ZOO
    }
    found["super-resolution"] = _super_resolution
    found["deformable digits"] = _digits
    return found


def _rows(case: Case) -> Iterator[str]:
    """A row for each precision; their runs are timed in turns."""
    sessions = {"float32": myops.ort.session(case.model)}
    notes = {"float32": (f"{len(case.model.graph.node)}", "", case.model.ByteSize())}
    lost, held = {}, {"float32": True}
    for name, convert in _conversions(case).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = convert()
        kept, casts = _kept(found)
        notes[name] = (kept, casts, found.bytes_after)
        lost[name], held[name] = max(found.losses.values()), found.holds
        try:
            sessions[name] = myops.ort.session(found.model)
        except Exception as error:  # ONNX Runtime's own classes, all below Exception
            if name != "bfloat16, any":
                raise
            print(f"{case.name}, {name}: {running.sentence(error)}", file=sys.stderr)
    times = _times({name: lambda s=session: s.run(None, dict(case.timed))  # type: ignore[misc]
                    for name, session in sessions.items()})  # fmt: skip
    for name, (kept, casts, size) in notes.items():
        if name in sessions:
            score, run = case.score(sessions[name]), f"{times[name]:.2f}"
        else:
            score, run = f"error {lost[name]:.1e}, emulated", ""
        score += "" if held[name] else "; not held"
        title = case.name if name == "float32" else ""
        line = f"| {title} | {name} | {score} | {kept} | {casts} | {size / 1e3:.0f} | {run} |\n"
        print(line, end="", flush=True)
        yield line


def _conversions(case: Case) -> dict[str, Callable[[], Any]]:
    model, data = case.model, case.calibration

    def half(dtype: str, runtime: str) -> Callable[[], Any]:
        return lambda: myops.onnx.to_half(
            model, dtype=dtype, runtime=runtime, keep_io_types=True, data=data
        )

    return {
        "float16, cpu": half("float16", "cpu"),
        "float16, any": half("float16", "any"),
        "bfloat16, any": half("bfloat16", "any"),
        "int8": lambda: myops.onnx.quantize(model, data=data),
        f"int8, at most {MAX_LOSS:.0%}": lambda: myops.onnx.quantize(
            model, data=data, max_loss=MAX_LOSS
        ),
    }


def _kept(found: Any) -> tuple[str, str]:
    """How many nodes are in the lower precision, of how many, and the casts of a run."""
    lower = [item for item in found.nodes if item.precision != "float32"]
    return f"{len(lower)} of {len(found.nodes)}", str(getattr(found, "casts", ""))


def _times(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Medians in milliseconds; one call of each in turn, so that all see the same machine."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for round_ in range(ROUNDS + 2):  # the first two calls are not counted
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if round_ >= 2:
                found[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(item) for name, item in found.items()}


def _network(name: str) -> Case:
    (case,) = (item for item in zoo_cases.CASES if item.name == name)
    model = running.export(case, case.model(), "torchscript", "myops")
    wanted_by = myops.ort.session(model)

    def feeds(seed: int) -> dict[str, np.ndarray]:
        generator = torch.Generator().manual_seed(seed)
        return running.feeds(model, case.inputs(ZOO[name], generator))

    fresh = [feeds(1000 + seed) for seed in range(4)]
    wanted = [wanted_by.run(None, item)[0] for item in fresh]

    def score(session: Any) -> str:
        worst = 0.0
        for item, right in zip(fresh, wanted, strict=True):
            error = session.run(None, item)[0].astype(np.float64) - right
            worst = max(worst, float(np.linalg.norm(error) / np.linalg.norm(right)))
        return f"error {worst:.1e}" if worst else "exact"

    return Case(name, model, [feeds(seed) for seed in range(8)], fresh[0], score)


def _example(folder: str, *names: str) -> list[Any]:
    """Modules of an example; both examples have a `data` and a `model`."""
    place = str(ROOT / "examples" / folder)
    for name in names:
        sys.modules.pop(name, None)
    sys.path.insert(0, place)
    try:
        return [__import__(name) for name in names]
    finally:
        sys.path.remove(place)


def _super_resolution() -> Case:
    """PSNR of a photograph that nothing was trained or calibrated on, enlarged by 2.5 and by 3."""
    data, network, demo = _example("super_resolution", "data", "model", "demo")
    path = ROOT / "build" / "precision.onnx"
    path.parent.mkdir(exist_ok=True)
    demo.export(network.load(), path, "torchscript", "myops")

    def feeds(name: str, factor: float) -> tuple[dict[str, np.ndarray], Any]:
        small, target = data.shrink(data.photograph(name), factor)
        picture = data.to_tensor(small).numpy()
        return {"picture": picture, "scales": data.to_scales(factor).numpy()}, target

    held_out = [feeds(data.HELD_OUT, factor) for factor in (2.5, 3.0)]

    def score(session: Any) -> str:
        found = [
            data.psnr(data.to_picture(session.run(None, item)[0]), target)
            for item, target in held_out
        ]
        return ", ".join(f"{item:.2f} dB" for item in found)

    calibration = [feeds(name, 3.0)[0] for name in data.TRAINING[:6]]
    return Case("super-resolution", onnx.load(path), calibration, held_out[1][0], score)


def _digits() -> Case:
    """The share of right answers on digits that were not trained on."""
    data, network = _example("deformable_digits", "data", "model")
    pictures, labels = data.held_out_pictures()
    model = myops.onnx.export(
        network.load()["deformable"], (pictures[:2],), input_names=["pictures"],
        dynamic_axes={"pictures": {0: "count"}}, exporter="torchscript",
    )  # fmt: skip
    trained = data.scatter(data.split()[0].images, torch.Generator().manual_seed(1))

    def score(session: Any) -> str:
        (scores,) = session.run(None, {"pictures": pictures.numpy()})
        return f"{network.accuracy(torch.from_numpy(scores), labels):.2%} right"

    calibration = [{"pictures": batch.numpy()} for batch in trained.split(64)[:8]]
    timed = {"pictures": pictures[:256].numpy()}
    return Case("deformable digits", model, calibration, timed, score)


def _cpu() -> str:
    text = Path("/proc/cpuinfo").read_text()
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    known = [name for name in ("avx2", "avx512f", "avx512_vnni", "amx_int8") if name in flags]
    return f"a CPU with {', '.join(known)}" if known else "this CPU"


if __name__ == "__main__":
    main()
