"""With which rights contents are fetched, and that credentials go where the operator says and
nowhere else.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from livedex.connectors.webhook.api_credentials import check_tokens, sends_token_to
from livedex.connectors.webhook.presets.s3 import signed
from livedex.connectors.webhook.source_fetcher import SourceFetcher
from livedex.pipeline.errors import (
    ConfigError,
    InsufficientScopeError,
    NoTextError,
    RejectedError,
    RetryableError,
    UnexpectedResponseError,
)
from livedex.pipeline.fetch.fetcher import HttpFetcher
from livedex.pipeline.ingest.change_request import redact_url
from livedex.pipeline.model import TenantId
from livedex.pipeline.settings.fetch import FetchSettings
from livedex.pipeline.settings.webhook_source import WebhookSource
from livedex.pipeline.stages.remote_content import FetchedContent
from tests.support.http.scripted_website import WebResponse, WebServer, redirect

ENVIRONMENT = {"TOKEN": "tok-1", "BUCKET": "AK:SK", "BASIC": "Basic dTpw"}
T = TenantId("acme")


@pytest.fixture
def api() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


@pytest.fixture
def other() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


def source(**given: Any) -> WebhookSource:
    order = {"order": "arrival"} if "map" in given else {}
    return WebhookSource(
        **{"name": "src", "tenant": "acme", "secret_env": "S", "signature": "github"}
        | order
        | given
    )


def contents(
    *sources: WebhookSource,
    most: int = 10_000,
    environment: Mapping[str, str] | None = None,
    **settings: Any,
) -> SourceFetcher:
    return SourceFetcher(
        sources,
        FetchSettings(**settings),
        HttpFetcher(),
        max_document_bytes=most,
        environment=ENVIRONMENT if environment is None else environment,
    )


async def got(
    of: SourceFetcher, url: str, *, name: str = "src", tenant: TenantId = T
) -> FetchedContent:
    async with of.fetch(tenant, name, url) as found:
        assert found is not None
        return found


async def test_a_token_goes_to_the_api_of_its_source_alone(
    api: WebServer, other: WebServer
) -> None:
    made = source(
        map={"document_id": "id", "url": "url"},
        base_url=f"{api.url}/v1",
        token_env="TOKEN",
        allow_hosts=[f"127.0.0.1:{other.port}"],
    )
    of = contents(made)
    for web in (api, other):
        web.pages |= {"/v1/a": WebResponse(b"text"), "/out": redirect(f"{other.url}/v1/a")}
    assert (await got(of, f"{api.url}/v1/a")).content == b"text"
    assert api.requests[-1].headers["authorization"] == "Bearer tok-1"
    await got(of, f"{other.url}/v1/a")
    await got(of, f"{api.url}/out")
    assert [visit.headers.get("authorization") for visit in other.requests] == [None, None]
    assert (sends_token_to(made, f"{api.url}/x"), sends_token_to(made, f"{other.url}/x")) == (
        True,
        False,
    )


async def test_another_tenant_gets_neither_the_token_nor_the_hosts_of_a_source(
    api: WebServer,
) -> None:
    of = contents(
        source(map={"document_id": "id", "url": "url"}, base_url=api.url, token_env="TOKEN")
    )
    for tenant, name in (
        (TenantId("other"), "src"),
        (T, ""),
        (T, "nobody"),
        (TenantId("default"), "src"),
    ):
        assert of.refusal_reason(tenant, name, f"{api.url}/a") is not None
        with pytest.raises(RejectedError) as refused:
            await got(of, f"{api.url}/a", name=name, tenant=tenant)
        assert refused.value.reason == "address_refused"
    assert api.connections == 0 and of.refusal_reason(T, "src", f"{api.url}/a") is None


async def test_hosts_of_the_settings_count_for_what_is_sent_with_a_key_and_not_for_sources(
    api: WebServer,
) -> None:
    of = contents(
        source(map={"document_id": "id", "url": "url"}),
        allow_hosts=f"localhost, 127.0.0.1:{api.port}",
    )
    api.pages["/a"] = WebResponse(b"text")
    assert (await got(of, f"{api.url}/a", name="")).content == b"text"
    with pytest.raises(RejectedError):
        await got(of, f"{api.url}/a")


@pytest.mark.parametrize(
    ("preset", "answer", "content"),
    [
        ("notion", b'{"markdown": "# T", "truncated": false}', b"# T"),
        ("confluence", b'{"body": {"export_view": {"value": "<p>a</p>"}}}', b"<p>a</p>"),
        ("github-push", b"# raw", b"# raw"),
        ("gitlab-push", b"# raw", b"# raw"),
    ],
)
async def test_a_content_is_taken_out_of_what_the_api_answers(
    api: WebServer, preset: str, answer: bytes, content: bytes
) -> None:
    of = contents(source(preset=preset, base_url=api.url))
    api.pages["/a.md"] = WebResponse(
        answer,
        headers={"content-type": "application/vnd.something+json; charset=utf-8", "etag": '"1"'},
    )
    found = await got(of, f"{api.url}/a.md")
    assert (found.content, found.mime_type, found.name) == (content, None, "")
    assert found.validator is not None and found.validator.etag == '"1"'


@pytest.mark.parametrize(
    ("name", "is_file"), [("a.json", True), ("A.JSON", True), ("ajson", False), ("a.md", False)]
)
async def test_json_from_gitlab_is_a_file_only_where_the_file_is_called_so(
    api: WebServer, name: str, is_file: bool
) -> None:
    of = contents(source(preset="gitlab-push", base_url=api.url))
    api.pages[f"/files/{name}/raw"] = WebResponse(
        b'{"message": "log in"}', headers={"content-type": "application/json"}
    )
    if is_file:
        assert (await got(of, f"{api.url}/files/{name}/raw")).content == b'{"message": "log in"}'
        return
    with pytest.raises(UnexpectedResponseError):
        await got(of, f"{api.url}/files/{name}/raw")


async def test_the_limit_is_on_the_content_and_not_on_what_is_around_it(api: WebServer) -> None:
    of = contents(source(preset="notion", base_url=api.url), most=100)
    api.pages |= {
        "/fits": WebResponse(b'{"truncated": false, "markdown": "' + b"\\u0041" * 30 + b'"}'),
        "/more": WebResponse(b'{"markdown": "' + b"a" * 101 + b'"}'),
    }
    assert (await got(of, f"{api.url}/fits")).content == b"A" * 30
    with pytest.raises(NoTextError):
        await got(of, f"{api.url}/more")
    api.pages["/none"] = WebResponse(b'{"object": "error"}')
    with pytest.raises(UnexpectedResponseError):
        await got(of, f"{api.url}/none")


@pytest.mark.parametrize("preset", ["github-push", "gitlab-push", "notion", "confluence"])
async def test_what_another_host_says_instead_of_an_api_is_no_content(
    api: WebServer, other: WebServer, preset: str
) -> None:
    of = contents(source(preset=preset, base_url=api.url, allow_hosts=[f"localhost:{other.port}"]))
    api.pages["/a.md"] = redirect(f"http://localhost:{other.port}/login")
    other.pages["/login"] = WebResponse(
        b'{"markdown": "log in", "body": {"export_view": {"value": "log in"}}}'
    )
    with pytest.raises(UnexpectedResponseError, match="leads to localhost"):
        await got(of, f"{api.url}/a.md")
    assert other.asked("/login") == 1


@pytest.mark.parametrize("packed", [False, True])
async def test_that_a_token_lacks_a_scope_is_known_by_what_is_said(
    api: WebServer, packed: bool
) -> None:
    of = contents(source(preset="gitlab-push", base_url=api.url))
    said = (
        b'{"error":"insufficient_scope","error_description":"The request requires higher '
        b'privileges.","scope":"api read_api"}'
    )
    kind = {"content-type": "application/json"}
    api.pages |= {
        "/scope": WebResponse(gzip.compress(said), 403, kind | {"content-encoding": "gzip"})
        if packed
        else WebResponse(said, 403, kind),
        "/other": WebResponse(b'{"message":"403 Forbidden"}', 403, kind),
        "/long": WebResponse(said * 1000, 403, kind),
        "/status": WebResponse(said, 401, kind),
    }
    with pytest.raises(InsufficientScopeError):
        await of.fetch_json(T, "src", f"{api.url}/scope")
    for path in ("/other", "/long", "/status"):
        with pytest.raises(UnexpectedResponseError) as refused:
            await of.fetch_json(T, "src", f"{api.url}{path}")
        assert not isinstance(refused.value, InsufficientScopeError)


@pytest.mark.parametrize(
    ("page", "lasts_s"),
    [
        (WebResponse(status=500), 600),
        (WebResponse(status=429), 600),
        (WebResponse(status=404), 180),
        (WebResponse(status=401), 180),
        (WebResponse(b"no json"), 180),
    ],
)
async def test_what_may_pass_is_tried_again_for_as_long_as_the_settings_say(
    api: WebServer, page: WebResponse, lasts_s: float
) -> None:
    of = contents(source(preset="notion", base_url=api.url), retry_s=600)
    api.pages["/a"] = page
    for ask in (got(of, f"{api.url}/a"), of.fetch_json(T, "src", f"{api.url}/a")):
        with pytest.raises(RetryableError) as failed:
            await ask
        assert failed.value.retry_for_s == lasts_s
    by_key = contents(
        source(preset="notion", base_url=api.url), retry_s=600, allow_hosts=f"127.0.0.1:{api.port}"
    )
    if page.status != 200:
        with pytest.raises(RetryableError) as failed:
            await got(by_key, f"{api.url}/a", name="events")
        assert failed.value.retry_for_s == 0, "who sends with a key sees what became of it"


def test_other_rights_are_other_names_and_give_nothing_away() -> None:
    plain, other = {"preset": "notion"}, {"preset": "notion", "token_env": "TOKEN"}
    names = {
        contents(source(**plain)).access_fingerprint(T, "src"),
        contents(source(**other)).access_fingerprint(T, "src"),
        contents(source(**other), environment={"TOKEN": "tok-2"}).access_fingerprint(T, "src"),
        contents(source(preset="github-push", token_env="TOKEN")).access_fingerprint(T, "src"),
        contents(source(**plain)).access_fingerprint(TenantId("other"), "src"),
    }
    assert len(names) == 5 and not any("tok" in name for name in names)


@pytest.mark.parametrize("value", [None, "", "  ", "a\nb", "tök"])
def test_a_token_that_is_not_there_is_found_at_the_start(value: str | None) -> None:
    environment = {} if value is None else {"TOKEN": value}
    with pytest.raises(ConfigError, match="TOKEN"):
        check_tokens([source(preset="notion", token_env="TOKEN")], environment)
    check_tokens([source(preset="notion", token_env="TOKEN")], {"TOKEN": "tok\n"})
    with pytest.raises(ConfigError, match="ACCESS_KEY_ID"):
        check_tokens([source(preset="s3", token_env="TOKEN")], {"TOKEN": "only-one"})


@pytest.mark.parametrize(
    "given",
    [
        {"map": {"document_id": "id", "url": "url"}, "token_env": "TOKEN"},
        {"preset": "confluence", "token_env": "TOKEN"},
        {"preset": "notion", "allow_hosts": ["http://a/"]},
        {"preset": "notion", "base_url": "http://user@a/"},
        {"preset": "notion", "base_url": "http://127.1/"},
    ],
)
def test_settings_that_would_send_a_token_anywhere_or_reach_nothing_are_refused(
    given: dict[str, Any],
) -> None:
    with pytest.raises(ValidationError, match="src"):
        source(**given)


AWS = "https://my-bucket.s3.eu-west-1.amazonaws.com"


@pytest.mark.parametrize(
    ("base_url", "url", "is_signed"),
    [
        (None, f"{AWS}/a/b%20c.md", True),
        (None, f"{AWS}/a%2Bb%25.md", True),
        (None, "http://my-bucket.s3.eu-west-1.amazonaws.com/a", False),
        (None, "http://10.0.0.1:9000/my-bucket/a", False),
        (None, "https://my-bucket.s3.eu-west-1.amazonaws.com.evil.example/a", False),
        (None, "https://dotted.name.s3.eu-west-1.amazonaws.com/a", True),
        ("http://minio:9000", "http://minio:9000/my-bucket/a~(b)*!'.md", True),
        ("http://minio:9000/", "http://minio:9000/my-bucket/a%20b", True),
        ("http://minio:9000", "http://minio:9001/my-bucket/a", False),
        ("http://minio:9000", "http://evil.example/my-bucket/a", False),
        ("https://store.example/s3/", "https://store.example/s3/my-bucket/a", True),
        ("https://store.example/s3", "https://store.example/other/my-bucket/a", False),
    ],
)
def test_an_object_is_signed_for_its_own_storage_alone(
    base_url: str | None, url: str, is_signed: bool
) -> None:
    made = source(preset="s3", base_url=base_url, token_env="BUCKET")
    result = signed(made, url, SecretStr("AK:SK"))
    assert (result is not None) == is_signed == sends_token_to(made, url)
    assert result is None or (
        "X-Amz-Signature=" in result and "SK" not in result.replace("AK%2F", "")
    )


@pytest.mark.parametrize("key", ["a//b", "../b", "a/./b", "/a", ""])
def test_a_key_that_cannot_be_signed_is_refused_instead_of_another_one_being_fetched(
    key: str,
) -> None:
    with pytest.raises(RejectedError):
        signed(
            source(preset="s3", base_url="http://minio:9000", token_env="BUCKET"),
            f"http://minio:9000/bucket/{key}",
            SecretStr("AK:SK"),
        )


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("https://a/b?page=2", "https://a/b?page=2"),
        ("https://a/b?X-Amz-Signature=1&x=2", "https://a/b"),
        ("https://a/b?x=1&sig=2", "https://a/b"),
        ("https://a/b?access_token=x", "https://a/b"),
        ("https://a/b?design=1", "https://a/b"),
        ("https://a/b#key=1", "https://a/b"),
        (None, None),
        ("https://ann:secret@a/b?page=2", "https://a/b?page=2"),
        ("https://x@y@a/b", "https://a/b"),
        ("https://a/@b", "https://a/@b"),
    ],
)
def test_what_looks_like_a_key_in_a_url_is_not_shown_to_who_searches(
    url: str | None, seen: str | None
) -> None:
    assert redact_url(url) == seen
