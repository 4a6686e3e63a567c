"""HTTP clients honour proxies and certificates of the environment, and what is wrong there is
named.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import certifi
import pytest

from livedex.pipeline.embedding.embedder_factory import build_embedder
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.http.outbound_client import open_http_client, proxy_for, trusted_certificates

PROXY = "http://proxy:3128"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("https://api.example/v1", {}, None),
        ("https://api.example/v1", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://api.example/v1", {"https_proxy": PROXY, "HTTPS_PROXY": "http://other:1"}, PROXY),
        ("https://api.example/v1", {"HTTP_PROXY": PROXY}, None),
        ("http://api.example/v1", {"HTTP_PROXY": "proxy:3128"}, PROXY),
        ("https://api.example/v1", {"ALL_PROXY": "socks5://proxy:1080"}, "socks5://proxy:1080"),
        ("https://api.example/v1", {"ALL_PROXY": "socks5h://proxy:1080"}, "socks5h://proxy:1080"),
        ("https://api.example/v1", {"HTTPS_PROXY": "", "ALL_PROXY": PROXY}, PROXY),
        ("http://localhost:8080/v1", {"ALL_PROXY": PROXY}, None),
        ("http://127.0.0.1:8080/v1", {"HTTP_PROXY": PROXY}, None),
        ("http://[::1]:8080/v1", {"ALL_PROXY": "nonsense://"}, None),
        ("https://api.example/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, None),
        ("https://api.example/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "example"}, None),
        ("https://api.example/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": ".example, x"}, None),
        ("https://api.example/v1", {"HTTPS_PROXY": PROXY, "no_proxy": "*.EXAMPLE"}, None),
        ("https://api.example/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "ample"}, PROXY),
        (
            "https://api.example:8443/v1",
            {"HTTPS_PROXY": PROXY, "NO_PROXY": "api.example:8443"},
            None,
        ),
        (
            "https://api.example:8444/v1",
            {"HTTPS_PROXY": PROXY, "NO_PROXY": "api.example:8443"},
            PROXY,
        ),
        ("http://[fd00::5]:80/v1", {"HTTP_PROXY": PROXY, "NO_PROXY": "fd00::/8"}, None),
        (
            "http://[fd00::5]:80/v1",
            {"HTTP_PROXY": PROXY, "NO_PROXY": "localhost,127.0.0.1,::1,fd00::5"},
            None,
        ),
        ("http://[fd00::5]:80/v1", {"HTTP_PROXY": PROXY, "NO_PROXY": "[fd00::5]"}, None),
        ("http://[fd00::5]:81/v1", {"HTTP_PROXY": PROXY, "NO_PROXY": "[fd00::5]:81"}, None),
        ("http://[fd00::5]:80/v1", {"HTTP_PROXY": PROXY, "NO_PROXY": "::1,10.0.0.0/8,,"}, PROXY),
        ("http://10.1.2.3/v1", {"HTTP_PROXY": PROXY, "NO_PROXY": "::1 10.0.0.0/8"}, None),
    ],
)
def test_the_proxy_that_applies_is_chosen(
    url: str, environment: dict[str, str], proxy: str | None
) -> None:
    assert proxy_for(url, environment) == proxy


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "ALL_PROXY", "https_proxy", "all_proxy"])
@pytest.mark.parametrize(
    "value",
    [
        "ftp://user:s3cr3t@proxy:21",
        "http://user:s3cr3t@proxy:999999",
        "http://user:s3cr3t@proxy:x",
        "socks4://user:s3cr3t@proxy",
        "http://",
    ],
)
def test_a_variable_that_names_no_proxy_is_named_without_its_password(
    name: str, value: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{name} ") as refused:
        proxy_for("https://api.example/v1", {name: value})
    assert "s3cr3t" not in str(refused.value) and "unset it" in str(refused.value)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_missing_ca_certificates_stop_a_remote_embedder_and_name_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match=f"^{variable}: .*does not exist"):
        build_embedder("openai:m", url="https://api.example/v1")
    assert build_embedder("openai:m", url="http://localhost:1/v1") and build_embedder("local"), (
        "what needs no certificates does not look"
    )
    if variable == "SSL_CERT_FILE":
        (tmp_path / "missing").write_text("no certificate")
        with pytest.raises(ConfigError, match=f"^{variable}: .*has no certificates"):
            trusted_certificates()


def test_the_certificates_of_the_environment_are_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    assert trusted_certificates().cert_store_stats()["x509_ca"] > 50
    monkeypatch.delenv("SSL_CERT_FILE")
    assert trusted_certificates().cert_store_stats()["x509_ca"] > 50


async def test_a_server_is_reached_through_a_socks_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    async def socks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly((await reader.readexactly(2))[1])
        writer.write(b"\x05\x00")
        _, _, _, kind = await reader.readexactly(4)
        length = (await reader.readexactly(1))[0] if kind == 3 else 4
        asked.append(await reader.readexactly(length + 2))
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(socks, "127.0.0.1", 0, family=socket.AF_INET)
    async with server:
        monkeypatch.setenv("ALL_PROXY", f"socks5://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with open_http_client("http://models.example/v1") as http:
            assert (await http.get("http://models.example/v1")).text == "ok"
    assert asked == [b"models.example\x00\x50"]
