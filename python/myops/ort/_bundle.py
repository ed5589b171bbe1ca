"""Bundles: a folder with a model, the libraries that it needs, and loaders for Python and C++."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx

from myops._checked import checked
from myops._names import near_misses
from myops.onnx.graph import files
from myops.ort import _named_libraries, _signing, _triton
from myops.ort._bundle_readme import readme
from myops.ort._doctor import elf, graph, weights
from myops.ort._loaders.load import sha256, this_platform
from myops.ort._named_libraries import NamedLibrary

LOADERS = ("load.py", "load.h", "README.md")
_TEMPLATES = Path(__file__).parent / "_loaders"

Given = Mapping[str, str | os.PathLike[str] | tuple[str | os.PathLike[str], str]]


@dataclass(frozen=True)
class Bundle:
    """The result of `bundle`.

    Attributes:
        folder: The folder.
        model: The model in it.
        libraries: The libraries in it, as the model's metadata names them.
        files: Everything that was made, weights too, relative to the folder.
    """

    folder: Path
    model: Path
    libraries: tuple[NamedLibrary, ...]
    files: tuple[str, ...]


@checked()
def bundle(
    model: files.Model,
    folder: str | os.PathLike[str],
    *,
    libraries: Given | None = None,
    check: bool = True,
    triton: str = "",
    repository: str = _triton.REPOSITORY,
    ray_serve: bool = False,
    sign: _signing.Key | None = None,
) -> Bundle:
    """Makes a folder that runs a model with custom operators where no myops is installed.

    In it: the model, its weights where they are in files of their own, the custom-op libraries
    for the domains of its nodes, `load.py` (needs only onnxruntime), `load.h` (for the C++ API of
    ONNX Runtime) and a README. The model's metadata names the libraries with version and SHA-256;
    both loaders and `myops.ort.session` compare them. Libraries are those of this machine: a
    bundle is for one system and processor, and says which.

    Args:
        model: A path, the bytes of a file, or an onnx.ModelProto. It is not changed.
        folder: Made by this; may exist if it is empty. It appears when everything is in it. With
            `triton` it may be a model repository, to which the model is added.
        libraries: Libraries of others: {domain: path} or {domain: (path, version)}. That of myops
            is known. A domain whose nodes all have function bodies needs none.
        check: Load the finished bundle once, in a process of its own.
        triton: The name of the model in a repository for NVIDIA Triton, which the folder becomes
            or is: NAME/config.pbtxt and NAME/1 with the bundle. Default: no repository.
        repository: Where Triton sees the folder; its configuration names libraries by whole paths.
        ray_serve: Also write `serve_app.py`, an application for Ray Serve.
        sign: A private key (Ed25519), as a PEM file or its bytes: also write `signature.json`,
            which covers every file of the bundle, for `verify` and
            `session(named_libraries="signed")`. An encrypted key is opened with the password in
            MYOPS_SIGNING_PASSWORD.

    Returns:
        What was made.

    Raises:
        FileExistsError: The folder exists and is not empty, or the repository has such a model.
        FileNotFoundError: The model, its weights or a library is missing.
        ValueError: A domain has no known library; a library is no library, for another machine,
            or not used by the model; Triton has no such type or name.
        RuntimeError: The finished bundle does not load; nothing is left behind.

    Example:
        >>> myops.ort.bundle("upscale.onnx", "upscale_bundle").libraries[0].file
        'libmyops_ort.so'
    """
    target = Path(os.fspath(folder))
    joined = bool(triton) and _triton.joins(target, _triton.checked_name(triton))
    if not joined and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"{target}: exists and is not empty; remove it or give another name")
    proto = onnx.ModelProto()
    proto.CopyFrom(files.load(model, weights=False))
    used = _used_domains(proto)
    found = _needed(used, libraries or {})
    named = [_library(path, version, domains) for path, (version, domains) in found.items()]
    source = None if isinstance(model, (onnx.ModelProto, bytes)) else Path(os.fspath(model))
    data = _weights(proto, source.parent if source else None)
    if triton and ray_serve:
        raise ValueError("triton: got ray_serve=True as well, expected one of them")
    name = "model.onnx" if triton or not source else source.name
    # Where the bundle goes: Triton needs a folder for the model, and in it one for its version.
    inner = Path(triton, "1") if triton else Path()
    contents = [name, *data, *(item.file for item in named), *LOADERS]
    contents += ["serve_app.py"] if ray_serve else []
    contents += [_signing.SIGNATURE] if sign is not None else []
    secret = None if sign is None else _signing.private_key(sign)
    clash = next((item for item in contents if contents.count(item) > 1), None)
    if clash:
        raise ValueError(f"bundle: got two files with the name {clash!r}; rename one of them")
    for file in contents:
        _refuse_name(file, signed=sign is not None)
    _describe(proto, named)
    files_beside = [item.file for item in named]
    described = _triton.config(proto, triton, files_beside, repository) if triton else ""

    whole = (
        _triton.workplace(target) if joined else target.with_name(f".{target.name}.{os.getpid()}")
    )
    guide = f"{triton}/README.md" if joined else "README.md"  # of Triton; others keep theirs
    partial = whole / inner
    try:
        try:
            partial.mkdir(parents=True)
        except OSError as error:  # it tells the temporary name
            raise type(error)(
                f"bundle: folder: {target}: cannot be written: {error.strerror}"
            ) from error
        files.save(proto, partial / name)
        for weight in data:
            (partial / weight).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile((source or Path()).parent / weight, partial / weight)
        for path, item in zip(found, named, strict=True):
            shutil.copyfile(path, partial / item.file)
        _write_loaders(partial, name, named)
        text = readme(name, named, proto, portable=all(used.values()))
        (partial / "README.md").write_text(text, encoding="utf-8")
        if ray_serve:
            shutil.copyfile(_TEMPLATES / "serve_app.py", partial / "serve_app.py")
        if triton:
            (partial.parent / "config.pbtxt").write_text(described, encoding="utf-8")
            text = _triton.readme(triton, repository)
            (whole / guide).write_text(text, encoding="utf-8")
        if check:
            _try(partial)
        if secret is not None:
            _signing.sign(partial, name, secret)
        if joined:
            _triton.add(whole / triton, target / triton)
        else:
            os.replace(whole, target)  # the target does not exist or is an empty folder
    finally:
        shutil.rmtree(whole, ignore_errors=True)
    made = [str(inner / item) for item in contents]
    made += [f"{triton}/config.pbtxt", guide] if triton else []
    return Bundle(target, target / inner / name, tuple(named), tuple(made))


def _refuse_name(name: str, signed: bool) -> None:
    """A list of signed files has no names that another system reads as a path.

    Raises:
        ValueError: The name of a file cannot be used in a bundle.
    """
    fault = ""
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        fault = "is not UTF-8"
    elif signed and "\\" in name:
        fault = "has a backslash, which a signature does not accept"
    if fault:
        raise ValueError(f"bundle: got a file whose name {fault}: {name!a}; rename it")


def _used_domains(model: onnx.ModelProto) -> dict[str, bool]:
    """The domains that ONNX Runtime does not have: whether all their nodes have function bodies."""
    bodies = graph.functions(model)
    used: dict[str, bool] = {}
    for place in graph.places(model):
        if not _is_builtin(place.domain):
            has_body = (place.domain, place.node.op_type) in bodies
            used[place.domain] = used.get(place.domain, True) and has_body
    return used


def _needed(used: dict[str, bool], given: Given) -> dict[str, tuple[str, list[str]]]:
    """{path: (version, domains)} of the libraries for a model's nodes."""
    for domain in given:
        if domain not in used:
            raise ValueError(
                f"libraries: the model has no node of the domain {domain!r}."
                f"{near_misses(domain, used)} It has {', '.join(map(repr, used)) or 'none'}."
            )
    found: dict[str, tuple[str, list[str]]] = {}
    for domain, has_bodies in used.items():
        item = given.get(domain) or _named_libraries.installed(domain)
        if item is None and not has_bodies:
            raise ValueError(
                f"bundle: the model has nodes of the domain {domain!r}, and no library for it is "
                f"known; give one: libraries={{{domain!r}: path}}, or --library {domain}=FILE"
            )
        if item is not None:
            path, version = item if isinstance(item, tuple) else (item, "")
            found.setdefault(os.path.realpath(path), (version, []))[1].append(domain)
    return found


def _is_builtin(domain: str) -> bool:
    """Whether ONNX Runtime itself has the domain."""
    others = (
        "ai.onnx.contrib",
        "com.microsoft.extensions",
    )  # domains of onnxruntime-extensions
    builtin = ("ai.onnx", "com.microsoft")
    return not domain or (
        domain not in others and any(f"{domain}.".startswith(f"{item}.") for item in builtin)
    )


def _library(path: str, version: str, domains: list[str]) -> NamedLibrary:
    name = os.path.basename(path)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"no such custom-op library: {path}")
    facts = elf.examine(path)
    if facts.problem:
        raise ValueError(
            f"{path}: got {facts.kind}, expected a shared library for {this_platform()}"
        )
    if not _named_libraries.is_plain(name):
        raise ValueError(
            f"{path}: got the file name {name!r}, expected letters, digits and any of . _ + - only"
        )
    return NamedLibrary(name, version, sha256(Path(path)), this_platform(), tuple(sorted(domains)))


def _weights(model: onnx.ModelProto, folder: Path | None) -> list[str]:
    """The files with the model's weights, relative to its folder."""
    found, problems = weights.check(model, folder or Path())
    if folder is None and (found or problems):
        raise ValueError(
            "model: got bytes or a ModelProto whose weights are in other files, expected its path"
        )
    if problems:
        raise FileNotFoundError(f"{problems[0].what} {problems[0].why} {problems[0].fix}")
    return list(found)


def _describe(model: onnx.ModelProto, named: list[NamedLibrary]) -> None:
    """Writes the libraries into the metadata, in place of what another bundle had written."""
    kept = [item for item in model.metadata_props if item.key != _named_libraries.KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    if named:
        model.metadata_props.add(key=_named_libraries.KEY, value=_named_libraries.dumps(named))


def _write_loaders(folder: Path, name: str, named: list[NamedLibrary]) -> None:
    python = {
        'MODEL = ""': f"MODEL = {json.dumps(name)}",
        'PLATFORM = ""': f"PLATFORM = {json.dumps(this_platform())}",
        "LIBRARIES: dict[str, str] = {}": "LIBRARIES: dict[str, str] = "
        + json.dumps({item.file: item.sha256 for item in named}, indent=4),
    }
    rows = [f'\n    Library{{"{item.file}", "{item.sha256}"}}' for item in named]
    cpp = {
        'model = ""': f"model = {json.dumps(name, ensure_ascii=False)}",
        'platform = ""': f"platform = {json.dumps(this_platform())}",
        "libraries = {}": "libraries = {\n    " + ",\n    ".join(rows) + "}"
        if rows
        else "libraries = {}",
    }
    for file, changes in (("load.py", python), ("load.h", cpp)):
        text = (_TEMPLATES / file).read_text(encoding="utf-8")
        for old, new in changes.items():
            assert text.count(old) == 1, (file, old)
            text = text.replace(old, new)
        (folder / file).write_text(text, encoding="utf-8")


def _try(folder: Path) -> None:
    run = subprocess.run(
        [sys.executable, "load.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"it ended with status {run.returncode}"]
        raise RuntimeError(
            f"bundle: it was made but does not load, so it was removed again: {lines[-1]} "
            "(`myops doctor` says more about the model; check=False keeps it)"
        )
