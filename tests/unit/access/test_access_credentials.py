"""Which credential a request carries."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from livedex.pipeline.access.anonymous_requests import AnonymousRequestPolicy
from livedex.pipeline.access.authenticator import CredentialAuthenticator, extract_credential
from livedex.pipeline.errors import ForbiddenError
from livedex.pipeline.http.allowed_hosts import AllowedHosts
from livedex.pipeline.http.host_names import parse_host_names, parse_origins
from livedex.pipeline.model import DEFAULT_TENANT


def headers(*pairs: tuple[str, str]) -> Headers:
    return Headers(raw=[(name.encode(), value.encode("latin-1")) for name, value in pairs])


@pytest.mark.parametrize(
    "given",
    [
        [("authorization", "Bearer k")],
        [("authorization", "bearer   k ")],
        [("x-api-key", " k ")],
        [("authorization", "Bearer k"), ("x-api-key", "k")],
        [("x-api-key", "k"), ("x-api-key", "k"), ("authorization", "")],
    ],
)
def test_a_credential_is_found_in_either_header(given: list[tuple[str, str]]) -> None:
    assert extract_credential(headers(*given)) == "k"


@pytest.mark.parametrize("given", [[], [("authorization", "  ")], [("x-api-key", "")]])
def test_nothing_is_no_credential(given: list[tuple[str, str]]) -> None:
    assert extract_credential(headers(*given)) is None


@pytest.mark.parametrize(
    "given",
    [
        [("authorization", "Bearer k"), ("x-api-key", "other")],
        [("x-api-key", "k"), ("x-api-key", "other")],
        [("authorization", "Bearer k"), ("authorization", "Bearer other")],
        [("authorization", "Basic azpr")],
        [("authorization", "Bearer")],
        [("authorization", "k")],
        [("authorization", "Basic azpr"), ("x-api-key", "k")],
    ],
)
def test_several_credentials_or_one_of_another_kind_are_refused(
    given: list[tuple[str, str]],
) -> None:
    with pytest.raises(HTTPException) as refused:
        extract_credential(headers(*given))
    assert refused.value.status_code == 401
    assert refused.value.headers is not None and refused.value.headers[
        "WWW-Authenticate"
    ].startswith("Bearer")


class _NoKeys:
    """The ring of a service that has no keys."""

    async def was_any_made(self) -> bool:
        return False


def keyless(**more: Any) -> CredentialAuthenticator:
    # no key is shown
    return CredentialAuthenticator(
        _NoKeys(), DEFAULT_TENANT, keyless=AnonymousRequestPolicy(**more)
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8700",
        "127.0.0.1:8700",
        "127.1.2.3",
        "[::1]:8700",
        "a.localhost:80",
        "localhost.",
    ],
)
async def test_without_a_key_a_name_of_this_machine_is_answered(host: str) -> None:
    for bound in ("127.0.0.1", "0.0.0.0", "::"):
        tenancy = keyless(hosts=AllowedHosts(bound=bound))
        assert (await tenancy.caller_of(headers(("host", host)))).tenant_id == DEFAULT_TENANT


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example",
        "127.0.0.1.attacker.example:8700",
        "localhost.attacker.example",
        "10.0.0.1",
        "[::2]",
        "",
        "[",
        ":",
        "0.0.0.0:8700",
        "localhost@evil.example",
        "evil.example#localhost",
        "[::1]evil.example",
        "127.0.0.1:8700:evil.example",
        "::1.evil.example",
    ],
)
async def test_without_a_key_a_name_that_somebody_may_have_pointed_here_is_not_answered(
    host: str,
) -> None:
    for bound in ("127.0.0.1", "0.0.0.0", "::"):
        with pytest.raises(ForbiddenError):
            await keyless(hosts=AllowedHosts(bound=bound)).caller_of(headers(("host", host)))


async def test_a_request_that_names_two_hosts_is_not_answered_without_a_key() -> None:
    with pytest.raises(ForbiddenError):
        await keyless(hosts=AllowedHosts()).caller_of(
            headers(("host", "localhost"), ("host", "evil.example"))
        )


@pytest.mark.parametrize(
    "host",
    [
        "search.example:8700",
        "SEARCH.example.",
        "a.b.wild.example",
        "10.0.0.5:80",
        "[fd00::5]:8700",
        "localhost",
    ],
)
async def test_a_name_that_the_settings_allow_is_answered(host: str) -> None:
    hosts = AllowedHosts(
        parse_host_names("search.example, *.wild.example,10.0.0.5,[fd00::5]"), bound="0.0.0.0"
    )
    assert await keyless(hosts=hosts).caller_of(headers(("host", host)))
    for other in ("wild.example", "evilwild.example", "search.example.evil", "10.0.0.50"):
        with pytest.raises(ForbiddenError):
            await keyless(hosts=hosts).caller_of(headers(("host", other)))


@pytest.mark.parametrize(
    "name",
    [
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "x-forwarded-proto",
        "X-Real-IP",
        "Via",
        "CF-Connecting-IP",
        "True-Client-IP",
        "X-Forwarded",
    ],
)
async def test_a_forwarded_request_is_never_local(name: str) -> None:
    given = headers(("host", "127.0.0.1"), (name, "for=127.0.0.1"))
    with pytest.raises(ForbiddenError, match="proxy"):
        await keyless(hosts=AllowedHosts(bound="127.0.0.1")).caller_of(given)
    assert await keyless(hosts=AllowedHosts(), may_be_forwarded=True).caller_of(given)


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://127.0.0.1:3000",
        "http://localhost:8700",
        "https://app.example.evil",
    ],
)
async def test_a_page_of_another_site_is_not_answered_without_a_key(origin: str) -> None:
    tenancy = keyless(hosts=AllowedHosts(), origins=parse_origins("https://app.example"))
    with pytest.raises(ForbiddenError, match="page"):
        await tenancy.caller_of(headers(("host", "127.0.0.1:8700"), ("origin", origin)))
    for ours in ("http://127.0.0.1:8700", "https://app.example"):
        assert await tenancy.caller_of(headers(("host", "127.0.0.1:8700"), ("origin", ours)))


@pytest.mark.parametrize(
    "listed", ["http://a.example", "a.example:8700", "a b", "*.*", "a,,b/c", "?"]
)
def test_what_is_no_host_name_is_refused(listed: str) -> None:
    with pytest.raises(ValueError, match="is not a host name"):
        parse_host_names(listed)


@pytest.mark.parametrize(
    "listed",
    [
        "*",
        "app.example",
        "https://app.example/",
        "https://*.example",
        "HTTPS://app.example",
        "https://u@a.example",
        "ftp://a.b",
        "https://a.example:443",
        "null",
    ],
)
def test_what_is_no_exact_origin_is_refused(listed: str) -> None:
    with pytest.raises(ValueError, match=r"origin|port"):
        parse_origins(listed)


@pytest.mark.parametrize(
    ("site", "dest", "is_answered"),
    [
        ("cross-site", "image", False),
        ("cross-site", "script", False),
        ("Cross-Site", "empty", False),
        ("same-site", "object", False),
        ("cross-site", "iframe", False),
        ("cross-site", "document", True),
        ("same-origin", "empty", True),
        ("none", "document", True),
    ],
)
async def test_what_a_page_of_another_site_embeds_is_not_answered_without_a_key(
    site: str, dest: str, is_answered: bool
) -> None:
    tenancy = keyless(hosts=AllowedHosts(), origins=parse_origins("https://app.example"))
    sent = (("host", "127.0.0.1:8700"), ("sec-fetch-site", site), ("sec-fetch-dest", dest))
    if is_answered:
        assert await tenancy.caller_of(headers(*sent))
    else:
        with pytest.raises(ForbiddenError, match="page"):
            await tenancy.caller_of(headers(*sent))
    assert await tenancy.caller_of(headers(*sent, ("origin", "https://app.example")))
