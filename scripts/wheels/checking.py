"""The conditions that a wheel has to meet before it is released."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.wheel_abi import analyze_wheel_abi
from elftools.elf.elffile import ELFFile

from wheels import sbom
from wheels.compiling import ROOT, TORCH_LIBRARY

# The symbols that each binary exports; all others are hidden.
_SHOWN = {
    r"myops/lib/libmyops_ort\.so": r"RegisterCustomOps|myops_record_calls",
    r"myops/lib/libmyops_torch\.so": r"myops_\w+",
    r"myops/_numpy\.[\w-]+\.so": r"PyInit__numpy",
}
_LICENCE = ROOT / "LICENSE"
# Of torch: functions of C, which its stable ABI consists of. C++ is no part of it.
_OF_TORCH = re.compile(r"(aoti_)?torch_\w+")
_LIBRARIES = re.compile(rf"lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux.*|{re.escape(TORCH_LIBRARY)}")


def check(path: Path) -> list[str]:
    """Checks a wheel.

    Returns:
        What is wrong with it; nothing where all is well.
    """
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
        stamps = {entry.date_time for entry in archive.infolist()}
    found = [*_packing(path, contents), *_licence(contents), *_bill(contents)]
    found += [] if found else _policy(path)  # auditwheel reads what RECORD lists
    if len(stamps) != 1:
        found.append(f"time stamps: got {len(stamps)}, expected one")
    for name, data in contents.items():
        found += _paths(name, data)
        if name.endswith(".so"):
            found += _symbols(name, data, path.stem.rpartition("_2_28_")[2])
    return [f"{path.name}: {text}" for text in found]


def _packing(path: Path, contents: dict[str, bytes]) -> Iterator[str]:
    """RECORD holds the hash of every file, and WHEEL the tags that the name has."""
    (record,) = (name for name in contents if name.endswith(".dist-info/RECORD"))
    stated = {row[0]: row[1] for row in csv.reader(io.StringIO(contents[record].decode()))}
    if list(stated) != list(contents):
        yield "RECORD: other files than in the archive"
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        if name != record and stated.get(name) != f"sha256={digest}":
            yield f"RECORD: {name}: another hash"
    pythons, abi, platform = path.stem.split("-")[2:]
    expected = [f"{python}-{abi}-{platform}" for python in pythons.split(".")]
    lines = contents[record.replace("RECORD", "WHEEL")].decode().splitlines()
    tags = [line.partition(": ")[2] for line in lines if line.startswith("Tag: ")]
    if tags != expected:
        yield f"WHEEL: got the tags {tags}, expected {expected}, as the name says"
    for python in pythons.split("."):
        if not any(name.startswith(f"myops/_numpy.cpython-{python[2:]}-") for name in contents):
            yield f"the tag {python}, and no module for it"


def _licence(contents: dict[str, bytes]) -> Iterator[str]:
    """METADATA names the files of the licence, and they are there."""
    (name,) = (name for name in contents if name.endswith(".dist-info/METADATA"))
    lines = contents[name].decode().partition("\n\n")[0].splitlines()
    files = [line.partition(": ")[2] for line in lines if line.startswith("License-File: ")]
    if not files:
        yield "METADATA: it names no file of the licence"
    for file in files:
        if contents.get(name.replace("METADATA", f"licenses/{file}"), b"") != _LICENCE.read_bytes():
            yield f"METADATA: it names {file}, which is not in licenses/ as it is here"


def _bill(contents: dict[str, bytes]) -> Iterator[str]:
    bills = [name for name in contents if ".dist-info/sboms/" in name]
    if len(bills) != 1:
        yield f"got the bills of materials {bills}, expected one"
        return
    text = contents[bills[0]].decode()
    try:
        sbom.check(text)
    except ValueError as error:
        yield str(error)
    for name, data in contents.items():
        if name.endswith(".so") and hashlib.sha256(data).hexdigest() not in text:
            yield f"{bills[0]}: it does not have {name}"


def _policy(path: Path) -> Iterator[str]:
    """What auditwheel says, which is what `auditwheel show` prints; torch's library is not ours."""
    platform = path.stem.rpartition("-")[2]
    processor = platform.rpartition("_2_28_")[2]
    found = analyze_wheel_abi(
        Libc.GLIBC, Architecture(processor), path, frozenset([TORCH_LIBRARY]),
        disable_isa_ext_check=False, allow_graft=False,
    )  # fmt: skip
    wanted = found.policies.get_policy_by_name(platform)
    if found.overall_policy < wanted:
        yield f"auditwheel: got {found.overall_policy.name}, expected {platform}"


def _symbols(name: str, data: bytes, processor: str) -> Iterator[str]:
    elf = ELFFile(io.BytesIO(data))
    machine = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}.get(elf["e_machine"])
    if machine != processor:
        yield f"{name}: for {elf['e_machine']}, expected {processor}"
    dynamic = elf.get_section_by_name(".dynamic")
    for tag in dynamic.iter_tags():
        if tag.entry.d_tag == "DT_NEEDED" and not _LIBRARIES.fullmatch(tag.needed):
            yield f"{name}: needs {tag.needed}"
        if tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
            yield f"{name}: has a search path"
    shown = next(names for place, names in _SHOWN.items() if re.fullmatch(place, name))
    versions = elf.get_section_by_name(".gnu.version")
    if elf.get_section_by_name(".dynsym").get_symbol_by_name("__cxa_finalize") is None:
        yield f"{name}: static objects are not destroyed when it is unloaded"
    for number, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
        if symbol["st_info"]["bind"] == "STB_LOCAL" or not symbol.name:
            continue
        if symbol["st_shndx"] != "SHN_UNDEF":
            if not re.fullmatch(shown, symbol.name):
                yield f"{name}: shows {symbol.name}"
            continue
        plain = ("VER_NDX_LOCAL", "VER_NDX_GLOBAL")
        versioned = versions is not None and versions.get_symbol(number)["ndx"] not in plain
        weak = symbol["st_info"]["bind"] == "STB_WEAK"
        from_host = (
            _OF_TORCH.fullmatch(symbol.name) if "torch" in name
            else "_numpy" in name and symbol.name.startswith(("Py", "_Py"))
        )  # fmt: skip
        if not versioned and not weak and not from_host:
            yield f"{name}: needs {symbol.name} of nobody knows which library"


def _paths(name: str, data: bytes) -> Iterator[str]:
    if name.endswith((".py", "METADATA")):
        return
    for place in {str(ROOT), str(Path.home()), sys.prefix}:
        if len(place) > 3 and place.encode() in data:
            yield f"{name}: holds the path {place}"
    # Not the name alone: the loader of CUDA's compiler looks for it in such a folder.
    for found in set(re.findall(rb"(?:/[\w.+-]+){2,}/site-packages", data)):
        yield f"{name}: holds the path {found.decode()}"
