"""How long the tests of this folder run: seconds in `make test`, longer in `make fuzz`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("MYOPS_FUZZ_EXAMPLES", "0"))

settings.register_profile(
    "myops",
    max_examples=EXAMPLES or 60,
    derandomize=not EXAMPLES,  # `make test` tries the same every time, `make fuzz` never
    deadline=None,  # a machine may be busy
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("myops")
