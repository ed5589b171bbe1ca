"""What the results of `to_half` and `quantize` have in common."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from myops.onnx.precision.losses import Bound


class Result:
    """A model in fewer bits, with the loss of its outputs; a base of dataclasses."""

    if TYPE_CHECKING:  # fields of the dataclasses, which are frozen

        @property
        def losses(self) -> Mapping[str, float]: ...
        @property
        def metric(self) -> str: ...
        @property
        def max_loss(self) -> float | None: ...
        @property
        def nodes(self) -> Sequence[Any]: ...
        @property
        def converted(self) -> bool: ...

    @property
    def holds(self) -> bool:
        """Whether no output loses more than `max_loss`, and none became infinite or NaN."""
        bound = Bound(self.metric, self.max_loss)
        return all(math.isfinite(x) and bound.holds(x) for x in self.losses.values())

    def to_dict(self) -> dict[str, Any]:
        """The data that the option --json of the command prints: everything except the model."""
        assert dataclasses.is_dataclass(self)
        bound = Bound(self.metric)
        found = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)
                 if item.name not in ("model", "nodes", "losses")}  # fmt: skip
        found["losses"] = {name: bound.shown(loss) for name, loss in self.losses.items()}
        found["holds"], found["converted"] = self.holds, self.converted
        found["nodes"] = [dataclasses.asdict(item) for item in self.nodes]
        return found
