"""Signed bundles: a session loads exactly the bytes that a trusted key has signed.

`signature.json` in a bundle is a DSSE envelope (Dead Simple Signing Envelope, version 1), whose
payload lists every file of the bundle with size and SHA-256, and whose signatures are Ed25519, by
the package `cryptography`. SECURITY.md says what this protects from and what it does not.

Nothing that was verified is read a second time: a file is read once, into a folder that only this
user can enter; what is hashed is what was written there, and ONNX Runtime loads from there.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myops._checked import checked
from myops.ort._signing.keys import Key, identity, private_key, public_keys
from myops.ort._signing.plain_files import opened, read

__all__ = ["SIGNATURE", "Key", "Signature", "identity", "private_key", "sign", "verified", "verify"]

SIGNATURE = "signature.json"

_PAYLOAD_TYPE = "application/vnd.myops.bundle+json"
_FORMAT = 1
_MOST_SIGNATURES = 64

Stated = dict[str, tuple[int, str]]  # file -> size and SHA-256


@dataclass(frozen=True)
class Signature:
    """What a bundle's signature says, after it was verified.

    Attributes:
        key: The trusted key that signed: SHA-256 of its 32 bytes, in hexadecimal digits.
        model: The model's file name.
        files: File, relative to the folder -> SHA-256.
    """

    key: str
    model: str
    files: dict[str, str]


def sign(folder: Path, model: str, key: Any) -> None:
    """Writes signature.json for all files in a folder.

    Args:
        folder: The bundle. Nothing else may change it meanwhile.
        model: Which of the files is the model.
        key: What `private_key` returns.
    """
    files = {
        str(path.relative_to(folder)): {
            "size": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    payload = json.dumps({"format": _FORMAT, "model": model, "files": files}).encode()
    signature = {
        "keyid": identity(key.public_key()),
        "sig": base64.b64encode(key.sign(_signed_bytes(payload))).decode(),
    }
    envelope = {
        "payloadType": _PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [signature],
    }
    (folder / SIGNATURE).write_text(json.dumps(envelope, indent=1) + "\n", encoding="utf-8")


@checked()
def verify(bundle: str | os.PathLike[str], trusted_keys: Sequence[Key] | None = None) -> Signature:
    """Checks a signed bundle: the signature, every file, and that there are no others.

    A folder can change after it was checked. `myops.ort.session(model, named_libraries="signed")`
    checks and loads the same bytes.

    Args:
        bundle: The folder.
        trusted_keys: Public keys whose signatures count: PEM files, or the bytes of one. Default:
            the files that the environment variable MYOPS_TRUSTED_KEYS lists, separated by ":".

    Returns:
        What was signed, and by which of the keys.

    Raises:
        ValueError: No trusted key; no signature, or none by a trusted key; a file is missing, has
            other bytes, is no plain file, or was not signed.
        NotADirectoryError: There is no such folder.
        ImportError: The package cryptography is missing.

    Example:
        >>> made = myops.ort.bundle("upscale.onnx", "deploy", sign="key.pem")
        >>> myops.ort.verify("deploy", trusted_keys=["maker.pem"]).model
        'upscale.onnx'
    """
    folder = Path(os.fspath(bundle))
    if not folder.is_dir():
        got = f"got the file {folder}" if folder.exists() else f"no such folder: {folder}"
        raise NotADirectoryError(f"bundle: {got}; expected the folder of a signed bundle")
    with opened(folder) as root:
        signature, stated = _checked_signature(root, folder, trusted_keys)
        for name, expected in stated.items():
            read(root, folder, name, expected, None)
    known = {*stated, SIGNATURE}
    folders = {part for name in known for part in map(str, Path(name).parents)}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name not in known and not (name in folders and path.is_dir() and not path.is_symlink()):
            raise ValueError(
                f"{path}: this file was not signed, expected those of the bundle only; delete it "
                "(a folder __pycache__ comes from importing load.py)"
            )
    return signature


@contextlib.contextmanager
def verified(
    model: str | bytes, trusted_keys: Sequence[Key] | None
) -> Iterator[tuple[str, dict[str, str]]]:
    """Copies of the files of a model's bundle, each of which has the bytes that were signed.

    Args:
        model: The path of the model in the bundle.
        trusted_keys: As in `verify`.

    Yields:
        The path of the model in a folder that is deleted at the end, and the SHA-256 of each path.
    """
    if isinstance(model, bytes):
        raise ValueError(
            "named_libraries='signed': got the model as bytes or a ModelProto, expected its path: "
            "the signature is in a file beside it"
        )
    path = Path(model)
    folder = path.parent
    with opened(folder) as root, tempfile.TemporaryDirectory(prefix="myops-signed-") as copies:
        signature, stated = _checked_signature(root, folder, trusted_keys)
        if signature.model != path.name:
            raise ValueError(
                f"{path}: this is not the model that was signed, expected "
                f"{folder / signature.model}"
            )
        found = {}
        for name, expected in stated.items():
            copy = Path(copies, name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            read(root, folder, name, expected, copy)
            found[str(copy)] = expected[1]
        yield str(Path(copies, signature.model)), found


def _signed_bytes(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: type and payload, each with its length."""
    kind = _PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _checked_signature(
    root: int, folder: Path, trusted_keys: Sequence[Key] | None
) -> tuple[Signature, Stated]:
    """What signature.json states, if a trusted key signed it. Before that, none of it is used."""
    keys = public_keys(folder, trusted_keys)
    place = folder / SIGNATURE
    try:
        data = read(root, folder, SIGNATURE, None, None)
    except FileNotFoundError as error:
        raise ValueError(
            f"{folder}: got no {SIGNATURE}, expected a signed bundle (`myops bundle --sign KEY`)"
        ) from error
    payload, signatures = _parts(data, place)
    signer = next((key for key in keys if _has_signed(key, payload, signatures)), None)
    if signer is None:
        raise ValueError(
            f"{place}: got no signature by a trusted key, expected one by "
            f"{' or '.join(identity(key)[:12] + '...' for key in keys)}: the bundle was changed, "
            "or somebody else signed it"
        )
    try:
        content = json.loads(payload)
        if content["format"] != _FORMAT:
            raise TypeError(f"format {content['format']!r}; a later myops reads it")
        stated = {
            _safe(name): (max(0, _of(int, item["size"])), _of(str, item["sha256"]))
            for name, item in content["files"].items()
        }
        model = _of(str, content["model"])
        if model not in stated or SIGNATURE in stated:
            raise TypeError("its list of files")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{place}: signed, but not what myops writes ({error})") from error
    hashes = {name: digest for name, (_, digest) in stated.items()}
    return Signature(identity(signer), model, hashes), stated


def _parts(data: bytes, place: Path) -> tuple[bytes, list[bytes]]:
    """Payload and signatures of an envelope."""
    try:
        envelope = json.loads(data)
        if envelope["payloadType"] != _PAYLOAD_TYPE:
            raise TypeError(f"payloadType {envelope['payloadType']!r}")
        texts = [item["sig"] for item in envelope["signatures"][:_MOST_SIGNATURES]]
        payload, *signatures = (
            base64.b64decode(_of(str, text), validate=True)
            for text in (envelope["payload"], *texts)
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{place}: got no signature as `myops bundle --sign` writes it ({error}); copy the "
            "bundle again"
        ) from error
    return payload, signatures


def _has_signed(key: Any, payload: bytes, signatures: Iterable[bytes]) -> bool:
    from cryptography.exceptions import InvalidSignature

    for signature in signatures:
        with contextlib.suppress(InvalidSignature):
            key.verify(signature, _signed_bytes(payload))
            return True
    return False


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} instead of {kind.__name__}")
    return value


def _safe(name: str) -> str:
    """The name of a file in the folder or below it."""
    parts = name.split("/")
    if "\\" in name or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"the file name {name!r}")
    return name
