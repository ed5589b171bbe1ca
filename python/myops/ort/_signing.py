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
import errno
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SIGNATURE = "signature.json"
TRUSTED_KEYS = "MYOPS_TRUSTED_KEYS"  # environment: files, separated as PATH is
PASSWORD = "MYOPS_SIGNING_PASSWORD"  # environment: of an encrypted private key

_PAYLOAD_TYPE = "application/vnd.myops.bundle+json"
_FORMAT = 1
_TOO_LONG = 1 << 22  # bytes of signature.json; a file takes about 150
_MOST_SIGNATURES = 64

Key = str | os.PathLike[str] | bytes
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
        ImportError: The package cryptography is missing.

    Example:
        >>> made = myops.ort.bundle("upscale.onnx", "deploy", sign="key.pem")
        >>> myops.ort.verify("deploy", trusted_keys=["maker.pem"]).model
        'upscale.onnx'
    """
    folder = Path(os.fspath(bundle))
    with _opened(folder) as root:
        signature, stated = _checked_signature(root, folder, trusted_keys)
        for name, expected in stated.items():
            _read(root, folder, name, expected, None)
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
    with _opened(folder) as root, tempfile.TemporaryDirectory(prefix="myops-signed-") as copies:
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
            _read(root, folder, name, expected, copy)
            found[str(copy)] = expected[1]
        yield str(Path(copies, signature.model)), found


# ---- Keys.


def identity(key: Any) -> str:
    """SHA-256 of a public key's 32 bytes."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def private_key(key: Key) -> Any:
    """An Ed25519 private key: a PEM file, or the bytes of one.

    An encrypted one is opened with the password in the environment variable MYOPS_SIGNING_PASSWORD.
    """
    serialization, ed25519 = _cryptography()
    data, called = _key_data(key, "sign")
    password = os.environ.get(PASSWORD)
    try:
        found = serialization.load_pem_private_key(data, password.encode() if password else None)
    except TypeError as error:  # a password without need, or none where there should be one
        needs = f"unset {PASSWORD}" if password else f"set {PASSWORD} to its password"
        raise ValueError(f"sign: {called}: {error}; {needs}") from error
    except ValueError as error:
        raise ValueError(
            f"sign: {called}: got no private key that can be read ({error}), expected an Ed25519 "
            "key as PEM: openssl genpkey -algorithm ed25519 -out key.pem"
        ) from error
    if not isinstance(found, ed25519.Ed25519PrivateKey):
        raise ValueError(
            f"sign: {called}: got {type(found).__name__}, expected an Ed25519 key: "
            "openssl genpkey -algorithm ed25519 -out key.pem"
        )
    return found


def _public_keys(folder: Path, given: Sequence[Key] | None) -> list[Any]:
    serialization, ed25519 = _cryptography()
    if given is None:
        given = [item for item in os.environ.get(TRUSTED_KEYS, "").split(os.pathsep) if item]
    elif isinstance(given, (str, bytes, os.PathLike)):
        given = [given]
    if not given:
        raise ValueError(
            f"trusted_keys: got none, and {TRUSTED_KEYS} is not set; expected the public key of "
            "whoever signs your bundles, as a PEM file that did not come with the bundle"
        )
    keys = []
    for item in given:
        if not isinstance(item, bytes) and Path(item).resolve().is_relative_to(folder.resolve()):
            raise ValueError(
                f"trusted_keys: {item} is in the bundle itself, where anyone could have put it; "
                "expected a key from elsewhere"
            )
        data, called = _key_data(item, "trusted_keys")
        try:
            key = serialization.load_pem_public_key(data)
        except ValueError as error:
            raise ValueError(
                f"trusted_keys: {called}: got no public key that can be read, expected an Ed25519 "
                "key as PEM: openssl pkey -in key.pem -pubout -out public.pem"
            ) from error
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise ValueError(
                f"trusted_keys: {called}: got {type(key).__name__}, expected an Ed25519 public key"
            )
        keys.append(key)
    return keys


def _key_data(key: Key, argument: str) -> tuple[bytes, str]:
    if isinstance(key, bytes):
        return key, "the key"
    path = os.fspath(key)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{argument}: no such file: {path}")
    return Path(path).read_bytes(), path


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise ImportError(
            "signed bundles need the package cryptography; get it with `pip install 'myops[sign]'`"
        ) from error
    return serialization, ed25519


# ---- The envelope.


def _signed_bytes(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: type and payload, each with its length."""
    kind = _PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _checked_signature(
    root: int, folder: Path, trusted_keys: Sequence[Key] | None
) -> tuple[Signature, Stated]:
    """What signature.json states, if a trusted key signed it. Before that, none of it is used."""
    keys = _public_keys(folder, trusted_keys)
    place = folder / SIGNATURE
    try:
        data = _read(root, folder, SIGNATURE, None, None)
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
        read = json.loads(payload)
        if read["format"] != _FORMAT:
            raise TypeError(f"format {read['format']!r}; a later myops reads it")
        stated = {
            _safe(name): (max(0, _of(int, item["size"])), _of(str, item["sha256"]))
            for name, item in read["files"].items()
        }
        model = _of(str, read["model"])
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


# ---- Files: only plain ones, opened from the folder down, no link followed.


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """The folder, which stays the same one if its path comes to mean another."""
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except NotADirectoryError as error:
        raise ValueError(f"{folder}: got a file, expected the folder of a bundle") from error
    try:
        yield root
    finally:
        os.close(root)


def _read(
    root: int, folder: Path, name: str, expected: tuple[int, str] | None, copy: Path | None
) -> bytes:
    """Reads a file once: hashes it and writes what was hashed to `copy`.

    Returns:
        The content, where nothing is expected of it; else nothing.
    """
    most = expected[0] if expected else _TOO_LONG
    digest, size, content = hashlib.sha256(), 0, b""
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(_plain_file(root, folder, name))
        target = stack.enter_context(copy.open("xb")) if copy else None
        while block := source.read(min(1 << 20, most - size + 1)):
            size += len(block)
            if size > most:
                break
            digest.update(block)
            if target:
                target.write(block)
            if expected is None:
                content += block
    got = digest.hexdigest()
    if size > most or (expected and (size, got) != expected):
        what = f"SHA-256 {got}" if size <= most else f"more than {most} bytes"
        wanted = f"SHA-256 {expected[1]}, as signed" if expected else "fewer"
        raise ValueError(
            f"{folder / name}: got {what}, expected {wanted}: the file was changed; copy the "
            "bundle again from whoever signed it"
        )
    return content


@contextlib.contextmanager
def _plain_file(root: int, folder: Path, name: str) -> Iterator[Any]:
    *folders, last = name.split("/")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    place = os.dup(root)
    try:
        for part in folders:
            inner = os.open(part, flags | os.O_DIRECTORY, dir_fd=place)
            os.close(place)
            place = inner
        opened = os.open(last, flags | os.O_NONBLOCK, dir_fd=place)  # or a FIFO would wait
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{folder / name} is missing, expected a file that was signed; copy the whole bundle "
            "again"
        ) from error
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise
        raise ValueError(_not_plain(folder / name)) from error
    finally:
        os.close(place)
    with open(opened, "rb", buffering=0) as stream:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise ValueError(_not_plain(folder / name))
        yield stream


def _not_plain(path: Path) -> str:
    return (
        f"{path}: got a symbolic link, a folder or a device, here or in the path, expected a plain "
        "file; copy the bundle again (with `cp -L` if its files are links)"
    )
