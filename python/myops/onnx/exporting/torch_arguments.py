"""Arguments of torch.onnx.export about its exporters, and those that `export` refuses."""

from __future__ import annotations

import importlib.util
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
import torch

from myops import _libraries
from myops._names import choose, unknown_argument
from myops.onnx.graph import scopes

EXPORTERS = ("dynamo", "torchscript")  # "auto" tries them in this order
_RUN_THE_FILE = ("frozen_input", "numbers")  # the checks that verify=False leaves out
_STANDARD = ("", "ai.onnx")

# Arguments of torch.onnx.export without a meaning here: the value for what happens in any case, and
# what to do instead of giving another value.
_REFUSED: dict[str, tuple[Any, str]] = {
    "export_params": (
        True,
        "a file without weights cannot be compared with the model. external_data=True writes them "
        "beside the model, keep_initializers_as_inputs=True lets a caller of the file replace them",
    ),
    "training": (
        torch.onnx.TrainingMode.EVAL,
        "a model is exported in eval mode, because with dropout no file can be compared with it. A "
        "layer that is to behave as in training has to do so in eval mode too",
    ),
    "operator_export_type": (
        torch.onnx.OperatorExportTypes.ONNX,
        "myops.onnx.register_symbolic says how an operator is written that torch does not know",
    ),
    "export_modules_as_functions": (
        False,
        "PyTorch does not write modules as functions any more. `myops inspect --modules` and "
        "`myops extract --module` find a module's nodes by its path",
    ),
    "autograd_inlining": (
        True,
        "a torch.autograd.Function becomes a node by its `symbolic` (torchscript), or, as a "
        "torch.library.custom_op, by myops.onnx.register_symbolic (either exporter)",
    ),
    "fallback": (False, 'exporter="auto" takes the first exporter whose file passes all checks'),
}


@dataclass(frozen=True)
class ExporterSettings:
    """Settings of torch's exporters.

    optimize: Whether they fold constants and, in "dynamo", rewrite the graph.
    verbose: Whether their output is shown.
    translations: custom_translation_table, for "dynamo".
    artifacts: The other files of "dynamo" and their folder, by the names of torch's arguments.
    custom_opsets: Versions of other domains in the file.
    """

    optimize: bool = True
    verbose: bool = False
    translations: Mapping[Any, Callable[..., Any]] = field(default_factory=dict)
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    custom_opsets: Mapping[str, int] = field(default_factory=dict)


def refuse(unknown: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Refuses arguments that `export` does not have; the error names them.

    Those of torch.onnx.export are accepted with the value for what happens in any case.
    """
    known = [name for name in inspect.signature(function).parameters if name != "unknown"]
    for name, value in unknown.items():
        if name not in _REFUSED:
            raise unknown_argument("export", name, known)
        expected, advice = _REFUSED[name]
        if type(value) is not type(expected) or value != expected:
            raise ValueError(f"export: {name}: got {value!r}, expected {expected!r}: {advice}.")


def exporter(name: str | None, dynamo: bool | None) -> str:
    """The exporter, from `exporter` and torch's `dynamo`."""
    if dynamo is not None:
        _bool("dynamo", dynamo)
        if name is not None:
            raise ValueError("export: exporter, dynamo: got both, expected one of them")
        return "dynamo" if dynamo else "torchscript"
    name = EXPORTERS[0] if name is None else name
    choices = (*EXPORTERS, "auto")
    if name not in choices:
        listed = " or ".join(f'"{choice}"' for choice in choices)
        raise ValueError(f"export: exporter: got {name!r}, expected {listed}")
    return name


def checks(chosen: Sequence[str], verify: bool) -> list[str]:
    """The checks to make; torch's verify=False leaves out those that run the file."""
    _bool("verify", verify)
    return [name for name in chosen if verify or name not in _RUN_THE_FILE]


def settings(
    chosen: str,
    *,
    verbose: bool | None,
    optimize: bool,
    do_constant_folding: bool,
    custom_opsets: Mapping[str, int] | None,
    custom_translation_table: Mapping[Any, Callable[..., Any]] | None,
    report: bool,
    profile: bool,
    dump_exported_program: bool,
    artifacts_dir: str | os.PathLike[str],
) -> ExporterSettings:
    """The settings for the chosen exporter, or for "auto".

    Raises:
        ValueError: An argument that only the newer exporter has, although the other one may be
            used; or an invalid version or flag.
        ImportError: profile needs pyinstrument.
    """
    flags = {"report": report, "profile": profile, "dump_exported_program": dump_exported_program}
    both = {"optimize": optimize, "do_constant_folding": do_constant_folding}
    for name, flag in {
        **both,
        **flags,
        "verbose": bool(verbose) if verbose is None else verbose,
    }.items():
        _bool(name, flag)
    only_dynamo = {
        "custom_translation_table": (
            bool(custom_translation_table),
            "myops.onnx.register_symbolic says for either how an operator is written",
        ),
        "optimize": (not optimize, "do_constant_folding=False is for either"),
        **{name: (flag, 'exporter="dynamo" writes it') for name, flag in flags.items()},
    }
    for name, (given, advice) in only_dynamo.items():
        if given and chosen != "dynamo":
            raise ValueError(
                f'export: {name}: got exporter="{chosen}", expected "dynamo", the only one that '
                f"has it: {advice}."
            )
    if profile:
        if importlib.util.find_spec("pyinstrument") is None:
            raise ImportError("export: profile: needs pyinstrument: pip install pyinstrument")
        if not (report or verbose):
            raise ValueError(
                "export: profile: got neither report=True, which contains the profile, nor "
                "verbose=True, which prints it; expected one of them"
            )
    artifacts = {**flags, "artifacts_dir": artifacts_dir} if any(flags.values()) else {}
    return ExporterSettings(
        optimize and do_constant_folding, bool(verbose), dict(custom_translation_table or {}),
        artifacts, _versions(custom_opsets or {}),
    )  # fmt: skip


def set_versions(model: onnx.ModelProto, versions: Mapping[str, int]) -> None:
    """Writes the versions of other domains into a model.

    Raises:
        ValueError: No node of the model is of a domain.
    """
    lists = [model.graph.node, *(function.node for function in model.functions)]
    used = {node.domain for nodes in lists for node in scopes.all_nodes(nodes)} - {*_STANDARD}
    for domain, version in versions.items():
        choose(domain, sorted(used), "export: custom_opsets: among the model's nodes is")
        for imports in [model.opset_import, *(item.opset_import for item in model.functions)]:
            for item in imports:
                if item.domain == domain:
                    item.version = version


def _versions(given: Mapping[str, int]) -> dict[str, int]:
    if not isinstance(given, Mapping):
        raise TypeError(
            f"export: custom_opsets: got {given!r}, expected a dict of versions by domain"
        )
    for domain, version in given.items():
        name = f"export: custom_opsets: {domain!r}"
        if domain in _STANDARD:
            raise ValueError(f"{name}: expected a domain of others: opset_version is for ai.onnx")
        if _libraries.find(domain) is not None:
            raise ValueError(
                f"{name}: got a version for the nodes of an op library, whose descriptions have "
                "it already"
            )
        if type(version) is not int or version < 1:
            raise ValueError(f"{name}: got version {version!r}, expected an integer of 1 or more")
    return dict(given)


def _bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"export: {name}: got {value!r}, expected True or False")
