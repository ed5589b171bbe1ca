"""Runs the stored models of tests/data/golden in every ONNX Runtime, with the one library that is
built here, and writes what it found to docs/compatibility.md and docs/compatibility.json.

    python scripts/compat.py [VERSION...] [--keep-docs]

"1.17" stands for the last patch of that release. Each gets a small environment in
build/compat. The exit status is 1 when a model gives a wrong result anywhere, or is refused by an
ONNX Runtime that is not too old for it.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
VERSIONS = ("1.17", "1.18", "1.20", "1.22", "1.23", "1.25", "1.27", "1.29", "1.31", "1.32")
BEFORE_NUMPY_2 = ("1.17", "1.18")  # their binaries were built for NumPy 1
WAYS = {"library": "our kernels", "body": "function bodies, without our library"}


def environment(version: str) -> Path | None:
    """The Python of an environment with this onnxruntime; None when this Python has no wheel."""
    folder = ROOT / "build" / "compat" / version
    python = folder / "bin" / "python"
    if (folder / ".ready").exists():
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    numpy = "numpy<2" if version.startswith(BEFORE_NUMPY_2) else "numpy"
    install = [str(python), "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    done = subprocess.run(
        [*install, f"onnxruntime~={version}.0", numpy], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        if "No matching distribution found for onnxruntime" in done.stderr:
            return None
        raise SystemExit(f"onnxruntime {version}: {done.stderr.strip()}")
    (folder / ".ready").touch()
    return python


def measure(version: str, library: str) -> dict[str, Any]:
    python = environment(version)
    if python is None:
        return {"wanted": version, "onnxruntime": None}
    command = [str(python), str(ROOT / "tests" / "golden.py"), library]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:  # a crash is a result too
        reason = (done.stderr.strip() or f"ended with status {done.returncode}")[-300:]
        return {"wanted": version, "onnxruntime": version, "crash": reason}
    return {"wanted": version, **json.loads(done.stdout)}


def is_bad(result: dict[str, Any]) -> bool:
    models = result.get("models", {}).values()
    return "crash" in result or any(
        found["verdict"] == "wrong" for ways in models for found in ways.values()
    )


def cell(result: dict[str, Any], way: str) -> str:
    found = [ways[way] for ways in result["models"].values() if way in ways]
    counts = Counter(item["verdict"] for item in found)
    parts = [f"{counts['ok']} ok"]
    for kind in ("too new", "lacks an operator"):
        parts += [f"{counts[kind]} {kind}"] if counts[kind] else []
    parts += [f"**{counts['wrong']} wrong**"] if counts["wrong"] else []
    return ", ".join(parts)


def equal_bits(results: list[dict[str, Any]]) -> tuple[int, int]:
    """How many one-node models run in several versions, and how many of them with equal bits."""
    total = equal = 0
    names = {name for result in results for name in result.get("models", {})}
    for name in sorted(names):
        if not name.startswith("node_"):
            continue
        bits = [
            result["models"][name]["library"].get("bits")
            for result in results
            if result.get("models", {}).get(name, {}).get("library", {}).get("verdict") == "ok"
        ]
        total += len(bits) > 1
        equal += len(bits) > 1 and len(set(bits)) == 1
    return total, equal


def markdown(results: list[dict[str, Any]], count: int) -> str:
    total, equal = equal_bits(results)
    lines = [
        "# One library, many versions of ONNX Runtime",
        "",
        f"`make compat` wrote this page: the {count} models of `tests/data/golden`, run with one",
        f"`libmyops_ort` in each ONNX Runtime, on {platform.system()} {platform.machine()}, Python",
        f"{platform.python_version()}.",
        "",
        "- ok: the result is the stored one, which our kernels did not compute.",
        "- too new: this ONNX Runtime refuses the opset or IR version of the file.",
        "- lacks an operator: the function body holds a standard operator that this ONNX Runtime",
        "  does not have (DeformConv, which came with 1.25; at opset 18 and below the body holds",
        "  simpler ones).",
        "",
        f"| onnxruntime | {' | '.join(WAYS.values())} |",
        "|---" * (len(WAYS) + 1) + "|",
    ]
    for result in results:
        if result["onnxruntime"] is None:
            cells = ["no wheel for this Python"] + [""] * (len(WAYS) - 1)
        elif "crash" in result:
            cells = [f"**crash**: {result['crash']}"] + [""] * (len(WAYS) - 1)
        else:
            cells = [cell(result, way) for way in WAYS]
        lines.append(f"| {result['onnxruntime'] or result['wanted']} | {' | '.join(cells)} |")
    lines += [
        "",
        f"Models of one node: {equal} of the {total} that run in several versions give equal bits",
        "in all of them. The other models also hold ONNX Runtime's own operators, which round as",
        "they do.",
    ]
    for kind, title in (("wrong", "What is wrong"), ("lacks an operator", "What is lacking")):
        reasons: dict[str, tuple[set[str], set[str]]] = {}
        for result in results:
            for name, ways in result.get("models", {}).items():
                for found in ways.values():
                    if found["verdict"] == kind:
                        versions, models = reasons.setdefault(found["reason"], (set(), set()))
                        versions.add(result["onnxruntime"])
                        models.add(name)
        if reasons:
            lines += ["", f"## {title}", ""]
        for reason, (versions, models) in reasons.items():
            first = reason.splitlines()[0]
            lines.append(f"- `{first}`: {', '.join(sorted(versions))}; {', '.join(sorted(models))}")
    return "\n".join(lines) + "\n"


def wheels_section() -> str:
    """The results of scripts/try_dist.py; empty if it never ran."""
    record = DOCS / "wheels.json"
    if not record.exists():
        return ""
    content = json.loads(record.read_text())
    lines = [
        "",
        "## The wheels",
        "",
        "`make test-dist` tried the wheels of `make dist` in fresh environments: the models above,",
        "with our kernels; calls of all kernels on each instruction set, whose bits are compared",
        "with those of all other environments that have it, for `portable` also those of the other",
        "processor; and with torch the first example of the README, and calls in PyTorch against",
        "the same in NumPy. aarch64 runs in an emulator.",
        "",
        "| processor | Python | NumPy | onnxruntime | torch | models | kernels | with torch |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in content["results"]:
        found, trial = result["found"], result["trial"]
        versions = json.loads(found["versions"].get("result", "{}"))
        sets = [name.partition(" ")[2] for name in found if name.startswith("bits ")]
        words = {
            what: item.get("result", "**failed**") for what, item in found.items()
        }  # fmt: skip
        kernels = ", ".join(f"{name}: {words[f'bits {name}']}" for name in sets)
        with_torch = f"{words['README']}; {words['torch and NumPy']}" if trial["torch"] else ""
        cells = [trial["processor"], f"{versions.get('python')} ({result['origin']})",
                 versions.get("numpy"), versions.get("onnxruntime"), words.get("torch", ""),
                 words.get("models"), kernels, with_torch]  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += [""]
    lines += [f"- {text}" for text in content["different"]] or ["The bits are equal everywhere."]
    if content["missing"]:
        lines += ["", f"Not to be had: {', '.join(content['missing'])}."]
    if content["not tried"]:
        lines += ["", f"Not tried with these wheels: {', '.join(content['not tried'])}."]
    return "\n".join(lines) + "\n"


def newest_torch_section() -> str:
    """What scripts/newest_torch.py has found; nothing where it never ran."""
    record = DOCS / "newest_torch.json"
    if not record.exists():
        return ""
    content = json.loads(record.read_text())
    lines = [
        "",
        "## The newest torch",
        "",
        "`make test-newest-torch` runs the tests of torch's private names, of calls of each kind,",
        "of our ops in every runtime, and of both exporters, with the newest torch that the",
        "package index has and the libraries that were built with the torch of constraints.txt.",
        "",
        "| torch | Python | result |",
        "|---|---|---|",
        f"| {content['torch']} | {content['python']} | {content['result']} |",
    ]
    return "\n".join(lines) + "\n"


def oldest_torch_section() -> str:
    lines = [
        "",
        "## The oldest torch",
        "",
        "`make test-oldest-torch` lets the compiler check every source that includes torch's",
        "headers with those of the oldest torch that pyproject.toml allows, in the C++ standard of",
        "that torch. No code is generated.",
    ]
    return "\n".join(lines) + "\n"


def write_page(results: list[dict[str, Any]] | None = None) -> None:
    """Writes docs/compatibility.md from what was measured, now or before."""
    record = DOCS / "compatibility.json"
    if results is None:
        results = json.loads(record.read_text())
    else:
        record.write_text(json.dumps(results, indent=1) + "\n")
    count = len(json.loads((ROOT / "tests" / "data" / "golden" / "index.json").read_text()))
    (DOCS / "compatibility.md").write_text(
        markdown(results, count)
        + newest_torch_section()
        + oldest_torch_section()
        + wheels_section()
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("versions", nargs="*", default=list(VERSIONS))
    parser.add_argument("--keep-docs", action="store_true", help="write no file")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "python"))
    import myops.ort

    library = myops.ort.get_library_path()
    results = []
    for version in arguments.versions:
        results.append(measure(version, library))
        print(version, "WRONG" if is_bad(results[-1]) else "ok", flush=True)
    if not arguments.keep_docs:
        write_page(results)
    return int(any(map(is_bad, results)))


if __name__ == "__main__":
    sys.exit(main())
