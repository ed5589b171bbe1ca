"""The doctor on bundled models whose named libraries are missing or different."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from doctor_cases import examine
from ort_models import add_model

import myops.ort
from myops.ort import _named_libraries
from myops.ort._doctor import Finding, named
from myops.ort._named_libraries import KEY, NamedLibrary

OWN = myops.ort.get_library_path()


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    """A bundle that names another version of our library, with other bytes."""
    library = tmp_path / "libmyops_ort.so"
    library.write_bytes(Path(OWN).read_bytes() + b"\0")
    given = {"myops": (library, "0.0.9")}
    return myops.ort.bundle(add_model(), tmp_path / "deploy", libraries=given, check=False).folder


def rewrite(folder: Path, change: Callable[[NamedLibrary], NamedLibrary] | str) -> None:
    """Changes the libraries that the model names."""
    model = onnx.load(folder / "model.onnx")
    (entry,) = [item for item in model.metadata_props if item.key == KEY]
    if isinstance(change, str):
        entry.value = change
    else:
        items = _named_libraries.named_by(model.SerializeToString())
        entry.value = _named_libraries.dumps(map(change, items))
    onnx.save(model, folder / "model.onnx")


def check(folder: Path, *paths: str, use_installed: bool = True) -> dict[str, Finding]:
    _, found = named.check(str(folder / "model.onnx"), folder, paths, use_installed)
    return {finding.code: finding for finding in found}


def test_another_installed_version_is_an_error(deploy: Path) -> None:
    ((code, finding),) = check(deploy, OWN).items()
    assert (code, finding.severity) == ("named-library-version", "error")
    assert f"names libmyops_ort.so 0.0.9, and here is {myops.__version__}" in finding.what
    assert "Install version 0.0.9" in finding.fix
    assert "named_libraries='trust'" in finding.fix  # the file next to the model is correct
    (deploy / "libmyops_ort.so").unlink()
    assert "'trust'" not in check(deploy, OWN)[code].fix


def test_another_installed_build_is_an_error(deploy: Path) -> None:
    rewrite(deploy, lambda item: dataclasses.replace(item, version=myops.__version__))
    ((code, finding),) = check(deploy, OWN).items()
    assert code == "named-library-differs"
    assert "another build of libmyops_ort.so" in finding.what
    ((code, _),) = check(deploy, OWN, use_installed=False).items()  # it was given, then
    assert code == "named-library-differs"


def test_a_given_library_with_the_named_hash_is_accepted(deploy: Path) -> None:
    next_to_it = deploy / "libmyops_ort.so"
    assert check(deploy, OWN, str(next_to_it)) == {}
    elsewhere = shutil.move(next_to_it, deploy.parent / "other_name.so")
    assert check(deploy, OWN, str(elsewhere)) == {}


def test_a_library_only_in_the_bundle_is_a_warning(deploy: Path) -> None:
    rewrite(deploy, lambda item: dataclasses.replace(item, domains=("elsewhere",)))
    ((code, finding),) = check(deploy).items()
    assert (code, finding.severity) == ("named-library-beside", "warning")
    assert f"--library {deploy / 'libmyops_ort.so'}" in finding.fix


def test_a_missing_named_library_is_an_error(deploy: Path) -> None:
    rewrite(deploy, lambda item: dataclasses.replace(item, domains=("elsewhere",)))
    (deploy / "libmyops_ort.so").unlink()
    ((code, finding),) = check(deploy).items()
    assert (code, finding.severity) == ("named-library-missing", "error")
    assert f"there is no {deploy / 'libmyops_ort.so'}" in finding.why
    assert "Copy the whole bundle" in finding.fix


def test_a_damaged_library_in_the_bundle_is_named(deploy: Path) -> None:
    with (deploy / "libmyops_ort.so").open("ab") as stream:
        stream.write(b"x")
    found = check(deploy, OWN)
    assert set(found) == {"named-library-damaged", "named-library-version"}
    assert "Copy the whole bundle again" in found["named-library-damaged"].fix
    original = deploy.parent / "libmyops_ort.so"
    ((code, finding),) = check(deploy, str(original)).items()
    assert (code, finding.severity) == ("named-library-damaged", "warning")  # a session works


def test_a_bundle_for_another_platform_is_an_error(deploy: Path) -> None:
    rewrite(deploy, lambda item: dataclasses.replace(item, platform="plan9-mips"))
    ((code, finding),) = check(deploy, OWN).items()
    assert code == "named-library-platform"
    assert "plan9-mips" in finding.what


@pytest.mark.parametrize("text", ["{", '[{"file": 1}]'])
def test_unreadable_metadata_is_an_error(deploy: Path, text: str) -> None:
    rewrite(deploy, text)
    ((code, finding),) = check(deploy, OWN).items()
    assert code == "named-libraries-unreadable"
    assert "myops bundle" in finding.fix


def test_the_report_lists_the_named_libraries(deploy: Path) -> None:
    """A model that ONNX Runtime loads with the installed library, but a session refuses."""
    path = deploy / "model.onnx"
    with pytest.raises(ValueError, match=r"names libmyops_ort\.so 0\.0\.9"):
        myops.ort.session(path)
    report = examine(path)
    assert (report.verdict, report.exit_status) == ("loads, but something is wrong", 1)
    assert [finding.code for finding in report.findings] == ["named-library-version"]
    assert report.model is not None
    (item,) = report.model["named_libraries"]
    assert (item["file"], item["version"]) == ("libmyops_ort.so", "0.0.9")


def test_a_model_that_names_the_installed_library_is_healthy(tmp_path: Path) -> None:
    made = myops.ort.bundle(add_model(), tmp_path / "deploy", check=False)
    for model in (made.model, made.model.read_bytes()):
        report = examine(model)
        assert (report.verdict, report.findings) == ("loads", [])
