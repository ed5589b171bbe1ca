"""Keys of signed bundles: Ed25519, as PEM, by the package `cryptography`."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Sequence
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

    def load() -> Any:
        return serialization.load_pem_private_key(data, password.encode() if password else None)

    try:
        return _checked(load, ed25519.Ed25519PrivateKey, f"sign: {called}", "private", NEW)
    except TypeError as error:  # a password without need, or none where there should be one
        needs = f"unset {PASSWORD}" if password else f"set {PASSWORD} to its password"
        raise ValueError(f"sign: {called}: {error}; {needs}") from error


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
        load = functools.partial(serialization.load_pem_public_key, data)
        place = f"trusted_keys: {called}"
        keys.append(_checked(load, ed25519.Ed25519PublicKey, place, "public", PUBLIC_PART))
    return keys


def _checked(
    load: Callable[[], Any], kind: type[Any], place: str, secrecy: str, expected: str
) -> Any:
    """The key that `load` reads, if it is of this kind."""
    try:
        key = load()
    except ValueError as error:
        got = f"no {secrecy} key that can be read ({error})"
        raise ValueError(f"{place}: got {got}, expected {expected}") from error
    if not isinstance(key, kind):
        raise ValueError(f"{place}: got {type(key).__name__}, expected {expected}")
    return key


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
