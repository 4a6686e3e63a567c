"""One form for the spellings of a word, in documents and in queries.

`normalize_text` unifies what surrounds words: hyphens, apostrophes, invisible characters, entities,
escapes and compatibility forms such as full-width letters. `fold_words` turns the result into words
without case, accents, vowel points and the digits of other scripts. `compound_spellings` returns
words that are written in several ways: `e-mail` and `email`, `maxRetryCount` and `max_retry_count`.

Sources: Unicode Technical Report 30 (draft), "Character Foldings"; Larkey, Ballesteros and Connell,
"Light stemming for Arabic information retrieval", 2002, for Arabic letters; Larkey, Connell and
Abduljaleel, "Hindi CLIR in thirty days", 2003, for Devanagari.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Collection, Iterator

MAX_COMPOUND_CHARACTERS = 100  # of one that is joined to a word
_ZERO_WIDTH_SPACE = "\u200b"
_SOFT_HYPHEN = "\u00ad"

_APOSTROPHES = (
    "\u00b4\u02b9\u02bb\u02bc\u02bd\u02c8\u055a\u05f3\u2018\u2019\u201b\u2032\ua78c\uff07"
)
_HYPHENS = (
    "\u02d7\u058a\u05be\u1806\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\u2e17\ufe58\ufe63"
    "\uff0d"
)
# of the pieces of a compound: no white space, punctuation or symbol
_LETTER = (
    r"[^\x00-/:-@\[-`{-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf\u2000-\u206f\u2190-\u2bff\u3000-\u3004"
    r"\u3008-\u303f\ufe10-\ufe6f\uff00-\uff0f]"
)
_JOINER = rf"(?:[-'_{_ZERO_WIDTH_SPACE}]|\*{{1,3}}|~~|`{{1,2}}|</?[A-Za-z]{{1,10}}/?>)"
_COMPOUND = re.compile(rf"(?<!{_LETTER}){_LETTER}++(?:{_JOINER}{_LETTER}++)++")
_JOINERS = re.compile(_JOINER)
_WORD = re.compile(rf"{_LETTER}++")
_ACRONYM = re.compile(r"(?<![\w.])(?:[^\W\d_]\.){2,12}+(?:[^\W\d_](?![\w.]))?(?!\w)")  # U.S.A.
# Node.js
_DOTTED = re.compile(r"(?<![\w./:@-])[^\W\d_]{2,20}\.[^\W\d_]{1,3}(?![\w/:@-]|\.\w)")
_GROUPED_NUMBER = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])")
_LETTERS_AND_DIGITS = re.compile(r"([^\W\d_]{2,})(\d+)|(\d+)([^\W\d_]{2,})")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z\d]{1,31});")
_ESCAPE = re.compile(r"\\(?=[_*#\[\]()~`+\-.!|<>{}&'\"])")
_INVISIBLE_HYPHEN = re.compile(rf"(?<=[^\W\d_]){_SOFT_HYPHEN}(?=[^\W\d_])")
_HEBREW_QUOTE = re.compile('(?<=[\u05d0-\u05ea])["\u05f4](?=[\u05d0-\u05ea])')
_DEAD_NASAL = re.compile("[\u0919\u091e\u0923\u0928\u092e]\u094d(?=[\u0915-\u0939])")

# marks that say how a word is spoken, not which word it is
_MARKS = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    "\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a"
    "\u07eb-\u07f3\u08ca-\u08e1\u08e3-\u08ff\u093c\u0a3c\u0abc\u1ab0-\u1aff\u1dc0-\u1dff"
    "\u20d0-\u20ff\u180b-\u180f\ufe00-\ufe0f\ufe20-\ufe2f\U000e0100-\U000e01ef]"
)
# those that no dictionary of stems knows
_SPEECH_MARKS = re.compile(
    "[\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u0652"
    "\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a"
    "\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_LETTERS = {
    # Latin letters that do not decompose
    **dict(zip("øđħłŧıĸð", "odhltikd", strict=True)),
    "þ": "th",
    "æ": "ae",
    "œ": "oe",
    **dict(zip("ёѐѝ", "ееи", strict=True)),
    # Arabic: alef, yeh, kaf and heh of Persian, Urdu and Arabic
    **dict.fromkeys("\u0649\u06cc", "\u064a"),
    **dict.fromkeys("\u0629\u06be\u06c1\u06c3\u06d5", "\u0647"),
    "\u06a9": "\u0643",
    "\u0671": "\u0627",
    # Yiddish digraphs
    "\u05f0": "\u05d5\u05d5",
    "\u05f1": "\u05d5\u05d9",
    "\u05f2": "\u05d9\u05d9",
    # candrabindu
    "\u0901": "\u0902",
    "\u0a81": "\u0a82",
    # chillu letters of Malayalam, which older texts write as letter and virama
    **dict(zip("ൺൻർൽൾൿ", ("ണ്", "ന്", "ര്", "ല്", "ള്", "ക്"), strict=True)),
    # letters of Ethiopic that sound alike
    **{
        chr(code + n): chr(same + n)
        for code, same in (
            (0x1210, 0x1200),
            (0x1280, 0x1200),
            (0x1220, 0x1230),
            (0x12D0, 0x12A0),
            (0x1340, 0x1338),
        )
        for n in range(7)
    },
}
_TATWEEL = "\u0640"
# of text search configurations whose stems do not depend on accents
_STEMS_WITHOUT_ACCENTS = frozenset({"english", "simple", "indonesian"})


class _Punctuation(dict[int, str]):
    """What becomes of a code point before words are separated."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character in _APOSTROPHES:
            found = "'"
        elif character in _HYPHENS:
            found = "-"
        elif unicodedata.category(character) == "Cf" and character not in (
            _ZERO_WIDTH_SPACE,
            _SOFT_HYPHEN,
        ):
            found = ""
        else:
            found = character
        self[code] = found
        return found


class _Folding(dict[int, str]):
    """What becomes of a code point in a word: anything but letters, digits and marks separates
    words.

    Args:
        accents: whether accents are kept.
        punctuation: whether punctuation is kept, too.
    """

    def __init__(self, *, accents: bool = False, punctuation: bool = False) -> None:
        super().__init__()
        self._accents, self._punctuation = accents, punctuation

    def __missing__(self, code: int) -> str:
        self[code] = found = self._folded(chr(code))
        return found

    def _folded(self, character: str) -> str:
        category = unicodedata.category(character)
        if (category == "Cf" and character != _ZERO_WIDTH_SPACE) or character == _TATWEEL:
            return ""
        if category == "Nd":
            return str(unicodedata.decimal(character))
        if category[0] not in "LNM":
            return character if self._punctuation else " "
        if self._accents:
            return _SPEECH_MARKS.sub("", character)
        if character in _LETTERS:
            return _LETTERS[character]
        if "\u0400" <= character <= "\u052f":  # й is a letter of its own, not и with a mark
            return _MARKS.sub("", character)
        decomposed = unicodedata.normalize("NFD", character)
        letters = "".join(_LETTERS.get(each, each) for each in _MARKS.sub("", decomposed))
        return unicodedata.normalize("NFC", letters)


_PUNCTUATION = _Punctuation()
_FOLDED, _ACCENTED, _PUNCTUATED = (
    _Folding(),
    _Folding(accents=True),
    _Folding(punctuation=True),
)


def normalize_text(text: str) -> str:
    """Return a text with one form of each hyphen, apostrophe, escape and compatibility character.

    Case, accents and the other punctuation stay.
    """
    if "&" in text and ";" in text:
        text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    if "\\" in text:
        text = _ESCAPE.sub("", text)
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text.translate(_PUNCTUATION))
    if _SOFT_HYPHEN in text:
        text = _INVISIBLE_HYPHEN.sub("", text).replace(_SOFT_HYPHEN, "-")
    return _HEBREW_QUOTE.sub("'", text)


def fold_words(normal: str) -> str:
    """Return the words of a text, with spaces between them, in the form that all their spellings
    share.

    Args:
        normal: as `normalize_text` returns it.
    """
    return _fold(normal, _FOLDED)


def fold_text(normal: str) -> str:
    """Return a text with its words as `fold_words` has them, and with its punctuation.

    Args:
        normal: as `normalize_text` returns it.
    """
    return _fold(normal, _PUNCTUATED)


def _fold(normal: str, folding: _Folding) -> str:
    folded = normal.casefold().translate(folding)
    if normal.isascii():
        return folded
    return _DEAD_NASAL.sub("\u0902", unicodedata.normalize("NFC", folded))


def casefold_words(normal: str) -> str:
    """Return the words of a text as a stemmer that knows accents wants them.

    Args:
        normal: as `normalize_text` returns it.
    """
    return normal.casefold().translate(_ACCENTED)


def stems_depend_on_accents(config: str) -> bool:
    """Return whether a text search configuration must be given words with their accents.

    Args:
        config: PostgreSQL's name of it, with or without its schema.
    """
    return config.rpartition(".")[2].strip('"') not in _STEMS_WITHOUT_ACCENTS


def compound_spellings(pieces: Collection[str]) -> Iterator[str]:
    """Yield the other spellings of compounds: joined where they have parts, and their parts where
    they are joined.

    Args:
        pieces: of a text as `normalize_text` returns it, without white space; words without
            punctuation, digits and capitals inside may be left out.
    """
    text = " ".join(pieces)
    for compound in _COMPOUND.findall(text):
        joined = _JOINERS.sub("", compound)
        if len(joined) <= MAX_COMPOUND_CHARACTERS:
            yield joined
    if dotted := " ".join(piece for piece in pieces if "." in piece[1:-1]):
        for found in (*_ACRONYM.findall(dotted), *_DOTTED.findall(dotted)):
            yield found.replace(".", "")
    if grouped := " ".join(piece for piece in pieces if "," in piece[1:-1]):
        for found in _GROUPED_NUMBER.findall(grouped):
            yield found.replace(",", "")
    for word in _WORD.findall(text):
        if word.isdigit() or (word.isalpha() and not has_capitals_inside(word)):
            continue
        if len(word) > MAX_COMPOUND_CHARACTERS:
            continue
        if mixed := _LETTERS_AND_DIGITS.fullmatch(word):
            yield " ".join(part for part in mixed.groups() if part)
        elif len(parts := camel_case_parts(word)) > 1:
            yield " ".join(parts)


def has_capitals_inside(word: str) -> bool:
    """Return whether a word has capitals after its first letter, and small letters, too."""
    return not (word.islower() or word[1:].islower() or word.isupper())


def camel_case_parts(word: str) -> list[str]:
    """Return the parts of a word like `HTTPServer` or `maxRetryCount`; the word where it has none.

    Args:
        word: letters and digits.
    """
    if not has_capitals_inside(word):
        return [word]
    starts = [0]
    for n in range(1, len(word)):
        before, here, after = word[n - 1], word[n], word[n + 1 : n + 2]
        ends_lower = here.isupper() and not before.isupper()
        if ends_lower or (here.isupper() and before.isupper() and after.islower()):
            starts.append(n)
    return [word[a:b] for a, b in zip(starts, [*starts[1:], len(word)], strict=True)]


def is_camel_case_name(word: str) -> bool:
    """Return whether a word names something in a program: `getUser`, `HttpClientFactory`, and not
    `JavaScript`, which people write as a word.
    """
    if not (has_capitals_inside(word) and word.isalnum()):
        return False
    parts = camel_case_parts(word)
    return len(parts) > 2 or (len(parts) == 2 and word[0].islower() and len(parts[0]) > 1)
