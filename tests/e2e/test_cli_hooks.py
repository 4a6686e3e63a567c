"""Systems that send, as a user sets them up:

`livedex hooks test`, and what keeps the receiver from starting.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from livedex.cli.main import FAILED
from tests.support.programs.command import livedex, only_line

PAYLOADS = Path(__file__).parents[1] / "payloads"
SETTINGS = """
[[source]]
name = "hub"
kind = "webhook"
secret_env = "HUB_SECRET"
preset = "github-push"
token_env = "HUB_TOKEN"

[[source]]
name = "bucket"
kind = "webhook"
secret_env = "BUCKET_SECRET"
preset = "s3"

[[source]]
name = "crm"
kind = "webhook"
secret_env = "CRM_SECRET"
signature = "hmac"
header = "X-Sum"
map = { document_id = "id", text = "body", version = "version" }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "livedex.toml").write_text(SETTINGS)
    return tmp_path


def test_a_payload_is_shown_as_what_it_would_do_without_any_secret(folder: Path) -> None:
    done = livedex(folder, "hooks", "test", "hub", str(PAYLOADS / "github_push.json"), "--json")
    assert done.returncode == 0, done.stderr
    changes = json.loads(done.stdout)["changes"]
    assert {change["document_id"]: change["action"] for change in changes}[
        "hub/shipping.md"
    ] == "delete"
    shown = livedex(folder, "hooks", "test", "hub", str(PAYLOADS / "github_push.json"))
    assert (
        "hub/refunds.md" in shown.stdout
        and "https://api.github.com/repos/octo-org/handbook/contents/refunds.md" in shown.stdout
    )
    assert all(
        change["fetch"] == {"with": "HUB_TOKEN", "refused": None} and change["deleted_if_missing"]
        for change in changes
    )
    assert (
        "(with HUB_TOKEN)" in shown.stdout
        and "unless it is there again: https://api.github.com" in shown.stdout
    )


def test_what_a_payload_does_not_name_is_shown_as_looked_up(folder: Path) -> None:
    pushed = json.loads((PAYLOADS / "github_push.json").read_text("utf-8")) | {
        "forced": True,
        "commits": [],
    }
    (folder / "forced.json").write_text(json.dumps(pushed))
    done = json.loads(livedex(folder, "hooks", "test", "hub", "forced.json", "--json").stdout)
    tree = f"https://api.github.com/repos/octo-org/handbook/git/trees/{pushed['after']}?recursive=1"
    assert done == {
        "changes": [],
        "look_up": [{"url": tree, "fetch": {"with": "HUB_TOKEN", "refused": None}}],
    }
    assert (
        f"looked up: {tree} (with HUB_TOKEN)"
        in livedex(folder, "hooks", "test", "hub", "forced.json").stdout
    )


def test_a_content_that_would_not_be_fetched_is_shown_with_the_reason(folder: Path) -> None:
    done = livedex(folder, "hooks", "test", "bucket", str(PAYLOADS / "minio_put.json"), "--json")
    [change] = json.loads(done.stdout)["changes"]
    assert (
        change["url"].startswith("http://172.17.0.2:9000/")
        and "allow_hosts" in change["fetch"]["refused"]
    )
    shown = livedex(folder, "hooks", "test", "bucket", str(PAYLOADS / "minio_put.json"))
    assert "refused" in shown.stdout and done.returncode == shown.returncode == 0
    off = livedex(
        folder,
        "hooks",
        "test",
        "bucket",
        str(PAYLOADS / "minio_put.json"),
        "--json",
        LIVEDEX_FETCH_ENABLED="false",
    )
    assert "LIVEDEX_FETCH_ENABLED" in json.loads(off.stdout)["changes"][0]["fetch"]["refused"]


@pytest.mark.parametrize("command", [("up",), ("run", "chunk"), ("run", "all")])
def test_without_a_token_that_is_named_nothing_starts_that_would_fetch(
    folder: Path, command: tuple[str, ...]
) -> None:
    secrets = {"HUB_SECRET": "x", "CRM_SECRET": "x", "BUCKET_SECRET": "x"}
    assert "HUB_TOKEN" in only_line(livedex(folder, *command, **secrets))
    assert not (folder / ".livedex").exists()


def test_a_payload_that_would_be_refused_is_shown_with_the_field(folder: Path) -> None:
    (folder / "payload.json").write_text('{"id": "a", "body": 5, "version": 1}')
    done = livedex(folder, "hooks", "test", "crm", "payload.json", "--json")
    assert done.returncode == 1
    assert [problem["field"] for problem in json.loads(done.stdout)["refused"]] == ["text"]


def test_a_payload_that_would_be_too_large_is_shown_as_refused(folder: Path) -> None:
    (folder / "livedex.toml").write_text(SETTINGS + "max_bytes = 100\n")
    for size, status in ((50, 0), (101, 1)):
        (folder / "payload.json").write_text('{"id": "a", "body": "x", "version": 1}'.ljust(size))
        done = livedex(folder, "hooks", "test", "crm", "payload.json")
        assert (done.returncode, "max_bytes" in done.stdout) == (status, status == 1)
    off = livedex(
        folder, "hooks", "test", "crm", "payload.json", "--json", LIVEDEX_MAX_DOCUMENT_BYTES="1"
    )
    assert "100 bytes" in json.loads(off.stdout)["refused"][0]["detail"]


def test_a_map_that_meets_a_number_that_is_none_is_shown_with_the_field(folder: Path) -> None:
    (folder / "livedex.toml").write_text(
        SETTINGS.replace('version = "version"', 'version = "floor(to_number(version))"')
    )
    (folder / "payload.json").write_text('{"id": "a", "body": "x", "version": "nan"}')
    done = livedex(folder, "hooks", "test", "crm", "payload.json", "--json")
    assert done.returncode == 1, done.stderr
    [problem] = json.loads(done.stdout)["refused"]
    assert problem["field"] == "version" and "map.version" in problem["detail"]


def test_a_source_that_has_to_fetch_starts_nothing_where_nothing_is_fetched(folder: Path) -> None:
    secrets = {"HUB_SECRET": "x", "CRM_SECRET": "x", "BUCKET_SECRET": "x", "HUB_TOKEN": "x"}
    said = only_line(livedex(folder, "run", "webhook", LIVEDEX_FETCH_ENABLED="false", **secrets))
    assert "source hub" in said and "LIVEDEX_FETCH_ENABLED" in said


def test_a_payload_that_means_nothing_is_said_to_mean_nothing(folder: Path) -> None:
    done = livedex(folder, "hooks", "test", "hub", str(PAYLOADS / "github_ping.json"))
    assert (done.returncode, "changes no document" in done.stdout) == (0, True)


@pytest.mark.parametrize("arguments", [("crm", "missing.json"), ("nobody", "livedex.toml")])
def test_what_is_not_there_is_said_in_one_line(folder: Path, arguments: tuple[str, ...]) -> None:
    assert arguments[0 if arguments[0] == "nobody" else 1] in only_line(
        livedex(folder, "hooks", "test", *arguments)
    )


@pytest.mark.parametrize("command", [("up",), ("run", "webhook"), ("run", "all")])
@pytest.mark.parametrize(
    "environment",
    [{}, {"CRM_SECRET": ""}, {"CRM_SECRET": " "}],
)
def test_without_a_secret_nothing_starts(
    folder: Path, command: tuple[str, ...], environment: dict[str, str]
) -> None:
    done = livedex(folder, *command, **{"HUB_SECRET": "x", "BUCKET_SECRET": "x"} | environment)
    assert done.returncode == FAILED
    assert "crm" in only_line(done) and "CRM_SECRET" in done.stderr
    assert not (folder / ".livedex").exists()
