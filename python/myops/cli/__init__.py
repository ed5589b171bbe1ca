"""The command line `myops COMMAND`: one file for each command, which calls one library function.

A module of this folder without a leading underscore is a command: its function of the same name
(without a trailing underscore) holds the parameters. Modules import what is heavy inside that
function, so that `myops --help` answers at once. Two names of such a module are read here:

    VERDICT   what exit status 1 means; without it the command has no such status
    OPTIONS   parameters of the library's function -> options, for its messages

Exit status of every command: 0 all is well, 1 what the command looked for is wrong, 2 wrong usage,
or it could not be done. (130 after Ctrl-C, 141 when the reader of the output has gone, as usual.)
"""

from __future__ import annotations

import copy
import functools
import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from inspect import Parameter, cleandoc, signature
from types import ModuleType
from typing import Annotated, Any, get_type_hints

import typer
from rich.markup import escape

import myops
from myops.cli import _completion, _console, _failures

Debug = Annotated[
    bool, typer.Option("--debug", help="Show the whole Python traceback of an error.")
]


EARLIER_NAMES = {"raise": "upgrade"}  # of commands; they still work


def app(typed: str = "") -> typer.Typer:
    """The application with all commands; or with the typed one alone, if there is such a command,
    because it takes as long to describe all of them to typer as many a command runs."""
    found = typer.Typer(
        help="Tools around ONNX models of PyTorch, with custom operators: look into a model, "
        "change it, compare it with PyTorch, find out why it does not load.",
        epilog="Exit status: 0 all is well; 1 what the command looked for is wrong; 2 wrong usage, "
        "or it could not be done.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    found.callback()(_common)
    for name, module in commands(typed).items():
        command = getattr(module, module.__name__.rpartition(".")[2])
        parameters = signature(command).parameters.values()
        needs_some = any(item.default is item.empty for item in parameters)
        for called in (name, *(old for old, new in EARLIER_NAMES.items() if new == name)):
            found.command(
                called,
                help=escape(cleandoc(command.__doc__ or "")),
                epilog=escape(_exit_status(module)),
                no_args_is_help=needs_some,
                hidden=called != name,
            )(_prepared(name, command))
    return found


def commands(typed: str = "") -> dict[str, ModuleType]:
    """The modules of the commands, by the names that are typed: of all, or of the typed one."""
    found = [item.name for item in pkgutil.iter_modules(__path__) if not item.name.startswith("_")]
    names = {name.rstrip("_").replace("_", "-"): name for name in found}
    wanted = EARLIER_NAMES.get(typed, typed)
    if wanted in names:
        names = {wanted: names[wanted]}
    return {name: importlib.import_module(f"myops.cli.{file}") for name, file in names.items()}


def _exit_status(module: ModuleType) -> str:
    verdict = getattr(module, "VERDICT", "")
    middle = f"1 {verdict}; " if verdict else ""
    return f"Exit status: 0 all is well; {middle}2 wrong usage, or it could not be done."


def _prepared(name: str, command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the option --debug, which `main` reads, and what the shell completes."""
    hints = get_type_hints(command, include_extras=True)

    @functools.wraps(command)
    def run(*args: Any, debug: bool = False, **kwargs: Any) -> Any:
        return command(*args, **kwargs)

    given = [item.replace(annotation=_annotation(hints[item.name], name, item.name))
             for item in signature(command).parameters.values()]  # fmt: skip
    own = Parameter("debug", Parameter.KEYWORD_ONLY, default=False, annotation=Debug)
    setattr(run, "__signature__", signature(command).replace(parameters=[*given, own]))  # noqa: B010
    run.__annotations__ = {item.name: item.annotation for item in [*given, own]}
    return run


def _annotation(annotation: Any, command: str, parameter: str) -> Any:
    """That of a parameter, with a help text that is no markup ([view] in it is meant) and with what
    completes it; commands share annotations, so these are copies."""
    infos = getattr(annotation, "__metadata__", ())
    made: Any = annotation.__origin__ if infos else annotation
    for shared in infos:
        info = copy.copy(shared)
        info.help = escape(info.help) if info.help else info.help
        info.autocompletion = _completion.completer(command, parameter)
        made = Annotated[made, info]
    return made


def _version(wanted: bool) -> None:
    if wanted:
        print(f"myops {myops.__version__}")
        raise typer.Exit


def _common(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """What comes before the command."""


def main() -> None:
    """Runs the command of `sys.argv`; what went wrong becomes a sentence and exit status 2.

    --debug, or MYOPS_DEBUG=1, shows the traceback too.
    """
    words = sys.argv[1:]
    if os.environ.get(_completion.INSTRUCTION):
        sys.exit(_completion.answer(lambda: app()(words, prog_name="myops")))
    if words[-1:] == ["--module"]:
        words.append("")  # the command lists the modules that there are
    options = words[: words.index("--")] if "--" in words else words
    for stream in (sys.stdout, sys.stderr):  # a sign that the terminal lacks is no error
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    with _console.only_json() if _prints_json(options) else nullcontext():
        status = _run(words, "--debug" in options or bool(os.environ.get("MYOPS_DEBUG")))
        if _prints_json(options) and status == 2 and not _console.json_was_printed():
            _console.print_json({"error": _console.last_error(), "status": status})
    sys.exit(status)


def _prints_json(options: Sequence[str]) -> bool:
    return "--json" in options and not {"--help", "-h", "--version"} & {*options}


def _run(words: Sequence[str], debug: bool) -> int:
    """Runs a command; its exit status."""
    typed = next((word for word in words if not word.startswith("-")), "")
    try:
        # Not in typer's standalone mode, which prints errors in frames and in colours.
        return int(app(typed)(words, prog_name="myops", standalone_mode=False) or 0)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        return _console.reader_has_gone()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # click and rich make it status 1
            return _console.reader_has_gone()
        raise
    except Exception as error:
        known = commands(typed).get(EARLIER_NAMES.get(typed, typed))
        if hasattr(error, "format_message"):  # typer's: wrong usage
            return _console.usage(error, getattr(known, "EXTRA_ARGUMENT", ""))
        if debug:
            traceback.print_exc()
        text = _failures.describe(error, getattr(known, "OPTIONS", {}))
        _console.message("error", text, "bold red")
        return 2
