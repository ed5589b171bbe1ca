"""Empty libraries in the place of CUDA's, so that a torch made for CUDA runs on a CPU.

torch for CUDA is what the index has for most versions, and loads two gigabytes of CUDA's libraries
when it is imported, on machines without a GPU too. There, torch calls only the functions that
register its GPU kernels with CUDA. A stand-in has the names and versions of the symbols that
torch's libraries look for; each is a function that returns 0.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from elftools.elf.elffile import ELFFile

_SYSTEM = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "ld-linux", "libstdc++",
           "libgcc_s", "libutil.so", "libz.so")  # fmt: skip
# Symbols without a version: those of CUDA among others that torch's libraries find in each other.
_OF_CUDA = ("cu", "__cuda", "nccl", "nv", "CUPTI")


def make(folder: Path) -> list[str]:
    """Makes them in torch's own folder of libraries, which is where these look first.

    Returns:
        Their names; none for a torch without CUDA.
    """
    there = {path.name for path in folder.iterdir()}
    wanted: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    unversioned: dict[str, set[str]] = defaultdict(set)
    for path in sorted(folder.glob("*.so*")):
        with path.open("rb") as stream:
            _look(ELFFile(stream), there, wanted, unversioned)
    for name in sorted(set(wanted) | set(unversioned)):
        _compile(folder / name, wanted[name], unversioned[name])
    return sorted(set(wanted) | set(unversioned))


def _look(elf: ELFFile, there: set[str], wanted: dict, unversioned: dict) -> None:  # type: ignore[type-arg]
    """Adds what one library looks for elsewhere."""
    dynamic = elf.get_section_by_name(".dynamic")
    symbols = elf.get_section_by_name(".dynsym")
    if dynamic is None or symbols is None:
        return
    needed = [tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]
    missing = [name for name in needed if name not in there and not name.startswith(_SYSTEM)]
    versions, needs = (elf.get_section_by_name(f".gnu.version{x}") for x in ("", "_r"))
    names: dict[int, tuple[str, str]] = {}
    if needs is not None:
        for library, entries in needs.iter_versions():
            for entry in entries:
                names[entry["vna_other"]] = (library.name, entry.name)
    for name in missing:
        unversioned[name] |= set()
    for number, symbol in enumerate(symbols.iter_symbols()):
        if symbol["st_shndx"] != "SHN_UNDEF" or not symbol.name:
            continue
        index = versions.get_symbol(number)["ndx"] if versions is not None else 0
        library, version = names.get(index, ("", ""))
        if library in missing:
            wanted[library][version].add(symbol.name)
        elif missing and not library and symbol.name.startswith(_OF_CUDA):
            unversioned[missing[0]].add(symbol.name)  # any of them may have it


def _compile(path: Path, versions: dict[str, set[str]], unversioned: set[str]) -> None:
    machine = path.parent.parent.parent  # the folder of packages
    names = {name for found in versions.values() for name in found} | unversioned
    lines = [".text"]
    for name in sorted(names):
        lines += [f".globl {name}", f".type {name}, %function", f"{name}:"]
    lines += ["mov x0, #0", "ret"] if _is_arm(path.parent) else ["xor %eax, %eax", "ret"]
    source, script = path.with_suffix(".stand-in.s"), path.with_suffix(".stand-in.map")
    source.write_text("\n".join(lines) + "\n")
    script.write_text(
        "".join(f"{version} {{ global: {'; '.join(sorted(found))}; }};\n"
                for version, found in versions.items())
    )  # fmt: skip
    processor = "aarch64" if _is_arm(path.parent) else "x86_64"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", f"{processor}-linux-gnu",
               "-nostdlib", "-shared", f"-Wl,-soname,{path.name}", "-o", str(path),
               str(source)]  # fmt: skip
    command += [f"-Wl,--version-script={script}"] if versions else []
    subprocess.run(command, check=True, cwd=machine)
    source.unlink()
    script.unlink()


def _is_arm(folder: Path) -> bool:
    with (folder / "libc10.so").open("rb") as stream:
        return ELFFile(stream)["e_machine"] == "EM_AARCH64"
