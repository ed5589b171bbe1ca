"""splat_points: points drawn as soft discs; the k nearest of each pixel are blended."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

import myops

library = myops.op_library("myops_gallery")


def splat_points(
    points: Tensor, features: Tensor, size: Sequence[int] | Tensor, radius: float = 1.5, k: int = 8
) -> Tensor:
    """Draws points as soft discs and composites the k nearest of each pixel; as in SynSin.

    A point covers 1 - (d / radius)^2 of a pixel at distance d < radius. A pixel shows the k points
    of smallest z that cover it (of equal z the first ones), each over those behind it, over 0. A
    feature of ones gives the coverage. Points with z <= 0, NaN or Inf are not drawn.

    Args:
        points: Tensor[N, P, 3], float32 or float64: x, y (down), depth z; pixels lie at whole x, y.
        features: Tensor[N, P, C] of the same dtype.
        size: Height and width of the image; as an int64 tensor an input in ONNX.
        radius: Of the discs, in pixels; above 0.
        k: How many points a pixel may show; at least 1.

    Returns:
        Tensor[N, C, height, width]. Differentiable once: in features, and in x and y through the
        coverage. Which points a pixel shows, and their order, has no gradient: that of z is 0.

    Raises:
        RuntimeError: Shapes, dtypes, radius, k or size are not as described.
    """
    return _splat_points(points, features, size, radius=radius, k=k)


def _standard(g: Any) -> list[str]:
    return g.refuse(
        "the nearest points of every pixel need a table of all pixels by all points",
        "Keep the node: myops.ort.session runs it, with the library of this package.",
    )


_splat_points = library.define("splat_points", backward="splat_points_backward", standard=_standard)
