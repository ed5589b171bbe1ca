"""Mutation testing of an op's kernels: which slips would the fuzzer of tests/fuzz not notice?

    python scripts/mutants.py deform_conv2d --count 100 --seed 1

Every comparison, bound, sum, product, minimum, index and condition in the kernel's headers gets a
slip: off by one, doubled, never, always. All of them are compiled once, into one library, where a
number chooses the one that is made (none for -1), so that a mutant costs no compilation. Each is
then given drawn calls (tests/fuzz/calls_*.py) in a process of its own until one goes wrong, or for
some seconds. What survives is listed; the same call of this script with `--only N --seconds 60`
looks at one again. `make build` comes first: the other objects are those of the last build.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
PRELUDE = """#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
// The slip that is made now; -1 is none.
extern "C" __attribute__((visibility("default"))) std::int64_t myops_mutant;
namespace mutant {
inline std::int64_t one(int k) { return myops_mutant == k; }
inline bool is(int k) { return myops_mutant == k; }
template <int k> struct Min {
  template <class A> static A f(const A& a, const A& b) {
    return is(k) ? std::max(a, b) : std::min(a, b);
  }
  template <class A> static A f(std::initializer_list<A> all) {
    return is(k) ? std::max(all) : std::min(all);
  }
};
template <int k> struct Max {
  template <class A> static A f(const A& a, const A& b) {
    return is(k) ? std::min(a, b) : std::max(a, b);
  }
  template <class A> static A f(std::initializer_list<A> all) {
    return is(k) ? std::min(all) : std::max(all);
  }
};
}  // namespace mutant
"""
# What is looked for, what stands there instead, and what the slip does. {k} is its number.
SLIPS = [
    (r" < (?=[\w(*])", " < mutant::one({k}) + ", "<="),
    (r" <= (?=[\w(*-])", " <= -mutant::one({k}) + ", "<"),
    (r" > (?=[\w(*])", " > -mutant::one({k}) + ", ">="),
    (r" >= (?=[\w(*-])", " >= mutant::one({k}) + ", ">"),
    (r" == (?=[\w(*-])", " == mutant::one({k}) + ", "== 1 +"),
    (r" != (?=[\w(*-])", " != mutant::one({k}) + ", "!= 1 +"),
    (r" && ", " && !mutant::is({k}) && ", "never"),
    (r" \|\| ", " || mutant::is({k}) || ", "always"),
    (r" \+ (?=[\w(*])", " + mutant::one({k}) + ", "+ 1 +"),
    (r" - (?=[\w(*])", " - mutant::one({k}) - ", "- 1 -"),
    (r" \+= (?=[\w(*-])", " += mutant::one({k}) + ", "+= 1 +"),
    (r" -= (?=[\w(*-])", " -= mutant::one({k}) + ", "-= 1 +"),
    (r" \* (?=[\w(*])", " * (1 + mutant::one({k})) * ", "* 2 *"),
    (r" / (?=[\w(*])", " / (1 + mutant::one({k})) / ", "/ 2 /"),
    (r"(?<=[\w\])])\[(?=[\w(])", "[mutant::one({k}) + ", "[1 +"),
    (r"\bstd::min\b", "mutant::Min<{k}>::f", "max"),
    (r"\bstd::max\b", "mutant::Max<{k}>::f", "min"),
    (r"\bif \((?!!)", "if (!mutant::is({k}) && ", "never"),
]


@dataclass
class Site:
    number: int
    file: str
    line: int
    column: int
    end: int
    text: str  # what stands there instead
    slip: str

    def __str__(self) -> str:
        return f"{self.number} {self.file}:{self.line}:{self.column + 1} {self.slip}"


def sites_of(folder: Path) -> list[Site]:
    sites: list[Site] = []
    for path in sorted(folder.glob("*.h")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = re.sub(r'"[^"]*"', lambda text: "_" * len(text[0]), line.split("//")[0])
            if re.match(
                r"\s*(#|template|using|static_assert|inline constexpr|static constexpr)", code
            ):
                continue
            for pattern, instead, slip in SLIPS:
                for match in re.finditer(pattern, code):
                    if slip == "[1 +" and re.match(r"\[[\w<>]+\](\[\w+\])?(;|,| = \{)",
                                                   code[match.start() :]):  # fmt: skip
                        continue  # the length of an array
                    k = len(sites)
                    text = instead.format(k=k)
                    sites.append(Site(k, path.name, number, *match.span(), text, slip))
    return sites


def write(source: Path, target: Path, sites: list[Site]) -> None:
    """The kernel's headers with every slip in them."""
    for path in source.glob("*.h"):
        lines = path.read_text().splitlines()
        here = [site for site in sites if site.file == path.name]
        for site in sorted(here, key=lambda site: (site.line, -site.column)):
            line = lines[site.line - 1]
            lines[site.line - 1] = line[: site.column] + site.text + line[site.end :]
        text = "\n".join(lines) + "\n"
        changed = target / path.name
        if not changed.exists() or changed.read_text() != text:
            changed.write_text(text)


def compile_all(build: Path, op: str, sites: list[Site]) -> tuple[list[Site], Path]:
    """Compiles the kernel with all slips; those that do not compile are left out."""
    source, target = ROOT / "csrc/ops" / op, build / "csrc/ops" / op
    shutil.rmtree(build, ignore_errors=True)
    shutil.copytree(ROOT / "csrc", build / "csrc")
    (target / "mutant.h").write_text(PRELUDE)
    unit, object_file = target / "isa/avx2.cpp", build / "avx2.o"
    text = unit.read_text().replace("#include", '#include "../mutant.h"\n#include', 1)
    unit.write_text(text + '\nextern "C" { std::int64_t myops_mutant = -1; }\n')
    command = [
        os.environ.get("CXX", "c++"), '-DMYOPS_DOMAIN="myops"', '-DMYOPS_NAMESPACE="myops"',
        f"-I{build}/csrc/include", "-O1", "-g0", "-fPIC", "-fvisibility=hidden", "-w",
        "-ffp-contract=off", "-std=c++20", "-fmax-errors=0", "-fno-semantic-interposition",
        "-include", str(target / "mutant.h"),
    ]  # fmt: skip
    while True:
        write(source, target, sites)
        check = subprocess.run(
            [*command, "-fsyntax-only", str(unit)], capture_output=True, text=True
        )
        if check.returncode == 0:
            break
        # The line of an error, or else those from which a template was asked for it.
        for pattern in (r"/([\w.]+):(\d+):\d+: error", r"/([\w.]+):(\d+):\d+:   required from"):
            wrong = set(re.findall(pattern, check.stderr))
            left = [site for site in sites if (site.file, str(site.line)) not in wrong]
            if len(left) < len(sites):
                break
        print(f"{len(sites) - len(left)} slips do not compile", flush=True)
        if len(left) == len(sites):
            raise SystemExit(check.stderr[:4000])
        sites = left
    subprocess.run([*command, "-c", str(unit), "-o", str(object_file)], check=True)
    return sites, object_file


def link(build: Path, op: str, object_file: Path) -> list[Path]:
    """A copy of the package whose two libraries have that object in them."""
    package = build / "python/myops"
    shutil.copytree(ROOT / "python/myops", package)
    objects = next((ROOT / "build").glob("temp.*")) / "csrc"
    shared = [*objects.glob("core/*.o"), *objects.glob("ops/**/*.o")]
    shared = [path for path in shared if path.parts[-3:] != (op, "isa", "avx2.o")]
    libraries = []
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    for adapter, name in (("torch", "lib/libmyops_torch.so"), ("numpy", f"_numpy{suffix}")):
        library = package / name
        library.unlink()
        torch_libraries = Path(torch.__file__).parent / "lib"
        subprocess.run(
            [os.environ.get("CXX", "c++"), "-shared", "-o", str(library), str(object_file),
             *map(str, shared), *map(str, objects.glob(f"adapters/{adapter}/*.o")),
             f"-L{torch_libraries}", "-lc10", "-ltorch_cpu", "-ltorch"],
            check=True,
        )  # fmt: skip
        libraries.append(library)
    return libraries


def survives(number: int, libraries: list[Path], ops: list[str], seconds: float, seed: int) -> str:
    """In a process of its own: what killed the mutant, or nothing."""
    read, wrote = os.pipe()
    process = os.fork()
    if process == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        # Of processor time: a loop without end is a finding, a busy machine is none.
        resource.setrlimit(resource.RLIMIT_CPU, (int(3 * seconds) + 20, int(3 * seconds) + 25))
        for library in libraries:
            ctypes.c_int64.in_dll(ctypes.CDLL(str(library)), "myops_mutant").value = number
        rng, end = random.Random(seed), time.process_time() + seconds
        modules = {op: importlib.import_module(f"calls_{op}") for op in ops}
        while time.process_time() < end:
            for op, module in modules.items():
                case = rng.getrandbits(48)
                os.write(wrote, f"{op} {case}\n".encode())
                try:
                    module.check(module.draw(case))
                except BaseException as error:  # a crash is one too, and is seen by its status
                    os.write(wrote, f"! {op} {case} {str(error)[:80]}\n".encode())
                    os._exit(1)
        os._exit(0)
    os.close(wrote)
    with os.fdopen(read) as lines:
        last = ""
        for line in lines:
            last = line.strip()
    _, status = os.waitpid(process, 0)
    return "" if status == 0 else f"{last} (status {status})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("op", choices=("deform_conv2d", "resize", "my_add"))
    parser.add_argument("--count", type=int, default=100, help="a sample of so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=15, help="of processor time for a mutant")
    parser.add_argument("--only", type=int, nargs="+", default=None, help="these numbers")
    parser.add_argument("--again", action="store_true", help="with what was compiled before")
    arguments = parser.parse_args()

    os.environ["MYOPS_ISA"] = "avx2"
    build = ROOT / "build/mutants" / arguments.op
    every = sites_of(ROOT / "csrc/ops" / arguments.op)
    kept = build / "compiled.txt"
    if arguments.again:
        numbers = {int(number) for number in kept.read_text().split()}
        sites = [site for site in every if site.number in numbers]
        libraries = [build / "python/myops/lib/libmyops_torch.so",
                     *(build / "python/myops").glob("_numpy*.so")]  # fmt: skip
    else:
        sites, object_file = compile_all(build, arguments.op, every)
        libraries = link(build, arguments.op, object_file)
        kept.write_text(" ".join(str(site.number) for site in sites))
    sys.path[:0] = [str(build / "python"), str(ROOT / "tests/fuzz"), str(ROOT / "tests")]
    ops = {"resize": ["resize", "interpolate"]}.get(arguments.op, [arguments.op])
    import myops

    assert Path(myops.__file__).is_relative_to(build), f"PYTHONPATH has {myops.__file__}"
    for op in ops:  # imported here, so that a mutant's process has it at once
        importlib.import_module(f"calls_{op}")

    def run(number: int) -> str:
        return survives(number, libraries, ops, arguments.seconds, arguments.seed)

    wrong = run(-1)
    if wrong:
        raise SystemExit(f"without any slip: {wrong}")
    sample = sites
    if arguments.only is not None:
        sample = [site for site in sites if site.number in arguments.only]
    elif arguments.count < len(sites):
        sample = random.Random(arguments.seed).sample(sites, arguments.count)
    results: Counter[str] = Counter({"did not compile": len(every) - len(sites)})
    for site in sorted(sample, key=lambda site: site.number):
        killer = run(site.number)
        results["killed" if killer else "survived"] += 1
        print(f"{'killed  ' if killer else 'SURVIVED'} {site}  {killer}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in results.items()), f"of {len(every)} slips")
    return 0


if __name__ == "__main__":
    sys.exit(main())
