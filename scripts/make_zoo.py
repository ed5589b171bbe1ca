"""Writes docs/zoo.md: every network of tests/zoo with both exporters and both targets.

python scripts/make_zoo.py [--only NAME]     # minutes; with --only it prints the rows
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from zoo import running  # noqa: E402
from zoo.cases import CASES, Case  # noqa: E402

import myops.onnx  # noqa: E402
import myops.ort  # noqa: E402

HEAD = """# Networks that are hard to export

Each of these small networks has the structure of a published one that people export, with random
weights, offsets that are not zero and dynamic axes. Each is exported at one size with all checks
and runs at twelve other sizes in ONNX Runtime: odd, prime, smaller, larger, not square (multiples
of its stride where the network requires that). Every file in the table is right at all of them;
where there is no file, the row has the reason. `make zoo` writes this page; `tests/zoo/` has the
networks.

- **nodes**: the number of nodes in the main graph; in brackets, those of our domain. At every size,
  each of our nodes gave the same bits as PyTorch's operator for the same inputs.
- **worst**: the largest difference from PyTorch at any size, in units of the standard deviation of
  the output. Where it is far above 1e-6, the network amplifies rounding errors.
- **standard operators**: the same for the file that `target="onnx"` gives (with dynamo, the first
  file is converted by `myops.onnx.lower`, which saves a second export).
- **export**: seconds, with all checks. **a run**: milliseconds at the exported size, on {threads}
  threads: PyTorch eager, the file with our library, the file of standard operators.

| network | exporter | structure | nodes | worst | standard operators | export, s | a run, ms |
|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of networks")
    only = parser.parse_args().only
    lines = [line for case in CASES if only in case.name for line in _rows(case)]
    if only:
        return
    versions = (
        f"\nMeasured with torch {torch.__version__.partition('+')[0]}, onnx {onnx.__version__}, "
        f"onnxruntime {onnxruntime.__version__}.\n"
    )
    text = HEAD.format(threads=torch.get_num_threads()) + "\n".join(lines) + "\n" + versions
    (ROOT / "docs" / "zoo.md").write_text(text)


def _rows(case: Case) -> Iterator[str]:
    model = case.model()
    for exporter in running.EXPORTERS:
        start = time.perf_counter()
        try:
            exported = running.export(case, model, exporter, "myops")
        except (RuntimeError, ValueError) as error:
            said = running.sentence(error).replace("|", "\\|")
            if exporter not in case.refused:
                raise
            line = f"| {case.name} | {exporter} | {case.structure} | refused: {said} | | | | |"
        else:
            seconds = time.perf_counter() - start
            assert exporter not in case.refused, f"{case.name}, {exporter} is not refused any more"
            if exporter == "torchscript":
                lowered = running.export(case, model, exporter, "onnx")
            else:
                lowered = myops.onnx.lower(exported)
            line = _right(case, model, exporter, exported, lowered, seconds)
        print(line, flush=True)
        yield line


def _right(
    case: Case, model: Any, exporter: str, exported: Any, lowered: Any, seconds: float
) -> str:
    ours, standard = (running.checked(case, model, item) for item in (exported, lowered))
    inputs = case.made(case.example)
    runs = [_milliseconds(lambda: running.outputs(model, inputs))]
    for item in (exported, lowered):
        session, feeds = myops.ort.session(item), running.feeds(item, inputs)
        runs.append(_milliseconds(lambda s=session, f=feeds: s.run(None, f)))
    times = ", ".join(f"{item:.1f}" for item in runs)
    return (
        f"| {case.name} | {exporter} | {case.structure} | {ours.nodes} ({ours.custom}) | "
        f"{ours.worst:.0e} | {standard.nodes} nodes, {standard.worst:.0e} | {seconds:.1f} | "
        f"{times} |"
    )


def _milliseconds(call: Callable[[], Any], times: int = 9) -> float:
    """The median; the first call is not counted."""
    call()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return 1e3 * statistics.median(found)


if __name__ == "__main__":
    main()
