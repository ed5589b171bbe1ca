"""The peers, a file for each. A file can be added or deleted without another change."""
