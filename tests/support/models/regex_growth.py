"""Texts that make slow regular expressions slow, and how the time grows with them.

`python -m tests.support.models.regex_growth patterns` pumps the patterns of all packages,
`documents` takes documents
apart: in a process of its own, which may be ended.
"""

from __future__ import annotations

import importlib
import itertools
import json
import pkgutil
import random
import re
import re._constants as kinds  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from livedex.pipeline.stages.document_chunker import ChunkerConfig, chunk_document

PACKAGES = ("livedex",)
SMALL, LARGE = 2_000, 8_000  # characters
MOST_GROWTH = 8.0  # of the time, for 4 times the text: 4 is linear, 16 is square
_FLOOR_S = 0.003  # what takes less at `LARGE` is not measured further
_LIMIT_S = 5.0  # of the clock, for one call of milliseconds: what takes more grows without end
_TRIES = 3
_SAMPLES = {
    kinds.CATEGORY_SPACE: " \t\n",
    kinds.CATEGORY_DIGIT: "07",
    kinds.CATEGORY_WORD: "aZ0_",
    kinds.CATEGORY_NOT_SPACE: "a0-",
    kinds.CATEGORY_NOT_DIGIT: "a -",
    kinds.CATEGORY_NOT_WORD: " -\n",
}
_MATCHED = {
    "livedex.pipeline.chunking.light_markup:_MARKUPS",
    "livedex.pipeline.settings.webhook_source_checks:_REPOSITORIES",
    "livedex.connectors.filesystem.credential_files:_NAMES",
}
"""Tables whose patterns are tried at the beginning of a text alone."""
_OTHERS = "aA0 -_.,:;=<>\"'()[]{}#*`\\/|~^+!\n\té中"
_ANY = {"match", "finditer"}
_REPEATS = (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT)


class TooSlowError(Exception):
    """A call took longer than its limit."""


def patterns() -> dict[str, tuple[re.Pattern[Any], set[str]]]:
    """Return every compiled pattern that a module holds, in containers too, by its place, with the
    methods that its module calls on it.
    """
    found: dict[str, tuple[re.Pattern[Any], set[str]]] = {}
    seen: set[int] = set()
    for package in PACKAGES:
        root = importlib.import_module(package)
        for info in pkgutil.walk_packages(root.__path__, f"{package}."):
            if info.name.endswith("__main__"):
                continue
            module = importlib.import_module(info.name)
            for name, value in vars(module).items():
                for n, pattern in enumerate(_inside(value)):
                    if id(pattern) not in seen:
                        seen.add(id(pattern))
                        methods = (
                            _methods(module, name)
                            if pattern is value
                            else {"match"}
                            if f"{info.name}:{name}" in _MATCHED
                            else _ANY
                        )
                        found[f"{info.name}:{name}{f'[{n}]' if pattern is not value else ''}"] = (
                            pattern,
                            methods,
                        )
    return found


def _inside(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from itertools.chain.from_iterable(map(_inside, value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from itertools.chain.from_iterable(map(_inside, value))


def _methods(module: ModuleType, name: str) -> set[str]:
    """`match` alone where the module calls nothing else on a name of its own: such a pattern is
    not tried at every place of a text.
    """
    source = Path(module.__file__ or "").read_text("utf-8")
    uses = re.findall(rf"(?<![\w.]){re.escape(name)}\b(?!\s*=|:)(?:\.(\w+))?", source)
    is_own = name.startswith("_") and uses and all(use in ("match", "fullmatch") for use in uses)
    return set(uses) if is_own else _ANY


def _characters(items: Any) -> str:
    pool, negated = "", False
    for kind, value in items:
        if kind is kinds.NEGATE:
            negated = True
        elif kind is kinds.LITERAL:
            pool += chr(value)
        elif kind is kinds.RANGE:
            pool += chr(value[0]) + chr(value[1])
        else:
            pool += _SAMPLES[value]
    return "".join(c for c in _OTHERS if c not in pool) or "x" if negated else pool


def _sample(tree: Any, rng: random.Random, groups: dict[Any, str]) -> str:
    """A text that the pattern, or a part of it, matches or nearly does."""
    out = ""
    for kind, value in tree:
        if kind is kinds.LITERAL:
            out += chr(value)
        elif kind is kinds.NOT_LITERAL:
            out += rng.choice([c for c in "a0 -\n" if ord(c) != value])
        elif kind is kinds.ANY:
            out += rng.choice("a0 -")
        elif kind is kinds.IN:
            out += rng.choice(_characters(value))
        elif kind is kinds.BRANCH:
            out += _sample(rng.choice(value[1]), rng, groups)
        elif kind is kinds.SUBPATTERN:
            groups[value[0]] = _sample(value[-1], rng, groups)
            out += groups[value[0]]
        elif kind is kinds.ATOMIC_GROUP:
            out += _sample(value, rng, groups)
        elif kind in _REPEATS:
            low, high = int(value[0]), min(int(value[1]), max(int(value[0]), 3))
            out += "".join(
                _sample(value[2], rng, groups) for _ in range(min(400, rng.choice((low, high))))
            )
        elif kind is kinds.GROUPREF:
            out += groups.get(value, "")
    return out


def _repeats(tree: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each repeated part of a pattern, with what stands before it."""
    for n, (kind, value) in enumerate(tree):
        path = (*before, list(tree)[:n])
        if kind in _REPEATS:
            yield path, value[2]
            yield from _repeats(value[2], path)
        elif kind is kinds.SUBPATTERN:
            yield from _repeats(value[-1], path)
        elif kind is kinds.ATOMIC_GROUP:
            yield from _repeats(value, path)
        elif kind is kinds.BRANCH:
            for branch in value[1]:
                yield from _repeats(branch, path)
        elif kind in (kinds.ASSERT, kinds.ASSERT_NOT):
            yield from _repeats(value[1], path)


def pumped(pattern: re.Pattern[Any], most: int = 60) -> list[tuple[str, str, str]]:
    """Return beginnings, units that are repeated behind them, and ends: each repeat of the pattern
    is fed with what it takes.
    """
    text = (
        pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    )
    rng, found = random.Random(1), dict[tuple[str, str], None]()
    tree = parser.parse(
        text, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
    )
    for path, body in _repeats(tree):
        for _ in range(3):
            groups: dict[Any, str] = {}
            start = "".join(_sample(part, rng, groups) for part in path)
            unit = _sample(body, rng, groups)
            found |= dict.fromkeys((start, each) for each in (unit, start + unit, start) if each)
    chosen = list(found) if len(found) <= most else rng.sample(list(found), most)
    return [(start, unit, end) for start, unit in chosen for end in ("", "!\n")]


def growth(call: Callable[[int], object]) -> float:
    """How many times longer a call takes for `LARGE` than for `SMALL`; the least of several tries,
    1 where it takes next to no time.
    """
    least = float("inf")
    for _ in range(_TRIES):
        large = seconds(lambda: call(LARGE))
        if large < _FLOOR_S:
            return 1.0
        least = min(least, large / seconds(lambda: call(SMALL)))
        if least <= MOST_GROWTH:
            break
    return least


def seconds(call: Callable[[], object]) -> float:
    """Time of the processor that a call takes; `inf` where it does not end."""
    # one of the processor would make its clock coarse
    signal.setitimer(signal.ITIMER_REAL, _LIMIT_S)
    began = time.process_time()
    try:
        call()
    except TooSlowError:
        return float("inf")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return max(time.process_time() - began, 1e-7)


def _applied(
    pattern: re.Pattern[Any], method: str, case: tuple[str, str, str]
) -> Callable[[int], object]:
    start, unit, end = case

    def call(size: int) -> object:
        text = start + unit * max(1, size // len(unit)) + end
        found = getattr(pattern, method)(
            text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")
        )
        return sum(1 for _ in found) if method == "finditer" else found

    return call


def slow_patterns() -> Iterator[str]:
    """The place of each pattern whose time grows faster than the text, and what it was fed; then
    how many patterns there are.
    """
    found = patterns()
    for place, (pattern, methods) in found.items():
        calls = ((method, case) for case in pumped(pattern) for method in sorted(methods))
        slow = (
            (method, case, factor)
            for method, case in calls
            if (factor := growth(_applied(pattern, method, case))) > MOST_GROWTH
        )
        for method, case, factor in itertools.islice(slow, 1):
            yield f"{place} {method} x{factor:.0f} {tuple(part[:40] for part in case)}"
    yield f"{len(found)} in all"


def slow_documents() -> Iterator[str]:
    """The number of each document in the table that comes as JSON, whose time grows faster than
    it; then how many there are.
    """
    table = json.loads(sys.stdin.read())
    for n, (name, *case) in enumerate(table):
        start, unit, end = case

        def call(
            size: int, name: str = name, start: str = start, unit: str = unit, end: str = end
        ) -> object:
            return chunk_document(
                (start + unit * (5 * size // len(unit)) + end).encode(),
                name,
                None,
                ChunkerConfig(overlap=100),
            )

        if (factor := growth(call)) > MOST_GROWTH:
            yield f"{n} x{factor:.0f} {name} {tuple(part[:40] for part in case)}"
    yield f"{len(table)} in all"


def main() -> None:
    """Print what is slow, a line each."""

    def ring(*_: object) -> None:
        raise TooSlowError

    signal.signal(signal.SIGALRM, ring)
    for line in slow_documents() if sys.argv[1] == "documents" else slow_patterns():
        print(line, flush=True)


if __name__ == "__main__":
    main()
