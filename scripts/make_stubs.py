"""Writes python/myops/__init__.pyi, from which type checkers and editors know `import myops`.

    python scripts/make_stubs.py

The public functions of the ops appear in `myops` by being in a file of `myops/ops/`, which no type
checker follows. The stub names them one by one; a test compares it with what this script writes.
"""

from __future__ import annotations

from pathlib import Path

import myops
from myops import ops
from myops._stubs import render

FILE = Path(__file__).parents[1] / "python" / "myops" / "__init__.pyi"


def stub() -> str:
    homes = {
        name: module.__name__ for module in ops.modules() for name in module.__all__
    }  # the public functions of the ops
    homes |= {name: module for name, (module, _) in myops._TORCH.items()}
    members = {name: (module, name) for name, module in homes.items()} | myops._TORCH_FREE
    return render(
        "# Written by scripts/make_stubs.py. What is here at run time is in __init__.py.",
        [*(("myops", name, name) for name in myops._MODULES),
         *((module, member, name) for name, (module, member) in members.items())],
        sorted([*myops._MODULES, *members]),
        ["__version__: str", "def _public() -> dict[str, Any]: ..."],
    )  # fmt: skip


if __name__ == "__main__":
    FILE.write_text(stub())
