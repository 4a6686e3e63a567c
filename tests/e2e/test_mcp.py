"""Agents use the tools with the official client, over both transports, as their key allows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.e2e.test_cli_access import up
from tests.support.programs.command import livedex

READS = {"search_documents", "ask", "get_document", "list_documents", "sync_status"}
WRITES = {"add_document", "delete_document"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    (home / "docs").mkdir()
    text = "# Refunds\n\nGoods may be sent back within thirty days. " + "Plums are blue. " * 200
    (home / "docs" / "a b.md").write_text(text, "utf-8")
    return home


@pytest.fixture(scope="module")
def url(home: Path) -> Iterator[str]:
    with up(home, "127.0.0.1") as (url, _):
        assert livedex(home, "status", "--wait", "60").returncode == 0
        yield url


def stdio(home: Path, **environment: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "livedex", "mcp", "--data", str(home / ".livedex")],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=home,
    )


async def told(client: Client, tool: str, **arguments: Any) -> tuple[bool, str]:
    result = await client.call_tool(tool, arguments)
    return bool(result.is_error), result.content[0].text  # type: ignore[union-attr]


async def test_both_transports_offer_the_same_answers(home: Path, url: str) -> None:
    answers = []
    for server, tools in ((f"{url}/mcp", READS | WRITES), (stdio(home), READS)):
        async with Client(server) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == tools
            failed, found = await told(client, "search_documents", query="goods back", limit=2)
            assert not failed and "[1] docs/a b.md > Refunds" in found and "thirty days" in found
            failed, answer = await told(client, "ask", question="When may goods be sent back?")
            assert not failed and "within thirty days. [1]" in answer
            failed, text = await told(
                client, "get_document", document_id="docs/a b.md", max_chars=500
            )
            assert not failed and len(text) <= 500 and text.endswith("[cut]")
            failed, listed = await told(client, "list_documents")
            assert not failed and listed == "docs/a b.md (synced) Refunds"
            failed, why = await told(client, "get_document", document_id="none")
            assert failed and "404" in why
            failed, why = await told(client, "search_documents", query=" ")
            assert failed and "nothing but white space" in why
            resource = await client.read_resource("livedex://documents/docs/a%20b.md")
            assert "thirty days" in resource.contents[0].text  # type: ignore[union-attr]
            answers.append((found, answer, text))
    assert answers[0] == answers[1]


async def test_what_an_agent_adds_is_searchable_and_can_be_deleted(url: str) -> None:
    async with Client(f"{url}/mcp") as client:
        _, added = await told(client, "add_document", document_id="x/y", text="Zebras are striped.")
        _, state = await told(client, "sync_status", token=added.split("token: ")[1], wait_s=30)
        assert state == "synced"
        assert "x/y" in (await told(client, "search_documents", query="zebras"))[1]
        _, deleted = await told(client, "delete_document", document_id="x/y")
        await told(client, "sync_status", token=deleted.split("token: ")[1], wait_s=30)
        assert (await told(client, "get_document", document_id="x/y"))[0]


async def test_a_request_from_elsewhere_stays_one(url: str) -> None:
    call = {"method": "tools/call", "params": {"name": "list_documents", "arguments": {}}}
    headers = {"accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient() as http:
        for more in ({"host": "evil.example"}, {"x-forwarded-for": "1.2.3.4"}):
            answer = await http.post(
                f"{url}/mcp", json={"jsonrpc": "2.0", "id": 1, **call}, headers=headers | more
            )
            assert answer.json()["result"]["isError"] and "docs/a b.md" not in answer.text


async def test_a_key_allows_what_its_scopes_say(home: Path, url: str) -> None:
    made = livedex(
        home,
        "keys",
        "create",
        "--tenant",
        "default",
        "--name",
        "agent",
        "--scope",
        "search",
        "--json",
    )
    key = json.loads(made.stdout)
    try:
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key['key']}"})
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with http, Client(transport) as client:
            assert not (await told(client, "search_documents", query="goods"))[0]
            failed, why = await told(client, "ask", question="goods")
            assert failed and "ask" in why
            failed, why = await told(client, "add_document", document_id="n", text="x")
            assert failed and "documents:write" in why
        async with Client(f"{url}/mcp") as client:
            failed, why = await told(client, "list_documents")
            assert failed and "docs" not in why, why
        async with Client(stdio(home, LIVEDEX_MCP_KEY=key["key"])) as client:
            assert not (await told(client, "search_documents", query="goods"))[0]
            assert {tool.name for tool in (await client.list_tools()).tools} == READS | WRITES
    finally:
        assert livedex(home, "keys", "revoke", key["id"]).returncode == 0


@pytest.mark.parametrize("client", ["claude-desktop", "cursor", "vscode", "zed"])
def test_the_printed_configuration_starts_the_server(home: Path, url: str, client: str) -> None:
    shown = json.loads(livedex(home, "mcp", "config", client).stdout)
    [servers] = shown.values()
    command = servers["livedex"]
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    done = subprocess.run(
        [command["command"], *command["args"]],
        input=json.dumps(hello) + "\n",
        capture_output=True,
        text=True,
        cwd="/",
        timeout=60,
        check=False,
    )
    [line] = done.stdout.splitlines()
    assert json.loads(line)["result"]["serverInfo"]["name"] == "livedex"


def test_without_a_server_the_command_says_what_to_do(tmp_path: Path) -> None:
    done = livedex(tmp_path, "mcp")
    assert done.returncode == 3 and "--url" in done.stderr and done.stdout == ""
