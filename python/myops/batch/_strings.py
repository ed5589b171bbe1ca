"""Many strings without an object for each: the names of ten million files."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload


class Strings(Sequence[str]):
    """Strings in one piece of memory: each takes the bytes of its text and 8 more.

    Args:
        items: The strings.
        prefix: Text before each of them, which is stored once.
    """

    def __init__(self, items: Iterable[str], prefix: str = "") -> None:
        self.prefix = prefix
        self._ends = array("q", [0])
        data = bytearray()
        for item in items:
            # Names that are no UTF-8 have lone surrogates in Python.
            data += item.encode("utf-8", "surrogatepass")
            self._ends.append(len(data))
        self._data = bytes(data)

    def under(self, prefix: str) -> Strings:
        """The same strings with another prefix; both share the memory."""
        made = Strings((), prefix)
        made._data, made._ends = self._data, self._ends
        return made

    def taken(self, places: Iterable[int]) -> Strings:
        """Those at some places."""
        return Strings(map(self._own, places), self.prefix)

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Strings: ...
    def __getitem__(self, at: int | slice) -> str | Strings:
        if isinstance(at, slice):
            return self.taken(range(len(self))[at])
        return self.prefix + self._own(range(len(self))[at])

    def __iter__(self) -> Iterator[str]:
        return (self.prefix + self._own(place) for place in range(len(self)))

    def _own(self, place: int) -> str:
        text = self._data[self._ends[place] : self._ends[place + 1]]
        return text.decode("utf-8", "surrogatepass")
