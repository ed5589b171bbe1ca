"""What type checkers know of the package is what is in it."""

from pathlib import Path

import myops

import my_package


def test_the_stub_is_up_to_date():
    file = Path(my_package.__file__).with_suffix(".pyi")
    expected = myops.package_stub("my_package")
    assert file.read_text() == expected, "myops stubs my_package -o src/my_package/__init__.pyi"
    assert file.with_name("py.typed").is_file()
