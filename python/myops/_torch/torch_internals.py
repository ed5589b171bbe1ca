"""The module that is built for one version of torch (csrc/adapters/fast_call/torch_internals).

setup.py runs this file alone to get the name.
"""

from __future__ import annotations

import functools
import importlib
import re
import warnings
from typing import Any


def module_name(torch_version: str, git_version: str) -> str:
    """Its name in the package, so that another torch does not load it.

    The part of the version after "+" is left out: the builds of a release, such as 2.13.0+cpu and
    2.13.0+cu130, are made from the same source, whose commit is in the name.
    """
    release = re.sub(r"\W", "_", torch_version.partition("+")[0])
    return f"_internals_{release}_{git_version[:8]}"


def table(torch_version: str, git_version: str) -> Any:
    """A capsule with its functions; None if there is none for this torch."""
    return getattr(_module(torch_version, git_version), "table", None)


def owned_memory(torch_version: str, git_version: str) -> int | None:
    """The address of the functions that find the owner of a tensor's memory; None as above."""
    return getattr(_module(torch_version, git_version), "owned_memory", None)


@functools.cache
def _module(torch_version: str, git_version: str) -> Any:
    name = f"myops.{module_name(torch_version, git_version)}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None
    except ImportError as error:
        warnings.warn(
            f"{name} does not load, so calls take about 0.7 us longer: {error}. Reinstall myops "
            f"where torch {torch_version} is installed (`pip install --no-build-isolation ...`).",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
