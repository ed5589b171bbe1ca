"""Keys of signed bundles: Ed25519, as PEM, by the package `cryptography`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TRUSTED_KEYS = "MYOPS_TRUSTED_KEYS"  # environment: files, separated as PATH is
PASSWORD = "MYOPS_SIGNING_PASSWORD"  # environment: of an encrypted private key

# What is expected, with the command that makes it.
NEW = "an Ed25519 key as PEM: openssl genpkey -algorithm ed25519 -out key.pem"
PUBLIC_PART = "an Ed25519 public key as PEM: openssl pkey -in key.pem -pubout -out public.pem"

Key = str | os.PathLike[str] | bytes


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
        raise _refusal("sign", called, f"no private key that can be read ({error})", NEW) from error
    if not isinstance(found, ed25519.Ed25519PrivateKey):
        raise _refusal("sign", called, type(found).__name__, NEW)
    return found


def public_keys(folder: Path, given: Sequence[Key] | None) -> list[Any]:
    """The keys that are trusted for the bundle in a folder; none of them may be in it."""
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
            got = "no public key that can be read"
            raise _refusal("trusted_keys", called, got, PUBLIC_PART) from error
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise _refusal("trusted_keys", called, type(key).__name__, PUBLIC_PART)
        keys.append(key)
    return keys


def _refusal(argument: str, called: str, got: str, expected: str) -> ValueError:
    return ValueError(f"{argument}: {called}: got {got}, expected {expected}")


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
