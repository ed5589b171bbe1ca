"""`myops bundle`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from myops.cli import _console, _graphs

OPTIONS = {"check": "--no-check", "libraries": "--library", "triton": "--triton",
           "ray_serve": "--ray-serve", "sign": "--sign"}  # fmt: skip
_LIBRARY = re.compile(r"([^=@]+)(?:@([^=]+))?=(.+)")


def bundle(
    model: _graphs.Model,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The folder to make. Default: MODEL_bundle beside "
                     "the model; for -, model_bundle here.", metavar="FOLDER", show_default=False),
    ] = None,
    library: Annotated[
        list[str] | None,
        typer.Option(help="The library for a domain of others, with its version if you like. May "
                     "be given several times.", metavar="DOMAIN[@VERSION]=FILE"),
    ] = None,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not load the finished bundle once.")
    ] = False,
    triton: Annotated[
        str, typer.Option(help="Make a model repository for NVIDIA Triton, or add to it, in which "
                          "the model has this name.", metavar="NAME"),
    ] = "",
    repository: Annotated[
        str, typer.Option(help="Where Triton sees the folder.", metavar="PATH"),
    ] = "/models",
    ray_serve: Annotated[
        bool, typer.Option("--ray-serve", help="Also write serve_app.py, for Ray Serve."),
    ] = False,
    sign: Annotated[
        Path | None,
        typer.Option(help="Sign all files of the folder with this private key (Ed25519, PEM). The "
                     "password of an encrypted key is taken from MYOPS_SIGNING_PASSWORD.",
                     metavar="KEY", show_default=False),
    ] = None,
    json: _graphs.Json = False,
) -> None:  # fmt: skip
    """Make a folder with a model, the libraries that it needs, and loaders for Python and C++.

    The folder runs where myops is not installed. Each library's version and hash is recorded in the
    model; the loaders, and myops.ort.session, compare them.

    Example: myops bundle model.onnx -o deploy

    Example: myops bundle model.onnx -o models --triton upscale

    Example: myops bundle model.onnx -o deploy --sign key.pem

    Example: myops bundle model.onnx -o deploy --library my_domain@1.2=build/libmy_ops.so
    """
    from myops.ort import bundle as make

    if output == _graphs.STREAM:
        raise ValueError("--output: got -, expected a folder: a bundle has several files")
    source = _graphs.source(model)
    title = Path("model") if isinstance(source, bytes) else source
    folder = output or title.with_name(f"{title.stem}_bundle")
    with _console.progress("bundling"):
        made = make(source, folder, libraries=_libraries(library), check=not no_check,
                    triton=triton, repository=repository, ray_serve=ray_serve,
                    sign=sign)  # fmt: skip
    if json:
        named = [{"file": item.file, "version": item.version, "sha256": item.sha256,
                  "platform": item.platform, "domains": item.domains}
                 for item in made.libraries]  # fmt: skip
        _console.print_json({
            "output": str(made.folder), "model": str(made.model), "libraries": named,
            "files": made.files,
        })  # fmt: skip
        return
    _console.say(f"{made.folder}: {', '.join(made.files)}")
    for item in made.libraries:
        _console.say(f"library  {item} on {item.platform}")
    if not made.libraries:
        _console.say("The model needs no library.")


def _libraries(texts: list[str] | None) -> dict[str, tuple[str, str]]:
    found = {}
    for text in texts or []:
        parts = _LIBRARY.fullmatch(text)
        if parts is None:
            raise ValueError(
                f"--library: got {text!r}, expected DOMAIN=FILE or DOMAIN@VERSION=FILE"
            )
        found[parts[1]] = (parts[3], parts[2] or "")
    return found
