"""Signed bundles: how they are made, loaded and verified."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from ort_models import add_model
from signed_bundles import FEEDS, KEY, PUBLIC, UNTRUSTED_PUBLIC, load, loaded, pem

import myops.ort
from myops.ort import _signing


def test_a_signed_bundle_is_loaded_from_private_copies(bundle: Path) -> None:
    before = loaded()
    session = load(bundle)
    assert session.run(None, FEEDS)[0].tolist() == [[3, 5, 7]]
    (library,) = loaded() - before
    assert "myops-signed-" in library
    assert library.endswith("(deleted)")  # nothing is left on the disk
    found = myops.ort.verify(bundle, [UNTRUSTED_PUBLIC, PUBLIC])
    assert found.model == "net.onnx"
    assert found.key == _signing.identity(KEY.public_key())
    assert set(found.files) == {
        "README.md", "libmyops_ort.so", "load.h", "load.py", "net.onnx", "parts/w.bin",
    }  # fmt: skip


def test_options_serve_several_signed_sessions(bundle: Path) -> None:
    options = onnxruntime.SessionOptions()
    for _ in range(2):
        session = myops.ort.session(
            bundle / "net.onnx", session_options=options, named_libraries="signed",
            trusted_keys=[PUBLIC],
        )  # fmt: skip
        assert session.run(None, FEEDS)[0].tolist() == [[3, 5, 7]]


def test_the_installed_library_with_the_signed_hash_is_used(tmp_path: Path) -> None:
    made = myops.ort.bundle(add_model(), tmp_path / "deploy", check=False, sign=pem(KEY))
    others = loaded() - {myops.ort.get_library_path()}
    session = myops.ort.session(made.model, named_libraries="signed", trusted_keys=[PUBLIC])
    assert session.run(None, FEEDS)[0].tolist() == [[3, 5, 7]]
    assert loaded() - others == {myops.ort.get_library_path()}


def test_trusted_keys_are_read_from_the_environment(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.pem").write_bytes(UNTRUSTED_PUBLIC)
    (tmp_path / "b.pem").write_bytes(PUBLIC)
    monkeypatch.setenv("MYOPS_TRUSTED_KEYS", f"{tmp_path}/a.pem:{tmp_path}/b.pem")
    assert load(bundle, None).run(None, FEEDS)[0].tolist() == [[3, 5, 7]]
    monkeypatch.delenv("MYOPS_TRUSTED_KEYS")
    with pytest.raises(ValueError, match="got none, and MYOPS_TRUSTED_KEYS is not set"):
        load(bundle, None)


def test_an_encrypted_key_needs_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(pem(KEY, b"secret"))
    with pytest.raises(ValueError, match="set MYOPS_SIGNING_PASSWORD to its password"):
        myops.ort.bundle(add_model(), tmp_path / "deploy", check=False, sign=key)
    monkeypatch.setenv("MYOPS_SIGNING_PASSWORD", "secret")
    made = myops.ort.bundle(add_model(), tmp_path / "deploy", check=False, sign=key)
    assert myops.ort.verify(made.folder, [PUBLIC]).model == "model.onnx"
    monkeypatch.setenv("MYOPS_SIGNING_PASSWORD", "wrong")
    with pytest.raises(ValueError, match="no private key that can be read"):
        myops.ort.bundle(add_model(), tmp_path / "second", check=False, sign=key)
    assert not (tmp_path / "second").exists()


def test_keys_of_another_kind_are_refused(bundle: Path, tmp_path: Path) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    with pytest.raises(ValueError, match="got ECPrivateKey, expected an Ed25519 key"):
        myops.ort.bundle(add_model(), tmp_path / "new", check=False, sign=pem(other))
    with pytest.raises(ValueError, match=r"got ECPublicKey, expected an Ed25519 public key"):
        load(bundle, [pem(other.public_key())])
    with pytest.raises(ValueError, match="no public key that can be read"):
        load(bundle, [pem(KEY)])  # the private one
    with pytest.raises(FileNotFoundError, match=r"no such file: .*none\.pem"):
        load(bundle, [tmp_path / "none.pem"])


def test_a_signed_session_needs_a_path_and_cryptography(bundle: Path) -> None:
    data = (bundle / "net.onnx").read_bytes()
    with pytest.raises(ValueError, match="got the model as bytes or a ModelProto"):
        myops.ort.session(data, named_libraries="signed", trusted_keys=[PUBLIC])
    with pytest.raises(ValueError, match="expected named_libraries='signed'"):
        myops.ort.session(bundle / "net.onnx", named_libraries="trust", trusted_keys=[PUBLIC])
    with pytest.raises(ImportError, match=r"pip install 'myops\[sign\]'"), hidden("cryptography"):
        load(bundle)


class hidden:  # noqa: N801
    """A package that is not installed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.kept = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == self.name}
        sys.modules.update(dict.fromkeys([self.name, *self.kept]))  # type: ignore[arg-type]

    def __exit__(self, *error: Any) -> None:
        del sys.modules[self.name]
        sys.modules.update(self.kept)


@pytest.mark.parametrize("name", ["a\\b.onnx", "..\\b.onnx", "\udcff.onnx"])
@pytest.mark.parametrize("signed", [True, False])
def test_names_that_no_session_accepts_are_refused(signed: bool, name: str, tmp_path: Path) -> None:
    """Before, a bundle was made that `verify` refused, or there was a UnicodeEncodeError."""
    path, target = tmp_path / name, tmp_path / "deploy"
    path.write_bytes(add_model().SerializeToString())
    if signed or "\\" not in name:
        with pytest.raises(ValueError, match=r"bundle: got a file whose name .*; rename it"):
            myops.ort.bundle(path, target, sign=pem(KEY) if signed else None)
        assert not target.exists()
        return
    made = myops.ort.bundle(path, target)
    assert myops.ort.session(made.folder / name) is not None


@pytest.mark.parametrize(
    "name", ["\u00e9\u4e2d.onnx", "e\u0301.onnx", " a b .onnx", "-x.onnx", "a\nb.onnx"]
)
def test_unusual_names_are_signed(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(add_model().SerializeToString())
    folder = myops.ort.bundle(path, tmp_path / "deploy", sign=pem(KEY)).folder
    assert myops.ort.verify(folder, [PUBLIC]).model == name
    myops.ort.session(folder / name, named_libraries="signed", trusted_keys=[PUBLIC])
