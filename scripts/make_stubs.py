"""Writes python/myops/__init__.pyi, what type checkers and editors know of `import myops`.

    python scripts/make_stubs.py

The public functions of the ops appear in `myops` by being in a file of `myops/ops/`, which no type
checker follows. The stub names them one by one; a test compares it with what this script writes.
"""

from __future__ import annotations

from pathlib import Path

import myops
from myops import ops

FILE = Path(__file__).parents[1] / "python" / "myops" / "__init__.pyi"


def stub() -> str:
    homes = {
        name: module.__name__ for module in ops.modules() for name in module.__all__
    }  # of the functions of ops
    homes |= {name: module for name, (module, _) in myops._TORCH.items()}
    members = {name: (module, name) for name, module in homes.items()} | myops._TORCH_FREE
    lines = [
        "# Written by scripts/make_stubs.py. What is here at run time is in __init__.py.",
        "from typing import Any",
        "",
        *(f"from myops import {name} as {name}" for name in myops._MODULES),
        *(
            f"from {module} import {member} as {name}"
            for name, (module, member) in sorted(members.items(), key=lambda item: item[1])
        ),
        "",
        "__all__ = [",
        *(f'    "{name}",' for name in sorted([*myops._MODULES, *members])),
        "]",
        "",
        "__version__: str",
        "",
        "def _public() -> dict[str, Any]: ...",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(stub())
