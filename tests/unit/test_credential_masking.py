"""Credentials are taken out of what is shown, and nothing else is."""

from __future__ import annotations

import pytest

from livedex.pipeline.runtime.credential_masking import mask_credentials
from livedex.pipeline.runtime.name_suggestions import nearest_name

SECRET = "s3cr3t-value"


@pytest.mark.parametrize(
    "text",
    [
        f"https://user:{SECRET}@host/v1",
        f"https://{SECRET}@host/v1",
        f"postgresql://u:{SECRET}@{SECRET}@host:5/d",
        f"openai:m@http://{SECRET}:x@h",
        f"http://h/v1?api_key={SECRET}&x=1",
        f"http://h/?X-Amz-Signature={SECRET}",
        f"host=h password={SECRET} dbname=d",
        f"password='{SECRET}'",
        f"Authorization: Bearer {SECRET}",
        f'{{"api_key": "{SECRET}"}}',
        f"LIVEDEX_EMBEDDER_API_KEY={SECRET}",
        f"client_secret = {SECRET}",
    ],
)
def test_a_credential_is_masked_and_the_host_stays(text: str) -> None:
    shown = mask_credentials(text)
    assert SECRET not in shown and "***" in shown
    assert ("host" in text) == ("host" in shown)


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abcdefgh1234",
        "whsec_abcdefgh1234",
        "ghp_abcdefghijklmnop1234",
        "glpat-abcdefghijklmnop12",
        "AKIAABCDEFGHIJKLMNOP",
    ],
)
def test_a_key_that_names_itself_is_masked_anywhere(key: str) -> None:
    assert mask_credentials(f"Incorrect key provided: {key}.") == "Incorrect key provided: ***."


@pytest.mark.parametrize(
    "text",
    [
        "the key of the tenant was not found",
        "LIVEDEX_DIMENSIONS is 5, key: the limit",
        "input 17 too long; token: 512 tokens",
        "monkey=banana",
        "http://host:80/v1/embeddings",
        "connect to 10.0.0.1:5432 failed",
        "user@example.com wrote",
    ],
)
def test_what_is_no_credential_stays(text: str) -> None:
    assert mask_credentials(text) == text


def test_values_that_are_known_to_be_secret_are_masked_wherever_they_stand() -> None:
    assert mask_credentials("no such user: hunter22", "hunter22", None, "") == "no such user: ***"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("serach", "search"),
        ("stauts", "status"),
        ("serch", "search"),
        ("Search", "search"),
        ("foo", None),
        ("", None),
        ("x" * 10_000, None),
    ],
)
def test_the_nearest_name_is_found_or_none(given: str, meant: str | None) -> None:
    assert nearest_name(given, ["up", "search", "status", "plan"]) == meant


def test_a_synonym_counts_only_for_a_name_that_is_known() -> None:
    assert nearest_name("top_k", ["limit", "query"], {"top-k": "limit"}) == "limit"
    assert nearest_name("top_k", ["query"], {"top_k": "limit"}) is None
