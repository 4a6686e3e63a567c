"""Find the name that was probably meant: of a setting, a command, a field or a query parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher

_CUTOFF = 0.72
"""Similarity (0 to 1) from which on a suggestion helps more than it misleads; below it the caller
lists what is known.
"""


def nearest_name(
    given: str, known: Iterable[str], synonyms: Mapping[str, str] | None = None
) -> str | None:
    """Return the known name that is nearest to a given one.

    Case, hyphens, underscores and a plural s make no difference, and swapped letters count little.

    Args:
        given: what was written; only its first 100 characters count.
        known: the names that there are.
        synonyms: what the same thing is called elsewhere, to its name here; counts only for names
            that are known.

    Returns:
        The nearest name, or None where none is near enough.
    """
    names = list(known)
    wanted = _folded(given)
    for synonym, name in (synonyms or {}).items():
        if _folded(synonym) == wanted and name in names:
            return name
    scored = [(_similarity(wanted, _folded(name)), name) for name in names]
    best = max(scored, key=lambda each: each[0], default=(0.0, ""))
    return best[1] if best[0] >= _CUTOFF else None


def did_you_mean(
    given: str, known: Iterable[str], synonyms: Mapping[str, str] | None = None
) -> str:
    """Return `: did you mean NAME?`, or an empty text where no name is near enough."""
    found = nearest_name(given, known, synonyms)
    return f": did you mean {found}?" if found else ""


def _folded(name: str) -> str:
    return name[:100].lower().replace("_", "").replace("-", "").removesuffix("s")


def _similarity(given: str, name: str) -> float:
    if not given or not name:
        return 0.0
    if sorted(given) == sorted(name):
        return 0.99  # letters in another order: serach
    return SequenceMatcher(None, given, name, autojunk=False).ratio()
