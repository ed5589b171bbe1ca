"""The wheels of `make dist`: how they are packed, and which faults their checks find.

Small binaries replace those that zig compiles; `make test-dist` tests the real ones.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import make_dist
import pytest
import shared
from wheels import calls, checking, compiling, contents, debian, packing, pythons, sbom

import myops
from myops import _numpy

TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
EPOCH = 1_700_000_000
PLATFORM = "manylinux_2_28_x86_64"
LIBRARY = "lib/libmyops_ort.so"
PACKAGE = Path(myops.__file__).parent


def build(folder: Path) -> None:
    """myops-runtime with small binaries, packed by make_dist.make."""
    module = f"_numpy.cpython-{TAG[2:]}-x86_64-linux-gnu.so"
    binaries = {}
    for name, place in (("RegisterCustomOps", LIBRARY), ("PyInit__numpy", module)):
        binaries[place] = folder / f"{name}.so"
        source = folder / f"{name}.c"
        source.write_text(f"void {name}(void) {{}}\n")
        command = ["cc", "-shared", "-s", "-o", str(binaries[place]), str(source)]
        subprocess.run(command, check=True)
    make_dist.make("myops-runtime", binaries, [TAG], "x86_64", folder)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
        folder = shared.once(tmp_path_factory, "dist", build)
    (found,) = folder.glob("*.whl")
    return found


def read(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_package_description_has_no_relative_links() -> None:
    """A package index shows README.md alone, so no link or picture may be relative."""
    found = contents.of("myops")[f"myops-{myops.__version__}.dist-info/METADATA"].decode()
    head, _, text = found.partition("\n\n")
    assert "Description-Content-Type: text/markdown" in head
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    assert text.splitlines()[0] == readme.splitlines()[0]
    assert len(text) > 0.8 * len(readme)
    assert re.findall(r"\]\((?!https?://)[^)]*\)", readme)
    assert not re.findall(r"\]\((?!https?://)[^)]*\)|<img|<a ", text)


def test_equal_contents_give_equal_wheels(made: Path, tmp_path: Path) -> None:
    assert made.name == f"myops_runtime-{myops.__version__}-{TAG}-none-{PLATFORM}.whl"
    with zipfile.ZipFile(made) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}
    found = contents.of("myops-runtime")
    for name, data in read(made).items():
        if name.endswith((".so", "/WHEEL", ".cdx.json")):
            found = {name: data, **found}  # in another order
    packing.pack(tmp_path / made.name, found | {n: d for n, d in read(made).items()
                 if n.endswith("/WHEEL")}, EPOCH)  # fmt: skip
    assert (tmp_path / made.name).read_bytes() == made.read_bytes()


def test_a_good_wheel_has_no_problems(made: Path) -> None:
    assert checking.check(made) == []


def changed(made: Path, folder: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
    """A wheel with changed contents and its old RECORD."""
    found = read(made)
    change(found)
    with zipfile.ZipFile(folder / made.name, "w") as archive:
        for name, data in found.items():
            archive.writestr(zipfile.ZipInfo(name, (2023, 11, 14, 22, 13, 20)), data)
    return folder / made.name


def test_binaries_of_this_machine_are_refused(made: Path, tmp_path: Path) -> None:
    """They need its libstdc++ and its C library."""
    path = changed(
        made, tmp_path,
        lambda found: found.update({f"myops/{LIBRARY}": (PACKAGE / LIBRARY).read_bytes()}),
    )  # fmt: skip
    text = "\n".join(checking.check(path))
    assert f"myops/{LIBRARY}: needs libstdc++.so.6" in text
    (said,) = checking._policy(path)
    assert said.startswith("auditwheel: got ")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda found: found.update({"myops/extra.py": b""}), "RECORD: other files"),
        (lambda found: found.update({"myops/py.typed": b"x"}), "RECORD: myops/py.typed: another"),
        (lambda found: found.pop(next(n for n in found if n.endswith("/LICENSE"))),
         "METADATA: it names LICENSE, which is not in licenses/"),
        (lambda found: found.update({"myops/lib/x.h": str(compiling.ROOT).encode()}),
         "holds the path"),
        (lambda found: found.update({"myops/lib/x.h": b"/opt/x/lib/python3.11/site-packages/a"}),
         "holds the path /opt/x/lib/python3.11/site-packages"),
        (lambda found: found.update({next(n for n in found if n.endswith("/WHEEL")): b"Tag: a"}),
         "WHEEL: got the tags"),
        (lambda found: found.pop(next(n for n in found if n.endswith(".cdx.json"))),
         "got the bills of materials []"),
        (lambda found: found.update({next(n for n in found if n.endswith(".cdx.json")): b"{}"}),
         "the bill of materials is not valid"),
        (lambda found: found.pop(next(n for n in found if "/_numpy." in n and n.endswith(".so"))),
         f"the tag {TAG}, and no module for it"),
    ],
)  # fmt: skip
def test_wheels_with_a_fault_are_refused(
    made: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], object], text: str
) -> None:
    found = checking.check(changed(made, tmp_path, change))
    assert any(text in problem for problem in found), found


def test_a_wheel_for_another_processor_is_refused(made: Path, tmp_path: Path) -> None:
    name = made.name.replace("x86_64", "aarch64")
    path = Path(shutil.copy(made, tmp_path / name))
    with pytest.raises(Exception, match=r"(?i)aarch64|x86"):
        assert not checking.check(path), checking.check(path)


def test_the_bill_of_materials_lists_the_components(made: Path) -> None:
    found = read(made)
    (name,) = (name for name in found if "/sboms/" in name)
    assert name == f"myops_runtime-{myops.__version__}.dist-info/sboms/myops-runtime.cdx.json"
    bill = json.loads(found[name])
    assert bill["specVersion"] == "1.6"
    names = {item["name"] for item in bill["components"]}
    assert {"libcxx", "pybind11", f"myops/{LIBRARY}"} <= names
    assert all(item["version"] for item in bill["components"] if item["type"] == "library")
    arguments = "myops", "1.0", {"a.so": b""}, "aarch64", EPOCH
    assert sbom.make(*arguments) == sbom.make(*arguments)
    assert b'"torch"' in sbom.make(*arguments)
    with pytest.raises(ValueError, match="is not valid"):
        sbom.check(json.dumps(bill | {"components": 1}))


def test_pip_installs_the_wheel(made: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
               "--target", tmp_path / "new", made]  # fmt: skip
    subprocess.run(command, check=True)
    assert (tmp_path / "new" / "myops" / LIBRARY).is_file()
    assert "_signing" in {path.name for path in (tmp_path / "new" / "myops" / "ort").iterdir()}
    assert not (tmp_path / "new" / "myops" / "ops").exists()


def test_a_plan_compiles_each_kernel_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(compiling.ROOT)
    found = [pythons.Python(f"3.{minor}", "/usr/include", "") for minor in (11, 12)]
    plan = compiling.Plan("aarch64", tmp_path, found)
    lines = plan.write().read_text().splitlines()
    compiled = [line for line in lines if line.startswith("build ") and "isa_neon.cpp.o:" in line]
    assert len(compiled) == len(list(compiling.ROOT.glob("csrc/ops/**/isa/neon.cpp")))
    assert sorted(plan.binaries("myops-runtime")) == [
        "_numpy.cpython-311-aarch64-linux-gnu.so", "_numpy.cpython-312-aarch64-linux-gnu.so",
        "lib/libmyops_ort.so",
    ]  # fmt: skip
    flags = [line for line in lines if "-ffp-contract=off" in line]
    assert len(flags) == sum(" -c csrc/" in line for line in lines)


def test_compared_calls_cover_every_op_and_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every op, every dtype, and as many titles as calls."""
    found = list(calls.calls())
    assert {op for _, op, _, _ in found} == {op.describe()["name"] for op in _numpy.OPS} - {
        "deform_conv2d_backward_backward"
    }
    assert len({title for title, *_ in found}) == len(found) > 400
    some = {f"{op} {title.split()[1]}": (title, op, *rest) for title, op, *rest in found}
    monkeypatch.setattr(calls, "calls", lambda: some.values())
    assert calls.digests(_numpy, 1) == calls.digests(_numpy, 2)


def test_dist_needs_debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian.shutil, "which", lambda name: None)
    with pytest.raises(debian.UnavailableError, match="no apt-get"):
        debian.fetch(["hello"], tmp_path / "new", "trixie", "arm64")


def test_unpacked_packages_get_the_links_of_their_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Debian 13 on, the loader is in /usr/lib, and programs look for it in /lib."""

    def run(command: list[str], folder: Path) -> None:
        if "download" in command:
            (folder / "libc6.deb").touch()
        if command[0] == "dpkg-deb":
            (Path(command[-1]) / "usr" / "lib").mkdir(parents=True)
            (Path(command[-1]) / "usr" / "lib" / "ld-linux.so").touch()

    monkeypatch.setattr(debian, "_run", run)
    monkeypatch.setattr(debian, "_mirror", lambda: "")
    monkeypatch.setattr(debian.shutil, "which", lambda name: name)
    folder = debian.fetch(["libc6"], tmp_path / "root", "trixie", "arm64", follow=False)
    assert (folder / "lib" / "ld-linux.so").is_file()
    assert not (folder / "lib64").exists()


def test_wheel_file_names_are_parsed() -> None:
    name = packing.file_name("a-b", "1.0", ["cp310", "cp311"], "manylinux_2_28_aarch64")
    assert name == "a_b-1.0-cp310.cp311-none-manylinux_2_28_aarch64.whl"
