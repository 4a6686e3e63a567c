"""Versions as strings, in and out: whoever has only numbers of 53 bits loses nothing."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from livedex.pipeline.http.json_response import accepts_string_versions
from livedex.pipeline.settings.settings import Settings
from tests.support.pipelines.installation import InProcessInstallation

STRINGS = {"accept": "application/json; versions=string"}
EXACT = 1_796_031_805_508_796_079  # not the nearest double
BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("accept", "is_asked"),
    [
        ("application/json; versions=string", True),
        ("APPLICATION/JSON;Versions=String", True),
        ('application/json;versions="string"', True),
        ("text/html, application/json; q=0.9; versions=string", True),
        ("*/*;versions=string", True),
        ("application/json", False),
        ("application/json; versions=number", False),
        ("text/plain; versions=string", False),
        ("", False),
        (";;;,=,", False),
    ],
)
def test_it_is_asked_for_by_a_parameter_of_the_media_type(accept: str, is_asked: bool) -> None:
    assert accepts_string_versions(accept) is is_asked


def versions(answer: httpx.Response) -> list[Any]:
    """Every version in an answer, but for those in metadata."""
    found: list[Any] = []

    def walk(value: Any) -> None:
        for name, each in (
            value.items()
            if isinstance(value, dict)
            else enumerate(value)
            if isinstance(value, list)
            else ()
        ):
            if name in ("version", "pending_version"):
                found.append(each)
            elif name != "metadata":
                walk(each)

    walk(answer.json())
    return [each for each in found if each is not None]


@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
async def test_every_answer_has_versions_as_strings_where_that_is_asked_for(
    site: InProcessInstallation, settings: Settings
) -> None:
    body = f'{{"text": "# Tea", "version": "{EXACT}", "metadata": {{"version": {EXACT}}}}}'.encode()
    put = await site.http.put(
        "/v1/documents/d",
        content=BOM + body,
        headers={"content-type": "application/json", **STRINGS},
    )
    assert (put.status_code, put.json()["version"]) == (202, str(EXACT))
    await site.ended()
    for headers, expected in ((STRINGS, str(EXACT)), ({}, EXACT)):
        search = await site.http.post(
            "/v1/search",
            content=BOM + b'{"query": "tea"}',
            headers={"content-type": "application/json", **headers},
        )
        answers = [
            search,
            *[
                await site.http.get(path, headers=headers)
                for path in ("/v1/documents", "/v1/documents/d", "/v1/documents/d/chunks")
            ],
        ]
        for answer in answers:
            assert answer.status_code == 200 and versions(answer) == [expected], answer.text
        assert answers[1].json()["documents"][0]["metadata"] == {"version": EXACT}
    deleted = await site.http.delete(
        "/v1/documents/d", params={"version": str(EXACT + 1)}, headers=STRINGS
    )
    assert (deleted.status_code, deleted.json()["version"]) == (202, str(EXACT + 1))
    event = {
        "specversion": "1.0",
        "id": "1",
        "source": "/x",
        "type": "livedex.document.changed",
        "subject": "e",
        "data": {"text": "a", "version": str(EXACT)},
    }
    assert (await site.http.post("/v1/events", json=event)).status_code == 202
    await site.ended()
    assert await site.version("e") == EXACT
