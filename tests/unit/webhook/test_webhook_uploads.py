"""Documents that are sent as their bytes:

PUT and POST with another Content-Type than JSON, and forms.
"""

from __future__ import annotations

from typing import Any

import pytest

from livedex.pipeline.http.multipart import parse_parts
from tests.unit.webhook.conftest import MAX_DOCUMENT_BYTES

QUERY = {
    "title": "T",
    "uri": "https://a/",
    "metadata": '{"k": [1]}',
    "acl": ["user:ann", "group:hr"],
    "collection": "c",
    "version": "7",
}


async def test_the_body_is_the_content_and_the_query_says_the_rest(http, intake):
    raw = b"\x00\xff%PDF" * 3
    answer = await http.put(
        "/v1/documents/a/b.pdf",
        content=raw,
        params=QUERY,
        headers={"content-type": "application/pdf"},
    )
    assert (answer.status_code, answer.json()["document_id"], answer.json()["version"]) == (
        202,
        "a/b.pdf",
        7,
    )
    [change] = intake.changes
    data = change.data
    assert (
        change.content,
        data.mime_type,
        data.title,
        data.uri,
        data.metadata,
        data.collection,
        data.acl,
        data.version,
    ) == (raw, "application/pdf", "T", "https://a/", {"k": [1]}, "c", ("group:hr", "user:ann"), 7)


@pytest.mark.parametrize(
    ("kind", "raw", "content", "mime_type"),
    [
        ("text/markdown", b"# A", b"# A", "text/markdown"),
        ("text/plain; charset=utf-8", b"\xc3\xa9", b"\xc3\xa9", "text/plain"),
        ("text/plain; charset=latin-1", b"\xe9", b"\xc3\xa9", "text/plain"),
        ("application/octet-stream", b"\xe9", b"\xe9", None),
        ("TEXT/CSV", b"", b"", "text/csv"),
    ],
)
async def test_the_content_type_says_what_the_bytes_are(
    http, intake, kind: str, raw: bytes, content: bytes, mime_type: str | None
):
    assert (
        await http.put("/v1/documents/d.md", content=raw, headers={"content-type": kind})
    ).status_code == 202
    assert [(change.content, change.data.mime_type) for change in intake.changes] == [
        (content, mime_type)
    ]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"metadata": "{"}, "body"),
        ({"metadata": "[]"}, "metadata"),
        ({"acl": "a\x00"}, "acl/0"),
        ({"collection": ""}, "collection"),
        ({"title": "x" * 2001}, "title"),
        ({"version": str(2**63 - 1)}, "version"),
        ({"title": ["a", "b"]}, "title"),
        ({"colection": "c"}, "colection"),
        ({"version": "-1"}, "version"),
    ],
)
async def test_what_makes_no_sense_in_the_query_is_refused(
    http, intake, problem_of, params: dict[str, Any], field: str
):
    answer = await http.put(
        "/v1/documents/d", content=b"x", params=params, headers={"content-type": "text/plain"}
    )
    assert problem_of(answer, 422)["errors"][0]["pointer"].endswith(field)
    assert intake.changes == []


async def test_a_body_of_json_takes_nothing_from_the_query(http, intake, problem_of):
    for call in (
        http.put("/v1/documents/d", json={"text": "a"}, params={"title": "x"}),
        http.post("/v1/documents", json={"text": "a"}, params={"title": "x"}),
    ):
        problem_of(await call, 422)
    assert intake.changes == []


@pytest.mark.parametrize(
    "kind", [None, "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
async def test_bytes_that_do_not_say_what_they_are_are_refused(
    http, intake, problem_of, kind: str | None
):
    problem_of(
        await http.put(
            "/v1/documents/d", content=b"x", headers={"content-type": kind} if kind else {}
        ),
        415,
    )
    assert intake.changes == []


async def test_a_content_has_the_bound_of_documents(http, intake, problem_of):
    plain = {"content-type": "text/plain"}
    assert (
        await http.put("/v1/documents/d", content=b"x" * MAX_DOCUMENT_BYTES, headers=plain)
    ).status_code == 202
    for call in (
        http.put("/v1/documents/d", content=b"x" * (MAX_DOCUMENT_BYTES + 1), headers=plain),
        http.post("/v1/documents", content=b"x" * (MAX_DOCUMENT_BYTES + 1), headers=plain),
        http.post("/v1/documents", files={"file": ("a.txt", b"x" * (MAX_DOCUMENT_BYTES + 1))}),
    ):
        problem_of(await call, 413)
    assert len(intake.changes) == 1


async def test_a_document_without_an_id_gets_a_new_one(http, intake):
    answers = [
        await http.post("/v1/documents", json={"text": "a", "title": "T"}),
        await http.post("/v1/documents", json={"text": "a", "document_id": "mine"}),
        await http.post(
            "/v1/documents",
            content=b"a",
            headers={"content-type": "text/markdown"},
            params={"title": "T"},
        ),
        await http.post(
            "/v1/documents",
            content=b"a",
            headers={"content-type": "text/markdown"},
            params={"document_id": "its/own"},
        ),
        await http.post("/v1/documents", files={"file": ("Notes.MD", b"# A", "text/markdown")}),
        await http.post(
            "/v1/documents",
            files={"file": ("x.md", b"# B")},
            data={"document_id": "formed", **QUERY},
        ),
    ]
    assert [answer.status_code for answer in answers] == [202] * 6
    ids = [answer.json()["document_id"] for answer in answers]
    assert (
        (ids[1], ids[3], ids[5]) == ("mine", "its/own", "formed")
        and ids[4].endswith(".md")
        and len(set(ids)) == 6
    )
    assert [change.data.document_id for change in intake.changes] == ids
    form = intake.changes[-1]
    assert (
        form.content,
        form.data.title,
        form.data.metadata,
        form.data.acl,
        form.data.version,
    ) == (
        b"# B",
        "T",
        {"k": [1]},
        ("group:hr", "user:ann"),
        7,
    )
    assert intake.changes[4].data.title == "Notes.MD"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--x",
        b"--x--",
        b"--x\r\n\r\nno name\r\n--x--",
        b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\na',
        b"".join(b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n' for _ in range(60))
        + b"--x--",
        b'--x\r\nContent-Disposition: form-data; name="other"\r\n\r\n1\r\n--x--',
        b"--x\r\n" + b"a: b\r\n" * 5000 + b"\r\n1\r\n--x--",
    ],
)
async def test_what_is_no_form_is_refused(http, intake, problem_of, body: bytes):
    problem_of(
        await http.post(
            "/v1/documents",
            content=body,
            headers={"content-type": "multipart/form-data; boundary=x"},
        ),
        422,
    )
    assert intake.changes == []


def test_the_bytes_of_a_part_are_exact() -> None:
    raw = b"\r\n--\r\n\n\r--x-\x00\xff\r\n"
    body = (
        b'preamble\r\n--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        + raw.replace(b"\r\n--x", b"")
        + b"\r\n--x--\r\nepilogue"
    )
    [part] = parse_parts(body, b"x")
    assert part.content == raw.replace(b"\r\n--x", b"") and (part.name, part.filename) == (
        "file",
        "a",
    )


async def test_a_page_of_another_site_cannot_send_a_form_unasked(http, intake, problem_of):
    files = {"file": ("a.md", b"x")}
    problem_of(
        await http.post("/v1/documents", files=files, headers={"origin": "https://evil.example"}),
        403,
    )
    problem_of(
        await http.post(
            "/v1/documents", content=b"x", headers={"origin": "null", "content-type": "text/plain"}
        ),
        403,
    )
    assert intake.changes == []
    assert (
        await http.post("/v1/documents", files=files, headers={"origin": "http://livedex"})
    ).status_code == 202
