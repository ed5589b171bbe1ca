"""Signed bundles for tests: the keys, and functions that make and load one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from onnx import helper, numpy_helper
from ort_models import FLOAT, model_of

import myops.ort

FEEDS = {"a": np.float32([[1, 2, 3]]), "b": np.float32([1, 1, 1])}
OTHERS = b"\0"  # appended to a library, it changes the hash and nothing else


def pem(key: Any, password: bytes | None = None) -> bytes:
    if not hasattr(key, "private_bytes"):
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return key.public_bytes(serialization.Encoding.PEM, form)
    encryption = (
        serialization.BestAvailableEncryption(password) if password
        else serialization.NoEncryption()
    )  # fmt: skip
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, encryption)


KEY, UNTRUSTED_KEY = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))
PUBLIC, UNTRUSTED_PUBLIC = pem(KEY.public_key()), pem(UNTRUSTED_KEY.public_key())


def weighted_model(folder: Path) -> Path:
    """y = MyAdd(a, b) + w, with w in a folder beside the model."""
    nodes = [
        helper.make_node("MyAdd", ["a", "b"], ["c"], domain="myops"),
        helper.make_node("Add", ["c", "w"], ["y"]),
    ]
    proto = model_of(
        nodes, {"a": (FLOAT, [1, 3]), "b": (FLOAT, [3])}, {"y": (FLOAT, None)},
        initializer=[numpy_helper.from_array(np.zeros((400, 3), np.float32)[:1], "w")],
    )  # fmt: skip
    (folder / "parts").mkdir(parents=True)
    path = folder / "net.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="parts/w.bin", size_threshold=0)
    return path


def make(folder: Path) -> Path:
    """A signed bundle whose library works, but is not the installed one."""
    library = folder / "libmyops_ort.so"
    library.write_bytes(Path(myops.ort.get_library_path()).read_bytes() + OTHERS)
    model = weighted_model(folder / "in")
    return myops.ort.bundle(
        model, folder / "deploy", libraries={"myops": library}, check=False, sign=pem(KEY)
    ).folder


def load(folder: Path, keys: Any = (PUBLIC,)) -> Any:
    path = folder / "net.onnx"
    return myops.ort.session(path, named_libraries="signed", trusted_keys=keys)


def loaded() -> set[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[-1] for line in lines if "libmyops_ort" in line}
