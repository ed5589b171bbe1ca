"""Wheels that run on other Linux systems than the one that makes them: `make dist`."""
