"""Makes the wheels of myops and myops-runtime for other Linux systems, and checks them.

    python scripts/make_dist.py [--processor x86_64] [--output dist]

Each wheel serves every torch from 2.10 on and every version of Python that it names: those whose
headers this machine has, or Debian. Equal sources give equal bytes; SOURCE_DATE_EPOCH, by default
the time of the last commit, is the time stamp in them. The exit status is 1 where a check fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from wheels import checking, compiling, contents, packing, pythons, sbom

ROOT = Path(__file__).parents[1]


def epoch() -> int:
    """The time stamp for everything: that of the last commit, if nobody sets another."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout or "315532800")


def make(
    distribution: str, binaries: dict[str, Path], tags: Sequence[str], processor: str, output: Path
) -> Path:
    """Packs one wheel of binaries that have been made.

    Args:
        distribution: "myops" or "myops-runtime".
        binaries: Place in the package -> file.
        tags: The versions of Python, such as "cp310".
        processor: What the binaries are for.
        output: The folder for it.
    """
    stamp = epoch()
    platform = f"{compiling.PLATFORM}_{processor}"
    everything = contents.of(distribution)
    made = {f"myops/{place}": path.read_bytes() for place, path in binaries.items()}
    info = f"{distribution.replace('-', '_')}-{contents.VERSION}.dist-info"
    everything |= made
    everything[f"{info}/WHEEL"] = packing.wheel_file(tags, platform)
    everything[f"{info}/sboms/{distribution}.cdx.json"] = sbom.make(
        distribution, contents.VERSION, made, processor, stamp
    )
    output.mkdir(parents=True, exist_ok=True)
    target = output / packing.file_name(distribution, contents.VERSION, tags, platform)
    packing.pack(target, everything, stamp)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--processor", action="append", choices=compiling.PROCESSORS)
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dist")
    arguments = parser.parse_args()
    output, build = arguments.output.resolve(), arguments.build.resolve()
    found = pythons.headers(build / "headers")
    for item in found:
        print(f"Python {item.version}: headers of {item.origin}", flush=True)
    problems = []
    for processor in arguments.processor or compiling.PROCESSORS:
        plan = compiling.compile_all(processor, found, build / processor)
        for distribution in compiling.DISTRIBUTIONS:
            binaries = plan.binaries(distribution)
            wheel = make(distribution, binaries, [item.tag for item in found], processor, output)
            print(f"{wheel}  {wheel.stat().st_size / 2**20:.1f} MiB", flush=True)
            problems += checking.check(wheel)
    for problem in problems:
        print(problem, file=sys.stderr)
    print("checked: tags, hashes, symbols, paths, bill of materials, auditwheel" if not problems
          else f"{len(problems)} problems")  # fmt: skip
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
