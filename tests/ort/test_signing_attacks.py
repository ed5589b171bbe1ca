"""Attacks on signed bundles: each test changes a bundle, which neither a session nor `verify` may
accept afterwards. Only files that a trusted key has signed are loaded."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ort_models import add_model
from signed_bundles import FEEDS, KEY, PUBLIC, UNTRUSTED_KEY, UNTRUSTED_PUBLIC, load, loaded, pem

import myops.ort
from myops.ort import _signing

FILES = ["net.onnx", "parts/w.bin", "libmyops_ort.so", "load.py", "load.h", "README.md"]


def signed_by(key: Any, payload: bytes) -> dict[str, Any]:
    text = base64.b64encode(key.sign(_signing._signed_bytes(payload))).decode()
    return {"keyid": _signing.identity(KEY.public_key()), "sig": text}  # wrong, unless key is KEY


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
    assert loaded() <= before  # fewer where a garbage collection ends a session of another test


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_is_refused(bundle: Path, name: str) -> None:
    data = bytearray((bundle / name).read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / name).write_bytes(data)
    refused(bundle, ValueError, rf"{name}: got SHA-256 \w+, expected SHA-256 \w+, as signed")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_refused(bundle: Path, name: str) -> None:
    (bundle / name).unlink()
    refused(bundle, FileNotFoundError, rf"{name} is missing, expected a file that was signed")


def test_a_longer_file_is_refused(bundle: Path) -> None:
    with (bundle / "parts" / "w.bin").open("ab") as stream:
        stream.write(b"\0" * (1 << 21))
    refused(bundle, ValueError, r"w\.bin: got more than \d+ bytes")


def test_swapped_files_are_refused(bundle: Path) -> None:
    """Both files were signed, each under the name of the other."""
    (bundle / "load.h").rename(bundle / "kept")
    (bundle / "load.py").rename(bundle / "load.h")
    (bundle / "kept").rename(bundle / "load.py")
    refused(bundle, ValueError, r"load\.(h|py): got SHA-256")


def test_another_signed_file_as_the_model_is_refused(bundle: Path) -> None:
    with pytest.raises(ValueError, match="this is not the model that was signed"):
        myops.ort.session(bundle / "load.h", named_libraries="signed", trusted_keys=[PUBLIC])


def test_a_removed_signature_is_refused(bundle: Path) -> None:
    (bundle / "signature.json").unlink()
    refused(bundle, ValueError, "got no signature.json, expected a signed bundle")


def test_a_signature_of_an_untrusted_key_is_refused(bundle: Path) -> None:
    resign(bundle, lambda payload: None, UNTRUSTED_KEY)
    refused(bundle, ValueError, "no signature by a trusted key")
    found = envelope(bundle)  # with the id of the right key, and beside an invalid signature
    found["signatures"].append({"keyid": "", "sig": base64.b64encode(b"\0" * 64).decode()})
    (bundle / "signature.json").write_text(json.dumps(found))
    refused(bundle, ValueError, "no signature by a trusted key")


def test_a_second_signature_is_accepted(bundle: Path) -> None:
    found = envelope(bundle)
    payload = base64.b64decode(found["payload"])
    found["signatures"].insert(0, signed_by(UNTRUSTED_KEY, payload))
    (bundle / "signature.json").write_text(json.dumps(found))
    assert myops.ort.verify(bundle, [PUBLIC]).model == "net.onnx"
    assert myops.ort.verify(bundle, [UNTRUSTED_PUBLIC]).model == "net.onnx"


def test_a_changed_list_of_files_is_refused(bundle: Path) -> None:
    found = envelope(bundle)
    payload = json.loads(base64.b64decode(found["payload"]))
    payload["files"]["load.py"]["sha256"] = "0" * 64
    found["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
    (bundle / "signature.json").write_text(json.dumps(found))
    refused(bundle, ValueError, "no signature by a trusted key")


def test_the_signature_of_another_bundle_is_refused(bundle: Path, tmp_path: Path) -> None:
    other = myops.ort.bundle(add_model(), tmp_path / "other", check=False, sign=pem(KEY)).folder
    shutil.copy(other / "signature.json", bundle)
    refused(bundle, (ValueError, FileNotFoundError), "as signed|is missing")  # type: ignore[arg-type]


def test_the_signature_of_another_payload_type_is_refused(bundle: Path) -> None:
    """The key has signed the same bytes for another purpose."""
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
def test_a_malformed_signature_file_is_refused(bundle: Path, text: str) -> None:
    (bundle / "signature.json").write_bytes(text.encode("latin-1"))
    refused(bundle, ValueError, "signature.json: got no signature")


def test_an_endless_signature_file_is_refused(bundle: Path) -> None:
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
def test_file_names_outside_of_the_folder_are_refused(bundle: Path, name: str) -> None:
    """Even if a trusted key has signed them."""
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
def test_malformed_lists_of_files_are_refused(bundle: Path, change: Callable[[Any], Any]) -> None:
    resign(bundle, change)
    refused(bundle, ValueError, "signed, but not what myops writes")


@pytest.mark.parametrize("name", FILES)
def test_a_symbolic_link_for_a_file_is_refused(bundle: Path, name: str) -> None:
    """Even to the same bytes: others could change the file that it points to."""
    (bundle / name).rename(bundle.parent / "elsewhere")
    (bundle / name).symlink_to(bundle.parent / "elsewhere")
    refused(bundle, ValueError, f"{name}: got a symbolic link")


def test_a_symbolic_link_for_a_folder_is_refused(bundle: Path) -> None:
    (bundle / "parts").rename(bundle.parent / "elsewhere")
    (bundle / "parts").symlink_to(bundle.parent / "elsewhere")
    refused(bundle, ValueError, r"w\.bin: got a symbolic link")


def test_a_pipe_for_a_file_is_refused(bundle: Path) -> None:
    (bundle / "net.onnx").unlink()
    os.mkfifo(bundle / "net.onnx")
    refused(bundle, ValueError, r"net\.onnx: got a symbolic link, a folder or a device")


@pytest.mark.parametrize("name", ["__pycache__/load.pyc", "parts/extra", "onnxruntime.py", "link"])
def test_extra_files_are_ignored_by_sessions_and_refused_by_verify(bundle: Path, name: str) -> None:
    """A session ignores them. `verify` refuses them, because load.py could import them."""
    path = bundle / name
    path.parent.mkdir(exist_ok=True)
    if name == "link":
        path.symlink_to("parts")
    else:
        path.write_bytes(b"raise SystemExit")
    with pytest.raises(ValueError, match="was not signed, expected those of the bundle only"):
        myops.ort.verify(bundle, [PUBLIC])
    assert load(bundle).run(None, FEEDS)[0].tolist() == [[3, 5, 7]]


def test_unsigned_weights_are_not_loaded(bundle: Path) -> None:
    """A model may name any file for its weights; only signed files are available to it."""
    resign(bundle, lambda payload: payload["files"].pop("parts/w.bin"))
    with pytest.raises(Exception, match=r"w\.bin"):
        load(bundle)


def test_a_key_in_the_bundle_is_not_trusted(bundle: Path) -> None:
    resign(bundle, lambda payload: None, UNTRUSTED_KEY)
    (bundle / "public.pem").write_bytes(UNTRUSTED_PUBLIC)
    (bundle.parent / "link.pem").symlink_to(bundle / "public.pem")
    for path in (bundle / "public.pem", bundle.parent / "link.pem"):
        with pytest.raises(ValueError, match="is in the bundle itself"):
            load(bundle, [path])


def test_files_changed_after_verification_are_not_loaded(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verified bytes are loaded, even if the folder has changed by then."""
    choose = myops.ort._session.choose

    def late(*arguments: Any) -> Any:
        for path in bundle.rglob("*"):
            if path.is_file():
                path.write_bytes(b"something else")
        shutil.rmtree(bundle)
        return choose(*arguments)

    monkeypatch.setattr(myops.ort._session, "choose", late)
    assert load(bundle).run(None, FEEDS)[0].tolist() == [[3, 5, 7]]


def test_each_file_is_opened_once(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is read once, so the bytes that are hashed are the bytes that are copied."""
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


def test_the_folder_of_the_copies_is_private(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose, modes = myops.ort._session.choose, []

    def look(model: str, *arguments: Any) -> Any:
        modes.append(Path(model).parent.stat().st_mode & 0o777)
        return choose(model, *arguments)

    monkeypatch.setattr(myops.ort._session, "choose", look)
    load(bundle)
    assert modes == [0o700]
