"""Builds what scripts/mutants.py tests: a kernel with all mutations, of which one is active.

The headers of the kernel are copied with every mutation in them. The object for one instruction
set is compiled from the copies and linked in place of the original. The environment variable
MYOPS_MUTANT has the number of the active mutation.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ISA = "avx2"  # the instruction set whose kernel has the mutations
SANITIZE = "address,undefined"
CXX = os.environ.get("CXX", "c++")
PRELUDE = """#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
// The active mutation; -1: none.
extern "C" __attribute__((visibility("hidden"))) std::int64_t myops_mutant;
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
CHOICE = """
#include <cstdlib>
namespace {
std::int64_t chosen() {
  const char* number = std::getenv("MYOPS_MUTANT");
  return number == nullptr ? -1 : std::atoll(number);
}
}  // namespace
extern "C" { std::int64_t myops_mutant = chosen(); }
"""
# The pattern, its replacement, and the mutation in words. {k} is the number of the mutation.
MUTATIONS = [
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
    """A place in a header, and its mutation."""

    number: int
    file: str  # below the directory of the op
    line: int
    column: int
    end: int
    text: str  # the replacement
    mutation: str

    def __str__(self) -> str:
        return f"{self.number} {self.file}:{self.line}:{self.column + 1} {self.mutation}"


def tests_of(op: str) -> list[str]:
    """The C++ tests of kernels, and those of the op, without "myops_"."""
    folder = ROOT / "tests/native"
    own = [*folder.glob(f"{op}_tests.cpp"), *folder.glob(f"{op}_*_tests.cpp")]
    return ["kernel_tests", *sorted(path.stem for path in own)]


def headers_of(folder: Path) -> list[Path]:
    """The headers of an op that its kernel for the CPU consists of."""
    return sorted(path for path in folder.rglob("*.h") if path.parent.name != "cuda")


def sites_of(op: str) -> list[Site]:
    folder = ROOT / "csrc/ops" / op
    sites: list[Site] = []
    for path in headers_of(folder):
        file = path.relative_to(folder).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = re.sub(r'"[^"]*"', lambda text: "_" * len(text[0]), line.split("//")[0])
            if re.match(
                r"\s*(#|template|using|static_assert|inline constexpr|static constexpr)", code
            ):
                continue
            for pattern, instead, mutation in MUTATIONS:
                for match in re.finditer(pattern, code):
                    if mutation == "[1 +" and re.match(r"\[[\w<>]+\](\[\w+\])?(;|,| = \{)",
                                                   code[match.start() :]):  # fmt: skip
                        continue  # the length of an array
                    k = len(sites)
                    text = instead.format(k=k)
                    sites.append(Site(k, file, number, *match.span(), text, mutation))
    return sites


def write(source: Path, target: Path, sites: list[Site]) -> None:
    """Writes the headers of the kernel with these mutations."""
    for path in headers_of(source):
        file = path.relative_to(source).as_posix()
        lines = path.read_text().splitlines()
        here = [site for site in sites if site.file == file]
        for site in sorted(here, key=lambda site: (site.line, -site.column)):
            line = lines[site.line - 1]
            lines[site.line - 1] = line[: site.column] + site.text + line[site.end :]
        text = "\n".join(lines) + "\n"
        changed = target / file
        if not changed.exists() or changed.read_text() != text:
            changed.write_text(text)


def compile_all(build: Path, op: str, sites: list[Site], sanitize: bool) -> list[Site]:
    """Compiles the kernel with all mutations that compile, and returns these. Only this object is
    compiled with the sanitizers: its accesses are what they check."""
    source, target = ROOT / "csrc/ops" / op, build / "csrc/ops" / op
    shutil.rmtree(build, ignore_errors=True)
    shutil.copytree(ROOT / "csrc", build / "csrc")
    (target / "mutant.h").write_text(PRELUDE)
    unit = target / f"isa/{ISA}.cpp"
    text = unit.read_text().replace("#include", '#include "../mutant.h"\n#include', 1)
    unit.write_text(text + CHOICE)
    command = [
        CXX, f"-I{build}/csrc/include", "-O1", "-g0", "-fPIC", "-fvisibility=hidden", "-w",
        "-ffp-contract=off", "-std=c++20", "-fmax-errors=0", "-fno-semantic-interposition",
        "-include", str(target / "mutant.h"), *sanitizers(sanitize),
    ]  # fmt: skip
    while True:
        write(source, target, sites)
        check = subprocess.run(
            [*command, "-fsyntax-only", str(unit)], capture_output=True, text=True
        )
        if check.returncode == 0:
            break
        # The lines with errors; if no mutation is there, the lines that instantiate a template.
        for pattern in (r"(/\S+):(\d+):\d+: error", r"(/\S+):(\d+):\d+:   required from"):
            found = re.findall(pattern, check.stderr)
            wrong = {
                (os.path.relpath(os.path.normpath(path), target), line) for path, line in found
            }
            left = [site for site in sites if (site.file, str(site.line)) not in wrong]
            if len(left) < len(sites):
                break
        print(f"{len(sites) - len(left)} mutations do not compile", flush=True)
        if len(left) == len(sites):
            raise SystemExit(check.stderr[:4000])
        sites = left
    subprocess.run([*command, "-c", str(unit), "-o", str(build / f"{ISA}.o")], check=True)
    return sites


def sanitizers(wanted: bool) -> list[str]:
    return [f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all"] if wanted else []


def native_objects(op: str) -> Path:
    """Compiles the C++ tests and the fuzzer, with little optimisation; returns the build folder."""
    tree = ROOT / "build/mutants/native"
    cmake = ["cmake", "-S", str(ROOT), "-B", str(tree), "-G", "Ninja", "-DMYOPS_FUZZ=ON"]
    subprocess.run([*cmake, "-DMYOPS_OPTIMIZATION=-O1"], check=True, stdout=subprocess.DEVNULL)
    targets = ["myops_fuzz_ops", *(f"myops_{name}" for name in tests_of(op))]
    subprocess.run(["cmake", "--build", str(tree), "--target", *targets], check=True)
    return tree


def link_programs(build: Path, op: str, sanitize: bool) -> None:
    """Links the tests and the fuzzer with the object."""
    tree = native_objects(op)
    own = tree / f"CMakeFiles/myops_ops.dir/csrc/ops/{op}/isa/{ISA}.cpp.o"
    kernels = [*tree.glob("CMakeFiles/myops_core.dir/**/*.o"),
               *tree.glob("CMakeFiles/myops_ops.dir/**/*.o")]  # fmt: skip
    kernels.remove(own)
    tests = tree / "tests/native"
    fuzzer = [*tests.glob("fuzz/CMakeFiles/myops_fuzz_ops.dir/*.o"),
              *tests.glob("CMakeFiles/myops_fake_ort.dir/*.o"),
              *tree.glob("CMakeFiles/myops_ort_objects.dir/**/*.o")]  # fmt: skip
    programs = {"fuzz_ops": fuzzer}
    for name in tests_of(op):
        programs[name] = [*tests.glob(f"CMakeFiles/myops_{name}.dir/*.o")]
    for name, objects in programs.items():
        subprocess.run(
            [CXX, *sanitizers(sanitize), "-pthread", "-o", str(build / name),
             str(build / f"{ISA}.o"), *map(str, objects), *map(str, kernels)],
            check=True,
        )  # fmt: skip


def link_package(build: Path, op: str) -> None:
    """Copies the package, and links its libraries for PyTorch and NumPy with the object and with
    those of `make build`."""
    import torch

    package = build / "python/myops"
    shutil.copytree(ROOT / "python/myops", package)
    objects = ROOT / "build/objects/csrc"
    if not objects.exists():
        raise SystemExit(
            "no build/objects, the objects of the Python libraries: run `make objects`"
        )
    shared = [*objects.glob("core/*.o"), *objects.glob("cuda/*.o"), *objects.glob("ops/**/*.o")]
    shared = [path for path in shared if path.parts[-3:] != (op, "isa", f"{ISA}.o")]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    for adapters, name in (
        (("torch",), "lib/libmyops_torch.so"),
        (("numpy", "fast_call"), f"_numpy{suffix}"),
    ):
        library = package / name
        library.unlink()
        torch_libraries = Path(torch.__file__).parent / "lib"
        subprocess.run(
            [CXX, "-shared", "-o", str(library), str(build / f"{ISA}.o"),
             *map(str, shared),
             *(str(path) for folder in adapters for path in objects.glob(f"adapters/{folder}/*.o")),
             f"-L{torch_libraries}", "-lc10", "-ltorch_cpu", "-ltorch"],
            check=True,
        )  # fmt: skip
