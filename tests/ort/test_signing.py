"""Signed bundles, and attacks on them: nothing is loaded that a trusted key has not signed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from onnx import helper, numpy_helper
from ort_models import FLOAT, add_model, model_of

import myops.ort
from myops.ort import _signing

FEEDS = {"a": np.float32([[1, 2, 3]]), "b": np.float32([1, 1, 1])}
OTHERS = b"\0"  # behind a library it changes its hash and nothing else


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


KEY, STRANGER = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))
PUBLIC, STRANGERS = pem(KEY.public_key()), pem(STRANGER.public_key())


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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed bundle, whose library is not the installed one, but works."""
    folder = tmp_path_factory.mktemp("signed")
    library = folder / "libmyops_ort.so"
    library.write_bytes(Path(myops.ort.get_library_path()).read_bytes() + OTHERS)
    model = weighted_model(folder / "in")
    return myops.ort.bundle(
        model, folder / "deploy", libraries={"myops": library}, check=False, sign=pem(KEY)
    ).folder


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "deploy"))


def load(folder: Path, keys: Any = (PUBLIC,)) -> Any:
    path = folder / "net.onnx"
    return myops.ort.session(path, named_libraries="signed", trusted_keys=keys)


def loaded() -> set[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[-1] for line in lines if "libmyops_ort" in line}


def test_a_signed_bundle_runs_from_copies(bundle: Path) -> None:
    before = loaded()
    session = load(bundle)
    assert session.run(None, FEEDS)[0].tolist() == [[3, 5, 7]]
    (library,) = loaded() - before
    assert "myops-signed-" in library
    assert library.endswith("(deleted)")  # nothing is left on the disk
    found = myops.ort.verify(bundle, [STRANGERS, PUBLIC])
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


def test_keys_come_from_the_environment(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.pem").write_bytes(STRANGERS)
    (tmp_path / "b.pem").write_bytes(PUBLIC)
    monkeypatch.setenv("MYOPS_TRUSTED_KEYS", f"{tmp_path}/a.pem:{tmp_path}/b.pem")
    assert load(bundle, None).run(None, FEEDS)[0].tolist() == [[3, 5, 7]]
    monkeypatch.delenv("MYOPS_TRUSTED_KEYS")
    with pytest.raises(ValueError, match="got none, and MYOPS_TRUSTED_KEYS is not set"):
        load(bundle, None)


def test_an_encrypted_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_a_signed_session_needs(bundle: Path) -> None:
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


# ---- Attacks. Each changes a bundle; then neither a session nor `verify` may accept it.

FILES = ["net.onnx", "parts/w.bin", "libmyops_ort.so", "load.py", "load.h", "README.md"]


def signed_by(key: Any, payload: bytes) -> dict[str, Any]:
    text = base64.b64encode(key.sign(_signing._signed_bytes(payload))).decode()
    return {"keyid": _signing.identity(KEY.public_key()), "sig": text}  # which lies, for a stranger


def envelope(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "signature.json").read_text())


def resign(folder: Path, change: Callable[[dict[str, Any]], Any], key: Any = KEY) -> None:
    """Changes the list of files, and signs it."""
    found = envelope(folder)
    payload = json.loads(base64.b64decode(found["payload"]))
    change(payload)
    data = json.dumps(payload).encode()
    found |= {"payload": base64.b64encode(data).decode(), "signatures": [signed_by(key, data)]}
    (folder / "signature.json").write_text(json.dumps(found))


def refused(folder: Path, kind: type[Exception], text: str) -> None:
    before = loaded()
    with pytest.raises(kind, match=text):
        load(folder)
    with pytest.raises(kind, match=text):
        myops.ort.verify(folder, [PUBLIC])
    assert loaded() == before


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file(bundle: Path, name: str) -> None:
    data = bytearray((bundle / name).read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / name).write_bytes(data)
    refused(bundle, ValueError, rf"{name}: got SHA-256 \w+, expected SHA-256 \w+, as signed")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file(bundle: Path, name: str) -> None:
    (bundle / name).unlink()
    refused(bundle, FileNotFoundError, rf"{name} is missing, expected a file that was signed")


def test_a_file_that_grew(bundle: Path) -> None:
    with (bundle / "parts" / "w.bin").open("ab") as stream:
        stream.write(b"\0" * (1 << 21))
    refused(bundle, ValueError, r"w\.bin: got more than \d+ bytes")


def test_swapped_files(bundle: Path) -> None:
    """Both have been signed, but under the other name."""
    (bundle / "load.h").rename(bundle / "kept")
    (bundle / "load.py").rename(bundle / "load.h")
    (bundle / "kept").rename(bundle / "load.py")
    refused(bundle, ValueError, r"load\.(h|py): got SHA-256")


def test_another_signed_file_as_the_model(bundle: Path) -> None:
    with pytest.raises(ValueError, match="this is not the model that was signed"):
        myops.ort.session(bundle / "load.h", named_libraries="signed", trusted_keys=[PUBLIC])


def test_a_stripped_signature(bundle: Path) -> None:
    (bundle / "signature.json").unlink()
    refused(bundle, ValueError, "got no signature.json, expected a signed bundle")


def test_a_stranger_signs(bundle: Path) -> None:
    resign(bundle, lambda payload: None, STRANGER)
    refused(bundle, ValueError, "no signature by a trusted key")
    found = envelope(bundle)  # the right name of the key, and beside a signature that means nothing
    found["signatures"].append({"keyid": "", "sig": base64.b64encode(b"\0" * 64).decode()})
    (bundle / "signature.json").write_text(json.dumps(found))
    refused(bundle, ValueError, "no signature by a trusted key")


def test_a_second_signature_may_stand_beside(bundle: Path) -> None:
    found = envelope(bundle)
    payload = base64.b64decode(found["payload"])
    found["signatures"].insert(0, signed_by(STRANGER, payload))
    (bundle / "signature.json").write_text(json.dumps(found))
    assert myops.ort.verify(bundle, [PUBLIC]).model == "net.onnx"
    assert myops.ort.verify(bundle, [STRANGERS]).model == "net.onnx"


def test_a_changed_list(bundle: Path) -> None:
    found = envelope(bundle)
    payload = json.loads(base64.b64decode(found["payload"]))
    payload["files"]["load.py"]["sha256"] = "0" * 64
    found["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
    (bundle / "signature.json").write_text(json.dumps(found))
    refused(bundle, ValueError, "no signature by a trusted key")


def test_the_signature_of_another_bundle(bundle: Path, tmp_path: Path) -> None:
    other = myops.ort.bundle(add_model(), tmp_path / "other", check=False, sign=pem(KEY)).folder
    shutil.copy(other / "signature.json", bundle)
    refused(bundle, (ValueError, FileNotFoundError), "as signed|is missing")  # type: ignore[arg-type]


def test_the_signature_of_another_kind_of_file(bundle: Path) -> None:
    """The key has signed the same bytes as something else."""
    found = envelope(bundle)
    payload = base64.b64decode(found["payload"])
    found["signatures"] = [{"keyid": "", "sig": base64.b64encode(KEY.sign(payload)).decode()}]
    (bundle / "signature.json").write_text(json.dumps(found))
    refused(bundle, ValueError, "no signature by a trusted key")
    found["payloadType"] = "text/plain"
    (bundle / "signature.json").write_text(json.dumps(found))
    refused(bundle, ValueError, "payloadType 'text/plain'")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", '"x"', "[" * 100_000, '{"payloadType": 1}', "\xff",
     '{"payloadType": "application/vnd.myops.bundle+json", "payload": "%", "signatures": []}',
     '{"payloadType": "application/vnd.myops.bundle+json", "payload": "", "signatures": {"a": 1}}',
     '{"payloadType": "application/vnd.myops.bundle+json", "payload": "", "signatures": []}'],
)  # fmt: skip
def test_a_signature_file_that_is_none(bundle: Path, text: str) -> None:
    (bundle / "signature.json").write_bytes(text.encode("latin-1"))
    refused(bundle, ValueError, "signature.json: got no signature")


def test_an_endless_signature_file(bundle: Path) -> None:
    (bundle / "signature.json").unlink()
    (bundle / "signature.json").symlink_to("/dev/zero")
    refused(bundle, ValueError, "got a symbolic link")
    (bundle / "signature.json").unlink()
    with (bundle / "signature.json").open("wb") as stream:
        stream.truncate(1 << 40)
    refused(bundle, ValueError, "got more than 4194304 bytes, expected fewer")


@pytest.mark.parametrize(
    "name",
    ["../outside", "/etc/passwd", "parts/../../outside", "a//b", "./a", "", "a\\..\\b", "a\0b"],
)
def test_names_that_leave_the_folder(bundle: Path, name: str) -> None:
    """Even where a trusted key signed them."""
    (bundle.parent / "outside").write_bytes(b"")
    entry = {
        "size": 0,
        "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    }
    resign(bundle, lambda payload: payload["files"].update({name: entry}))
    refused(bundle, ValueError, "signed, but not what myops writes .the file name")


@pytest.mark.parametrize(
    "change",
    [
        lambda payload: payload.update(format=2),
        lambda payload: payload.update(files=[]),
        lambda payload: payload.update(model="none.onnx"),
        lambda payload: payload["files"].update(x={"size": True, "sha256": ""}),
        lambda payload: payload["files"].update(x={"size": 1}),
        lambda payload: payload["files"].update({"signature.json": {"size": 1, "sha256": ""}}),
    ],
)
def test_lists_that_myops_does_not_write(bundle: Path, change: Callable[[Any], Any]) -> None:
    resign(bundle, change)
    refused(bundle, ValueError, "signed, but not what myops writes")


@pytest.mark.parametrize("name", FILES)
def test_a_symbolic_link_for_a_file(bundle: Path, name: str) -> None:
    """Even to the same bytes: what it leads to can be changed by others."""
    (bundle / name).rename(bundle.parent / "elsewhere")
    (bundle / name).symlink_to(bundle.parent / "elsewhere")
    refused(bundle, ValueError, f"{name}: got a symbolic link")


def test_a_symbolic_link_for_a_folder(bundle: Path) -> None:
    (bundle / "parts").rename(bundle.parent / "elsewhere")
    (bundle / "parts").symlink_to(bundle.parent / "elsewhere")
    refused(bundle, ValueError, r"w\.bin: got a symbolic link")


def test_a_pipe_for_a_file(bundle: Path) -> None:
    (bundle / "net.onnx").unlink()
    os.mkfifo(bundle / "net.onnx")
    refused(bundle, ValueError, r"net\.onnx: got a symbolic link, a folder or a device")


@pytest.mark.parametrize("name", ["__pycache__/load.pyc", "parts/extra", "onnxruntime.py", "link"])
def test_extra_files(bundle: Path, name: str) -> None:
    """A session sees none of them; `verify` refuses them, as load.py may be run next."""
    path = bundle / name
    path.parent.mkdir(exist_ok=True)
    if name == "link":
        path.symlink_to("parts")
    else:
        path.write_bytes(b"raise SystemExit")
    with pytest.raises(ValueError, match="was not signed, expected those of the bundle only"):
        myops.ort.verify(bundle, [PUBLIC])
    assert load(bundle).run(None, FEEDS)[0].tolist() == [[3, 5, 7]]


def test_weights_that_were_not_signed(bundle: Path) -> None:
    """A model may name any file for its weights; there are only those that were signed."""
    resign(bundle, lambda payload: payload["files"].pop("parts/w.bin"))
    with pytest.raises(Exception, match=r"w\.bin"):
        load(bundle)


def test_a_key_in_the_bundle(bundle: Path) -> None:
    resign(bundle, lambda payload: None, STRANGER)
    (bundle / "public.pem").write_bytes(STRANGERS)
    (bundle.parent / "link.pem").symlink_to(bundle / "public.pem")
    for path in (bundle / "public.pem", bundle.parent / "link.pem"):
        with pytest.raises(ValueError, match="is in the bundle itself"):
            load(bundle, [path])


def test_files_that_change_after_they_were_verified(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is loaded is what was verified, whatever the folder holds by then."""
    choose = myops.ort._session.choose

    def late(*arguments: Any) -> Any:
        for path in bundle.rglob("*"):
            if path.is_file():
                path.write_bytes(b"something else")
        shutil.rmtree(bundle)
        return choose(*arguments)

    monkeypatch.setattr(myops.ort._session, "choose", late)
    assert load(bundle).run(None, FEEDS)[0].tolist() == [[3, 5, 7]]


def test_a_file_that_changes_while_it_is_read(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes that are hashed are the bytes that are copied: one reading, not two."""
    opened = []
    real = os.open

    def once(path: Any, *arguments: Any, **named: Any) -> int:
        opened.append(os.fspath(path))
        return real(path, *arguments, **named)

    monkeypatch.setattr(_signing.os, "open", once)
    load(bundle)
    assert sorted(set(opened) & {Path(name).name for name in FILES}) == sorted(
        Path(name).name for name in FILES
    )
    assert all(opened.count(Path(name).name) == 1 for name in FILES)


def test_the_folder_is_private(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose, modes = myops.ort._session.choose, []

    def look(model: str, *arguments: Any) -> Any:
        modes.append(Path(model).parent.stat().st_mode & 0o777)
        return choose(model, *arguments)

    monkeypatch.setattr(myops.ort._session, "choose", look)
    load(bundle)
    assert modes == [0o700]
