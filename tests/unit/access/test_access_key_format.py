"""How a key looks, and what of it is kept."""

from __future__ import annotations

import pytest

from livedex.pipeline.access.key_format import generate_key, key_digest, parse_key_id


def test_a_key_has_256_random_bits_and_a_prefix_that_scanners_know() -> None:
    made = [generate_key() for _ in range(100)]
    assert len({key.key for key in made}) == len({key.key_id for key in made}) == 100
    prefix, key_id, secret = made[0].key.split("_")
    assert (prefix, key_id) == ("ldx", made[0].key_id)
    assert len(bytes.fromhex(secret)) == 32


def test_only_a_hash_of_it_is_kept_and_its_representation_shows_nothing() -> None:
    made = generate_key()
    assert made.sha256 == key_digest(made.key) and len(made.sha256) == 32
    assert made.key.split("_")[2] not in repr(made) and "sha256" not in repr(made)


def test_the_id_of_a_key_is_found_in_it() -> None:
    made = generate_key()
    assert parse_key_id(made.key) == made.key_id


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ldx",
        "ldx__",
        "ldx_0123456789ab_",
        "ldx_0123456789ab_" + "f" * 63,
        "ldx_0123456789ab_" + "f" * 65,
        "LDX_0123456789ab_" + "f" * 64,
        "ldx_0123456789ab_" + "f" * 64 + "\n",
        "ldx_' or true --_" + "f" * 64,
        "ldx_0123456789ab_" + "\u0661" * 64,
        "x" * 100_000,
        "\x00",
        "\ud800",
    ],
    ids=ascii,
)
def test_what_is_no_key_has_no_id(text: str) -> None:
    assert parse_key_id(text) is None
