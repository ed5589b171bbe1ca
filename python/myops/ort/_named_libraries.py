"""Which custom-op libraries a model needs, and which of them may be loaded.

A bundled model (myops.ort.bundle) names its libraries in its metadata, each with version and hash.
A model file may come from anywhere, and a library is code that runs. Therefore a name in a model
never decides alone what is loaded. It is a plain file name, the file must have the recorded hash,
and the file beside the model is taken only if the caller said that the folder is trusted.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import myops
from myops import _libraries
from myops.ort._loaders.load import sha256, this_platform

KEY = "myops.libraries"  # of the metadata_props
Policy = Literal["check", "trust", "signed", "ignore"]

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_METADATA_PROPS = 14  # the field's number in ModelProto; a key and a value in each entry
_TOO_LONG = 1 << 20  # bytes; a real entry has some hundreds
_MOST_FIELDS = 1 << 14  # of a model and of its entries together; a real one has some hundreds
_VARINT = 10  # bytes at most


@dataclass(frozen=True)
class NamedLibrary:
    """A library as a model names it.

    Attributes:
        file: A file name without folders.
        version: Of the package that it belongs to; "" when nobody said.
        sha256: Of its bytes, in hexadecimal digits.
        platform: What it was made for, such as "linux-x86_64".
        domains: Those of the model's domains that it serves.
    """

    file: str
    version: str
    sha256: str
    platform: str
    domains: tuple[str, ...]

    def __str__(self) -> str:
        version = f" {self.version}" if self.version else ""
        domains = ", ".join(map(repr, self.domains))
        return f"{self.file}{version} (SHA-256 {self.sha256[:12]}...) for {domains}"


def installed(domain: str) -> tuple[str, str] | None:
    """The library of an installed package that serves a domain, and its version."""
    library = _libraries.find(domain)
    if library is None or library.ort_library is None:
        return None
    if library is _libraries.OURS:
        return str(library.ort_library), myops.__version__
    import importlib.metadata  # not for each `import myops.ort`: it imports sixty modules

    try:
        version = importlib.metadata.version(library.package.partition(".")[0])
    except importlib.metadata.PackageNotFoundError:  # imported from a folder
        version = ""
    return str(library.ort_library), version


def is_plain(name: str) -> bool:
    """Whether a file name can only be a file in the folder that it is looked for in."""
    return _PLAIN.fullmatch(name) is not None


def dumps(libraries: Iterable[NamedLibrary]) -> str:
    """The value of the metadata entry."""
    return json.dumps([asdict(item) for item in libraries])


def named_by(model: str | bytes) -> list[NamedLibrary]:
    """The libraries that a model names; none for a model that was not bundled.

    Args:
        model: A path, or the bytes of a file.

    Raises:
        ValueError: The entry is not what `dumps` writes, or a name in it has a folder.
    """
    text = _entries(model).get(KEY)
    if text is None:
        return []
    fields = {"file": str, "version": str, "sha256": str, "platform": str, "domains": list}
    try:
        read = json.loads(text)
        if not isinstance(read, list):
            raise TypeError("no list")
        for item in read:
            if {name: type(value) for name, value in item.items()} != fields:
                raise TypeError(f"an entry with {sorted(item)}")
        found = [
            NamedLibrary(**{**item, "domains": tuple(map(str, item["domains"]))}) for item in read
        ]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"model: its metadata {KEY!r} is not what `myops bundle` writes ({error}); bundle it "
            "again, or load it with named_libraries='ignore'"
        ) from error
    for item in found:
        if not is_plain(item.file):
            raise ValueError(
                f"model: it names the library {item.file!r}, expected a file name without folders; "
                "do not trust this model, or load it with named_libraries='ignore'"
            )
    return found


def choose(model: str | bytes, given: Sequence[str], policy: Policy) -> list[str]:
    """The libraries to register for a model beside the caller's own.

    Args:
        model: A path, or the bytes of a file.
        given: Libraries that the caller passed.
        policy: See `myops.ort.session`.

    Returns:
        Those that this process knows, except where the model brings a trusted one for the same
        domain, and those that the model names.

    Raises:
        ValueError: A named library is not at hand with that hash, or is for another platform.
        FileNotFoundError: A trusted one is not beside the model, or ours has not been built.
    """
    if policy not in ("check", "trust", "signed", "ignore"):
        raise ValueError(
            f"named_libraries: got {policy!r}, expected 'check', 'trust', 'signed' or 'ignore'"
        )
    named = [] if policy == "ignore" else named_by(model)
    chosen: list[str] = []
    known = {item.domain: str(item.ort_library) for item in _libraries.known() if item.ort_library}
    for item in named:
        if item.platform != this_platform():
            raise ValueError(
                f"model: it names {item}, made for {item.platform}; this is {this_platform()}. "
                "Bundle the model again on such a machine, or load it with "
                "named_libraries='ignore': then the installed libraries run it"
            )
        same_name = [(path, "") for path in given if os.path.basename(path) == item.file]
        at_hand = [found for domain in item.domains if (found := installed(domain))]
        candidates = [(path, "") for path in given if os.path.isfile(path)] + at_hand
        equal = [path for path, _ in candidates if sha256(Path(path)) == item.sha256]
        if equal:
            chosen.append(equal[0])
        elif policy in ("trust", "signed"):  # the copies of a signed bundle are such a folder
            chosen.append(_beside(model, item))
            replaced = {known[domain] for domain in item.domains if domain in known}
            known = {domain: path for domain, path in known.items() if path not in replaced}
        else:
            raise ValueError(_not_at_hand(item, same_name + at_hand))
    mine = list(known.values())
    return [*mine, *(path for path in chosen if path not in (*mine, *given))]


def _not_at_hand(item: NamedLibrary, others: list[tuple[str, str]]) -> str:
    text = f"model: it names {item}. "
    if others:
        path, version = others[0]
        text += (
            f"{path}{f' of version {version}' if version else ''} has SHA-256 "
            f"{sha256(Path(path))[:12]}... and may give other results. Get the same build, "
        )
    else:
        text += "No installed package provides it. Pass its path in libraries=[...], "
    return text + (
        "or load with named_libraries='trust': this runs the file beside the model, so only where "
        "you trust whoever gave you the folder. named_libraries='ignore' goes on without it"
    )


def _beside(model: str | bytes, item: NamedLibrary) -> str:
    """The named library in the model's folder, after its hash was checked."""
    if isinstance(model, bytes):
        raise ValueError(
            f"model: it names {item}, but came as bytes or a ModelProto, so there is no folder to "
            "look in; pass the path of the file, or the library's in libraries=[...]"
        )
    path = Path(model).absolute().parent / item.file
    if not path.is_file():
        raise FileNotFoundError(
            f"model: it names {item}, and there is no {path}; copy the whole bundle, not only "
            "the model"
        )
    got = sha256(path)
    if got != item.sha256:
        raise ValueError(
            f"{path}: got SHA-256 {got}, expected {item.sha256}, as the model says: the file is "
            "damaged or of another version; copy the whole bundle again"
        )
    return str(path)


# ---- The metadata of a model file, without reading the rest of it.


def _entries(model: str | bytes) -> dict[str, str]:
    if isinstance(model, bytes):
        return dict(_scan(io.BytesIO(model)))
    try:
        with open(model, "rb") as stream:
            return dict(_scan(stream))
    except OSError:
        return {}  # ONNX Runtime says what is wrong with the file


def _scan(stream: BinaryIO) -> Iterator[tuple[str, str]]:
    """The metadata_props of a ModelProto; nothing more after the first byte that is out of place.

    Everything else is skipped unread, so that a large model costs nothing, and the number of fields
    is bounded, so that a hostile one does not either.
    """
    fields = _Fields()
    for number, start, size in fields.of(stream, 0, stream.seek(0, os.SEEK_END)):
        if number == _METADATA_PROPS and size <= _TOO_LONG:
            stream.seek(start)
            read = stream.read(size)
            entry = io.BytesIO(read)
            texts = {n: read[at : at + length] for n, at, length in fields.of(entry, 0, len(read))}
            key, value = (texts.get(n, b"").decode(errors="replace") for n in (1, 2))
            yield key, value


class _Fields:
    """Goes through the fields of messages, and counts them."""

    def __init__(self) -> None:
        self.left = _MOST_FIELDS

    def of(self, stream: BinaryIO, place: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Number, start and size of each field between two places that holds bytes."""
        while place < end:
            if self.left == 0:
                raise ValueError(
                    f"model: got more than {_MOST_FIELDS} fields beside those of its graph, "
                    "expected fewer; no exporter writes such a file: do not trust it, or load it "
                    "with named_libraries='ignore'"
                )
            self.left -= 1
            stream.seek(place)
            head = stream.read(2 * _VARINT)
            tag, used = _varint(head, 0)
            kind = tag & 7
            if kind in (0, 2):
                size, used = _varint(head, used)
                if used == 0:
                    return
                size = size if kind == 2 else 0
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
            else:  # a group, which onnx has none of, or nothing
                return
            place += used
            if used == 0 or tag >> 3 == 0 or size > end - place:  # cut off, or a wrong length
                return
            if kind == 2:
                yield tag >> 3, place, size
            place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """The number at a place and the place behind it, which is 0 where there is none."""
    value = 0
    for shift, byte in enumerate(data[place : place + _VARINT]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, place + shift + 1
    return 7, 0  # no wire type
