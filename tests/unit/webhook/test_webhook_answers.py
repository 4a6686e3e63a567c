"""What the APIs of the systems that are known answer: a content, that there is none, or nothing
that is believed.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from livedex.connectors.webhook.presets import PRESETS
from livedex.pipeline.errors import ContentNotFoundError, RejectedError, UnexpectedResponseError


def of_github(answer: Any, mime_type: str | None = "application/json") -> bytes:
    content = PRESETS["github-push"].content
    assert content is not None
    return content(
        answer if isinstance(answer, bytes) else json.dumps(answer).encode(),
        mime_type,
        "https://api.github.com/x/a.md",
    )


def test_a_file_of_github_is_the_answer_itself_or_stands_in_it() -> None:
    said = {
        "type": "file",
        "path": "a.md",
        "sha": "x",
        "encoding": "base64",
        "content": "w6kK\nIA==\n",
    }
    assert of_github(said) == "é\n ".encode()
    assert of_github(said, "application/vnd.github.raw+json") == json.dumps(said).encode(), (
        "a file that looks like an answer"
    )
    for own in (b"<html>", b"null", b"[]", b"", b'{"a": 1}'):
        assert of_github(own, "application/vnd.github.v3.raw") == own


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        "x",
        5,
        {},
        {"a": 1},
        [{"a": 1}],
        b"",
        b"no json",
        {"type": "file", "path": "a.md", "sha": "x", "encoding": "none", "content": ""},
    ],
)
def test_json_that_is_no_file_of_github_is_no_content(said: Any) -> None:
    with pytest.raises(UnexpectedResponseError):
        of_github(said)


@pytest.mark.parametrize("mime_type", ["text/html", "application/xhtml+xml"])
def test_a_page_to_log_in_at_is_no_file(mime_type: str) -> None:
    with pytest.raises(UnexpectedResponseError):
        of_github(b"<html>Log in", mime_type)
    of_gitlab = PRESETS["gitlab-push"].content
    assert of_gitlab is not None
    file = "https://gitlab.com/api/v4/projects/15/repository/files/docs%2F{}/raw?ref=main"
    with pytest.raises(UnexpectedResponseError):
        of_gitlab(b"<html>Log in", mime_type, file.format("a.md"))
    with pytest.raises(UnexpectedResponseError):
        of_gitlab(b"null", "application/json", file.format("a.md"))
    for name, kind in (
        ("a.HTML", mime_type),
        ("a.md", "text/plain"),
        ("a.md", None),
        ("a.json", "application/json"),
    ):
        assert of_gitlab(b"x", kind, file.format(name)) == b"x"


@pytest.mark.parametrize(
    "said",
    [
        [{"type": "file", "path": "a.md/b", "sha": "x"}],
        {"type": "submodule", "path": "a.md", "sha": "x"},
        {"type": "symlink", "path": "a.md", "sha": "x", "target": "/etc/passwd"},
    ],
)
def test_a_folder_a_submodule_and_a_link_that_leads_outside_are_no_files(said: Any) -> None:
    with pytest.raises(ContentNotFoundError):
        of_github(said)


def test_the_contents_are_taken_out_of_what_their_apis_answer() -> None:
    assert (
        PRESETS["confluence"].content(
            b'{"id": "5", "body": {"export_view": {"value": "<p>\xc3\xa9</p>"}}}', None, ""
        )
        == "<p>é</p>".encode()
    )
    assert (
        PRESETS["notion"].content(
            b'{"object": "page_markdown", "id": "x", "markdown": "# T", "truncated": false}',
            None,
            "",
        )
        == b"# T"
    )
    for preset in ("confluence", "notion"):
        for answer in (
            b"",
            b"[]",
            b"{}",
            b"null",
            b"<html>",
            b'{"body": 5}',
            b'{"markdown": null}',
            b'{"markdown": 5}',
            b'{"markdown": ["x"]}',
        ):
            with pytest.raises(UnexpectedResponseError):
                PRESETS[preset].content(answer, "application/json", "")
    for value in (b"null", b"5", b"{}", b"[]", b"true"):
        with pytest.raises(UnexpectedResponseError):
            PRESETS["confluence"].content(
                b'{"body": {"export_view": {"value": ' + value + b"}}}", None, ""
            )
    with pytest.raises(RejectedError):
        PRESETS["notion"].content(b'{"markdown": "x", "truncated": true}', None, "")
