"""Examines custom-op libraries: first their bytes, then in a process of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx

from myops._names import near_misses
from myops.ort._doctor import elf, process
from myops.ort._doctor.messages import explain
from myops.ort._doctor.report import ERROR, WARNING, Finding, LibraryFacts
from myops.ort._doctor.rules import MessageContext
from myops.ort._doctor.run_messages import api_version

_TORCH = ("libtorch", "libc10")


def examine(
    path: str, context: MessageContext, advance: Callable[[str], None]
) -> tuple[LibraryFacts, list[Finding]]:
    """What a library provides and whether ONNX Runtime takes it.

    Args:
        path: Its file.
        context: For the versions in texts.
        advance: Called with the name of each step.
    """
    facts = LibraryFacts(path)
    name = os.path.basename(path)
    file, finding = _file(path)
    if finding is not None or file is None:
        return facts, [finding] if finding else []
    request = {
        "kind": "library", "library": os.path.abspath(path), "trace": True,
        "model": tiny_model().SerializeToString().hex(), "about": f"loading {name}",
    }  # fmt: skip
    outcome = process.run(request, process.SECONDS_FOR_A_LIBRARY, advance)
    _listed(facts, outcome)
    refusals = [e for e in outcome.events if e["stage"] == "asks" and not e["given"]]
    refused = refusals[-1] if refusals else None
    if outcome.death and outcome.stage not in ("register", "session") and not refused:
        # Perhaps only because we listed its ops: the result in ONNX Runtime decides.
        request["trace"] = False
        outcome = process.run(request, process.SECONDS_FOR_A_LIBRARY, advance)
    failed = outcome.last("failed")
    if refused and (outcome.death or failed):
        highest = context.provided.version.split(".")[1]
        finding = api_version(name, refused["version"], highest, context.provided.version)
        finding.message = failed["error"] if failed else _tail(outcome.stderr)
        if outcome.death:
            finding.why += f" It does not check that and ends the process: {outcome.death}."
        return facts, [finding]
    if outcome.death:
        return facts, [_died(name, outcome)]
    if failed:
        return facts, [_refused(path, name, failed["error"], file, context)]
    facts.loads = True
    if facts.listed and not facts.domains:
        return facts, [Finding(
            "library-empty", WARNING, f"{name} registers no op.",
            "Its RegisterCustomOps succeeds without adding a domain to the session.",
            "If it should provide some: see that it was linked with the files that define them.",
        )]  # fmt: skip
    return facts, []


def tiny_model(op_type: str = "Relu", domain: str = "") -> onnx.ModelProto:
    """The smallest model that every ONNX Runtime loads: y = Relu(x), or MyAdd(x, x)."""
    value = [onnx.helper.make_tensor_value_info(name, 1, [1]) for name in ("x", "y")]
    node = onnx.helper.make_node(op_type, ["x", "x"] if domain else ["x"], ["y"], domain=domain)
    body = onnx.helper.make_graph([node], "tiny", value[:1], value[1:])
    imports = [onnx.helper.make_opsetid("", 17)]
    imports += [onnx.helper.make_opsetid(domain, 1)] if domain else []
    return onnx.helper.make_model(body, opset_imports=imports, ir_version=8)


def _file(path: str) -> tuple[elf.FileFacts | None, Finding | None]:
    name = os.path.basename(path) or path
    if not os.path.exists(path):
        folder = Path(path).parent
        beside = [item.name for item in folder.iterdir()] if folder.is_dir() else []
        return None, Finding(
            "library-missing", ERROR, f"There is no file {path}.",
            (f"The folder {folder} is there, without it.{near_misses(name, beside)}"
             if folder.is_dir()
             else f"There is no folder {folder} either."),
            "Give the path of the library; for a relative one mind the working directory.",
        )  # fmt: skip
    if os.path.isdir(path):
        found = sorted(p.name for p in Path(path).iterdir() if p.suffix == ".so")
        return None, Finding(
            "library-not-a-library", ERROR, f"{path} is a folder.",
            f"In it: {', '.join(found[:8])}." if found else "No library is in it.",
            "Give the file itself.",
        )  # fmt: skip
    try:
        file = elf.examine(path)
    except OSError as error:
        return None, Finding(
            "library-unreadable", ERROR, f"{path} cannot be read.", f"{error.strerror}.",
            "Look at the permissions of the file and its folder.",
        )  # fmt: skip
    if not file.problem:
        return file, None
    if file.problem == "wrong-architecture":
        return file, Finding(
            "library-wrong-architecture", ERROR, f"{name} is {file.kind}.",
            f"This process is {elf.this_machine()}. The system's own words for it are misleading: "
            '"No such file or directory" or "wrong ELF class".',
            f"Get or build the library for {elf.this_machine()}.",
        )  # fmt: skip
    if file.problem == "cut-off":
        return file, Finding(
            "library-cut-off", ERROR, f"{name} is {file.kind}: the rest is missing.",
            "Its headers speak of more bytes than the file has; to load it would crash.",
            "Copy or build it again; it was cut off while it was written or copied.",
        )  # fmt: skip
    return file, Finding(
        "library-not-a-library", ERROR, f"{name} is {file.kind}.", "A shared library is needed.",
        "Give the .so that was built; after a failed download get it again.",
    )  # fmt: skip


def _listed(facts: LibraryFacts, outcome: process.ChildOutcome) -> None:
    for event in outcome.events:
        if event["stage"] == "asks" and event["given"]:
            facts.api_version = max(facts.api_version or 0, event["version"])
        elif event["stage"] == "domain":
            facts.domains.setdefault(event["domain"], {})
    for event in outcome.events:
        if event["stage"] == "op" and event["domain"] in facts.domains:
            kernels = facts.domains[event["domain"]].setdefault(event["op"], [])
            kernels.append({key: event[key] for key in ("inputs", "outputs", "provider")})
            # "All versions" is written as the largest number by some, as 1 by others.
            since = event["since"]
            kernels[-1]["since"] = since if 0 < since < 2**31 - 1 else 1
    facts.listed = outcome.last("registered") is not None


def _died(name: str, outcome: process.ChildOutcome) -> Finding:
    tail = _tail(outcome.stderr)
    if outcome.death.startswith("no answer"):
        return Finding(
            "library-hangs", ERROR, f"{name} does not come back from loading.",
            f"There was {outcome.death}.", "Find out what it waits for: a lock, a network, a "
            "licence server.", tail,
        )  # fmt: skip
    when = "a session with it is made" if outcome.stage == "session" else "it is loaded"
    fix = "Run it in a debugger (gdb --args python -c \"import ctypes; ctypes.CDLL('...')\")."
    if "SIGILL" in outcome.death:
        fix = "Build it without -march=native, for the oldest CPU that it has to run on."
    return Finding(
        "library-crash", ERROR, f"{name} ends the whole process when {when}.",
        f"It causes {outcome.death}. (It happened in a process of its own.)", fix, tail,
    )  # fmt: skip


def _refused(
    path: str, name: str, error: str, file: elf.FileFacts, context: MessageContext
) -> Finding:
    wanted = "RegisterCustomOps"
    if (
        f"symbol {wanted}" in error
        or f"symbol: {wanted}" in error
        or (file.exports and wanted not in file.exports)
    ):
        return _no_entry_point(name, error, file)
    symbol = re.search(r"undefined symbol: (\S+)", error)
    if symbol:
        return _unresolved(name, symbol[1].rstrip(","), error)
    needed = re.search(r"error: (?:\S+: )?(\S+): cannot open shared object file", error)
    if needed and os.path.abspath(path) != needed[1]:
        return Finding(
            "library-needs-another", ERROR, f"{name} needs {needed[1]}, which is not found.",
            "The system's loader looks in the usual folders, in LD_LIBRARY_PATH and in the "
            "library's own RUNPATH.",
            f"Install it, or add its folder to LD_LIBRARY_PATH before Python starts; `ldd {path}` "
            "lists everything that is needed.", error,
        )  # fmt: skip
    old = re.search(r"version `(\S+)' not found", error)
    if old:
        return Finding(
            "library-too-new", ERROR, f"{name} needs {old[1]}, which this system does not have.",
            "It was built on a newer system.", "Build it here, or on a system as old as the oldest "
            "that it has to run on (manylinux images are made for that).", error,
        )  # fmt: skip
    if "Failed to load library" in error:
        return Finding(
            "library-unloadable", ERROR, f"{name} cannot be loaded.", "The system's loader says "
            "why, see the message.", f"`ldd {path}` may tell more.", error,
        )  # fmt: skip
    found = explain(error, context)
    if found.code != "runtime-error":
        return found
    return Finding(
        "library-refuses", ERROR, f"{name} refuses to register its ops.",
        "Its RegisterCustomOps was called and gave an error; the reason is the library's own.",
        "Do what its message asks for.", error,
    )  # fmt: skip


def _no_entry_point(name: str, error: str, file: elf.FileFacts) -> Finding:
    mangled = [item for item in file.exports if re.match(r"_Z\d+RegisterCustomOps", item)]
    near = near_misses("RegisterCustomOps", [e for e in file.exports if not e.startswith("_Z")])
    why = "ONNX Runtime calls this function to learn which ops a library has."
    fix = 'If it is your own, add extern "C" RegisterCustomOps(OrtSessionOptions*, const '
    fix += "OrtApiBase*) and export it; otherwise load the library that was meant."
    if mangled:
        why += " There is one by the name that C++ gave it: " + mangled[0] + "."
        fix = 'Declare it extern "C".'
    elif any(need.startswith(_TORCH) for need in file.needs):
        why += " This library links PyTorch: it holds torch operators, not ONNX Runtime's."
        fix = "Load it with torch.ops.load_library in PyTorch. For ONNX Runtime take the other "
        fix += "library of the package; that of myops is myops.ort.get_library_path()."
    elif any(item.startswith("PyInit_") for item in file.exports):
        why += " This is a Python extension module."
        fix = "Load the library that was made for ONNX Runtime; this one is for `import`."
    elif near:
        why += near
    return Finding(
        "library-no-entry-point", ERROR, f"{name} has no function RegisterCustomOps.", why, fix,
        error,
    )  # fmt: skip


def _unresolved(name: str, symbol: str, error: str) -> Finding:
    shown = demangled(symbol)
    why = "The library calls it, but neither it nor any library that it links has it."
    fix = "Link the library that defines it. With -Wl,-z,defs the linker finds this when the "
    fix += "library is built."
    if re.search(r"\b(?:c10|at|torch|caffe2)::|^aoti_torch", shown):
        why += " It is a function of PyTorch."
        fix = "A library for ONNX Runtime should not need PyTorch; build it without. (`import "
        fix += "torch` first may help, if both have the same release.)"
    elif shown.startswith("Ort"):
        why += " It is a function of ONNX Runtime; Python's onnxruntime does not show them."
        fix = "Take the table of functions that RegisterCustomOps gets (define "
        fix += "ORT_API_MANUAL_INIT and call Ort::InitApi) instead of OrtGetApiBase()."
    elif "std::__cxx11" in shown or "GLIBCXX" in shown:
        why += " It may have been built with another C++ standard library."
    return Finding(
        "library-unresolved-symbol", ERROR, f"{name} lacks the symbol {shown}.", why, fix, error
    )


def demangled(symbol: str) -> str:
    """The C++ name of a symbol, where c++filt is installed."""
    tool = shutil.which("c++filt") if symbol.startswith("_Z") else None
    if tool is None:
        return symbol
    run = subprocess.run([tool, symbol], capture_output=True, text=True, check=False)
    return run.stdout.strip() or symbol


def _tail(text: str) -> str:
    """The end of the output of a process, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).strip()[-500:]


def clashes(paths: Sequence[str], facts: Sequence[LibraryFacts]) -> list[Finding]:
    """Libraries that cannot be loaded together."""
    found = []
    twice = [path for path, n in Counter(map(os.path.realpath, paths)).items() if n > 1]
    for path in twice:
        found.append(Finding(
            "library-twice", ERROR, f"{os.path.basename(path)} is registered more than once.",
            "ONNX Runtime takes each domain from one library only, and does not notice that it is "
            "the same library.",
            "Register it once with the same SessionOptions. myops.ort.register minds that by "
            "itself, register_custom_ops_library does not.",
        ))  # fmt: skip
    owners: dict[str, dict[str, str]] = {}
    for item in facts:
        for domain in item.domains if item.loads else ():
            owners.setdefault(domain, {})[os.path.realpath(item.path)] = item.path
    for domain, owned in owners.items():
        if len(owned) > 1:
            found.append(Finding(
                "domain-clash", ERROR, f"{len(owned)} libraries provide the domain {domain!r}: "
                f"{' and '.join(owned.values())}.",
                "ONNX Runtime takes each domain from one library only.",
                "Load one of them. (If both are of myops: two installations; remove one.)",
            ))  # fmt: skip
    return found


def provided_by(facts: Sequence[LibraryFacts]) -> tuple[dict[str, Any], dict[str, str]]:
    """The ops of all libraries that load, and which library has which domain."""
    custom: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for item in facts:
        for domain, ops in item.domains.items() if item.loads else ():
            custom.setdefault(domain, {}).update(ops)
            sources.setdefault(domain, os.path.basename(item.path))
    return custom, sources
