"""How fast the ops are beside their peers, measured in one process. See README.md."""
