"""Ops from NumPy functions, with no compiler."""
