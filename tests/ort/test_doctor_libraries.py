"""The doctor on broken libraries, which are compiled here."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import onnxruntime
import pytest
from doctor_cases import LibraryBuilder, examine

import myops.ort
from myops.ort._doctor import DoctorReport, libraries, process


@pytest.fixture(scope="module")
def library_builder(tmp_path_factory: pytest.TempPathFactory) -> LibraryBuilder:
    return LibraryBuilder(tmp_path_factory.mktemp("libraries"))


def alone(*libraries: str) -> DoctorReport:
    return examine(None, libraries, myops_library=False)


def only(report: DoctorReport) -> tuple[str, str]:
    """The code and all words of the only finding."""
    (finding,) = report.findings
    words = " ".join((finding.what, finding.why, finding.fix, finding.message))
    return finding.code, words


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("no_entry", "library-no-entry-point", ["no function RegisterCustomOps",
         "Did you mean 'RegisterCustomOp'?", 'extern "C"', "Failed to get symbol"]),
        ("mangled", "library-no-entry-point", ["_Z17RegisterCustomOps", 'extern "C"']),
        ("unresolved", "library-unresolved-symbol", ["lacks the symbol acme_solve", "-z,defs"]),
        ("unresolved_torch", "library-unresolved-symbol", ["c10", "function of PyTorch"]),
        ("api_too_new", "library-api-version", ["version 9999", "pip install 'onnxruntime>=",
         "segmentation fault", "The requested API version [9999] is not available"]),
        ("api_too_new_polite", "library-api-version", ["9999", "acme: this runtime is too old"]),
        ("refuses", "library-refuses", ["gave an error", "acme: no licence"]),
        ("throws", "library-refuses", ["acme: no licence"]),
        ("crashes", "library-crash", ["ends the whole process", "SIGSEGV"]),
        ("crashes_early", "library-crash", ["SIGABRT"]),
        ("illegal", "library-crash", ["SIGILL", "-march=native"]),
        ("exits", "library-crash", ["exit(3)"]),
    ],
)  # fmt: skip
def test_a_library_that_fails_names_the_cause(
    library_builder: LibraryBuilder, name: str, code: str, words: list[str]
) -> None:
    report = alone(library_builder.build(name))
    assert (report.verdict, report.exit_status) == ("problem", 1)
    got, text = only(report)
    assert got == code
    for word in words:
        assert word in text
    assert not report.libraries[0].loads


def test_a_library_that_hangs_is_stopped(
    library_builder: LibraryBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "SECONDS_FOR_A_LIBRARY", 3.0)
    code, text = only(alone(library_builder.build("hangs")))
    assert code == "library-hangs"
    assert "no answer for 3 seconds" in text


def test_a_library_without_ops_is_a_warning(library_builder: LibraryBuilder) -> None:
    report = alone(library_builder.build("empty"))
    assert only(report)[0] == "library-empty"
    assert (report.verdict, report.exit_status) == ("healthy", 0)


def test_a_missing_dependency_of_a_library_is_named(library_builder: LibraryBuilder) -> None:
    code, text = only(alone(library_builder.needing_another()))
    assert code == "library-needs-another"
    assert "needs libother.so, which is not found" in text
    assert "LD_LIBRARY_PATH" in text


@pytest.mark.skipif(sys.byteorder != "little", reason="the bytes are those of little-endian ELF")
@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (18, 243, "a library for RISC-V"),  # e_machine
        (4, 1, "but 32 bit"),  # EI_CLASS
        (5, 2, "a library for"),  # EI_DATA: big-endian
    ],
)
def test_a_library_for_another_processor_is_named(
    library_builder: LibraryBuilder, place: int, value: int, words: str
) -> None:
    code, text = only(alone(library_builder.changed(place, value, f"other{place}.so")))
    assert code == "library-wrong-architecture"
    assert words in text


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"", "library-not-a-library", "an empty file"),
        (b"hello\n", "library-not-a-library", "a text file"),
        (b"<!DOCTYPE html>", "library-not-a-library", "a web page"),
        (b"PK\x03\x04rest", "library-not-a-library", "a zip archive"),
        (b"!<arch>\n", "library-not-a-library", "a static library"),
        (b"\x00\x01\x02\xff" * 9, "library-not-a-library", "no shared library"),
        (b"\x7fELF\x02\x01\x01" + b"\x00" * 9, "library-cut-off", "the rest is missing"),
    ],
)
def test_a_file_that_is_no_library_is_named(
    tmp_path: Path, content: bytes, code: str, words: str
) -> None:
    (tmp_path / "it.so").write_bytes(content)
    got, text = only(alone(str(tmp_path / "it.so")))
    assert got == code
    assert words in text


def test_a_truncated_library_is_named(library_builder: LibraryBuilder, tmp_path: Path) -> None:
    """The loader of the system crashes on such a file with SIGBUS."""
    data = Path(library_builder.build("acme")).read_bytes()
    (tmp_path / "cut.so").write_bytes(data[:4000])
    assert only(alone(str(tmp_path / "cut.so")))[0] == "library-cut-off"
    without_sections = data[:40] + bytes(8) + data[48:4000]  # as some tools strip them
    (tmp_path / "cut.so").write_bytes(without_sections)
    assert only(alone(str(tmp_path / "cut.so")))[0] == "library-cut-off"


def test_a_missing_library_and_a_folder_are_named(library_builder: LibraryBuilder) -> None:
    built = library_builder.build("acme")
    code, text = only(alone(built.replace("libacme", "libacne")))
    assert code == "library-missing"
    assert "Did you mean 'libacme.so'" in text
    code, text = only(alone(str(library_builder.folder)))
    assert code == "library-not-a-library"
    assert "is a folder" in text


def test_the_library_for_torch_is_recognised() -> None:
    ours = Path(myops.ort.get_library_path())
    code, text = only(alone(str(ours.with_stem("libmyops_torch"))))
    assert code == "library-no-entry-point"
    assert "links PyTorch" in text


def test_two_libraries_with_one_domain_are_an_error(
    library_builder: LibraryBuilder, tmp_path: Path
) -> None:
    report = alone(library_builder.build("acme"), library_builder.build("acme", "libacme2.so"))
    code, text = only(report)
    assert code == "domain-clash"
    assert "'acme'" in text
    assert "libacme2.so" in text
    assert all(item.loads for item in report.libraries)
    # Ours and a copy of ours, as two installations have it.
    copy = tmp_path / "libmyops_ort.so"
    shutil.copy(myops.ort.get_library_path(), copy)
    code, text = only(examine(None, [str(copy)]))
    assert code == "domain-clash"
    assert str(copy) in text


def test_one_library_given_twice_is_named(library_builder: LibraryBuilder) -> None:
    built = library_builder.build("acme")
    report = alone(built, built)
    assert [finding.code for finding in report.findings] == ["library-twice"]
    # Ours by its name beside ours by default is still once, as in myops.ort.session.
    assert examine(None, [myops.ort.get_library_path()]).exit_status == 0


def test_ops_and_kernels_of_a_library_are_listed() -> None:
    from myops import _description

    (ours,) = examine(None).libraries
    minor = int(onnxruntime.__version__.split(".")[1])
    asked = 25 if minor >= 25 else 24 if minor == 24 else 17  # lists of strings need 25
    assert (ours.loads, ours.listed, ours.api_version) == (True, True, asked)
    assert sorted(ours.domains["myops"]) == sorted(i.onnx_type for i in _description.onnx_ops())
    for info in _description.onnx_ops():
        kernels = ours.domains["myops"][info.onnx_type]
        taken = {kernel["inputs"][0][0] for kernel in kernels}
        assert taken == set(info.types[info.inputs[0].type])
        kinds = [kind for _, kind in kernels[0]["inputs"]]
        assert kinds == ["optional" if i.optional else "required" for i in info.inputs]
    request = {
        "kind": "library", "library": ours.path, "trace": True, "about": "",
        "model": libraries.tiny_model().SerializeToString().hex(),
    }  # fmt: skip
    raw = [event for event in process.run(request).events if event["stage"] == "op"]
    assert {event["since"] for event in raw} == {1}
    import onnxruntime_extensions

    (theirs,) = alone(onnxruntime_extensions.get_library_path()).libraries
    assert "DecodeImage" in theirs.domains["com.microsoft.extensions"]
    assert theirs.domains["com.microsoft.extensions"]["DecodeImage"][0]["inputs"][0][0] == "uint8"
