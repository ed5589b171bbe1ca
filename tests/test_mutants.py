"""Mutation testing finds places to mutate in the kernels of every op, and changes nothing else."""

from __future__ import annotations

from pathlib import Path

import mutant_build
import pytest

OPS = sorted(path.name for path in (mutant_build.ROOT / "csrc" / "ops").iterdir())


@pytest.mark.parametrize("op", OPS)
def test_every_op_has_mutations(op: str) -> None:
    sites = mutant_build.sites_of(op)
    files = {site.file for site in sites}
    assert len(sites) > 100
    assert len(files) > 1
    assert not any("cuda" in file for file in files)
    for name in mutant_build.tests_of(op):
        assert (mutant_build.ROOT / "tests" / "native" / f"{name}.cpp").is_file()


def test_a_mutation_changes_one_line(tmp_path: Path) -> None:
    source = mutant_build.ROOT / "csrc" / "ops" / "resize"
    for path in mutant_build.headers_of(source):
        (tmp_path / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
    site = next(item for item in mutant_build.sites_of("resize") if item.file.count("/"))
    mutant_build.write(source, tmp_path, [site])
    for path in mutant_build.headers_of(source):
        before = path.read_text().splitlines()
        after = (tmp_path / path.relative_to(source)).read_text().splitlines()
        lines = [number for number, pair in enumerate(zip(before, after, strict=True), 1)
                 if pair[0] != pair[1]]  # fmt: skip
        assert lines == ([site.line] if path.relative_to(source).as_posix() == site.file else [])
