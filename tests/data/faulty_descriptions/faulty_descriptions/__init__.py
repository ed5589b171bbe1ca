"""Ops whose descriptions are wrong, each on demand: see csrc/ops.cpp."""
