"""Which files of the repository are pages of the site, and where in it.

A page of docs/ has the same place without "docs/", the README is the front page, and other Markdown
files stay where they are. Any other file that a page links to becomes a page with its text.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

ROOT = Path(__file__).resolve().parents[2]
# Pages outside docs/ to which pages of the site link.
OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "benchmarks/README.md",
           "examples/*/README.md")  # fmt: skip
_LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".py": "python", ".mjs": "javascript", ".cmake": "cmake",
              ".toml": "toml", ".yml": "yaml", ".json": "json", ".sh": "sh"}  # fmt: skip


@functools.cache
def places() -> dict[str, str]:
    """The pages of the site by the Markdown files of the repository."""
    docs = {_path(file): _path(file).removeprefix("docs/") for file in ROOT.glob("docs/**/*.md")}
    outside = [_path(file) for pattern in OUTSIDE for file in sorted(ROOT.glob(pattern))]
    return docs | {path: "index.md" if path == "README.md" else path for path in outside}


def pages() -> dict[str, str]:
    """The text of the pages that are not in docs/, by their place in the site."""
    return {
        place: (ROOT / path).read_text()
        for path, place in places().items()
        if not path.startswith("docs/")
    }


@functools.cache
def sources() -> dict[str, str]:
    """The same for other files to which pages link, with their texts."""
    found = {}
    for page in places():
        prose = re.sub(r"^(```+).*?^\1", "", (ROOT / page).read_text(), flags=re.S | re.M)
        for link in re.findall(r"\]\(([^)#:\s]+)", prose):
            target = normpath(join(dirname(page), link))
            if target not in places() and not _is_shown_by_itself(target):
                file = ROOT / target
                if file.is_file():
                    language = _LANGUAGES.get(file.suffix, "text")
                    fence = f"`````{language}\n{file.read_text()}\n`````"
                    found[f"{target}.md"] = f"# {target}\n\n{fence}\n"
    return found


def _is_shown_by_itself(path: str) -> bool:
    return path.startswith("docs/")  # a picture or data, which the site contains unchanged


def link(page: str, target: str) -> str:
    """What a link on a page of the site has to be; `target`: what stands in the repository's file.

    A target that the site does not have stays, and MkDocs reports it.
    """
    path, _, anchor = target.partition("#")
    if not path or ":" in path:
        return target
    home = {place: source for source, place in places().items()}.get(page)
    if home is None:
        return target
    source = normpath(join(dirname(home), path))
    if (ROOT / source).is_dir():
        source = join(source, "README.md")
    if source in places():
        place = places()[source]
    elif f"{source}.md" in sources():
        place = f"{source}.md"
    elif source.startswith("docs/"):
        place = source.removeprefix("docs/")
    else:
        return target
    return relpath(place, dirname(page) or ".") + (f"#{anchor}" if anchor else "")


def _path(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()
