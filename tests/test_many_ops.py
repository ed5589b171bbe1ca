"""tests/data/many_ops: a package of 200 ops loads, and its calls are as fast as those of a package
with one op."""

from __future__ import annotations

import json
from pathlib import Path

from installed import ROOT, copied, install, run


def test_a_package_of_200_ops_loads_and_runs(python: Path, tmp_path: Path) -> None:
    package = copied(ROOT / "tests" / "data" / "many_ops", tmp_path / "many_ops")
    install(python, package)
    found = json.loads(run(python, "check.py", cwd=package))
    print(json.dumps(found, indent=2))
    call = found["call"]
    for one, others in (("one_op", ("first", "last")), ("one_op, torch.ops", ("last, torch.ops",))):
        for other in others:
            assert call[other] < 1.3 * call[one] + 1e-7, found
    assert found["load"]["many_ops"] < 20, found
