"""The bill of materials of a wheel: what of others is compiled into it, in CycloneDX.

It lies in .dist-info/sboms/ (PEP 770). Packages that are only required, such as onnxruntime, stand
in METADATA and are no part of the wheel.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from hashlib import sha256

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL

LLVM = "https://llvm.org/"


def make(
    distribution: str, version: str, binaries: Mapping[str, bytes], processor: str, epoch: int
) -> bytes:
    """The bill of one wheel; equal for equal arguments."""
    root = Component(
        name=distribution, version=version, type=ComponentType.LIBRARY, bom_ref=distribution,
        purl=PackageURL("pypi", None, distribution, version),
        licenses=[DisjunctiveLicense(id="BSD-3-Clause")],
        description=f"compiled for {processor}",
    )  # fmt: skip
    parts = [*_files(binaries), *_of_others(distribution)]
    bom = Bom(components=parts)
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, timezone.utc)
    bom.metadata.tools.components.add(
        _package("ziglang", "MIT", ComponentType.APPLICATION, "compiled and linked the binaries")
    )
    bom.register_dependency(root, parts)
    content = (
        repr([(part.bom_ref.value, part.version) for part in parts]) + distribution + processor
    )
    hashes = "".join(sha256(data).hexdigest() for data in binaries.values())
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, content + hashes)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    check(text)
    return (text + "\n").encode()


def check(text: str) -> None:
    """Raises ValueError unless a text is valid CycloneDX 1.6."""
    # Imported here, because its grammars of URLs take three seconds.
    from cyclonedx.validation.json import JsonStrictValidator

    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise ValueError(f"the bill of materials is not valid: {problem}")


def _files(binaries: Mapping[str, bytes]) -> list[Component]:
    return [
        Component(
            name=name, type=ComponentType.FILE, bom_ref=f"file:{name}",
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256(data).hexdigest())],
        )
        for name, data in sorted(binaries.items())
    ]  # fmt: skip


def _of_others(distribution: str) -> list[Component]:
    """What is linked statically, or whose headers have code in them."""
    parts = [
        _package("pybind11", "BSD-3-Clause", ComponentType.LIBRARY, "headers, in _numpy"),
        _llvm("libcxx", "linked statically into every binary"),
        _llvm("libcxxabi", "linked statically into every binary"),
        _llvm("libunwind", "linked statically into every binary"),
        _llvm("compiler-rt", "linked statically into every binary"),
    ]
    if distribution == "myops":
        parts.append(
            _package(
                "torch", "BSD-3-Clause", ComponentType.LIBRARY,
                "headers of its stable ABI and of DLPack, in libmyops_torch and _numpy",
            )
        )  # fmt: skip
    return parts


def _package(name: str, license_id: str, kind: ComponentType, what: str) -> Component:
    version = importlib.metadata.version(name).partition("+")[0]
    return Component(
        name=name, version=version, type=kind, description=what, bom_ref=f"pypi:{name}",
        purl=PackageURL("pypi", None, name, version),
        licenses=[DisjunctiveLicense(id=license_id)],
    )  # fmt: skip


def _llvm(name: str, what: str) -> Component:
    version = clang_version()
    website = ExternalReference(type=ExternalReferenceType.WEBSITE, url=XsUri(LLVM))
    return Component(
        name=name, version=version, type=ComponentType.LIBRARY, description=what,
        bom_ref=f"llvm:{name}", purl=PackageURL("generic", "llvm", name, version),
        licenses=[LicenseExpression("Apache-2.0 WITH LLVM-exception")],
        external_references=[website],
    )  # fmt: skip


def clang_version() -> str:
    """Of the LLVM in zig, whose libc++ has the same number."""
    command = [sys.executable, "-m", "ziglang", "c++", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"clang version (\d+\.\d+\.\d+)", done.stdout)
    if found is None:
        raise RuntimeError(f"zig c++ --version: got {done.stdout!r}, expected a version of clang")
    return found[1]
