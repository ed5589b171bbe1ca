"""Texts for readers that explain the statuses of values and the causes of a first difference."""

from __future__ import annotations

STATUSES = {
    "ok": "all elements agree",
    "order": "only a choice among equals",
    "absorbed": "it differs, but everything that is computed from it agrees",
    "fail": "it differs",
}

CAUSES = {
    "node": "one node computes something else than PyTorch",
    "nodes": "one of a few nodes computes something else than PyTorch",
    "kernel": "ONNX Runtime computes a node otherwise than the ONNX standard says",
    "rounding": "no module is wrong by itself; small differences add up",
    "tie": "equal values, between which the two sides choose differently",
    "stops": "ONNX Runtime stops at a node",
    "optimiser": "ONNX Runtime's optimisations change the result",
}
