"""Completion in the shell: names in models, module paths, ops, targets, and values of options.

Nothing of the user's is run for it: a Python file is only parsed, and a model only read. A model
may come from anywhere, and shells evaluate what a completion prints, so a name with any sign
beyond letters, digits and a few others is left out. Where there is nothing to offer, the shell
offers files.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

INSTRUCTION = "_MYOPS_COMPLETE"  # what the shell's script sets
BUILT_IN = ("interpolate",)  # of `myops matrix`

_SAFE = re.compile(r"[\w./:@+,=-]+")
_LARGEST = 256 * 2**20  # bytes; a larger model is not read, because the user waits meanwhile
_CHECKS = ("opset", "lost_node", "frozen_input", "numbers", "all")
_VERDICTS = ("wrong", "load", "refused", "changed", "lost", "any")

Completer = Callable[[typer.Context, str], Iterable[str]]


def completer(command: str, parameter: str) -> Callable[..., list[str]] | None:
    """The function that completes a parameter of a command; None: typer completes it itself."""
    find = _BY_COMMAND.get((command, parameter)) or _BY_NAME.get(parameter)
    if find is None:
        return None
    chosen: Completer = find

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            found = list(chosen(ctx, incomplete))
        except Exception:  # such as a file that is no model: then there is nothing to offer
            return []
        matching = [name for name in found if name.startswith(incomplete)]
        return [name for name in dict.fromkeys(matching) if _SAFE.fullmatch(name)]

    return complete


def answer(run: Callable[[], Any]) -> int:
    """Lets typer answer the shell; the exit status.

    bash takes net.py:example for three words, and INPUT=SHAPE too. typer gets them as one, and of
    its answer only the part is printed that bash puts in place of the last.
    """
    if os.environ.get(INSTRUCTION) != "complete_bash":
        return _status(run)
    words, current = _joined(os.environ["COMP_WORDS"].split("\n"), int(os.environ["COMP_CWORD"]))
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(words), str(current)
    typed = words[current] if current < len(words) else ""
    there = re.match(r"(.*[:=])?", typed)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = _status(run)
    for line in printed.getvalue().splitlines():
        print(line.removeprefix(there[0] if there else ""))
    return status


def _status(run: Callable[[], Any]) -> int:
    try:
        run()
    except SystemExit as stop:  # typer ends the program when it has answered
        return stop.code if isinstance(stop.code, int) else 0
    return 0


def _joined(words: list[str], current: int) -> tuple[list[str], int]:
    """Joins words that bash split at signs; also returns the index of the word with the cursor."""
    made: list[str] = []
    place = current
    glue = False
    for number, word in enumerate(words):
        sign = re.fullmatch(r"[:=]+", word) is not None
        if made and (sign or glue) and len(made) > 1:
            made[-1] += word
        else:
            made.append(word)
        if number == current:
            place = len(made) - 1
        glue = sign
    return made, place if current < len(words) else len(made)


# ---- The candidates.


def _model(ctx: typer.Context) -> Any:
    """The model that was named before, without the weights in other files."""
    from myops.onnx.graph import files

    # Arguments are not assigned yet while an option is completed; model files come first.
    words = [ctx.params.get("model") or "", *ctx.args]
    path = next(Path(word) for word in words if os.path.isfile(word))
    if path.stat().st_size > _LARGEST:
        raise ValueError("too large to be read for a completion")
    return files.load(path, weights=False, expanded=False)


def _made(ctx: typer.Context) -> list[str]:
    """The values that nodes compute."""
    return [name for node in _model(ctx).graph.node for name in node.output if name]


def _inputs(ctx: typer.Context) -> list[str]:
    return [item.name for item in _model(ctx).graph.input]


def _nodes(ctx: typer.Context) -> list[str]:
    """The name of each node, or of its first output if it has none."""
    return [node.name or node.output[0] for node in _model(ctx).graph.node]


def _values(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Values with commas between them: the last is completed."""
    before = incomplete[: incomplete.rfind(",") + 1]
    for name in (*_inputs(ctx), *_made(ctx)):
        yield before + name


def _modules(ctx: typer.Context, incomplete: str) -> list[str]:
    from myops.onnx import module_paths

    return [region.path for region in module_paths.regions(_model(ctx)) if region.path]


def _op_types(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """NODE=TYPE: the nodes, then the operators of the node's domain."""
    import onnx.defs

    from myops import _libraries

    title, sign, _ = incomplete.partition("=")
    if not sign:
        yield from (f"{name}=" for name in _nodes(ctx))
        return
    domains = {node.name or node.output[0]: node.domain for node in _model(ctx).graph.node}
    library = _libraries.find(domains[title])
    types = [info.onnx_type for info in library.ops.values() if info.onnx_type] if library else []
    types += [item.name for item in onnx.defs.get_all_schemas() if item.domain == domains[title]]
    yield from (f"{title}={name}" for name in sorted(types))


def _targets(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """file.py:name, for each name in the file that may be a model or a function that makes one."""
    if ctx.info_name == "matrix":
        yield from BUILT_IN
    start = incomplete.partition(":")[0]
    folder = Path(os.path.dirname(start) or ".")
    for path in sorted(folder.glob("*.py")):
        file = os.path.join(os.path.dirname(start), path.name)
        if file.startswith(start):
            yield from (f"{file}:{name}" for name in _names(path))


def _names(path: Path) -> Iterator[str]:
    """The public names at the top of a file, which is not run."""
    with contextlib.suppress(SyntaxError, ValueError, OSError):
        for item in ast.parse(path.read_bytes()).body:
            found: list[Any] = []
            if isinstance(item, ast.Assign):
                found = [part for target in item.targets for part in ast.walk(target)]
            elif isinstance(item, ast.AnnAssign):
                found = [item.target]
            elif isinstance(item, ast.FunctionDef) and _without_arguments(item.args):
                yield from [item.name] * (not item.name.startswith("_"))
            yield from (part.id for part in found
                        if isinstance(part, ast.Name) and not part.id.startswith("_"))  # fmt: skip


def _without_arguments(given: ast.arguments) -> bool:
    positional = len(given.posonlyargs) + len(given.args) - len(given.defaults)
    return not positional and None not in given.kw_defaults


def _followed_by(sign: str, find: Callable[[typer.Context], list[str]]) -> Completer:
    """NAME=... or NAME:...: the name; what follows is for the user to say."""
    return lambda ctx, incomplete: [f"{name}{sign}" for name in find(ctx)]


def _providers(ctx: typer.Context, incomplete: str) -> list[str]:
    import onnxruntime

    return list(onnxruntime.get_available_providers())


def _packages(ctx: typer.Context, incomplete: str) -> list[str]:
    from myops import _libraries

    return list(_libraries.installed().values())


def _one_of(*choices: str) -> Completer:
    return lambda ctx, incomplete: choices


def _several_of(*choices: str) -> Completer:
    """With commas between them."""
    return lambda ctx, incomplete: [
        incomplete[: incomplete.rfind(",") + 1] + choice for choice in choices
    ]


_BY_NAME: dict[str, Completer] = {
    "target": _targets,
    "module": _modules,
    "inputs": _values,
    "outputs": _values,
    "names": lambda ctx, incomplete: _made(ctx),
    "rename": _followed_by("=", lambda ctx: [*_inputs(ctx), *_made(ctx)]),
    "rename_node": _followed_by("=", _nodes),
    "attribute": _followed_by(":", _nodes),
    "unset": _followed_by(":", _nodes),
    "op_type": _op_types,
    "dim": _followed_by(":", _inputs),
    "input": _followed_by("=", _inputs),
    "shape": _followed_by("=", _inputs),
    "fix": _followed_by("=", _inputs),
    "provider": _providers,
    "package": _packages,
    "skip_check": _one_of(*_CHECKS),
    "fail_on": _several_of(*_VERDICTS),
    "method": _one_of("minmax", "entropy", "percentile"),
    "activations": _one_of("uint8", "int8"),
    "dtype": _one_of("float16", "bfloat16"),
    "runtime": _one_of("cpu", "any"),
    "metric": _one_of("relative-l2", "max", "sqnr"),
    "keep": lambda ctx, incomplete: _nodes(ctx),
    "optimization": _one_of("disable", "basic", "extended", "all"),
}
_BY_COMMAND: dict[tuple[str, str], Completer] = {
    ("doctor", "dim"): _followed_by("=", _inputs),
    ("doctor", "shape"): _followed_by(":", _inputs),
    ("explain", "dim"): _followed_by("=", _inputs),
    ("explain", "shape"): _followed_by(":", _inputs),
    ("export", "exporter"): _one_of("dynamo", "torchscript", "auto"),
    ("compare", "exporter"): _one_of("dynamo", "torchscript"),
    ("run", "input"): lambda ctx, incomplete: [],  # files; also NAME=PATTERN
    ("run", "set"): _followed_by("=", _inputs),
    ("run", "column"): _followed_by("=", _inputs),
    ("run", "outputs"): lambda ctx, incomplete: [item.name for item in _model(ctx).graph.output],
    ("run", "whole"): lambda ctx, incomplete: [item.name for item in _model(ctx).graph.output],
    ("run", "format"): _one_of(
        "png", "jpg", "webp", "bmp", "tif", "bytes", "npy", "npz", "parquet"
    ),
    ("run", "layout"): _one_of("nchw", "nhwc", "chw", "hwc", "hw"),
    ("run", "rows"): _one_of("axis0", "file"),
    ("run", "resize"): _one_of("nearest", "bilinear", "bicubic", "lanczos"),
    ("run", "engine"): _one_of("local", "ray"),
    ("run", "named_libraries"): _one_of("check", "trust", "signed", "ignore"),
    ("matrix", "exporter"): _one_of("dynamo", "torchscript"),
}
