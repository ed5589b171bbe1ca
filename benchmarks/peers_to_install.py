"""Prints the requirements of the extra "bench" of the installed package, one a line."""

from importlib.metadata import requires

for requirement in requires("myops") or []:
    name, _, marker = requirement.partition(";")
    if "bench" in marker:
        print(name.strip())
