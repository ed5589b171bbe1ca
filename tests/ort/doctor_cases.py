"""Broken libraries, which are compiled here, and small models for the tests of the doctor."""

from __future__ import annotations

import copy
import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import onnx
from onnx import TensorProto, helper

import myops.ort
from myops.ort import _doctor
from myops.ort._doctor import environment, libraries
from myops.ort._doctor.graph import Provided
from myops.ort._doctor.rules import MessageContext

FLOAT = TensorProto.FLOAT

# Enough of the C API for a library that ONNX Runtime calls; see csrc/adapters/ort/abi.h.
_API = """
struct Base { void* const* (*get_api)(unsigned); const char* (*version)(); };
typedef void* (*CreateStatus)(int, const char*);
typedef void* (*CreateDomain)(const char*, void**);
typedef void* (*AddDomain)(void*, void*);
"""
_ENTRY = 'extern "C" void* RegisterCustomOps(void* options, const Base* base)'

SOURCES = {
    "no_entry": 'extern "C" int RegisterCustomOp() { return 1; }',
    "mangled": "struct O; struct B; int* RegisterCustomOps(O*, const B*) { return nullptr; }",
    "unresolved": _API + 'extern "C" void acme_solve(); ' + _ENTRY
    + "{ acme_solve(); return nullptr; }",
    "unresolved_torch": _API + "namespace c10 { void warn(int); } " + _ENTRY
    + "{ c10::warn(1); return nullptr; }",
    "api_too_new": _API + _ENTRY + "{ void* const* table = base->get_api(9999); void* domain; "
    'return ((CreateDomain)table[26])("acme", &domain); }',
    "api_too_new_polite": _API + _ENTRY + "{ if (base->get_api(9999)) return nullptr; return "
    '((CreateStatus)base->get_api(1)[0])(1, "acme: this runtime is too old"); }',
    "refuses": _API + _ENTRY + '{ return ((CreateStatus)base->get_api(1)[0])(1, "acme: no '
    'licence"); }',
    "throws": '#include <stdexcept>\n' + _API + _ENTRY
    + '{ throw std::runtime_error("acme: no licence"); }',
    "crashes": _API + _ENTRY + "{ *(volatile int*)0 = 1; return nullptr; }",
    "crashes_early": "#include <cstdlib>\n" + _API + "struct A { A() { std::abort(); } } a; "
    + _ENTRY + "{ return nullptr; }",
    "illegal": _API + _ENTRY + "{ __builtin_trap(); }",
    "exits": "#include <cstdlib>\n" + _API + _ENTRY + "{ std::exit(3); }",
    "hangs": "#include <unistd.h>\n" + _API + _ENTRY + "{ for (;;) pause(); }",
    "empty": _API + _ENTRY + "{ return nullptr; }",
    # Two of these provide the same domain, without an op.
    "acme": _API + _ENTRY + "{ void* const* table = base->get_api(17); void* domain; "
    '((CreateDomain)table[26])("acme", &domain); '
    "return ((AddDomain)table[28])(options, domain); }",
}  # fmt: skip


def compiler() -> str:
    return os.environ.get("CXX") or shutil.which("c++") or "g++"


class LibraryBuilder:
    """Compiles the libraries of SOURCES in a folder, each once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @functools.cache  # noqa: B019
    def build(self, name: str, file: str = "") -> str:
        source = self.folder / f"{name}.cpp"
        source.write_text(SOURCES[name])
        return self.link(source, file or f"lib{name}.so")

    def link(self, source: Path, file: str, *flags: str) -> str:
        library = self.folder / file
        command = [compiler(), "-shared", "-fPIC", str(source), "-o", str(library), *flags]
        subprocess.run(command, check=True, cwd=self.folder)
        return str(library)

    def needing_another(self) -> str:
        """A library that needs libother.so, which is deleted after linking."""
        other, needs = self.folder / "other.cpp", self.folder / "needs.cpp"
        other.write_text('extern "C" int other() { return 1; }')
        needs.write_text(
            'extern "C" int other(); extern "C" int* RegisterCustomOps() { other(); return 0; }'
        )
        self.link(other, "libother.so")
        built = self.link(needs, "libneeds.so", "-L.", "-lother")
        (self.folder / "libother.so").unlink()
        return built

    def changed(self, place: int, value: int, file: str) -> str:
        """A library with one byte of its header changed."""
        data = bytearray(Path(self.build("empty")).read_bytes())
        data[place] = value
        (self.folder / file).write_bytes(data)
        return str(self.folder / file)


_look = functools.cache(lambda: environment.examine(lambda text: None))
_examine_library = libraries.examine
_ours = functools.cache(
    lambda path: _examine_library(path, MessageContext(None, Provided("1.0")), lambda text: None)
)


def examine(*args: Any, **kwargs: Any) -> _doctor.DoctorReport:
    """`doctor`, but the environment and our own library are examined once for all tests."""
    facts, outcome, found = _look()

    looked = (dict(facts), outcome, list(found))

    def library(path: str, *more: Any) -> Any:
        own = path == myops.ort.get_library_path()
        return copy.deepcopy(_ours(path)) if own else _examine_library(path, *more)

    with (
        mock.patch.object(environment, "examine", return_value=looked),
        mock.patch.object(libraries, "examine", library),
    ):
        return _doctor.doctor(*args, **kwargs)


def model_of(
    nodes: Any,
    inputs: dict[str, Any],
    outputs: dict[str, Any] | None = None,
    opsets: Any = (("", 19), ("myops", 1)),
    ir_version: int = 10,
    functions: Any = (),
    **graph: Any,
) -> onnx.ModelProto:
    """A model; `inputs` and `outputs` are name: (element type, shape)."""
    sides = [
        [helper.make_tensor_value_info(name, *kind) for name, kind in values.items()]
        for values in (inputs, outputs or {"c": (FLOAT, None)})
    ]
    body = helper.make_graph(nodes, "test", *sides, **graph)
    return helper.make_model(
        body,
        opset_imports=[helper.make_opsetid(*item) for item in opsets],
        ir_version=ir_version,
        functions=list(functions),
    )


def node(op_type: str, inputs: str = "a b", outputs: str = "c", domain: str = "", **attributes: Any
         ) -> onnx.NodeProto:  # fmt: skip
    """A node called "it"; in `inputs` a dash stands for one that is left out."""
    names = ["" if name == "-" else name for name in inputs.split()]
    attributes = {"name": "it", **attributes}
    return helper.make_node(op_type, names, outputs.split(), domain=domain, **attributes)


TWO = {"a": (FLOAT, [2]), "b": (FLOAT, [2])}


def add_body() -> onnx.FunctionProto:
    """A function body for MyAdd."""
    nodes = [helper.make_node("Add", ["a", "b"], ["t"]), helper.make_node("Add", ["t", "a"], ["c"])]
    return helper.make_function(
        "myops", "MyAdd", ["a", "b"], ["c"], nodes, [helper.make_opsetid("", 19)], []
    )
