"""The families of checks: name, function, and whether the op must accept the case.

A family is a function of a `Trial`; it compares, counts and reports. A fault of the op raises no
exception.
"""

from __future__ import annotations

from collections.abc import Callable

from myops.testing.families import (
    device,
    errors,
    exporters,
    gradients,
    layouts,
    programs,
    purity,
    shapes,
    threads,
    traces,
    transforms,
    values,
    writes,
)
from myops.testing.trial import Trial

Family = Callable[[Trial], None]

# In the order in which they run: failures of the first ones explain those of the others.
FAMILIES: dict[str, Family] = {
    "values": values.values,
    "purity": purity.purity,
    "lengths": values.lengths,
    "layouts": layouts.layouts,
    "dtypes": values.dtypes,
    "specials": values.specials,
    "errors": errors.errors,
    "shapes": shapes.shapes,
    "bodies": values.bodies,
    "threads": threads.threads,
    "sessions": threads.sessions,
    "gradients": gradients.gradients,
    "transforms": transforms.transforms,
    "opcheck": programs.opcheck,
    "compile": programs.compiled,
    "export": programs.exported,
    "trace": traces.traced,
    "dynamo": exporters.dynamo,
    "torchscript": exporters.torchscript,
}

# Only where `check_op(..., device=...)` names a device.
ON_DEVICE: dict[str, Family] = {"device": device.on_device}

# For an op that writes into inputs, instead of all others. The op without writes that replaces it
# in programs is checked by the families above.
WRITING: dict[str, Family] = {"writes": writes.writes}

# For `Case(..., refused=text)`, instead of all others.
REFUSED: Family = errors.refused
