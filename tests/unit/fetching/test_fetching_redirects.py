"""Nothing that may not be reached gets a byte, whatever names, redirects and name servers say."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from livedex.pipeline.errors import RejectedError, RetryableError
from livedex.pipeline.fetch.fetcher import FetchRequest, HttpFetcher
from livedex.pipeline.fetch.host_allowlist import HostAllowlist
from livedex.pipeline.fetch.ssrf_guard import NoPublicAddressError
from tests.support.http.certificates import CertificateAuthority
from tests.support.http.scripted_website import WebResponse, WebServer, redirect
from tests.unit.fetching.client import QUICK, FakeResolver, FetchClient

TOKEN = ("Authorization", "Bearer of-the-source")
INNER_FORMS = [
    "http://127.0.0.1:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::1]:{port}/",
    "http://0.0.0.0:{port}/",
    "http://[::]:{port}/",
    "http://0x7f000001:{port}/",
    "http://2130706433:{port}/",
    "http://127.1:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://１２７.0.0.1:{port}/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[::ffff:169.254.169.254]/",
    "http://[64:ff9b::7f00:1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://100.64.0.1/",
    "http://10.0.0.1/",
    "http://public.test@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\@public.test/",
    "http://inner.test:{port}/",
    "http://mixed.test:{port}/",
    "http://INNER.test.:{port}/",
    "file:///etc/hostname",
    "http://[fe80::1%25lo]:{port}/",
]


@pytest.fixture
def stranger(web: WebServer, names: FakeResolver) -> FetchClient:
    """Who may reach public servers alone; `public.test` has a public address that nothing here
    connects to.
    """
    client = FetchClient(web, names)
    client.allowed = HostAllowlist()
    names.answers |= {"inner.test": [["127.0.0.1"]], "mixed.test": [["8.8.8.8", "127.0.0.1"]]}
    return client


@pytest.mark.parametrize("form", INNER_FORMS)
async def test_an_inner_address_is_refused_in_every_form_before_anything_is_sent(
    stranger: FetchClient, form: str
) -> None:
    with pytest.raises((RejectedError, NoPublicAddressError)) as refused:
        await stranger.get(form.format(port=stranger.web.port))
    assert getattr(refused.value, "reason", "address_refused") == "address_refused"
    assert stranger.web.connections == 0
    assert "8.8.8.8" not in str(refused.value) and "inner" not in str(refused.value).replace(
        "inner.test", ""
    )


@pytest.mark.parametrize("form", INNER_FORMS)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_looked_at_like_the_first_url(
    web: WebServer, client: FetchClient, names: FakeResolver, form: str, status: int
) -> None:
    names.answers |= {"inner.test": [["127.0.0.1"]], "mixed.test": [["8.8.8.8", "127.0.0.1"]]}
    client.allowed = HostAllowlist([f"web.test:{web.port}"])
    with WebServer() as inside:
        web.pages["/"] = redirect(form.format(port=inside.port), status)
        with pytest.raises((RejectedError, NoPublicAddressError)) as refused:
            await client.get("/", credential=TOKEN)
        assert getattr(refused.value, "reason", "address_refused") == "address_refused"
        assert (inside.connections, len(web.requests)) == (0, 1)


async def test_nothing_tells_whether_an_inner_name_exists(
    web: WebServer, client: FetchClient, names: FakeResolver
) -> None:
    names.answers |= {
        "inner.test": [["10.0.0.1"]] * 3,
        "mixed.test": [["8.8.8.8", "127.0.0.1"]] * 3,
        "none.test": [[]] * 3,
    }
    client.allowed = HostAllowlist([f"web.test:{web.port}"])
    said = set()
    for name in ("inner.test", "mixed.test", "none.test"):
        web.pages["/to"] = redirect(f"http://{name}/x", 302)
        for url in (f"http://{name}/x", "/to"):
            with pytest.raises(NoPublicAddressError) as refused:
                await client.get(url)
            error = refused.value
            said.add(
                (
                    str(error).replace(name, ""),
                    error.first_retry_delay_s,
                    error.retry_after_s,
                    error.retry_for_s,
                    type(error),
                )
            )
    assert len(said) == 1


async def test_a_name_that_leads_elsewhere_the_second_time_is_not_asked_a_second_time(
    web: WebServer, names: FakeResolver
) -> None:
    names.answers["rebind.test"] = [["127.0.0.1"], ["10.9.9.9"]]
    client = FetchClient(web, names)
    client.allowed = HostAllowlist(["rebind.test"])
    web.pages["/"] = WebResponse(b"text")
    found = await client.get(f"http://rebind.test:{web.port}/")
    assert found is not None and (found.content, names.asked) == (b"text", ["rebind.test"])
    assert web.requests[0].headers["host"] == f"rebind.test:{web.port}"


async def test_the_second_answer_of_a_name_is_looked_at_when_a_redirect_comes_back_to_it(
    web: WebServer, names: FakeResolver
) -> None:
    names.answers["rebind.test"] = [["8.8.8.8"], ["127.0.0.1"]]
    client = FetchClient(web, names)
    web.pages["/"] = redirect(f"http://rebind.test:{web.port}/")
    await names("rebind.test", 80)
    with pytest.raises((RejectedError, NoPublicAddressError)):
        await client.get("/")
    assert [visit.target for visit in web.requests] == ["/"]


@pytest.mark.parametrize(
    "error",
    [
        socket.gaierror(socket.EAI_NONAME, "x"),
        socket.gaierror(socket.EAI_AGAIN, "x"),
        OSError("x"),
        UnicodeError("x"),
    ],
)
async def test_a_name_server_that_fails_lets_nobody_through(
    web: WebServer, error: Exception
) -> None:
    async def failing(host: str, port: int) -> list[str]:
        raise error

    with pytest.raises(RetryableError):
        async with HttpFetcher(QUICK, failing).get(
            FetchRequest("http://nowhere.test/", allowed=HostAllowlist(["nowhere.test"]))
        ):
            raise AssertionError
    with pytest.raises(RetryableError):
        async with HttpFetcher(QUICK, lambda host, port: _none()).get(
            FetchRequest("http://nowhere.test/")
        ):
            raise AssertionError


async def _none() -> list[str]:
    return []


@pytest.mark.parametrize("answer", [["no address"], ["127.0.0.1.5"], ["8.8.8.8", ""]])
async def test_an_answer_that_is_no_address_is_refused(
    client: FetchClient, names: FakeResolver, answer: list[str]
) -> None:
    names.answers["odd.test"] = [answer]
    with pytest.raises((RejectedError, NoPublicAddressError)):
        await client.get("http://odd.test/")


async def test_a_credential_goes_to_its_own_origin_alone_and_is_not_picked_up_again(
    web: WebServer, client: FetchClient
) -> None:
    with WebServer() as other:
        client.allowed = HostAllowlist([f"web.test:{web.port}", f"127.0.0.1:{other.port}"])
        origin = ("http", "web.test", web.port)
        web.pages |= {
            "/": redirect("/here"),
            "/here": redirect(f"{other.url}/there"),
            "/back": WebResponse(b"text"),
        }
        other.pages["/there"] = redirect(f"http://web.test:{web.port}/back")
        found = await client.get("/", credential=TOKEN, for_origin=origin)
        assert found is not None and found.content == b"text"
        assert [visit.headers.get("authorization") for visit in web.requests] == [
            TOKEN[1],
            TOKEN[1],
            None,
        ]
        assert [visit.headers.get("authorization") for visit in other.requests] == [None]
        await client.get(f"{other.url}/there", credential=TOKEN, for_origin=origin)
        assert (
            other.requests[-1].headers.get("authorization") is None
            and web.requests[-1].headers.get("authorization") is None
        )


async def test_redirects_end_after_a_few(web: WebServer, client: FetchClient) -> None:
    web.pages |= {f"/{n}": redirect(f"/{n + 1}") for n in range(20)}
    with pytest.raises(RejectedError, match="redirects"):
        await client.get("/0")
    assert len(web.requests) == QUICK.max_redirects + 1
    web.pages["/loop"] = redirect("/loop")
    with pytest.raises(RejectedError, match="redirects"):
        await client.get("/loop")


@pytest.mark.parametrize(
    "location", ["", "http://", "mailto:a@b", "http://a@b/", "\\\\a\\b", "data:text/plain,hello"]
)
async def test_a_redirect_to_nowhere_is_refused_without_repeating_it(
    web: WebServer, client: FetchClient, location: str
) -> None:
    web.pages["/"] = redirect(location)
    with pytest.raises((RejectedError, NoPublicAddressError)) as refused:
        await client.get("/")
    assert "a@b" not in str(refused.value)


async def test_a_proxy_of_the_environment_is_not_used(
    web: WebServer, client: FetchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WebServer() as proxy:
        for name in (
            "HTTP_PROXY",
            "http_proxy",
            "ALL_PROXY",
            "all_proxy",
            "HTTPS_PROXY",
            "https_proxy",
        ):
            monkeypatch.setenv(name, proxy.url)
        web.pages["/"] = WebResponse(b"text")
        assert (await client.get("/")) is not None
        assert proxy.connections == 0


async def test_tls_is_spoken_with_the_name_while_the_connection_goes_to_the_address(
    tmp_path: Path, names: FakeResolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = CertificateAuthority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    names.answers |= {"docs.test": [["127.0.0.1"]], "other.test": [["127.0.0.1"]]}
    with WebServer(authority.serving("docs.test")) as web:
        web.pages |= {"/": WebResponse(b"text"), "/down": redirect(f"http://docs.test:{web.port}/")}
        client = FetchClient(web, names)
        client.allowed = HostAllowlist(["docs.test", "other.test"])
        found = await client.get(f"https://docs.test:{web.port}/")
        assert found is not None and found.content == b"text"
        assert (web.requests[0].server_name, web.requests[0].headers["host"]) == (
            "docs.test",
            f"docs.test:{web.port}",
        )
        with pytest.raises(RetryableError):  # the certificate is another one's
            await client.get(f"https://other.test:{web.port}/")
        with pytest.raises(RejectedError, match="https to http"):
            await client.get(f"https://docs.test:{web.port}/down")
        assert len(web.requests) == 2
