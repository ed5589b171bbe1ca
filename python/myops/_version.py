"""The version, for the package's metadata, `myops.__version__` and CMake: written here alone."""

__version__ = "0.1.0"
