"""Prices of embedding models."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from importlib.resources import files
from pathlib import Path
from typing import Any

from livedex.pipeline.errors import ConfigError

_FILE = "prices.toml"
_MILLION = 1_000_000
_SETTING = "LIVEDEX_PRICES"
_FIELDS = frozenset({"model", "usd_per_million_tokens", "as_of"})
_MAX_USD = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model.

    Attributes:
        usd_per_million_tokens: of input, finite, >= 0.
        as_of: the day of the price list; None where the model is free.
    """

    usd_per_million_tokens: Decimal
    as_of: date | None = None

    def cost(self, tokens: int) -> Decimal:
        """Return what tokens cost in US dollars, exactly.

        Args:
            tokens: >= 0.
        """
        return self.usd_per_million_tokens * tokens / _MILLION


NO_CHARGE = Price(Decimal(0))
"""The price of a model on machines of one's own."""


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices by model.

    Attributes:
        listed: list prices of providers.
        own: prices that the user states; they win, at any URL.
        free: names of models without a price, or beginnings of names that end in a colon.
    """

    listed: Mapping[str, Price] = field(default_factory=dict)
    own: Mapping[str, Price] = field(default_factory=dict)
    free: Sequence[str] = ()

    def price(self, model: str, *, url: str | None = None) -> Price | None:
        """Return the price of a model; None where it is not known.

        Args:
            model: as LIVEDEX_EMBEDDER names it.
            url: of another server than the provider's: its prices are not those of the list.
        """
        name = model.strip()
        if name in self.own:
            return self.own[name]
        if any(
            name == free or (free.endswith(":") and name.startswith(free)) for free in self.free
        ):
            return NO_CHARGE
        return None if url else self.listed.get(name)


def _is_named(model: str, free: str) -> bool:
    return model == free or (free.endswith(":") and model.startswith(free))


def load_price_list(own: Path | None = None) -> PriceList:
    """Return the prices of the package and those of the user.

    Args:
        own: a file of the same form as `prices.toml`.

    Raises:
        ConfigError: the file is missing or invalid; names the place.
    """
    text = files(__package__).joinpath(_FILE).read_text("utf-8")
    listed, free = _parse(text, _FILE)
    if own is None:
        return PriceList(listed, free=free)
    try:
        text = own.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else "not UTF-8"
        raise ConfigError(
            f"{_SETTING} is {str(own)!r}, which cannot be read ({reason}): name a TOML file with "
            "[[price]] tables"
        ) from exc
    prices, own_free = _parse(text, f"{_SETTING} ({own})")
    return PriceList(listed, prices, (*free, *own_free))


def _parse(text: str, place: str) -> tuple[dict[str, Price], tuple[str, ...]]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{place} is no TOML: {exc}") from exc
    if unknown := content.keys() - {"price", "free"}:
        raise ConfigError(
            f"{place}: {sorted(unknown)[0]!r} is unknown: use [[price]] tables, or a list `free`"
        )
    free = content.get("free", [])
    if not isinstance(free, list) or not all(isinstance(name, str) and name for name in free):
        raise ConfigError(f'{place}: free must be a list of names, such as ["openai:my-model"]')
    entries = content.get("price", [])
    if not isinstance(entries, list):
        raise ConfigError(f"{place}: write [[price]], with two brackets, for each model")
    found: dict[str, Price] = {}
    for number, entry in enumerate(entries, 1):
        model, price = _entry(entry, f"{place}: price {number}")
        if model in found:
            raise ConfigError(f"{place}: price {number}: {model!r} stands there twice: remove one")
        found[model] = price
    return found, tuple(free)


def _entry(entry: Any, place: str) -> tuple[str, Price]:
    """Return the model and the price of one table.

    Raises:
        ConfigError: a field is missing, unknown or invalid.
    """
    if not isinstance(entry, dict):
        raise ConfigError(f"{place}: write a table with model and usd_per_million_tokens")
    if unknown := entry.keys() - _FIELDS:
        raise ConfigError(
            f"{place}: {sorted(unknown)[0]!r} is unknown: use {', '.join(sorted(_FIELDS))}"
        )
    model, amount, as_of = (
        entry.get("model"),
        entry.get("usd_per_million_tokens"),
        entry.get("as_of"),
    )
    if not isinstance(model, str) or not model.strip():
        raise ConfigError(f"{place}: model is missing: name it as LIVEDEX_EMBEDDER does")
    if as_of is not None and type(as_of) is not date:
        raise ConfigError(f"{place}: as_of must be a day, such as 2026-01-31 without quotes")
    try:
        usd = Decimal(str(amount)) if not isinstance(amount, bool) else Decimal("nan")
    except InvalidOperation:
        usd = Decimal("nan")
    if not (usd.is_finite() and 0 <= usd <= _MAX_USD):
        raise ConfigError(
            f"{place}: usd_per_million_tokens must be a number from 0 to {_MAX_USD} (got "
            f'{amount!r}), such as "0.02"'
        )
    return model.strip(), Price(usd, as_of)
