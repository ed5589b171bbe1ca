"""Runs tests with the newest torch that the package index has, which myops was not built with.

    python scripts/newest_torch.py [--wheel FILE] [PYTEST_ARGUMENT...]

The wheel of torch (500 MB where the index has only the one for CUDA) is installed without CUDA in
build/newest_torch, once for each release; all other packages are those of this environment. The
libraries are the ones in the tree. Without PYTEST_ARGUMENTs, the tests in TESTS run, and
docs/newest_torch.json and docs/compatibility.md get the result. The exit status is that of pytest;
without a package index nothing runs, which is said, and the status is 0.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import compat
from wheels import places

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "newest_torch"
RECORD = ROOT / "docs" / "newest_torch.json"
# The private names of torch, calls of each kind, the conformance tests of our ops, both exporters.
TESTS = (
    *("test_private_names", "test_not_dense", "test_fast_call", "test_my_add", "test_no_gradient"),
    *("test_functorch", "test_out", "test_resize", "test_interpolate", "test_interpolate_traced"),
    *("test_interpolate_words", "test_deform_conv2d"),
)
EXPORT = (
    "test_export", "test_export_axes", "test_export_quiet", "test_export_lengths",
    "test_torchvision",
)  # fmt: skip


def newest() -> str:
    """The newest release of torch in the index; "" without an index."""
    command = [sys.executable, "-m", "pip", "index", "versions", "torch"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=places.own_pins(), check=False
    )
    found = re.match(r"torch \(([\w.+]+)\)", done.stdout)
    return found[1] if found else ""


def installed(version: str, wheel: str) -> Path:
    """The folder of packages that has this torch."""
    folder = BUILD / version
    if not (folder / ".ready").exists():
        python = ".".join(platform.python_version_tuple()[:2])
        place = places.Place(python, platform.machine(), [sys.executable], "", folder)
        if not place.install_torch(wheel or f"torch=={version}", beside=False):
            raise SystemExit(f"torch {version}: no wheel for Python {python}")
        (folder / ".ready").touch()
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--wheel", default="", help="a wheel that was downloaded before")
    parser.add_argument("tests", nargs="*", metavar="PYTEST_ARGUMENT")
    arguments = parser.parse_args()
    version = (arguments.wheel and Path(arguments.wheel).name.split("-")[1]) or newest()
    if not version:
        print("skipped: no package index to get the newest torch from", flush=True)
        return 0
    folder = installed(version, arguments.wheel)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    code = "import torch; print(torch.__version__)"
    said = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()
    if said.partition("+")[0] != version.partition("+")[0]:
        raise SystemExit(f"got torch {said}, expected {version} from {folder}")
    print(f"torch {said}", flush=True)
    files = [f"tests/ops/{name}.py" for name in TESTS]
    files += [f"tests/onnx/{name}.py" for name in EXPORT]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(arguments.tests or ["-m", "not slow", *files])],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    print(done.stdout, flush=True)
    if not arguments.tests:
        summary = re.sub(r" in .*", "", done.stdout.strip().splitlines()[-1]).strip("= ")
        content = {"torch": said, "python": platform.python_version(), "result": summary}
        RECORD.write_text(json.dumps(content, indent=1) + "\n")
        compat.write_page()
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
