"""Sessions of models that name their libraries. A model file is not trusted: its content alone must
never decide which code runs."""

from __future__ import annotations

import dataclasses
import random
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from google.protobuf.message import DecodeError
from onnx import helper
from ort_models import FLOAT, add_model, model_of

import myops.ort
from myops.ort import _named_libraries
from myops.ort._loaders import load as loader
from myops.ort._named_libraries import KEY, NamedLibrary

FEEDS = {"a": np.float32([[1, 2, 3]]), "b": np.float32([1, 1, 1])}
OTHERS = b"\0"  # appended to a library, it changes the hash and nothing else


@pytest.fixture
def bundled(tmp_path: Path) -> Path:
    """A bundle of y = MyAdd(a, b) whose library is not the installed one, but works."""
    library = tmp_path / "libmyops_ort.so"
    library.write_bytes(Path(myops.ort.get_library_path()).read_bytes() + OTHERS)
    return myops.ort.bundle(
        add_model(), tmp_path / "deploy", libraries={"myops": (library, "0.0.9")}, check=False
    ).model


def naming(model: onnx.ModelProto, *libraries: NamedLibrary | str) -> onnx.ModelProto:
    texts = [item for item in libraries if isinstance(item, str)]
    value = texts[0] if texts else _named_libraries.dumps(libraries)  # type: ignore[arg-type]
    model.metadata_props.add(key=KEY, value=value)
    return model


def our_entry(**changes: Any) -> NamedLibrary:
    path = Path(myops.ort.get_library_path())
    entry = NamedLibrary(
        path.name, myops.__version__, loader.sha256(path), loader.this_platform(), ("myops",)
    )
    return dataclasses.replace(entry, **changes)


def loaded() -> set[str]:
    """The libraries with our ops in this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[-1] for line in lines if "libmyops_ort" in line or "libprobe" in line}


def works(session: onnxruntime.InferenceSession) -> bool:
    return session.run(None, FEEDS)[0].tolist() == [[3, 5, 7]]


def test_the_installed_library_with_the_named_hash_is_used(tmp_path: Path) -> None:
    made = myops.ort.bundle(add_model(), tmp_path / "deploy", check=False)
    others = loaded() - {myops.ort.get_library_path()}  # of earlier tests
    for policy in ("check", "trust"):
        session = myops.ort.session(made.model, named_libraries=policy)  # type: ignore[arg-type]
        assert works(session)
        assert loaded() - others == {myops.ort.get_library_path()}
    assert works(myops.ort.session(made.model.read_bytes()))
    assert works(myops.ort.session(onnx.load(made.model)))


def test_a_library_beside_the_model_needs_trust(bundled: Path) -> None:
    with pytest.raises(ValueError, match=r"names libmyops_ort\.so 0\.0\.9 .*libraries='trust'"):
        myops.ort.session(bundled)
    assert str(bundled.parent / "libmyops_ort.so") not in loaded()
    before = loaded()  # a session of another test may still use the installed one
    session = myops.ort.session(bundled, named_libraries="trust")
    assert works(session)
    assert loaded() - before == {str(bundled.parent / "libmyops_ort.so")}  # instead of ours
    del session
    session = myops.ort.session(bundled, named_libraries="ignore")
    assert works(session)
    assert myops.ort.get_library_path() in loaded()


def test_a_given_library_needs_the_named_hash(
    bundled: Path, probe_library: str, tmp_path: Path
) -> None:
    """The library of another package is used if it has the named hash, and refused otherwise."""
    node = helper.make_node("Probe", ["x"], ["y", "report"], domain="probe")
    outputs = {"y": (FLOAT, None), "report": (onnx.TensorProto.DOUBLE, None)}
    model = model_of([node], {"x": (FLOAT, [2])}, outputs)
    model.opset_import.append(helper.make_opsetid("probe", 1))
    made = myops.ort.bundle(model, tmp_path / "probe", libraries={"probe": probe_library})
    with pytest.raises(ValueError, match=r"No installed package provides it\. Pass its path"):
        myops.ort.session(made.model)
    for options in ({"libraries": [probe_library]}, {"named_libraries": "trust"}):
        session = myops.ort.session(made.model, **options)  # type: ignore[arg-type]
        assert session.run(["y"], {"x": np.float32([4, 5])})[0].tolist() == [4, 5]
    other = tmp_path / "libprobe.so"
    other.write_bytes(Path(probe_library).read_bytes() + OTHERS)
    with pytest.raises(ValueError, match=rf"{other} has SHA-256 .* may give other results"):
        myops.ort.session(made.model, libraries=[other])


def test_a_changed_or_missing_trusted_library_is_refused(bundled: Path, tmp_path: Path) -> None:
    library = bundled.parent / "libmyops_ort.so"
    with library.open("ab") as stream:
        stream.write(b"more")
    with pytest.raises(ValueError, match=r"got SHA-256 .*, expected .*copy the whole bundle again"):
        myops.ort.session(bundled, named_libraries="trust")
    library.unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no .*copy the whole bundle"):
        myops.ort.session(bundled, named_libraries="trust")
    with pytest.raises(ValueError, match="came as bytes or a ModelProto"):
        myops.ort.session(bundled.read_bytes(), named_libraries="trust")
    with pytest.raises(ValueError, match="expected 'check', 'trust', 'signed' or 'ignore'"):
        myops.ort.session(bundled, named_libraries="always")  # type: ignore[arg-type]


def test_another_platform_is_refused() -> None:
    model = naming(add_model(), our_entry(platform="win32-x86_64"))
    with pytest.raises(ValueError, match=f"for win32-x86_64; this is {loader.this_platform()}"):
        myops.ort.session(model)
    assert works(myops.ort.session(model, named_libraries="ignore"))


@pytest.mark.parametrize("policy", ["check", "trust"])
@pytest.mark.parametrize(
    "name",
    ["../evil.so", "{}", "sub/evil.so", "..", "", ".so", "C:\\evil.dll", "a b.so", "\u202eso"],
)
def test_names_with_folders_are_refused(name: str, policy: Any, tmp_path: Path) -> None:
    """Even though the file is there and has the hash that the model names."""
    (tmp_path / "in" / "sub").mkdir(parents=True)
    outside = tmp_path / "evil.so"
    for path in (outside, tmp_path / "in" / "sub" / "evil.so"):
        shutil.copy(myops.ort.get_library_path(), path)
        with path.open("ab") as stream:
            stream.write(OTHERS)
    entry = our_entry(file=name.format(outside), sha256=loader.sha256(outside))
    onnx.save(naming(add_model(), entry), tmp_path / "in" / "model.onnx")
    with pytest.raises(ValueError, match="expected a file name without folders"):
        myops.ort.session(tmp_path / "in" / "model.onnx", named_libraries=policy)


@pytest.mark.parametrize(
    "text", ["", "{", "{}", "[1]", '[{"file": "a.so"}]', "[" * 100_000, '[{"file": 3}]']
)
def test_unreadable_metadata_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not what `myops bundle` writes"):
        myops.ort.session(naming(add_model(), text))
    assert works(myops.ort.session(naming(add_model(), text), named_libraries="ignore"))


def test_damaged_files_give_the_error_of_onnxruntime(tmp_path: Path) -> None:
    data = naming(add_model(), our_entry()).SerializeToString()
    for number, broken in enumerate((b"", b"\xff" * 40, data[:-10], b"PK\x03\x04" + data)):
        path = tmp_path / f"{number}.onnx"
        path.write_bytes(broken)
        with pytest.raises(Exception, match=r"Protobuf|protobuf|ModelProto|No graph"):
            myops.ort.session(path)
    with pytest.raises(Exception, match=r"[Nn]o such file|NO_SUCHFILE|doesn't exist"):
        myops.ort.session(tmp_path / "none.onnx")


def test_metadata_is_read_without_the_weights(tmp_path: Path) -> None:
    weight = onnx.numpy_helper.from_array(np.ones(1 << 20, np.float32), "w")
    model = model_of(
        [helper.make_node("MyAdd", ["a", "w"], ["c"], domain="myops")],
        {"a": (FLOAT, ["n"])}, {"c": (FLOAT, None)}, initializer=[weight],
    )  # fmt: skip
    model.doc_string = "text"
    model.model_version = 1 << 62
    path = tmp_path / "large.onnx"
    onnx.save(naming(model, our_entry()), path)

    with path.open("rb", buffering=0) as stream:
        count = 0
        read = stream.read

        class Counting:
            seek = stream.seek

            def read(self, size: int) -> bytes:
                nonlocal count
                count += size
                return read(size) or b""

        found = dict(_named_libraries._scan(Counting()))  # type: ignore[arg-type]
    assert found == {item.key: item.value for item in model.metadata_props}
    assert count < 1000
    assert _named_libraries.named_by(str(path)) == [our_entry()]


# ---- A model file is untrusted input.


def varint(number: int) -> bytes:
    digits = [number >> shift & 127 for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(digit | 128 for digit in digits[:-1]), digits[-1]])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def random_message(rng: random.Random, depth: int = 0) -> bytes:
    """Fields of any number and wire type, also metadata; some with a wrong length."""
    made = b""
    for _ in range(rng.randrange(6)):
        kind = rng.choice([0, 0, 1, 2, 2, 2, 2, 5])
        number = rng.choice([1, 2, 3, 14, 14, 14, 20, rng.randrange(1, 1 << 29)])
        if kind == 0:
            made += varint(number << 3) + varint(rng.getrandbits(rng.choice([3, 40, 64])))
        elif kind == 2:
            inner = rng.randbytes(rng.choice([0, 3, 300]))
            if depth < 3 and rng.random() < 0.8:
                inner = random_message(rng, depth + 1)
            if depth == 0 and number == 14:
                inner = b"".join(field(rng.choice([1, 2]), b"k%d" % i) for i in range(3)) + inner
            made += field(number, inner)
        else:
            made += varint(number << 3 | kind) + rng.randbytes(8 if kind == 1 else 4)
    if rng.random() < 0.1:
        made = made[: rng.randrange(len(made) + 1)]
    if rng.random() < 0.1:
        place = rng.randrange(len(made) + 1)
        made = made[:place] + rng.randbytes(3) + made[place:]
    if rng.random() < 0.05:
        made += varint(14 << 3 | 2) + varint(rng.choice([1 << 20, (1 << 63) - 1, (1 << 64) - 1]))
    return made


def test_metadata_equals_that_of_the_protobuf_parser(tmp_path: Path) -> None:
    rng = random.Random(0)
    path = tmp_path / "model.onnx"
    agreed = with_entries = 0
    for _ in range(4000):
        data = random_message(rng)
        found = _named_libraries._entries(data)
        path.write_bytes(data)
        assert _named_libraries._entries(str(path)) == found
        model = onnx.ModelProto()
        try:
            model.ParseFromString(data)
            expected = {item.key: item.value for item in model.metadata_props}
        except (DecodeError, UnicodeDecodeError):  # ONNX Runtime will refuse the file
            continue
        if "\ufffd" in "".join([*found, *found.values()]):
            continue
        assert found == expected, data
        agreed += 1
        with_entries += bool(found)
    assert agreed > 1500
    assert with_entries > 500


MEGABYTE = 1 << 20
HOSTILE = {
    "fields of one byte": b"\x08\x01" * (8 * MEGABYTE),
    "the longest numbers": (b"\x08" + b"\xff" * 9 + b"\x01") * MEGABYTE,
    "four bytes": b"\x0d1234" * (2 * MEGABYTE),
    "empty fields": b"\x0a\0" * (8 * MEGABYTE),
    "empty entries": b"\x72\0" * (8 * MEGABYTE),
    "small entries": b"\x72\x04\x0a\0\x12\0" * (2 * MEGABYTE),
    "entries of many fields": field(14, b"\x0a\0" * (MEGABYTE // 2 - 8)) * 16,
    "large entries": field(14, field(1, b"k" * 5000) + field(2, b"v" * 5000)) * 1600,
    "entries that are too long": field(14, field(1, b"k" * 2 * MEGABYTE)) * 8,
    "zeros": bytes(16 * MEGABYTE),
    "ones": b"\xff" * (16 * MEGABYTE),
    "a wrong length": b"\x72" + varint((1 << 63) - 1) + bytes(16 * MEGABYTE),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_are_read_in_linear_time(name: str, tmp_path: Path) -> None:
    """16 MB in 0.1 s or less, however they are cut into fields; ten times that is a failure."""
    path = tmp_path / "model.onnx"
    path.write_bytes(HOSTILE[name])
    for model in (HOSTILE[name], str(path)):
        refusal = ""
        start = time.process_time()
        try:
            assert _named_libraries.named_by(model) == []
        except ValueError as error:
            refusal = str(error)
        assert time.process_time() - start < 1
        assert refusal == "" or refusal.startswith("model: got more than 16384 fields")
