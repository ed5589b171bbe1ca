"""The README of a bundle."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from myops.ort._loaders.load import this_platform
from myops.ort._named_libraries import NamedLibrary

_TEXT = """# {name}

{name} and what it needs to run in ONNX Runtime 1.17 or later, on {platform}.
{libraries}
## Python

    pip install onnxruntime
    python load.py                  # shows inputs and outputs

```python
import sys

sys.path.insert(0, "this/folder")
import load

session = load.session()
results = session.run(None, {{{feeds}}})  # NumPy arrays
```

## C++

```cpp
#include "this/folder/load.h"

Ort::Env env;
Ort::Session session = bundle::session(env, "this/folder");
```

    c++ -std=c++17 -I ONNXRUNTIME/include main.cpp -L ONNXRUNTIME/lib -lonnxruntime

Both loaders compare each library with the SHA-256 that was recorded when the bundle was made.

## Other languages

{others}"""

_WITH = """Register each library with the session options before the session is made: C#
`RegisterCustomOpLibrary`, Java `registerCustomOpLibrary`.

{bodies}
"""
_BODIES = """Where no library can be registered (onnxruntime-node, onnxruntime-web), {name} runs
through its function bodies, as far as the runtime knows the standard operators in them. Results
then agree within rounding."""
_NO_BODIES = "Some custom nodes have no function body: without the libraries {name} does not run."
_WITHOUT = "Load {name}; it needs no library.\n"


def readme(
    name: str, libraries: Sequence[NamedLibrary], model: onnx.ModelProto, portable: bool
) -> str:
    """The text.

    Args:
        name: File name of the model.
        libraries: Those in the bundle.
        model: The model.
        portable: Whether every custom node has a function body.
    """
    table = ""
    if libraries:
        table = "\n| library | version | for the domain | SHA-256 |\n|---|---|---|---|\n"
    for item in libraries:
        domains = ", ".join(f"`{domain}`" for domain in item.domains)
        table += f"| {item.file} | {item.version or 'not known'} | {domains} | `{item.sha256}` |\n"
    bodies = (_BODIES if portable else _NO_BODIES).format(name=name)
    others = _WITH.format(bodies=bodies) if libraries else _WITHOUT.format(name=name)
    weights = {item.name for item in model.graph.initializer}
    inputs = [item.name for item in model.graph.input if item.name not in weights]
    feeds = ", ".join(f'"{item}": ...' for item in inputs)
    return _TEXT.format(
        name=name, platform=this_platform(), libraries=table, feeds=feeds, others=others
    )
