"""nms before it moved to C++: a NumPy function, with the same name, domain and rules."""

import importlib.util
from pathlib import Path

import numpy as np

import myops

_FILE = Path(__file__).parents[1] / "src" / "author_ops" / "nms_rules.py"
_SPEC = importlib.util.spec_from_file_location("nms_rules", _FILE)
rules = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(rules)


def overlap(one, other):
    low, high = np.minimum(one[:2], one[2:]), np.maximum(one[:2], one[2:])
    low2, high2 = np.minimum(other[:2], other[2:]), np.maximum(other[:2], other[2:])
    sides = np.minimum(high, high2) - np.maximum(low, low2)
    areas = [float(np.prod(high - low)), float(np.prod(high2 - low2))]
    if not (sides > 0).all() or not min(areas) > 0:
        return 0.0
    both = float(sides.prod())
    return both / (sum(areas) - both)


def nms_numpy(boxes, scores, *, threshold):
    """The boxes that no box of a higher score overlaps by more than a threshold."""
    kept, wide = [], boxes.astype(np.float64)
    for place in np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable").tolist():
        if all(overlap(wide[place], wide[other]) <= threshold for other in kept):
            kept.append(place)
    return boxes[kept], np.array(kept, np.int64)


nms = myops.prototype(
    nms_numpy,
    name="nms",
    domain="author_ops",
    types={"T": ["float32", "float64"], "I": ["int64"]},
    inputs=[
        myops.Input("boxes", "T", "[N, 4]: two opposite corners each."),
        myops.Input("scores", "T", "[N]."),
    ],
    outputs=[
        myops.Output("kept", "T", "[K, 4], the highest score first."),
        myops.Output("indices", "I", "[K]: where they stand in boxes."),
    ],
    attributes=[myops.Attribute("threshold", 0.5, "Intersection over union.")],
    shape="N 4, N -> K<=N 4, K<=N",
    save=rules.save,
    backward=rules.backward,
    standard=rules.standard,
)
