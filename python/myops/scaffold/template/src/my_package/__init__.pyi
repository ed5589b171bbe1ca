# Written by `myops stubs my_package`. What is here at run time is in __init__.py.
from my_package.soft_clip import soft_clip as soft_clip

__all__ = [
    "soft_clip",
]
