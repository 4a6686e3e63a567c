"""A corpus of code, logs and contracts, and identifiers that stand in one passage of it each."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import NamedTuple

_VERBS = "get set load save parse merge retry flush close open read write".split()
_NOUNS = "user order invoice session buffer token cache queue account ledger".split()
_THINGS = "count limit timeout state index config handler factory policy worker".split()


class KnownItem(NamedTuple):
    """An identifier and the passage that holds it as it is spelled."""

    identifier: str
    passage: int


def identifier_corpus(seed: int, items: int) -> tuple[list[str], list[KnownItem]]:
    """Return passages, and identifiers with the passage that each must find first.

    Beside each passage stands one with an identifier that differs in one part, and one that has the
    parts of the identifier as words.

    Args:
        seed: of the generator.
        items: identifiers, each other than all others.
    """
    rng = random.Random(seed)
    kinds: list[Callable[[], str]] = [
        lambda: _camel(_parts(rng)),
        lambda: "_".join(_parts(rng)),
        lambda: "_".join(_parts(rng)).upper(),
        lambda: "-".join(_parts(rng)),
        lambda: f"{rng.choice(_NOUNS)}.{rng.choice(_VERBS)}_{rng.choice(_THINGS)}",
        lambda: f"ERR-{rng.randrange(1000, 9999)}",
        lambda: f"CVE-{rng.randrange(2001, 2026)}-{rng.randrange(1000, 40_000)}",
        lambda: f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}",
        lambda: f"v{rng.randrange(12)}.{rng.randrange(40)}.{rng.randrange(40)}",
        lambda: "".join(rng.choices("0123456789abcdef", k=12)),
        lambda: f"{rng.choice(_NOUNS)}{rng.randrange(1000)}@example.org",
        lambda: f"§{rng.randrange(1, 90)}.{rng.randrange(1, 30)}.{rng.randrange(1, 30)}",
        lambda: f"HRB-{rng.randrange(10_000, 99_999)}/{rng.randrange(10, 30)}",
        lambda: f"/srv/{rng.choice(_NOUNS)}/{rng.choice(_THINGS)}{rng.randrange(100)}.conf",
    ]
    found: dict[str, None] = {}
    while len(found) < items:
        found[kinds[len(found) % len(kinds)]()] = None
    passages: list[str] = []
    known = []
    for identifier in found:
        known.append(KnownItem(identifier, len(passages)))
        passages += [_passage(rng, identifier), _passage(rng, _neighbour(identifier))]
        words = " ".join(_apart(identifier))
        passages.append(_passage(rng, f"the {words} and again {words}"))
    return passages, known


def _parts(rng: random.Random) -> list[str]:
    return [rng.choice(_VERBS), rng.choice(_NOUNS), rng.choice(_THINGS), rng.choice(_THINGS)]


def _camel(parts: list[str]) -> str:
    return parts[0] + "".join(part.capitalize() for part in parts[1:])


def _apart(identifier: str) -> list[str]:
    """Return the parts of an identifier in the other order."""
    spaced = re.sub(r"\W|_|(?<=[a-z])(?=[A-Z])", " ", identifier)
    parts = spaced.split() if " " in spaced else [identifier[:5], identifier[5:]]
    return parts[::-1]


def _neighbour(identifier: str) -> str:
    return f"{identifier}7" if identifier[-1].isdigit() else f"{identifier}_old"


def _passage(rng: random.Random, content: str) -> str:
    noun, verb, thing = rng.choice(_NOUNS), rng.choice(_VERBS), rng.choice(_THINGS)
    return rng.choice(
        (
            f"def {verb}_it(self) -> None:\n    value = call({content})\n    return {noun}",
            f"2026-03-0{rng.randrange(1, 9)} 11:{rng.randrange(10, 59)} WARN {content} failed for "
            f"the {noun}, will {verb} it",
            f"Clause {rng.randrange(1, 40)}. The supplier shall {verb} each {noun} as {content} "
            f"says, unless the {thing} is exceeded.",
            f"INFO {noun}: the {thing} of {content} was {rng.randrange(10_000)} ms",
        )
    )
