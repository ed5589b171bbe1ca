"""Marks the words of code in a line of text, so that site.css can keep each on one line."""

from __future__ import annotations

import re

# A longer word has to break: a line of a phone has about 40 characters of code.
_LONGEST = 32
_BLOCKS = re.compile(r"(<pre\b.*?</pre>)", re.DOTALL)
_CODE = re.compile(r"(<code>)([^<]*)(</code>)")
_ENTITY = re.compile(r"&#?\w+;")


def marked(html: str) -> str:
    """The page with a span around each word that contains a hyphen, in code outside of blocks."""
    parts = _BLOCKS.split(html)
    parts[::2] = [_CODE.sub(_marked_code, part) for part in parts[::2]]
    return "".join(parts)


def _marked_code(code: re.Match[str]) -> str:
    return code[1] + re.sub(r"\S*-\S*", _marked_word, code[2]) + code[3]


def _marked_word(word: re.Match[str]) -> str:
    if len(_ENTITY.sub("x", word[0])) > _LONGEST:
        return word[0]
    return f'<span class="word">{word[0]}</span>'
