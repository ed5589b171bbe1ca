"""Texts for readers that explain the causes of a difference between two files."""

from __future__ import annotations

CAUSES = {
    "nodes": "from equal inputs, these nodes give something else in the second",
    "backends": "the nodes are the same in both; the backends compute them differently",
    "rounding": "from equal inputs, no node gives something else; small differences add up",
    "order": "equal values, between which the two choose differently",
    "stops": "the second stops at a node",
    "optimiser": "only what ONNX Runtime makes of the untouched file changes the outputs",
}
