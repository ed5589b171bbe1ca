"""The cases, a file for each op."""
