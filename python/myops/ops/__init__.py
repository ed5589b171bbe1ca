"""One module an op: public function, gradient, symbolic shape, standard ONNX form, reference.

The modules are found by listing this folder; names that begin with an underscore are helpers.
"""

import importlib
import pkgutil
from types import ModuleType


def modules() -> list[ModuleType]:
    """The op modules, imported, in the order of their names."""
    names = sorted(item.name for item in pkgutil.iter_modules(__path__))
    return [importlib.import_module(f"{__name__}.{n}") for n in names if not n.startswith("_")]
