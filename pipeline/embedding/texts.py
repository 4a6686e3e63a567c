"""What every embedder has to know of a text before it is sent."""

from __future__ import annotations

import unicodedata


def valid_unicode(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD: no tokenizer and no JSON takes them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def is_blank(text: str) -> bool:
    """Whether nothing of a text can be seen: only white space, controls and characters without
    width.
    """
    return all(unicodedata.category(character) in _INVISIBLE for character in text)


_INVISIBLE = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})
