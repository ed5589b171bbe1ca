"""The peers, a file each. Delete one, add one: nothing else changes."""
