"""Which addresses and hosts may be reached, in every form that they are written in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedex.pipeline.fetch.host_allowlist import HostAllowlist, is_ip_address, normalize_host
from livedex.pipeline.fetch.ip_addresses import classify_address
from livedex.pipeline.fetch.urls import parse_url

PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "172.15.255.255",
    "172.32.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "192.167.1.1",
    "223.255.255.255",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]
INNER = [
    "127.0.0.1",
    "127.255.255.255",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "100.64.0.1",
    "198.18.0.1",
    "::1",
    "fc00::1",
    "fd12:3456::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::7f00:1",
]
NEAR = [
    "169.254.169.254",
    "169.254.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "168.63.129.16",
    "100.100.100.200",
]
NONE = [
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "192.88.99.1",
    "ff02::1",
    "2001:db8::1",
    "2001::1",
    "2002:7f00:1::",
    "64:ff9b:1::1",
    "3fff::1",
    "fec0::1",
    "::7f00:1",
    "100::1",
    "5f00::1",
]


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        (kind, address)
        for kind, addresses in (
            ("public", PUBLIC),
            ("inner", INNER),
            ("near", NEAR),
            ("none", NONE),
        )
        for address in addresses
    ],
)
def test_every_address_is_of_one_kind(kind: str, address: str) -> None:
    assert classify_address(address) == kind


@given(st.ip_addresses())
def test_what_python_does_not_take_for_global_is_never_public(address: object) -> None:
    if not address.is_global and not (address.version == 6 and address.ipv4_mapped):
        assert classify_address(str(address)) != "public"


def test_a_host_that_is_named_may_be_inside_and_no_other() -> None:
    allowed = HostAllowlist(
        ["minio.internal", "gitlab.corp:8443", "10.0.0.7", "[fd12::1]:80", "Bücher.example."]
    )
    assert allowed.allow("10.1.1.1", "minio.internal", 9000)
    assert allowed.allow("10.1.1.1", "gitlab.corp", 8443) and not allowed.allow(
        "10.1.1.1", "gitlab.corp", 443
    )
    assert allowed.allow("10.0.0.7", "10.0.0.7", 80) and not allowed.allow(
        "10.0.0.8", "10.0.0.8", 80
    )
    assert allowed.allow("fd12::1", "fd12::1", 80) and not allowed.allow("fd12::1", "fd12::1", 81)
    assert allowed.allow("127.0.0.1", "xn--bcher-kva.example", 80)
    assert not allowed.allow("10.1.1.1", "other.internal", 9000)
    assert allowed.allow("8.8.8.8", "other.internal", 9000)


def test_a_name_never_leads_to_where_clouds_tell_credentials_unless_that_address_is_named() -> None:
    assert not HostAllowlist(["meta.internal"]).allow("169.254.169.254", "meta.internal", 80)
    assert HostAllowlist(["169.254.169.254"]).allow("169.254.169.254", "169.254.169.254", 80)
    assert not HostAllowlist(["meta.internal", "0.0.0.0"]).allow("0.0.0.0", "0.0.0.0", 80)


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "a/b",
        "http://a",
        "a:0",
        "a:70000",
        "a:b",
        "user@a",
        "127.1",
        "0x7f.1",
        "[::1",
        "a b",
        "*.a",
    ],
)
def test_what_names_no_host_is_no_entry(entry: str) -> None:
    with pytest.raises(ValueError, match=r"HOST|port"):
        HostAllowlist([entry])


@pytest.mark.parametrize(
    "host",
    [
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "127.0.0.01",
        "017700000001",
        "256.1.1.1",
        "1.2.3.4.5",
        "a.0x7f",
        "1.2.3",
        "0x",
        "fe80::1%1",
        "a..b",
        "-a.b",
        "a b",
        "a\x00b",
        "x" * 64 + ".de",
        ".".join(["a" * 60] * 5),
        "",
        ".",
        "１２７.1",
    ],
)
def test_a_host_in_a_form_that_others_read_otherwise_is_none(host: str) -> None:
    with pytest.raises(ValueError, match=r"^(?:the host|an address)"):
        normalize_host(host)


@pytest.mark.parametrize(
    ("host", "plain"),
    [
        ("EXAMPLE.com", "example.com"),
        ("example.com.", "example.com"),
        ("127.0.0.1.", "127.0.0.1"),
        ("１２７.０.０.１", "127.0.0.1"),
        ("ⓔxample.com", "example.com"),
        ("bücher.de", "xn--bcher-kva.de"),
        ("my_host", "my_host"),
        ("::FFFF:7F00:1", "::ffff:7f00:1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("例え。テスト", "xn--r8jz45g.xn--zckzah"),
        ("1a.de", "1a.de"),
    ],
)
def test_a_host_has_one_form(host: str, plain: str) -> None:
    assert normalize_host(host) == plain


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://a/",
        "ftp://a/",
        "javascript:alert(1)",
        "//a/b",
        "a",
        "",
        "http://",
        "http:///x",
        "http://user@a/",
        "http://a:b@c/",
        "http://a@b@c/",
        "http://a\\@b/",
        "http:\\\\a/",
        "http://a:0/",
        "http://a:99999/",
        "http://a:b/",
        "http://a b/",
        "http://a/\n",
        "\thttp://a/",
        "http://a/ b",
        "http://a\r\nHost: b/",
        "http://[::1",
        "http://[v1.a]/",
        "http://[127.0.0.1]/",
        "http://127.1/",
        "http://a%2eb/",
        "http://a/" + "x" * 9000,
        "http://０x7f000001/",
        "http://a\u2028b/",
        "http://a#@b/\x00",
    ],
)
def test_a_url_that_could_mean_another_host_is_none(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_url(url)


def test_a_url_keeps_its_path_to_the_letter() -> None:
    place = parse_url("HTTPS://Docs.Example.:443/a%2Fb/../c%20d/größe?x=1&y=a%26b&z=ü#fragment")
    assert place.url == "https://docs.example/a%2Fb/../c%20d/gr%C3%B6%C3%9Fe?x=1&y=a%26b&z=%C3%BC"
    assert (place.host, place.port, place.origin) == (
        "docs.example",
        443,
        ("https", "docs.example", 443),
    )
    assert parse_url("http://[::1]:8080").url == "http://[::1]:8080/"
    assert parse_url("http://a#b@c/d").url == "http://a/"


@given(st.text(max_size=60))
def test_whatever_is_taken_apart_has_a_host_that_is_looked_at(text: str) -> None:
    try:
        place = parse_url(f"http://{text}")
    except ValueError:
        return
    assert place.host.isascii() and place.host == normalize_host(place.host)
    assert (
        place.target.startswith(("/", "?"))
        and place.target.isascii()
        and place.target.isprintable()
        and " " not in place.target
    )
    assert is_ip_address(place.host) or place.host.strip("0123456789.") != ""
