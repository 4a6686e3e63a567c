"""What comes is bounded in size and time, on the wire and unpacked, and is taken for what its
server says only where that makes sense.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from livedex.pipeline.errors import (
    NoTextError,
    RateLimitedError,
    RejectedError,
    RetryableError,
    UnexpectedResponseError,
)
from livedex.pipeline.fetch.body_decoder import BodyDecoder
from livedex.pipeline.fetch.responses import cache_validator, transcode_to_utf8
from tests.support.http.scripted_website import WebResponse, WebServer
from tests.unit.fetching.client import QUICK, FetchClient

CAP = 1_000_000
GZIP = {"content-encoding": "gzip"}


def forever(piece: bytes, pause_s: float = 0.0) -> Iterator[bytes]:
    while True:
        yield piece
        time.sleep(pause_s)


@pytest.mark.parametrize("body", [b"", b"x", b"text\n" * 1000, bytes(range(256)) * 3000])
@pytest.mark.parametrize("packed", [False, True])
async def test_a_body_comes_as_it_was(
    web: WebServer, client: FetchClient, body: bytes, packed: bool
) -> None:
    sent = gzip.compress(body) if packed else body
    web.pages |= {
        "/whole": WebResponse(sent, headers=GZIP if packed else {}),
        "/pieces": WebResponse(lambda: [sent], headers=GZIP if packed else {}),
    }
    for path in ("/whole", "/pieces"):
        found = await client.get(path, max_bytes=CAP)
        assert found is not None and found.content == body


@pytest.mark.parametrize(
    "page",
    [
        WebResponse(bytes(CAP + 1)),
        WebResponse(lambda: forever(bytes(65_536))),
        WebResponse(lambda: forever(bytes(65_536)), announced=10**12),
        WebResponse(gzip.compress(bytes(128 * CAP)), headers=GZIP),
        WebResponse(gzip.compress(bytes(CAP + 1)), headers=GZIP),
        WebResponse(b"".join([gzip.compress(bytes(CAP // 2))] * 3), headers=GZIP),
        WebResponse(lambda: forever(gzip.compress(b"")), headers=GZIP),
        WebResponse(
            lambda: itertools.chain([gzip.compress(b"x")[:10]], forever(b"\0" * 65_536)),
            headers=GZIP,
        ),
    ],
    ids=[
        "announced",
        "without end",
        "announced endless",
        "bomb",
        "one more",
        "three members",
        "empty members",
        "broken",
    ],
)
async def test_what_is_too_large_is_given_up_at_the_cap_without_holding_more_than_that(
    web: WebServer, client: FetchClient, page: WebResponse
) -> None:
    web.pages["/"] = page
    tracemalloc.start()
    try:
        with pytest.raises((NoTextError, RetryableError)) as refused:
            await client.get("/", max_bytes=CAP)
        grown = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert not isinstance(refused.value, NoTextError) or refused.value.state == "too_large"
    assert grown < 2 * CAP + 1_500_000  # and what the server here sends


async def test_exactly_as_much_as_is_allowed_is_not_too_much(
    web: WebServer, client: FetchClient
) -> None:
    for n, page in enumerate(
        [WebResponse(bytes(CAP)), WebResponse(gzip.compress(bytes(CAP)), headers=GZIP)]
    ):
        web.pages[f"/{n}"] = page
        found = await client.get(f"/{n}", max_bytes=CAP)
        assert found is not None and len(found.content) == CAP


async def test_more_than_was_announced_is_not_read(web: WebServer, client: FetchClient) -> None:
    web.pages["/"] = WebResponse(b"0123456789" + bytes(100_000), announced=10)
    found = await client.get("/")
    assert found is not None and found.content == b"0123456789"


@pytest.mark.parametrize(
    "page",
    [
        WebResponse(b"0123", announced=10),
        WebResponse(b"", announced=1),
        WebResponse(gzip.compress(b"text" * 1000)[:-9], headers=GZIP),
        WebResponse(b"no gzip", headers=GZIP),
        WebResponse(gzip.compress(b"a") + b"rest", headers=GZIP),
    ],
    ids=["short", "nothing", "cut off", "none", "more behind"],
)
async def test_a_body_that_is_not_whole_is_tried_again_and_never_taken(
    web: WebServer, client: FetchClient, page: WebResponse
) -> None:
    web.pages["/"] = page
    with pytest.raises(RetryableError):
        await client.get("/")


@pytest.mark.parametrize(
    "encoding",
    ["gzip, gzip", "br", "deflate", "zstd", "gzip, identity, gzip", "GZIP,br", "compress", "*"],
)
async def test_other_encodings_than_one_gzip_are_refused(
    web: WebServer, client: FetchClient, encoding: str
) -> None:
    web.pages["/"] = WebResponse(
        gzip.compress(gzip.compress(b"text")), headers={"content-encoding": encoding}
    )
    with pytest.raises(RejectedError):
        await client.get("/")
    assert web.requests[0].headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize("step", [1, 7, 4096, 10**9])
async def test_how_a_packed_body_is_cut_on_the_way_changes_nothing(step: int) -> None:
    body = bytes(300_000) + b"".join(n.to_bytes(3, "big") for n in range(20_000))
    sent = (
        gzip.compress(body[:200_000])
        + gzip.compress(b"")
        + gzip.compress(body[200_000:])
        + b"\0\0\0"
    )
    unpacking = BodyDecoder("x-gzip", len(body))
    for start in range(0, len(sent), step):
        await unpacking.feed(sent[start : start + step])
    assert unpacking.content() == body
    assert zlib.crc32(unpacking.content()) == zlib.crc32(body)


@pytest.mark.parametrize("pause_s", [0.05, 60.0])
async def test_a_drip_and_a_silence_both_end_in_time(
    web: WebServer, client: FetchClient, pause_s: float
) -> None:
    client.bounds = replace(QUICK, total_timeout_s=0.6, read_timeout_s=0.3)
    web.pages["/"] = WebResponse(lambda: forever(b"x", pause_s))
    async with asyncio.timeout(10):
        with pytest.raises(RetryableError):
            await client.get("/")


async def test_all_redirects_have_one_time_together(web: WebServer, client: FetchClient) -> None:
    def slowly(n: int) -> WebResponse:
        time.sleep(0.25)
        return WebResponse(status=302, headers={"location": f"/{n + 1}"})

    client.bounds = replace(QUICK, total_timeout_s=0.6, max_redirects=50)
    web.pages |= {f"/{n}": (lambda visit, n=n: slowly(n)) for n in range(50)}
    with pytest.raises(RetryableError):
        await client.get("/0")
    assert len(web.requests) <= 4


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, RejectedError),
        (401, UnexpectedResponseError),
        (403, UnexpectedResponseError),
        (404, RetryableError),
        (408, RetryableError),
        (410, RetryableError),
        (425, RetryableError),
        (429, RateLimitedError),
        (451, RejectedError),
        (500, RetryableError),
        (502, RetryableError),
        (503, RetryableError),
        (206, RejectedError),
        (202, RejectedError),
        (300, RejectedError),
        (304, RetryableError),
    ],
)
async def test_what_a_status_means(
    web: WebServer, client: FetchClient, status: int, kind: type[Exception]
) -> None:
    web.pages["/secret-path?secret=query"] = WebResponse(
        b"a secret body" if status != 304 else b"", status=status
    )
    with pytest.raises(kind) as refused:
        await client.get("/secret-path?secret=query")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("status", [200, 203, 204])
async def test_what_counts_as_content(web: WebServer, client: FetchClient, status: int) -> None:
    web.pages["/"] = WebResponse(b"" if status == 204 else b"text", status=status)
    found = await client.get("/")
    assert found is not None and found.content == (b"" if status == 204 else b"text")


@pytest.mark.parametrize(
    ("status", "headers", "least_s", "most_s"),
    [
        (429, {"retry-after": "7"}, 7, 7),
        (
            503,
            {
                "retry-after": format_datetime(
                    datetime.now(UTC) + timedelta(seconds=10_000), usegmt=True
                )
            },
            5000,
            10_000,
        ),
        (
            403,
            {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + 10_000)},
            5000,
            10_001,
        ),
        (403, {"retry-after": "60"}, 60, 60),
    ],
)
async def test_a_wait_that_is_asked_for_is_kept(
    web: WebServer,
    client: FetchClient,
    status: int,
    headers: dict[str, str],
    least_s: float,
    most_s: float,
) -> None:
    web.pages["/"] = WebResponse(status=status, headers=headers)
    with pytest.raises(RateLimitedError) as refused:
        await client.get("/")
    assert (
        refused.value.retry_after_s is not None and least_s <= refused.value.retry_after_s <= most_s
    )


@pytest.mark.parametrize("said", ["-1", "soon", "", "1e999", "nan"])
async def test_a_wait_without_sense_is_passed_over(
    web: WebServer, client: FetchClient, said: str
) -> None:
    web.pages["/"] = WebResponse(status=429, headers={"retry-after": said})
    with pytest.raises(RateLimitedError) as refused:
        await client.get("/")
    assert refused.value.retry_after_s is None


@pytest.mark.parametrize(
    ("content", "mime_type", "charset", "text"),
    [
        ("größe".encode("latin-1"), "text/plain", "iso-8859-1", "größe"),
        ("größe".encode(), "text/plain", "iso-8859-1", "größe"),
        ("日本".encode("shift_jis"), "text/html", "Shift_JIS", "日本"),
        ("日本".encode("iso2022_jp"), "text/plain", "iso-2022-jp", "日本"),
        ("größe".encode("utf-16-be"), "text/markdown", "utf-16be", "größe"),
        (b"\xef\xbb\xbfa", "text/plain", "utf-16", "\ufeffa"),
        (b"abc", "text/plain", "punycode", "abc"),
        (b"abc", "text/plain", "hex", "abc"),
        (b"abc", "text/plain", "no-such", "abc"),
        (b"61", "text/plain", "unicode_escape", "61"),
    ],
)
def test_the_charset_that_a_server_names_counts_where_it_fits(
    content: bytes, mime_type: str, charset: str, text: str
) -> None:
    assert transcode_to_utf8(content, mime_type, charset).decode() == text


@pytest.mark.parametrize("charset", ["utf-8", "shift_jis", None, "utf-16-le"])
def test_bytes_that_do_not_fit_the_charset_stay_as_they_are(charset: str | None) -> None:
    assert transcode_to_utf8(b"\xff\x81\xfe", "text/plain", charset) == b"\xff\x81\xfe"


@pytest.mark.parametrize(
    ("headers", "known"),
    [
        ({"etag": '"a"', "last-modified": "x"}, ('"a"', None)),
        ({"etag": 'W/"a"'}, ('W/"a"', None)),
        ({"etag": '""'}, ('""', None)),
        ({}, None),
        ({"etag": "a"}, None),
        ({"etag": '"a", "b"'}, None),
        ({"etag": '"a\u0080"'}, None),
        ({"etag": f'"{"a" * 600}"'}, None),
        ({"etag": '"a"\r\nx: y'}, None),
        (
            {
                "last-modified": "Mon, 30 Nov 2026 10:00:00 GMT",
                "date": "Mon, 30 Nov 2026 10:00:02 GMT",
            },
            (None, "Mon, 30 Nov 2026 10:00:00 GMT"),
        ),
        (
            {
                "last-modified": "Mon, 30 Nov 2026 10:00:00 GMT",
                "date": "Mon, 30 Nov 2026 10:00:01 GMT",
            },
            None,
        ),
        ({"last-modified": "Mon, 30 Nov 2026 10:00:00 GMT"}, None),
        ({"last-modified": "yesterday", "date": "Mon, 30 Nov 2026 10:00:01 GMT"}, None),
        (
            {
                "last-modified": "Mon, 30 Nov 2026 10:00:00 -0000",
                "date": "Mon, 30 Nov 2026 10:00:05 GMT",
            },
            None,
        ),
    ],
)
def test_a_content_is_recognised_only_by_what_cannot_be_the_same_for_another_one(
    headers: dict[str, str], known: tuple[str | None, str | None] | None
) -> None:
    found = cache_validator(headers, b"place")
    assert (None if found is None else (found.etag, found.last_modified)) == known


async def test_a_validator_is_sent_to_its_own_place_alone(
    web: WebServer, client: FetchClient
) -> None:
    at = {"last-modified": "Mon, 30 Nov 2020 10:00:00 GMT"}
    web.pages |= {"/a": WebResponse(b"a", headers=at), "/b": WebResponse(b"b", headers=at)}
    first = await client.get("/a")
    assert first is not None and first.validator is not None
    await client.get("/b", validator=first.validator)
    await client.get("/a", validator=first.validator)
    assert [visit.headers.get("if-modified-since") for visit in web.requests] == [
        None,
        None,
        at["last-modified"],
    ]


async def test_the_type_and_the_name_of_a_content_are_known(
    web: WebServer, client: FetchClient
) -> None:
    web.pages["/a/notes.md?raw=1"] = WebResponse(
        "größe".encode("latin-1"), headers={"content-type": 'Text/Markdown; Charset="ISO-8859-1"'}
    )
    found = await client.get("/a/notes.md?raw=1")
    assert found is not None and (found.content.decode(), found.mime_type, found.name) == (
        "größe",
        "text/markdown",
        "notes.md",
    )
