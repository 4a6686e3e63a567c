"""Prices of models: the list of the package, and a file that overrides it."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from importlib.resources import files
from pathlib import Path

import pytest

from livedex.pipeline.costs.money import exact_amount, rounded_amount
from livedex.pipeline.costs.price_list import NO_CHARGE, load_price_list
from livedex.pipeline.errors import ConfigError

SMALL = "openai:text-embedding-3-small"


def test_every_listed_price_has_a_day() -> None:
    text = files("livedex.pipeline.costs").joinpath("prices.toml").read_text("utf-8")
    assert all(entry["as_of"] for entry in tomllib.loads(text)["price"])
    prices = load_price_list()
    assert prices.listed[SMALL].cost(1_000_000) == Decimal("0.02")


@pytest.mark.parametrize("model", ["local", "ollama:nomic-embed-text", " local "])
def test_models_on_machines_of_ones_own_are_free(model: str) -> None:
    assert load_price_list().price(model, url="http://gpu:11434/v1") == NO_CHARGE


@pytest.mark.parametrize(
    ("model", "url"),
    [(SMALL, "http://127.0.0.1:1/v1"), ("openai:other", None), ("localhost", None)],
)
def test_a_price_that_is_not_known_is_none(model: str, url: str | None) -> None:
    assert load_price_list().price(model, url=url) is None


def test_own_prices_win_at_any_url(tmp_path: Path) -> None:
    own = tmp_path / "prices.toml"
    own.write_text(
        f'free = ["openai:mine"]\n[[price]]\nmodel = "{SMALL}"\nusd_per_million_tokens = 0.01\n'
    )
    prices = load_price_list(own)
    for url in (None, "https://proxy.example/v1"):
        found = prices.price(SMALL, url=url)
        assert found is not None and found.usd_per_million_tokens == Decimal("0.01")
        assert prices.price("openai:mine", url=url) == NO_CHARGE
    assert prices.price("openai:text-embedding-3-large") == load_price_list().price(
        "openai:text-embedding-3-large"
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[[price", "no TOML"),
        ("[price]\nmodel = 'a'", "[[price]]"),
        ("[[price]]\nusd_per_million_tokens = 1", "price 1: model is missing"),
        ("[[price]]\nmodel = 'a'", "price 1: usd_per_million_tokens"),
        ("[[price]]\nmodel = 'a'\nusd_per_million_tokens = -1", "from 0 to"),
        ("[[price]]\nmodel = 'a'\nusd_per_million_tokens = nan", "from 0 to"),
        ("[[price]]\nmodel = 'a'\nusd_per_million_tokens = true", "from 0 to"),
        ("[[price]]\nmodel = 'a'\nusd_per_million_tokens = '2 cents'", "from 0 to"),
        ("[[price]]\nmodel = 'a'\nusd_per_million_tokens = 1\nas_of = '2026'", "as_of"),
        ("[[price]]\nmodel = 'a'\nusd = 1", "'usd' is unknown"),
        ("[[price]]\nmodel = 'a'\nusd_per_million_tokens = 1\n" * 2, "price 2: 'a' stands there"),
        ("prices = 1", "'prices' is unknown"),
        ("free = 'a'", "free must be a list"),
    ],
)
def test_an_invalid_file_names_the_place(tmp_path: Path, content: str, words: str) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(content)
    with pytest.raises(ConfigError) as raised:
        load_price_list(own)
    assert words in str(raised.value) and "mine.toml" in str(raised.value)


def test_a_missing_file_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="LIVEDEX_PRICES"):
        load_price_list(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("amount", "exact", "rounded"),
    [
        ("0", "0", "0"),
        ("0.00000024", "0.00000024", "0.000001"),
        ("0.00120", "0.0012", "0.0012"),
        ("1200", "1200", "1200.0000"),
        ("0.0000024", "0.0000024", "0.000002"),
    ],
)
def test_amounts_are_shown_exactly_or_rounded(amount: str, exact: str, rounded: str) -> None:
    assert exact_amount(Decimal(amount)) == {"amount": exact, "currency": "USD"}
    assert rounded_amount(Decimal(amount)) == {"amount": rounded, "currency": "USD"}
