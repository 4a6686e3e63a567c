"""Keys and tenants through the program, with the API on an address that others can reach."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.programs.command import livedex, only_line


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    (home / "docs").mkdir()
    (home / "docs" / "refunds.md").write_text(
        "# Refunds\n\nGoods may be sent back within thirty days after delivery.\n", "utf-8"
    )
    return home


@contextmanager
def up(home: Path, host: str) -> Iterator[tuple[str, list[str]]]:
    """`livedex up docs` on a host: its URL, and what it said before it was ready."""
    port = free_port()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LIVEDEX_")}
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "livedex.cli.main",
            "up",
            "docs",
            "--host",
            host,
            "--port",
            str(port),
        ],
        cwd=home,
        env=clean,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    said: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line.strip())
            if line.startswith("ready http"):
                break
        yield f"http://127.0.0.1:{port}", said
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        process.stdout.close()


def answer(home: Path, *arguments: str) -> dict[str, Any]:
    done = livedex(home, *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


def shown(key: dict[str, Any]) -> dict[str, str]:
    return {"Authorization": f"Bearer {key['key']}"}


def check_evaluations_see_the_tenant_of_their_key(
    home: Path, url: str, acme: str, mine: str
) -> None:
    made = livedex(home, "eval", "make", "--url", url, "--output", "made.jsonl", LIVEDEX_KEY=mine)
    assert (made.returncode, made.stderr) == (0, "")
    assert "acme" not in (home / "made.jsonl").read_text("utf-8")
    arguments = ("eval", "made.jsonl", "--url", url)
    found = livedex(home, *arguments, "--json", LIVEDEX_KEY=mine)
    assert json.loads(found.stdout)["configurations"][0]["measures"]["RR@10"] == 1
    assert "judged documents" in only_line(livedex(home, *arguments, LIVEDEX_KEY=acme))
    assert "LIVEDEX_KEY" in only_line(livedex(home, *arguments))
    told = only_line(livedex(home, *arguments, LIVEDEX_KEY=f"{mine[:-1]}_"))
    assert "401" in told and mine[:-1] not in told


def test_keys_tenants_and_addresses_from_the_first_start_on(home: Path) -> None:
    assert "keys create" in only_line(
        livedex(home, "up", "docs", "--host", "0.0.0.0", "--port", str(free_port()))
    )
    key = answer(
        home,
        "keys",
        "create",
        "--tenant",
        "acme",
        "--name",
        "web",
        "--scope",
        "search",
        "--scope",
        "documents:write",
    )
    assert {"id", "key", "tenant", "scopes"} <= set(key)
    assert (key["tenant"], key["scopes"]) == ("acme", ["documents:write", "search"])
    mine = answer(
        home,
        "keys",
        "create",
        "--tenant",
        "default",
        "--name",
        "me",
        "--scope",
        "search",
        "--expires-in",
        "1",
    )

    with up(home, "0.0.0.0") as (url, said), httpx.Client(base_url=url) as http:
        assert "every request needs an API key" in said
        assert http.get("/v1/documents").status_code == 403
        assert (
            http.get("/v1/documents", headers={"X-API-Key": key["key"][:-1] + "_"}).status_code
            == 401
        )
        assert http.get("/v1/documents", headers=shown(key)).json()["documents"] == []
        put = http.put(
            "/v1/documents/a", json={"text": "Only acme has this harbour."}, headers=shown(key)
        )
        assert put.status_code == 202
        assert (
            http.get(f"/v1/sync/{put.json()['token']}?wait_s=30", headers=shown(key)).json()[
                "state"
            ]
            == "synced"
        )
        assert livedex(home, "status", "--wait", "60").returncode == 0
        assert [
            d["document_id"]
            for d in http.get("/v1/documents", headers=shown(mine)).json()["documents"]
        ] == ["docs/refunds.md"]
        check_evaluations_see_the_tenant_of_their_key(home, url, key["key"], mine["key"])
        assert http.get("/v1/documents/a", headers=shown(mine)).status_code == 404
        assert http.delete("/v1/documents/a", headers=shown(mine)).status_code == 403

        listed = livedex(home, "keys", "list")
        assert key["id"] in listed.stdout and key["key"] not in listed.stdout
        assert [t["tenant"] for t in answer(home, "tenants", "list")["tenants"]] == [
            "acme",
            "default",
        ]
        assert answer(home, "keys", "revoke", mine["id"]) == {"id": mine["id"], "revoked": True}
        assert http.get("/v1/documents", headers=shown(mine)).status_code == 401

        refused = only_line(livedex(home, "tenants", "delete", "default", "--yes"))
        assert (
            "default is fed by the source docs: start `livedex up` without the folder of docs"
            in refused
            and "livedex.toml" not in refused
        )
        asked = livedex(home, "tenants", "delete", "acme")
        assert (asked.returncode, "documents" in asked.stdout, "--yes" in asked.stderr) == (
            64,
            True,
            True,
        )
        assert http.get("/v1/documents/a", headers=shown(key)).status_code == 200
        assert answer(home, "tenants", "delete", "acme", "--yes")["deleted"]["documents"] == 1
        assert http.get("/v1/documents", headers=shown(key)).status_code == 401
        assert "was deleted" in only_line(
            livedex(home, "keys", "create", "--tenant", "acme", "--name", "x", "--scope", "search")
        )
        assert [t["tenant"] for t in answer(home, "tenants", "list")["tenants"]] == ["default"]

    again = answer(home, "keys", "create", "--tenant", "other", "--name", "x", "--scope", "search")
    with up(home, "127.0.0.1") as (url, said), httpx.Client(base_url=url) as http:
        assert any("every request needs an API key" in line for line in said), (
            "since one was ever made"
        )
        assert http.get("/v1/documents").status_code == 403
        assert http.get("/v1/documents", headers=shown(again)).json()["documents"] == []
        assert http.get("/v1/documents", headers=shown(key)).status_code == 401
        assert http.get("/v1/documents", headers={"Host": "attacker.example"}).status_code == 403


def test_rights_from_the_source_to_the_reader(home: Path) -> None:
    (home / "pay").mkdir()
    (home / "pay" / "days.md").write_text("# Salaries\n\nThey are paid on the 25th.\n")
    (home / "livedex.toml").write_text(
        f'[[source]]\nname = "pay"\nkind = "folder"\npath = "{home / "pay"}"\nacl = ["group:hr"]\n'
    )
    with up(home, "127.0.0.1") as (url, _), httpx.Client(base_url=url) as http:
        assert livedex(home, "status", "--wait", "60").returncode == 0
        trusted = shown(
            answer(
                home,
                "keys",
                "create",
                "--tenant",
                "default",
                "--name",
                "x",
                "--scope",
                "search",
                "--scope",
                "act_as",
            )
        )
        for principals, status in (["group:hr"], 200), (["user:ann"], 404):
            assert (
                http.get(
                    "/v1/documents/pay/days.md", params={"principals": principals}, headers=trusted
                ).status_code
                == status
            )
        assert http.get("/v1/documents/pay/days.md", headers=trusted).status_code == 404
        for said, right in (
            ((), True),
            (("--principal", "user:ann"), False),
            (("--principal", "user:ann", "--principal", "group:hr"), True),
        ):
            hits = answer(home, "search", "when are salaries paid", *said)["hits"]
            assert ("pay/days.md" in [hit["document_id"] for hit in hits]) is right, said


@pytest.mark.parametrize(
    "arguments",
    [
        ["keys", "create", "--name", "x", "--scope", "search"],
        ["keys", "create", "--tenant", "a", "--name", "x"],
        ["keys", "create", "--tenant", "a", "--name", "x", "--scope", "everything"],
        ["keys", "create", "--tenant", "a\nb", "--name", "x", "--scope", "search"],
        ["keys", "create", "--tenant", "a", "--name", " ", "--scope", "search"],
        [
            "keys",
            "create",
            "--tenant",
            "a",
            "--name",
            "x",
            "--scope",
            "search",
            "--expires-in",
            "0",
        ],
        ["tenants", "delete", ""],
    ],
)
def test_a_key_or_tenant_without_sense_is_refused_in_one_line(
    tmp_path: Path, arguments: list[str]
) -> None:
    assert "--help" in only_line(livedex(tmp_path, *arguments))


def test_nothing_is_revoked_or_listed_where_nothing_was_ever_started(tmp_path: Path) -> None:
    for arguments in (["keys", "list"], ["keys", "revoke", "0123456789ab"], ["tenants", "list"]):
        assert "never" in only_line(
            livedex(tmp_path, *arguments)
        ) or "nothing was ever started" in only_line(livedex(tmp_path, *arguments))
