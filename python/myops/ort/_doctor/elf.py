"""What a library file is, found out from its bytes. Nothing in it is executed."""

from __future__ import annotations

import platform
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

_MACHINES = {
    3: "x86 (32 bit)", 8: "MIPS", 20: "PowerPC", 21: "ppc64le", 22: "s390x", 40: "ARM (32 bit)",
    62: "x86_64", 183: "aarch64", 243: "RISC-V", 258: "LoongArch",
}  # fmt: skip
_HERE = {"amd64": "x86_64", "arm64": "aarch64", "i686": "x86 (32 bit)", "i386": "x86 (32 bit)"}

_OTHERS = {
    b"MZ": ("a library or program for Windows", "wrong-architecture"),
    b"\xcf\xfa\xed\xfe": ("a library for macOS", "wrong-architecture"),
    b"\xca\xfe\xba\xbe": ("a library for macOS", "wrong-architecture"),
    b"!<arch>": ("a static library (.a)", "not-a-library"),
    b"PK\x03\x04": ("a zip archive, as a wheel is", "not-a-library"),
    b"version https://git-lfs": ("a pointer of Git LFS: run `git lfs pull`", "not-a-library"),
    b"\x1f\x8b": ("a gzip archive", "not-a-library"),
    b"<": ("a web page or XML, as a failed download leaves", "not-a-library"),
    b"#!": ("a script", "not-a-library"),
}


@dataclass
class FileFacts:
    """kind: "library", or in words what it is instead. problem: why it cannot be loaded."""

    kind: str
    problem: str = ""  # "", "not-a-library", "wrong-architecture", "cut-off"
    machine: str = ""
    exports: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)


def this_machine() -> str:
    """The architecture of this Python process."""
    machine = platform.machine().lower()
    machine = _HERE.get(machine, machine)
    if struct.calcsize("P") == 4 and machine == "x86_64":
        return "x86 (32 bit)"
    return machine


def examine(path: str) -> FileFacts:
    """Reads a file like the loader of shared libraries."""
    data = Path(path).read_bytes()
    if not data:
        return FileFacts("an empty file", "not-a-library")
    if data.startswith(b"\x7fELF"):
        try:
            return _elf(data)
        except (struct.error, IndexError, ValueError):
            return FileFacts("the beginning of a shared library", "cut-off")
    for start, (kind, fault) in _OTHERS.items():
        if data.startswith(start):
            return FileFacts(kind, fault)
    text = all(31 < byte < 127 or byte in b"\t\r\n" for byte in data[:200])
    return FileFacts("a text file" if text else "no shared library", "not-a-library")


def _elf(data: bytes) -> FileFacts:
    wide, order = data[4] == 2, "<" if data[5] == 1 else ">"
    kind, machine = struct.unpack_from(f"{order}HH", data, 16)
    name = _MACHINES.get(machine, f"machine number {machine}")
    bits = 64 if wide else 32
    mine = struct.calcsize("P") * 8
    local = "little" if order == "<" else "big"
    if name != this_machine() or bits != mine or local != sys.byteorder:
        same = name == this_machine()
        shown = name if not same else f"{name}, but {bits} bit, {local}-endian"
        return FileFacts(f"a library for {shown}", "wrong-architecture", shown)
    if kind != 3:
        what = {1: "an object file (.o), not linked yet", 2: "a program", 4: "a core dump"}
        return FileFacts(what.get(kind, "an ELF file, but no library"), "not-a-library", name)
    if wide:
        (phoff,), (phsize, phcount) = (
            struct.unpack_from(f"{order}Q", data, 32), struct.unpack_from(f"{order}HH", data, 54),
        )  # fmt: skip
        for number in range(phcount):
            at = phoff + number * phsize
            start, size = (struct.unpack_from(f"{order}Q", data, at + skip)[0] for skip in (8, 32))
            (segment,) = struct.unpack_from(f"{order}I", data, at)
            if segment == 1 and start + size > len(data):  # PT_LOAD
                return FileFacts("the beginning of a shared library", "cut-off", name)
        exports, needs = _symbols(data, order)
        return FileFacts("library", "", name, exports, needs)
    return FileFacts("library", "", name)


def _symbols(data: bytes, order: str) -> tuple[list[str], list[str]]:
    """The functions that a 64-bit library exports, and the libraries that it needs."""
    (shoff,) = struct.unpack_from(f"{order}Q", data, 40)
    size, count = struct.unpack_from(f"{order}HH", data, 58)
    if not shoff:
        return [], []
    sections = [struct.unpack_from(f"{order}IIQQQQIIQQ", data, shoff + i * size)
                for i in range(count)]  # fmt: skip
    exports, needs = [], []
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind not in (6, 11):  # dynamic, dynamic symbols
            continue
        texts = sections[link][4]
        for at in range(start, start + length, 16 if kind == 6 else 24):
            if kind == 6:
                tag, value = struct.unpack_from(f"{order}QQ", data, at)
                if tag == 1:
                    needs.append(_text(data, texts + value))
                if tag == 0:
                    break
            else:
                name, info, _, section = struct.unpack_from(f"{order}IBBH", data, at)
                if section and info >> 4 in (1, 2) and info & 15 in (2, 10):
                    exports.append(_text(data, texts + name))
    return exports, needs


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode(errors="replace")
