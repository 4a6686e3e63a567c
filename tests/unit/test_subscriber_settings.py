"""What a `[[subscriber]]` may say, and what refuses to start."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.settings import Settings, load_settings
from livedex.pipeline.settings.subscriber import signing_keys

NAMED = '[[subscriber]]\nname = "shop"\n'
TOLD = NAMED + 'url = "https://shop.example/hook?token=hidden"\nsecret_env = "SHOP"\n'
SECRETS = {
    "SHOP": "whsec_" + base64.b64encode(bytes(32)).decode(),
    "OLD": "whsec_" + base64.b64encode(bytes(range(24))).decode(),
}


def load(folder: Path, text: str) -> Settings:
    (folder / "livedex.toml").write_text(text, "utf-8")
    return load_settings(folder, {})


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        load(folder, text)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_subscriber_wants_everything_of_its_tenant_unless_it_says_otherwise(
    tmp_path: Path,
) -> None:
    [shop] = load(tmp_path, TOLD).subscriber
    assert (shop.tenant, shop.events, shop.collection, shop.attempts, shop.keep_days) == (
        "default",
        ("synced", "deleted", "dead"),
        (),
        10,
        7,
    )
    assert signing_keys(shop, SECRETS) == (bytes(32),)
    [reader] = load(
        tmp_path, NAMED + 'events = "dead"\ncollection = ["a", "b"]\ntenant = "acme"\n'
    ).subscriber
    assert (reader.url, reader.events, reader.collection, reader.tenant) == (
        None,
        ("dead",),
        ("a", "b"),
        "acme",
    )


def test_all_secrets_sign_while_one_is_changed(tmp_path: Path) -> None:
    [shop] = load(tmp_path, TOLD.replace('"SHOP"', '["SHOP", "OLD"]')).subscriber
    assert signing_keys(shop, SECRETS) == (bytes(32), bytes(range(24)))


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "  ",
        "whsec_",
        "secret",
        "whsec_????",
        "whsec_" + base64.b64encode(bytes(23)).decode(),
    ],
)
def test_without_a_good_secret_nothing_is_sent_and_the_secret_is_not_repeated(
    tmp_path: Path, value: str | None
) -> None:
    [shop] = load(tmp_path, TOLD).subscriber
    with pytest.raises(ConfigError) as refused:
        signing_keys(shop, {} if value is None else {"SHOP": value})
    assert "SHOP" in str(refused.value)
    if value and value.strip() not in ("", "whsec_", "secret"):
        assert value not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("http://shop.example/", "https"),
        ("ftp://shop.example/", "its url is invalid"),
        ("https://user:hidden@shop.example/", "user"),
        ("https://127.1/", "its url is invalid"),
        ("https:///hidden", "its url is invalid"),
        ("file:///etc/hidden", "its url is invalid"),
        ("https://shop.example/hid den", "its url is invalid"),
    ],
)
def test_a_url_that_cannot_be_told_refuses_to_start_and_is_not_repeated(
    tmp_path: Path, url: str, named: str
) -> None:
    said = refusal(tmp_path, TOLD.replace("https://shop.example/hook?token=hidden", url))
    assert named in said
    assert "hidden" not in said


def test_plain_http_is_for_hosts_that_are_named(tmp_path: Path) -> None:
    text = TOLD.replace("https://shop.example/hook?token=hidden", "http://127.0.0.1:9000/hook")
    assert "allow_hosts" in refusal(tmp_path, text)
    assert "allow_hosts" in refusal(tmp_path, text + 'allow_hosts = ["127.0.0.1:9001"]\n')
    assert (
        load(tmp_path, text + 'allow_hosts = ["127.0.0.1:9000"]\n').subscriber[0].place.port == 9000
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (TOLD.replace('secret_env = "SHOP"\n', ""), "secret_env"),
        (NAMED + 'secret_env = "SHOP"\n', "url"),
        (NAMED + "events = []\n", "events"),
        (NAMED + 'events = ["changed"]\n', "events"),
        (NAMED + 'name2 = "x"\n', "name2"),
        (NAMED + "keep_days = 0\n", "keep_days"),
        (TOLD + "attempts = 11\n", "attempts"),
        (TOLD + 'allow_hosts = ["http://x"]\n', "HOST"),
        (TOLD + NAMED, "two subscribers have the name shop"),
    ],
)
def test_what_makes_no_sense_is_named_in_one_line(tmp_path: Path, text: str, named: str) -> None:
    assert named in refusal(tmp_path, text)


def test_neither_urls_nor_secrets_are_shown_by_the_settings(tmp_path: Path) -> None:
    assert "hidden" not in repr(load(tmp_path, TOLD))
