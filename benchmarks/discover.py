"""Finds the plug-ins: every module in cases/, peers/ and also/. Nothing is registered by hand.

A module in `cases/` has `cases() -> list[Case]` and `ours(case, threads)`; one in `peers/` has
`NAME` and `candidates(case, threads)`. Both of the latter give an iterable of Candidate, empty for
a case that they do not know.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import benchmarks.also
import benchmarks.cases
import benchmarks.peers
from benchmarks.case import Case


def case_modules() -> dict[str, ModuleType]:
    return {name: importlib.import_module(name) for name in _names(benchmarks.cases)}


def all_cases() -> list[tuple[Case, ModuleType]]:
    """Each case with the module that knows our candidates for it."""
    return [(case, module) for module in case_modules().values() for case in module.cases()]


def peers() -> tuple[list[ModuleType], dict[str, str]]:
    """The peers that can be imported, and for each other one the reason why not."""
    found, absent = [], {}
    for name in _names(benchmarks.peers):
        try:
            found.append(importlib.import_module(name))
        except (ImportError, OSError, RuntimeError) as error:
            # A peer is optional. OSError and RuntimeError mean that its own libraries do not load.
            absent[name.rpartition(".")[2]] = str(error).splitlines()[0]
    return found, absent


def questions() -> list[ModuleType]:
    """The modules in `also/`."""
    return [importlib.import_module(name) for name in _names(benchmarks.also)]


def _names(package: ModuleType) -> list[str]:
    names = (item.name for item in pkgutil.iter_modules(package.__path__))
    return [f"{package.__name__}.{name}" for name in sorted(names) if not name.startswith("_")]
