"""The console that results are printed to, when no other is given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console as RichConsole
from rich.console import ConsoleDimensions
from rich.segment import Segment
from rich.text import Text

from myops._text import printable, printable_lines

_NO_TERMINAL = ConsoleDimensions(10_000, 25)  # a file has no width: nothing is wrapped


class Console(RichConsole):
    """A console for text that comes from files.

    Control characters of a text are never printed; newlines inside a name must be escaped by
    `printable` where a line is composed. Without a terminal nothing is wrapped, so that a path
    stays in one piece for the next program.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(emoji=False, highlight=False, **settings)

    @property
    def size(self) -> ConsoleDimensions:
        if self._width is None and not self.is_terminal:
            return _NO_TERMINAL
        return super().size

    @size.setter
    def size(self, new: tuple[int, int]) -> None:
        self._width, self._height = new

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)


def say(console: RichConsole, text: str) -> None:
    """A line of text as it is: no markup, no colours by guess, not wrapped."""
    console.print(printable(text), markup=False, highlight=False, emoji=False, soft_wrap=True)


def line(console: RichConsole, markup: str = "", *, wrap: bool = True) -> None:
    """A line of rich's markup in which names went through `for_markup`.

    On any console `:x:` in a name stays what it is, and no number is coloured by guess.
    """
    text = Text.from_markup(markup, emoji=False)
    console.print(text, highlight=False, soft_wrap=not wrap)
