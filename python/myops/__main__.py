"""`python -m myops` is the command `myops`."""

from myops.cli import main

if __name__ == "__main__":
    main()
