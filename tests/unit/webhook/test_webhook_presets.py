"""What payloads of the systems that are known mean, in the shape that their documentation shows."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.exceptions import RequestValidationError

from livedex.connectors.webhook.hooks import payload_reader
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.ingest.change_request import ChangeRequest
from livedex.pipeline.settings.webhook_source import WebhookSource

PAYLOADS = Path(__file__).parents[2] / "payloads"
SECOND = 10**9


def payload(name: str) -> Any:
    return json.loads((PAYLOADS / f"{name}.json").read_text("utf-8"))


def source(preset: str, **more: Any) -> WebhookSource:
    return WebhookSource(
        **{"name": "src", "secret_env": "S", "preset": preset, "metadata": {"team": "ops"}} | more
    )


def read(preset: str, given: Any, **more: Any) -> dict[str, ChangeRequest]:
    """The documents that a payload changes."""
    found = [item for item in payload_reader(source(preset, **more))(given) if not item.listing]
    assert len({item.document_id for item in found}) == len(found)
    return {str(item.document_id): item for item in found}


def test_a_push_to_github_changes_each_file_as_its_last_commit_leaves_it() -> None:
    pushed = payload("github_push")
    found = read("github-push", pushed)
    assert {name: item.deleted for name, item in found.items()} == {
        "src/prices/2024.md": True,
        "src/guides/first steps.md": False,
        "src/guides/draft.md": True,
        "src/refunds.md": False,
        "src/shipping.md": True,
        "src/shipping/größen.md": False,
    }
    refunds, named = found["src/refunds.md"], found["src/shipping/größen.md"]
    api = "https://api.github.com/repos/octo-org/handbook/contents/"
    now, then = "?ref=main", "?ref=59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5"
    assert (refunds.url, refunds.uri) == (
        f"{api}refunds.md{now}",
        "https://github.com/octo-org/handbook/blob/main/refunds.md",
    )
    assert (named.url, named.seen_at) == (
        f"{api}shipping/gr%C3%B6%C3%9Fen.md{now}",
        f"{api}shipping/gr%C3%B6%C3%9Fen.md{then}",
    )
    assert found["src/guides/first steps.md"].url == f"{api}guides/first%20steps.md{now}"
    removed = found["src/shipping.md"]
    assert (removed.url, removed.seen_at) == (f"{api}shipping.md{now}", None), (
        "looked at as well: it may be there again"
    )
    assert all(item.gone_if_missing for item in found.values())
    assert (refunds.occurred_at_ns, refunds.precision_ns, refunds.metadata) == (
        1778858444 * SECOND,
        SECOND,
        {"team": "ops"},
    )
    name = f"refs/heads/main {pushed['before']}..{pushed['after']} 1778858444"
    assert all(item.version is None and item.delivery_id == name for item in found.values())


def test_the_documents_of_a_preset_have_the_rights_of_its_source() -> None:
    assert {
        item.acl
        for item in read("github-push", payload("github_push"), acl=["group:docs"]).values()
    } == {("group:docs",)}
    assert {item.acl for item in read("github-push", payload("github_push")).values()} == {None}


def test_only_the_branch_and_the_repository_that_are_meant_count() -> None:
    pushed = payload("github_push")
    assert read("github-push", pushed, branch="other") == {}
    assert read("github-push", pushed | {"ref": "refs/heads/other"}, branch="other") != {}
    assert read("github-push", pushed | {"ref": "refs/tags/main"}) == {}
    assert read("github-push", pushed, repository="octo-org/elsewhere") == {}
    assert read("github-push", pushed, repository="octo-org/handbook") != {}
    assert read("github-push", pushed, repository="Octo-Org/Handbook") != {}
    assert read("gitlab-push", payload("gitlab_push"), repository="Mike/diaspora") != {}
    assert read("gitlab-push", payload("gitlab_push"), repository="mike/diasporas") == {}
    gone = pushed | {"deleted": True, "after": "0" * 40, "commits": [], "head_commit": None}
    assert read("github-push", gone) == {}


def test_globs_choose_the_files_of_a_push() -> None:
    pushed = payload("github_push")
    assert set(
        read("github-push", pushed, include=["*.png", "guides/**"], exclude=["*draft*"])
    ) == {
        "src/logo.png",
        "src/guides/first steps.md",
    }
    with pytest.raises(ConfigError, match="src"):
        payload_reader(source("github-push", include=["!"]))


def test_an_installation_of_github_of_ones_own_is_asked_instead() -> None:
    found = read("github-push", payload("github_push"), base_url="https://ghe.example/api/v3/")
    assert str(found["src/refunds.md"].url).startswith(
        "https://ghe.example/api/v3/repos/octo-org/handbook/contents/refunds.md?ref="
    )


@pytest.mark.parametrize("preset", ["github-push", "gitlab-push", "s3", "confluence", "notion"])
@pytest.mark.parametrize(
    "other",
    [
        {},
        [],
        None,
        "text",
        5,
        {"zen": "x"},
        {"Records": None},
        {"object_kind": "tag_push"},
        {"type": "comment.created"},
        {"type": []},
        {"type": {}},
    ],
)
def test_what_is_about_no_document_means_nothing(preset: str, other: Any) -> None:
    assert read(preset, other) == {}


@pytest.mark.parametrize(
    ("preset", "name", "place", "field"),
    [
        ("github-push", "github_push", ("repository", "full_name"), "repository/full_name"),
        ("github-push", "github_push", ("commits", 0, "added"), "commits/0/added"),
        ("gitlab-push", "gitlab_push", ("project",), "project"),
        ("gitlab-push", "gitlab_push", ("commits", 1, "timestamp"), "commits/1/timestamp"),
        ("s3", "s3_put", ("Records", 1, "s3", "object", "key"), "Records/1/s3/object/key"),
        ("s3", "s3_put", ("Records", 0, "eventTime"), "Records/0/eventTime"),
        ("s3", "s3_put", ("Records",), "Records"),
        ("confluence", "confluence_page", ("timestamp",), "timestamp"),
        ("notion", "notion_page", ("entity", "id"), "entity/id"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_its_name(
    preset: str, name: str, place: tuple[Any, ...], field: str
) -> None:
    given = copy.deepcopy(payload(name))
    inner = given
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = {"wrong": True}
    with pytest.raises(RequestValidationError) as refused:
        payload_reader(source(preset))(given)
    assert "/".join(map(str, refused.value.errors()[0]["loc"])).startswith(field)


def test_a_push_to_gitlab_changes_each_file_as_its_last_commit_leaves_it() -> None:
    found = read("gitlab-push", payload("gitlab_push"))
    assert {name: item.deleted for name, item in found.items()} == {
        "src/CHANGELOG": False,
        "src/app/controller/application.rb": False,
        "src/docs/new name.md": False,
        "src/docs/old name.md": True,
    }
    new = found["src/docs/new name.md"]
    file = "https://gitlab.com/api/v4/projects/15/repository/files/docs%2Fnew%20name.md/raw?ref="
    assert (new.url, new.seen_at) == (
        f"{file}master",
        f"{file}da1560886d4f094c3e6c9ef40349f7d38b5d27d7",
    )
    assert new.uri == "https://gitlab.com/mike/diaspora/-/blob/master/docs/new%20name.md"
    assert new.occurred_at_ns is None, (
        "it counts from when it arrives: the times of commits say nothing of when they were pushed"
    )
    assert (
        read("gitlab-push", payload("gitlab_push") | {"checkout_sha": None, "after": "0" * 40})
        == {}
    )


def looked_up(preset: str, given: Any, **more: Any) -> list[tuple[str, str | None, dict[str, Any]]]:
    """What has to be looked up: the id that the event has, the first question, and what is known
    of the push.
    """
    found = [item for item in payload_reader(source(preset, **more))(given) if item.listing]
    return [(str(item.document_id), item.url, json.loads(item.content or b"")) for item in found]


@pytest.mark.parametrize("odd", [{"forced": True}, {"created": True, "before": "0" * 40}])
def test_a_push_to_github_that_does_not_name_all_is_looked_up(odd: dict[str, Any]) -> None:
    pushed = payload("github_push")
    assert looked_up("github-push", pushed) == []
    [(document_id, url, said)] = looked_up("github-push", pushed | odd)
    assert (document_id, url) == (
        f"src//{(pushed | odd)['before'][:12]}..59b20b8d5c6f",
        f"https://api.github.com/repos/octo-org/handbook/git/trees/{pushed['after']}?recursive=1",
    )
    assert said["before"] == (pushed | odd)["before"] and "commits" not in said
    assert read("github-push", pushed | odd).keys() == read("github-push", pushed).keys()


def test_a_push_to_github_with_as_many_commits_as_a_payload_names_is_looked_up() -> None:
    pushed = payload("github_push")
    assert (
        looked_up(
            "github-push", pushed | {"commits": pushed["commits"] * 1023 + pushed["commits"][:1]}
        )
        == []
    )
    assert len(looked_up("github-push", pushed | {"commits": pushed["commits"] * 1024})) == 1


COMMITS = payload("gitlab_push")["commits"]


@pytest.mark.parametrize(
    ("more", "is_whole"),
    [
        ({}, True),
        ({"total_commits_count": 25}, True),
        ({"commits": COMMITS * 10, "total_commits_count": 20}, True),
        ({"commits": COMMITS * 10, "total_commits_count": 21}, False),
        ({"commits": [], "total_commits_count": 0}, False),
    ],
)
def test_the_ends_of_every_push_to_gitlab_are_compared(
    more: dict[str, Any], is_whole: bool
) -> None:
    pushed = payload("gitlab_push")
    [(document_id, url, said)] = looked_up("gitlab-push", pushed | more)
    base = "https://gitlab.com/api/v4/projects/15/repository"
    assert (document_id, url) == (
        "src//95790bf891e7..da1560886d4f",
        f"{base}/compare?from={pushed['before']}&to={pushed['after']}&straight=true",
    )
    assert said["is_whole"] is is_whole
    [(_, url, said)] = looked_up("gitlab-push", pushed | {"before": "0" * 40})
    assert (
        url == f"{base}/tree?ref={pushed['after']}&recursive=true&per_page=100&page=1"
        and not said["is_whole"]
    )


@pytest.mark.parametrize("branch", ["feature/new docs", "a&b=c", "ü#1?", "100%"])
def test_a_branch_may_be_called_anything(branch: str) -> None:
    for preset, name in (("github-push", "github_push"), ("gitlab-push", "gitlab_push")):
        given = payload(name) | {"ref": f"refs/heads/{branch}"}
        for item in read(preset, given, branch=branch).values():
            assert parse_qs(urlsplit(str(item.url)).query) == {"ref": [branch]}


def test_a_notification_of_s3_is_about_its_keys_as_they_are() -> None:
    found = read("s3", payload("s3_put"))
    written, gone = found["src/reports/Q1 plan & größe.md"], found["src/reports/old.md"]
    assert (written.deleted, gone.deleted, gone.url) == (False, True, None)
    assert (
        written.url == "https://amzn-s3-demo-bucket.s3.us-west-2.amazonaws.com/reports/"
        "Q1%20plan%20%26%20gr%C3%B6%C3%9Fe.md"
    )
    assert (
        written.occurred_at_ns is not None
        and written.occurred_at_ns // 10**6 == 1772366400_250
        and written.precision_ns == 1
    )
    assert read("s3", payload("s3_test_event")) == {}
    assert read("s3", payload("s3_put"), repository="another-bucket") == {}


@pytest.mark.parametrize("pushed_at", [1_790_000_000_000, 10**18, -(10**18)])
def test_a_push_at_no_time_that_there_is_counts_from_when_it_arrives(pushed_at: int) -> None:
    given = copy.deepcopy(payload("github_push"))
    given["repository"]["pushed_at"] = pushed_at
    assert {item.occurred_at_ns for item in read("github-push", given).values()} == {None}


def test_events_of_one_object_in_one_millisecond_are_in_the_order_of_their_sequencers() -> None:
    def at(time: str, sequencer: str) -> int:
        given = payload("minio_put")
        given["Records"][0]["eventTime"] = time
        given["Records"][0]["s3"]["object"]["sequencer"] = sequencer
        [item] = read("s3", given).values()
        assert item.occurred_at_ns is not None
        return item.occurred_at_ns

    assert at("2026-01-01T00:00:00.000Z", "0055AED6DCD90281E5") < at(
        "2026-01-01T00:00:00.000Z", "0055AED6DCD90281E6"
    )
    assert at("2026-01-01T00:00:00.000Z", "0055AED6DCD90281E6") < at(
        "2026-01-01T00:00:00.001Z", "0055AED6DCD90281E5"
    )
    nanoseconds = 1_767_225_600_000_000_000 + 123_456
    assert at("2026-01-01T00:00:00.000Z", f"{nanoseconds:X}") == nanoseconds, (
        "MinIO's is the time itself"
    )


def test_a_notification_of_minio_says_where_it_is_itself() -> None:
    [item] = read("s3", payload("minio_put")).values()
    assert (item.document_id, item.url, item.mime_type) == (
        "src/notes/today.txt",
        "http://172.17.0.2:9000/documents/notes/today.txt",
        "text/plain",
    )
    [item] = read("s3", payload("minio_put"), base_url="https://minio.example").values()
    assert item.url == "https://minio.example/documents/notes/today.txt"


@pytest.mark.parametrize(
    "event",
    [
        "s3:ObjectAccessed:Get",
        "s3:ObjectCreated:PutTagging",
        "s3:ObjectCreated:PutRetention",
        "s3:BucketCreated:*",
        "s3:ObjectRemoved:NoOP",
    ],
)
def test_a_notification_of_no_change_of_content_means_nothing(event: str) -> None:
    given = payload("minio_put")
    given["Records"][0]["eventName"] = event
    assert read("s3", given) == {}


@pytest.mark.parametrize(
    ("event", "deleted"),
    [
        ("page_created", False),
        ("page_restored", False),
        ("page_trashed", True),
        ("page_removed", True),
    ],
)
def test_a_page_of_confluence_is_got_by_its_api(event: str, deleted: bool) -> None:
    [item] = read("confluence", payload("confluence_page") | {"event": event}).values()
    url = (
        None
        if deleted
        else "https://wiki.example.com/confluence/rest/api/content/16777227?expand=body.export_view"
    )
    assert (item.document_id, item.deleted, item.url, item.title) == (
        "src/16777227",
        deleted,
        url,
        "Runbook",
    )
    assert (item.occurred_at_ns, item.precision_ns) == (1771926079645 * 10**6, 10**6)


def test_a_confluence_that_tells_ids_alone_needs_its_address() -> None:
    given = {"timestamp": 1, "event": "page_updated", "userKey": "x", "page": {"id": 5}}
    with pytest.raises(RequestValidationError):
        payload_reader(source("confluence"))(given)
    [item] = read("confluence", given, base_url="https://wiki.example.com/wiki").values()
    assert item.url == "https://wiki.example.com/wiki/rest/api/content/5?expand=body.export_view"


def test_a_comment_on_a_page_of_confluence_is_no_change_of_it() -> None:
    assert read("confluence", payload("confluence_page") | {"comment": {"id": 1}}) == {}


@pytest.mark.parametrize(
    ("event", "deleted"),
    [("page.created", False), ("page.undeleted", False), ("page.deleted", True)],
)
def test_a_page_of_notion_is_got_as_markdown(event: str, deleted: bool) -> None:
    [item] = read("notion", payload("notion_page") | {"type": event}).values()
    page = "153104cd-477e-809d-8dc4-ff2d96ae3090"
    url = None if deleted else f"https://api.notion.com/v1/pages/{page}/markdown"
    assert (item.document_id, item.deleted, item.url, item.delivery_id) == (
        f"src/{page}",
        deleted,
        url,
        "367cba44-b6f3-4c92-81e7-6a2e9659efd4",
    )
    assert (item.occurred_at_ns, item.precision_ns) == (1796514934_285_000_000, 10**6)


@pytest.mark.parametrize("page", ["a\x00b", "", "../x", "1/2", "x" * 201, -1, 1.5, None, {}])
def test_an_id_of_confluence_that_is_none_is_refused_by_its_name(page: Any) -> None:
    given = payload("confluence_page")
    given["page"]["id"] = page
    with pytest.raises(RequestValidationError) as refused:
        payload_reader(source("confluence", base_url="https://wiki.example.com"))(given)
    assert "/".join(map(str, refused.value.errors()[0]["loc"])).startswith("page/id")


@pytest.mark.parametrize(
    ("preset", "signature", "header"),
    [
        ("github-push", "github", None),
        ("gitlab-push", "gitlab", None),
        ("s3", "token", "Authorization"),
        ("confluence", "hmac", "X-Hub-Signature"),
        ("notion", "hmac", "X-Notion-Signature"),
    ],
)
def test_a_preset_knows_how_its_system_signs(
    preset: str, signature: str, header: str | None
) -> None:
    made = source(preset)
    assert (made.signature, made.header) == (signature, header)
    assert source(preset, signature="standard-webhooks").signature == "standard-webhooks"


@pytest.mark.parametrize(
    "path",
    [
        "../../x.md",
        "a/../../x.md",
        "./a.md",
        "/etc/a.md",
        "a//b.md",
        "a\x00.md",
        "",
        "x" * 2000 + ".md",
    ],
)
def test_a_path_that_no_repository_can_hold_is_no_document(path: str) -> None:
    for preset, name in (("github-push", "github_push"), ("gitlab-push", "gitlab_push")):
        given = payload(name)
        given["commits"] = [
            given["commits"][0] | {"added": [path], "modified": ["a.md"], "removed": [path]}
        ]
        assert set(read(preset, given, include=["**"])) == {"src/a.md"}


def test_a_type_that_no_database_can_hold_says_nothing() -> None:
    given = payload("minio_put")
    given["Records"][0]["s3"]["object"]["contentType"] = "text/plain\x00"
    assert [item.mime_type for item in read("s3", given).values()] == [None]
