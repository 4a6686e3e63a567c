"""A server on loopback that speaks as much of S3 as content needs, holds its objects in memory,
and fails as it is told to.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from tests.support.http.scripted_server import HttpRequest, HttpResponse, ScriptedServer

BUCKET = "shelf"
KEY, SECRET = "AKIDLIVEDEXTEST", "secret-that-is-never-shown"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered.

    Attributes:
        missing_bytes: how much of the announced body is never sent.
        hang_up: close the connection without any answer.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    missing_bytes: int = 0
    hang_up: bool = False


HANG_UP = Answer(hang_up=True)


def error_response(status: int, code: str) -> Answer:
    """An answer as S3 refuses."""
    return Answer(
        status,
        f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no "
        f"{SECRET}</Message></Error>".encode(),
    )


@dataclass(frozen=True, slots=True)
class Request:
    """A request: `key` is empty for those to the bucket."""

    method: str
    bucket: str
    key: str
    query: Mapping[str, list[str]]
    body: bytes

    @property
    def what(self) -> str:
        """`put`, `get`, `list` or `delete`."""
        if self.key:
            return self.method.lower()
        return "delete" if self.method == "POST" else "list"


class S3Server(ScriptedServer):
    """A server in threads of its own, with one bucket.

    Attributes:
        endpoint: its address.
        objects: key to content and time of the last write; a test may change them.
        requests: in order of arrival.
        answer: called with each request; None gives the usual answer.
        delay_s: waited before each answer.
    """

    page = 1000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        self.requests: list[Request] = []
        self.answer: Callable[[Request], Answer | None] = lambda request: None
        self.delay_s = 0.0
        super().__init__()
        self.endpoint = self.address

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead a client here."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "eu-central-1",
        }

    def reply_to(self, request: HttpRequest) -> HttpResponse:
        parts = urlsplit(request.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        query = parse_qs(parts.query, keep_blank_values=True)
        answer = self.respond(Request(request.method, bucket, key, query, request.body))
        return HttpResponse(
            answer.status, answer.body, answer.headers, answer.missing_bytes, answer.hang_up
        )

    def respond(self, request: Request) -> Answer:
        """The answer to a request."""
        with self._lock:
            self.requests.append(request)
        if self.delay_s:
            time.sleep(self.delay_s)
        scripted = self.answer(request)
        if scripted is not None:
            return scripted
        if request.bucket != BUCKET:
            return error_response(404, "NoSuchBucket")
        with self._lock:
            return {"put": self._put, "get": self._get, "list": self._list, "delete": self._delete}[
                request.what
            ](request)

    def _put(self, request: Request) -> Answer:
        self.objects[request.key] = request.body, datetime.now(UTC)
        return Answer(headers={"ETag": '"1"'})

    def _get(self, request: Request) -> Answer:
        if request.key not in self.objects:
            return error_response(404, "NoSuchKey")
        content, modified = self.objects[request.key]
        return Answer(
            200,
            content,
            {"ETag": '"1"', "Last-Modified": modified.strftime("%a, %d %b %Y %H:%M:%S GMT")},
        )

    def _list(self, request: Request) -> Answer:
        prefix = request.query.get("prefix", [""])[0]
        after = request.query.get("continuation-token", [""])[0]
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        more, shown = len(keys) > self.page, keys[: self.page]
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>"
            f"{self.objects[key][1].strftime('%Y-%m-%dT%H:%M:%S.%fZ')}</LastModified>"
            f'<ETag>"1"</ETag><Size>{len(self.objects[key][0])}</Size></Contents>'
            for key in shown
        )
        token = (
            f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>" if more else ""
        )
        return Answer(
            200,
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{rows}</"
            "ListBucketResult>".encode(),
        )

    def _delete(self, request: Request) -> Answer:
        keys = [
            element.text or ""
            for element in ElementTree.fromstring(request.body).iter()
            if element.tag.endswith("}Key")
        ]
        for key in keys:
            self.objects.pop(key, None)
        rows = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        return Answer(
            200,
            f'<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{rows}</'
            "DeleteResult>".encode(),
        )
