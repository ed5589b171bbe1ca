"""Packs a wheel so that equal contents give equal bytes."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

LIBRARY, PLAIN = 0o100755, 0o100644  # file modes


def file_name(distribution: str, version: str, pythons: Sequence[str], platform: str) -> str:
    """The name of a wheel, for several versions of Python such as "cp310"."""
    name = distribution.replace("-", "_")
    return f"{name}-{version}-{'.'.join(pythons)}-none-{platform}.whl"


def wheel_file(pythons: Sequence[str], platform: str) -> bytes:
    """The file WHEEL: what the name says, a tag a line."""
    lines = ["Wheel-Version: 1.0", "Generator: myops (make dist)", "Root-Is-Purelib: false"]
    lines += [f"Tag: {python}-none-{platform}" for python in pythons]
    return ("\n".join(lines) + "\n").encode()


def pack(target: Path, contents: Mapping[str, bytes], epoch: int) -> None:
    """Writes a wheel: sorted, RECORD last, every time stamp the same.

    Args:
        target: The file.
        contents: Name in the archive -> bytes, with exactly one folder NAME.dist-info.
        epoch: The time stamp in seconds, as SOURCE_DATE_EPOCH.
    """
    (info,) = {name.partition("/")[0] for name in contents if ".dist-info/" in name}
    record = io.StringIO()
    writer = csv.writer(record, lineterminator="\n")
    # Metadata come last, as the specification of wheels advises.
    names = sorted(contents, key=lambda name: (name.startswith(f"{info}/"), name))
    for name in names:
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents[name]).digest())
        writer.writerow([name, f"sha256={digest.decode().rstrip('=')}", len(contents[name])])
    writer.writerow([f"{info}/RECORD", "", ""])
    everything = {name: contents[name] for name in names}
    everything[f"{info}/RECORD"] = record.getvalue().encode()
    stamp = time.gmtime(max(epoch, 315532800))[:6]  # a zip file begins with 1980
    partial = target.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w") as archive:
        for name, data in everything.items():
            entry = zipfile.ZipInfo(name, stamp)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, wherever this runs
            entry.external_attr = (LIBRARY if name.endswith(".so") else PLAIN) << 16
            archive.writestr(entry, data, compresslevel=9)
    partial.replace(target)
