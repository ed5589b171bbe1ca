"""Packages share the objects of our own sources: which builds compile them, and which reuse
them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from installed import cached
from setuptools import Distribution, Extension

from myops import build


class Compiler:
    """A compiler that writes the inputs of an object instead of compiling it."""

    compiler_so = ("c++", "-fPIC")

    def __init__(self) -> None:
        self.compiled: list[str] = []
        self.macros: list[Any] = []

    def object_filenames(self, sources: list[str], output_dir: str) -> list[str]:
        return [str(Path(output_dir, *Path(source).parts[1:])) + ".o" for source in sources]

    def compile(self, sources: list[str], output_dir: str, **options: Any) -> None:
        self.compiled += [Path(source).name for source in sources]
        self.macros += options["macros"]
        for source, target in zip(sources, self.object_filenames(sources, output_dir), strict=True):
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            Path(target).write_text(f"object of {Path(source).name}")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MYOPS_BUILD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def prepared(folder: Path, name: str, **options: Any) -> tuple[Compiler, Extension]:
    """Builds the library for torch of a package; the compiler has the list of our files that it
    compiled."""
    (extension, *_) = build.extensions(name, ["op.cpp"], **options)
    command = build.BuildExtension(Distribution({"ext_modules": [extension]}))
    command.compiler = compiler = Compiler()
    command.build_temp, command.debug = str(folder), None
    command._prepare(extension, "torch")
    return compiler, extension


def test_a_second_package_compiles_only_its_ops(tmp_path: Path) -> None:
    first, extension = prepared(tmp_path / "one", "one")
    assert {"registry.cpp", "library.cpp"} <= set(first.compiled)
    second, other = prepared(tmp_path / "two", "two", extra_compile_args=["-O0"])
    assert second.compiled == []
    for one, two in zip(extension.extra_objects, other.extra_objects, strict=True):
        assert one.startswith(str(tmp_path / "one"))
        assert two.startswith(str(tmp_path / "two"))
        assert Path(one).read_text() == Path(two).read_text()


def test_stored_objects_have_no_package_name(tmp_path: Path) -> None:
    compiler, extension = prepared(tmp_path / "one", "one", define_macros=[("MINE", "1")])
    assert set(compiler.macros) == {("MINE", "1")}
    assert "library_names.cpp" not in compiler.compiled
    assert [Path(source).name for source in extension.sources] == ["op.cpp", "library_names.cpp"]
    csrc = Path(build.get_include()).parent
    using = [path.name for path in csrc.rglob("*.*") if "MYOPS_DOMAIN" in path.read_text()]
    assert using == ["library_names.cpp"]


@pytest.mark.parametrize(
    "options",
    [
        {"extra_compile_args": ["-D_GLIBCXX_ASSERTIONS"]},
        {"define_macros": [("_GLIBCXX_DEBUG", None)]},
    ],
)
def test_other_flags_are_compiled_again(tmp_path: Path, options: Any) -> None:
    prepared(tmp_path / "one", "one")
    assert prepared(tmp_path / "two", "two", **options)[0].compiled


def test_another_compiler_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(tmp_path / "one", "one")
    monkeypatch.setenv("CXX", "echo another")
    assert prepared(tmp_path / "two", "two")[0].compiled


def test_environments_with_the_same_versions_share_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def entry(folder: Path, place: str = "include") -> Path | None:
        include = str(folder / "torch" / place)
        return build.cache.entry(["a.cpp"], ["-O3"], [include], [], tmp_path)

    here = Path(torch.__file__).parents[1]
    stored = entry(here)
    assert stored is not None
    assert entry(tmp_path) != stored  # headers of torch of an unknown version
    assert entry(here, "other") != stored
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch" / "__init__.py"))
    assert entry(tmp_path) == stored
    assert entry(here) != stored
    monkeypatch.setattr(torch.version, "git_version", "another")
    assert entry(tmp_path) != stored


@pytest.mark.parametrize("off", ["variable", "flag", "unwritable"])
def test_an_unusable_cache_stores_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, off: str
) -> None:
    arguments = ["-march=native"] if off == "flag" else []
    if off == "variable":
        monkeypatch.setenv("MYOPS_BUILD_CACHE", "")
    elif off == "unwritable":
        cache.write_text("a file where the folder should be")
    for name in ("one", "two"):
        assert prepared(tmp_path / name, name, extra_compile_args=arguments)[0].compiled
    assert not cache.is_dir()


def test_a_missing_object_is_compiled_again(tmp_path: Path, cache: Path) -> None:
    prepared(tmp_path / "one", "one")
    next(cache.rglob("*.o")).unlink()
    assert prepared(tmp_path / "two", "two")[0].compiled
    assert prepared(tmp_path / "three", "three")[0].compiled == []
    assert len(list(cache.iterdir())) == 1  # no half-written folder


def test_ccache_finds_objects_of_another_temporary_folder(tmp_path: Path) -> None:
    """In another temporary folder, with absolute paths, as setuptools passes them."""
    ccache = shutil.which("ccache")
    if ccache is None:
        pytest.skip("needs ccache")
    environment = {**os.environ, "CCACHE_DIR": str(tmp_path / "cache")}
    for run in (tmp_path / "first", tmp_path / "second"):
        (run / "include").mkdir(parents=True)
        (run / "include" / "one.h").write_text("inline int one() { return 1; }\n")
        (run / "two.cpp").write_text('#include "one.h"\nint two() { return one() + 1; }\n')
        subprocess.run(
            [ccache, "c++", "-g", f"-I{run / 'include'}", "-c", run / "two.cpp", "-o", "two.o"],
            cwd=run, env={**environment, **cached(run)}, check=True,
        )  # fmt: skip
    found = subprocess.run([ccache, "--print-stats"], env=environment, capture_output=True,
                           text=True, check=True)  # fmt: skip
    counts = dict(line.split("\t") for line in found.stdout.splitlines())
    assert int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"]) == 1
    assert int(counts["cache_miss"]) == 1
