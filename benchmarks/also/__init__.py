"""Measurements beside the main table, a module for each question.

Each has `TITLE`, `EXPLANATION` and `rows(threads, plan)`, which yields Row.
"""
