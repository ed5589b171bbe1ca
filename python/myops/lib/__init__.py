"""The native libraries: `libmyops_torch` and `libmyops_ort` lie in this folder once built."""

from pathlib import Path


def path(name: str) -> Path:
    """Path of the library `name` ("libmyops_torch" or "libmyops_ort").

    Raises:
        ImportError: The file is not there: the package was not built.
    """
    file = Path(__file__).parent / f"{name}.so"
    if not file.is_file():
        raise ImportError(
            f"myops: {file} does not exist. Expected the compiled library beside this module. "
            "Install the package (`pip install .`), or in a source tree run `make build`."
        )
    return file
