"""Tries the wheels of `make dist` in fresh environments, and writes docs/wheels.json.

    python scripts/try_dist.py [--only aarch64] [--torch DIRECTORY]

An environment for each version of Python that this machine or Debian has, with the oldest and the
newest ONNX Runtime, and with several versions of torch; for aarch64 in an emulator. In each: the
stored models of tests/data/golden, the calls of scripts/wheels/calls.py on every instruction set,
whose bits must be those of the other environments, and with torch README's first example and
PyTorch against NumPy. `--torch` names a folder with wheels of torch that were downloaded before.
The exit status is 1 where something fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import compat
from wheels import places

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "dist" / "try"
RECORD = ROOT / "docs" / "wheels.json"
OLDEST = "~=1.17.0"  # ONNX Runtime
EMULATED = "==1.27.0"  # 1.29, 1.31 and 1.32 end QEMU 7.2 when they are imported, without ours too
# What a model is exported with; torch is installed apart, without CUDA.
FOR_EXPORT = ("onnx", "onnx_ir", "onnxscript", "ml_dtypes", "protobuf", "rich", "sympy", "typer")

PARITY = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
import myops
from myops import _description
from calls import calls
count = 0
for title, op, inputs, attributes in calls():
    if op not in ("my_add", "deform_conv2d") or "bfloat16" in title:
        continue  # torch.from_numpy does not take ml_dtypes
    tensors = [None if item is None else torch.from_numpy(item.copy()) for item in inputs]
    if op == "my_add":
        found = myops.my_add(*tensors)
    else:
        x, weight, offset, bias, mask = tensors
        pad = attributes["pads"][0]
        found = myops.deform_conv2d(x, offset, weight, bias, padding=pad, mask=mask)
    (wanted,) = _description.OPS[op].native.call(inputs, attributes, 1)
    assert found.numpy().tobytes() == wanted.tobytes(), title
    count += 1
print(count, "calls")
"""


@dataclass(frozen=True)
class Trial:
    """One environment: the torch and the ONNX Runtime that pip is asked for.

    Without a torch it is one of myops-runtime.
    """

    python: str
    processor: str
    onnxruntime: str = ""
    torch: str = ""

    @property
    def name(self) -> str:
        return re.sub(r"[^\w.]+", "_", f"{self.onnxruntime or 'new'}-{self.torch or 'runtime'}")


X86, ARM = "x86_64", "aarch64"
TRIALS = (
    *(Trial(python, X86) for python in ("3.10", "3.11", "3.12", "3.13", "3.14")),
    *(Trial(python, X86, OLDEST) for python in ("3.10", "3.11", "3.12")),
    Trial("3.10", X86, torch="2.10.0"),
    Trial("3.11", X86, torch="2.13.0"),
    Trial("3.12", X86, OLDEST, torch="2.10.0"),
    Trial("3.14", X86, torch="2.15.0"),
    Trial("3.11", ARM, EMULATED),
    Trial("3.13", ARM, EMULATED),
    Trial("3.14", ARM, EMULATED),
    Trial("3.11", ARM, EMULATED, torch="2.10.0"),
)


def name_of(trial: Trial) -> str:
    """What a trial is called."""
    return f"{trial.python}-{trial.processor}-{trial.name}"


def prepared(trial: Trial, dist: Path, wheels_of_torch: Path | None) -> places.Place | None:
    """The environment of a trial with everything installed; None where it cannot be had."""
    distribution = "myops" if trial.torch else "myops_runtime"
    wheels = sorted(dist.glob(f"{distribution}-*-none-manylinux_*_{trial.processor}.whl"))
    if len(wheels) != 1 or f"cp{trial.python.replace('.', '')}" not in wheels[0].name:
        return None
    place = places.find(trial.python, trial.processor, BUILD, trial.name)
    if place is None:
        return None
    runtime = f"onnxruntime{trial.onnxruntime}"
    numpy = "numpy<2" if trial.onnxruntime == OLDEST else "numpy"  # 1.17 was built for NumPy 1
    if trial.torch:
        tag = f"torch-{trial.torch}*cp{trial.python.replace('.', '')}-*_{trial.processor}.whl"
        found = [*wheels_of_torch.rglob(tag)] if wheels_of_torch else []
        wanted = str(found[0]) if found else f"torch=={trial.torch}"
        if not place.install_torch(wanted):
            return None
    others = FOR_EXPORT if trial.torch else ("ml_dtypes",)
    if not place.install(runtime, numpy, *others):
        return None
    place.install(str(wheels[0]), alone=True)
    return place


def kept(action: Callable[[], str]) -> dict[str, str]:
    try:
        return {"result": action()}
    except (RuntimeError, subprocess.TimeoutExpired, AssertionError, ValueError) as error:
        return {"error": f"{error}"[-600:]}


def tried(place: places.Place, trial: Trial) -> dict[str, Any]:
    """What was found in one environment: for each check a result or an error."""
    found: dict[str, Any] = {}
    code = (
        "import json, platform, numpy, onnxruntime; from myops import _numpy; "
        "print(json.dumps({'python': platform.python_version(), 'numpy': numpy.__version__, "
        "'onnxruntime': onnxruntime.__version__, 'sets': _numpy.instruction_sets()}))"
    )
    found["versions"] = kept(lambda: place.run("-c", code))
    if "error" in found["versions"]:
        return found
    versions = json.loads(found["versions"]["result"])
    found["sets"] = kept(lambda: sets_are_those_of_the_cpu(versions["sets"], trial.processor))
    library = str(place.folder / "myops" / "lib" / "libmyops_ort.so")
    found["models"] = kept(lambda: models(place.run(str(ROOT / "tests" / "golden.py"), library)))
    calls = str(ROOT / "scripts" / "wheels" / "calls.py")
    for isa in versions["sets"]:
        found[f"bits {isa}"] = item = kept(lambda isa=isa: place.run(calls, isa=isa).strip())
        if "result" in item:
            item["calls"] = json.loads(item["result"])
            item["bits"] = hashlib.sha256(item["result"].encode()).hexdigest()
            item["result"] = f"{len(item['calls'])} calls"
    if trial.torch:
        found["torch"] = kept(
            lambda: place.run("-c", "import torch; print(torch.__version__)").strip()
        )
        found["README"] = kept(lambda: readme(place))
        folder = str(ROOT / "scripts" / "wheels")
        found["torch and NumPy"] = kept(lambda: place.run("-c", PARITY, folder).strip())
    return found


def sets_are_those_of_the_cpu(sets: list[str], processor: str) -> str:
    """The kernels for this CPU are found, whichever compiler's library asks it."""
    if processor != platform.machine():
        wanted = {"neon", "portable"} if processor == ARM else {"portable"}
    else:
        line = next(x for x in Path("/proc/cpuinfo").read_text().splitlines() if x[:5] == "flags")
        flags = set(line.split())
        wanted = {"portable"}
        if {"avx2", "fma", "f16c"} <= flags:
            wanted.add("avx2")
            if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
                wanted.add("avx512")
    if set(sets) != wanted:
        raise AssertionError(f"got the instruction sets {sets}, expected {sorted(wanted)}")
    return ", ".join(sets)


def models(text: str) -> str:
    counts = Counter(item["library"]["verdict"] for item in json.loads(text)["models"].values())
    if counts["wrong"] or not counts["ok"]:
        raise AssertionError(f"{dict(counts)}")
    return ", ".join(f"{counts[kind]} {kind}" for kind in ("ok", "too new") if counts[kind])


def readme(place: places.Place) -> str:
    """README's first example, which compares PyTorch with ONNX Runtime."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    (place.folder / "first_example.py").write_text(code)
    place.run(str(place.folder / "first_example.py"))
    return "equal bits"


def differences(results: list[dict[str, Any]]) -> list[str]:
    """Environments whose bits are not those of the first one with that instruction set."""
    found = []
    for isa in ("portable", "avx2", "avx512", "neon"):
        items = [(result["name"], result["found"].get(f"bits {isa}", {})) for result in results]
        items = [(name, item) for name, item in items if "bits" in item]
        for name, item in items[1:]:
            first_name, first = items[0]
            if item["bits"] != first["bits"]:
                theirs = first.get("calls", {})
                wrong = [title for title, bits in item.get("calls", {}).items()
                         if title in theirs and bits != theirs[title]]  # fmt: skip
                more = f": {len(wrong)} calls, such as {wrong[0]}" if wrong else ""
                found.append(f"{name}, {isa}: other bits than in {first_name}{more}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--torch", type=Path, help="a folder of wheels of torch")
    parser.add_argument("--only", default="", help="trials whose names have this text")
    parser.add_argument("--keep-docs", action="store_true", help="write no file")
    arguments = parser.parse_args()
    results, missing = [], []
    for trial in TRIALS:
        name = name_of(trial)
        if arguments.only not in name:
            continue
        place = prepared(trial, arguments.dist.resolve(), arguments.torch)
        if place is None:
            missing.append(name)
            print(f"{name}: not to be had", flush=True)
            continue
        found = tried(place, trial)
        errors = {what: item["error"] for what, item in found.items() if "error" in item}
        print(f"{name}: {'FAILED' if errors else 'ok'}", flush=True)
        for what, text in errors.items():
            print(f"  {what}: {text}", flush=True)
        results.append({"name": name, "origin": place.origin, "trial": vars(trial), "found": found})
    new = {result["name"] for result in results} | set(missing)
    failed = any("error" in item for result in results for item in result["found"].values())
    if RECORD.exists() and arguments.only:  # the others stay what they were
        before = json.loads(RECORD.read_text())
        results += [item for item in before["results"] if item["name"] not in new]
        missing += [name for name in before["missing"] if name not in new]
    different = differences(results)
    print("\n".join(different) or "bits are equal everywhere")
    if not arguments.keep_docs:
        order = [name_of(trial) for trial in TRIALS]
        results.sort(key=lambda item: order.index(item["name"]))
        for result in results:
            for item in result["found"].values():
                item.pop("calls", None)  # too many to keep
        known = {item["name"] for item in results} | set(missing)
        content = {"results": results, "missing": sorted(missing), "different": different,
                   "not tried": [name for name in order if name not in known]}  # fmt: skip
        RECORD.write_text(json.dumps(content, indent=1) + "\n")
        compat.write_page()
    return int(failed or bool(different) or not results)


if __name__ == "__main__":
    sys.exit(main())
