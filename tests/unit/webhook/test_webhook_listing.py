"""What is looked up of a push that does not name everything: each path that differs between its
ends, or why that is not known.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from livedex.connectors.webhook.hooks import payload_reader
from livedex.connectors.webhook.presets import PRESETS
from livedex.pipeline.errors import (
    ContentNotFoundError,
    InsufficientScopeError,
    LivedexError,
    RejectedError,
    RetryableError,
    UnexpectedResponseError,
)
from livedex.pipeline.settings.webhook_source import Preset, WebhookSource

PAYLOADS = Path(__file__).parents[2] / "payloads"
GITHUB, GITLAB = "github_push", "gitlab_push"


def looked_up(name: str, answers: Any, **more: Any) -> tuple[dict[str, bool], list[str]]:
    """The documents that are found, and whether each is there, with the questions that were asked.

    Args:
        answers: by the number of the question; an error is raised.
        more: of the payload.
    """
    preset: Preset = "github-push" if name == GITHUB else "gitlab-push"
    source = WebhookSource(name="src", secret_env=("S",), signature="github", preset=preset)
    payload = json.loads((PAYLOADS / f"{name}.json").read_text("utf-8")) | {"forced": True} | more
    [listing] = [item for item in payload_reader(source)(payload) if item.listing]
    look_up, asked = PRESETS[preset].listed, list[str]()
    assert look_up is not None

    async def ask(url: str) -> Any:
        asked.append(url)
        found = answers(url) if callable(answers) else answers[len(asked) - 1]
        if isinstance(found, LivedexError):
            raise found
        return found

    found = asyncio.run(look_up(source, json.loads(listing.content or b""), ask))
    return {str(item.document_id): not item.deleted for item in found}, asked


def tree(**files: str) -> dict[str, Any]:
    entries = [
        {"path": path.replace("_", "."), "mode": "100644", "type": "blob", "sha": sha}
        for path, sha in files.items()
    ]
    other = [
        {"path": "sub.md", "mode": "160000", "type": "commit", "sha": "1"},
        {"path": "dir.md", "mode": "040000", "type": "tree", "sha": "2"},
    ]
    return {"sha": "x", "tree": entries + other, "truncated": False}


def test_every_file_that_differs_between_two_trees_is_found() -> None:
    before, after = (
        tree(a_md="1", b_md="2", c_md="3", logo_png="4"),
        tree(a_md="1", b_md="5", d_md="3", logo_png="6"),
    )
    found, asked = looked_up(GITHUB, [before, after])
    assert found == {"src/b.md": True, "src/c.md": False, "src/d.md": True}
    assert [urlsplit(url).path.rsplit("/", 1)[1][:4] for url in asked] == ["6113", "59b2"]


def test_a_file_that_became_a_link_differs_though_its_content_is_the_same() -> None:
    after = tree(a_md="1")
    after["tree"][0]["mode"] = "120000"
    assert looked_up(GITHUB, [tree(a_md="1"), after])[0] == {"src/a.md": True}


def test_before_a_branch_that_is_new_there_was_nothing() -> None:
    assert looked_up(GITHUB, [tree(a_md="1")], before="0" * 40, created=True) == (
        {"src/a.md": True},
        [
            "https://api.github.com/repos/octo-org/handbook/git/trees/"
            "59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5?recursive=1"
        ],
    )


@pytest.mark.parametrize(
    "answer",
    [[], None, {}, {"tree": None}, {"tree": [{}]}, {"tree": [5]}, {"message": "x"}, "x", 5],
)
def test_an_answer_that_is_no_tree_is_no_change(answer: Any) -> None:
    with pytest.raises(UnexpectedResponseError):
        looked_up(GITHUB, [answer])


def test_a_tree_that_is_cut_off_is_told_with_what_to_do() -> None:
    with pytest.raises(RejectedError, match="more files than GitHub lists"):
        looked_up(GITHUB, [tree(a_md="1"), tree(a_md="2") | {"truncated": True}])


def test_a_comparison_finds_what_was_written_renamed_and_removed() -> None:
    diffs = [
        {"old_path": "a.md", "new_path": "a.md", "deleted_file": False},
        {"old_path": "old.md", "new_path": "new.md", "deleted_file": False},
        {"old_path": "gone.md", "new_path": "gone.md", "deleted_file": True},
        {"old_path": "x.md", "new_path": "old.md", "deleted_file": False},
    ]
    found, asked = looked_up(GITLAB, [{"diffs": diffs, "compare_timeout": False}])
    assert found == {
        "src/a.md": True,
        "src/old.md": True,
        "src/new.md": True,
        "src/gone.md": False,
        "src/x.md": False,
    }
    assert dict(parse_qsl(urlsplit(asked[0]).query))["straight"] == "true"


@pytest.mark.parametrize("page", [0, 1, 99, 100, 101, 250])
def test_a_branch_that_is_new_on_gitlab_is_listed_page_by_page(page: int) -> None:
    paths = [f"{n}.md" for n in range(page)]

    def answers(url: str) -> Any:
        begin = (int(dict(parse_qsl(urlsplit(url).query))["page"]) - 1) * 100
        return [{"path": path, "type": "blob"} for path in paths[begin : begin + 100]]

    found, asked = looked_up(GITLAB, answers, before="0" * 40)
    assert set(found) == {f"src/{path}" for path in paths} and len(asked) == page // 100 + 1


def test_a_server_that_never_ends_its_pages_is_asked_for_a_bounded_number() -> None:
    with pytest.raises(RejectedError, match="20000 files"):
        looked_up(GITLAB, lambda _: [{"path": "a.md", "type": "blob"}] * 100, before="0" * 40)


def test_a_complete_push_needs_no_compare_scope(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert looked_up(GITLAB, [InsufficientScopeError("403")])[0] == {}
    assert "read_api" in caplog.text


NO_COMPARISON = [
    ContentNotFoundError("404"),
    UnexpectedResponseError("401"),
    RetryableError("500"),
    {"diffs": [], "compare_timeout": True},
    {},
    [],
    None,
    "x",
    {"diffs": None},
    {"diffs": [{}]},
    {"diffs": [{"old_path": None, "new_path": None, "deleted_file": False}]},
]


@pytest.mark.parametrize(
    "more",
    [{}, {"commits": [{"timestamp": "2026-11-30T08:00:00Z"}] * 20, "total_commits_count": 25}],
)
@pytest.mark.parametrize("answer", NO_COMPARISON, ids=repr)
def test_nothing_else_is_taken_for_a_comparison_and_all_of_it_is_asked_again(
    answer: Any, more: dict[str, Any]
) -> None:
    with pytest.raises(RetryableError):
        looked_up(GITLAB, [answer], **more)


def test_a_push_that_does_not_name_all_its_commits_is_not_taken_at_its_word() -> None:
    with pytest.raises(InsufficientScopeError):
        looked_up(
            GITLAB,
            [InsufficientScopeError("403")],
            commits=[{"timestamp": "2026-11-30T08:00:00Z"}] * 20,
            total_commits_count=25,
        )


@pytest.mark.parametrize(
    "answer", [{}, "", None, {"path": "a.md"}, [{"path": None, "type": "blob"}]]
)
def test_what_is_no_list_of_files_is_not_taken_for_an_empty_branch(answer: Any) -> None:
    with pytest.raises(UnexpectedResponseError):
        looked_up(GITLAB, [answer], before="0" * 40)


def test_a_server_that_is_away_is_asked_again_later() -> None:
    with pytest.raises(RetryableError):
        looked_up(GITLAB, [RetryableError("502")])
