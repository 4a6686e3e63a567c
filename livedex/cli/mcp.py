"""`livedex mcp`."""

from __future__ import annotations

import json
import logging
import os
import sys
from importlib.metadata import version
from pathlib import Path

import click

from livedex.cli.event_loop import run_command
from livedex.cli.options import data_option, example
from livedex.pipeline.errors import ConfigError

KEY_VARIABLE = "LIVEDEX_MCP_KEY"
_CLIENTS = ("claude-code", "claude-desktop", "cursor", "vscode", "windsurf", "zed")


@click.group(
    "mcp",
    invoke_without_command=True,
    epilog=example("livedex mcp", "livedex mcp config claude-desktop"),
)
@click.option("--url", help="URL of the API. Default: that of the running `livedex up`.")
@data_option
@click.pass_context
def mcp(ctx: click.Context, url: str | None, data: Path) -> int:
    """Serve the Model Context Protocol over stdio, for agents on this machine.

    The tools call the API with the key in LIVEDEX_MCP_KEY. Without a key, they only read.

    Agents elsewhere use the endpoint /mcp of the API, with the same keys.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    run_command(_serve(url or _running_url(data)))
    return 0


@mcp.command("config", epilog=example("livedex mcp config cursor"))
@click.argument("client", type=click.Choice(_CLIENTS))
@data_option
def config(client: str, data: Path) -> int:
    """Print the configuration that lets a client start this server."""
    command = {
        "command": sys.executable,
        "args": ["-m", "livedex", "mcp", "--data", str(data.absolute())],
    }
    if os.environ.get(KEY_VARIABLE):
        command["env"] = {KEY_VARIABLE: "your key"}  # type: ignore[assignment]
    if client == "vscode":
        shown = {"servers": {"livedex": {"type": "stdio", **command}}}
    elif client == "zed":
        shown = {"context_servers": {"livedex": {"source": "custom", **command}}}
    else:
        shown = {"mcpServers": {"livedex": command}}
    click.echo(json.dumps(shown, indent=2))
    return 0


def _running_url(data: Path) -> str:
    from livedex.app.wiring import read_up_state

    url = read_up_state(data).get("url")
    if not url:
        raise ConfigError(
            f"no `livedex up` was started in {data}: start it, or name the API with --url"
        )
    return str(url)


async def _serve(url: str) -> None:
    from livedex.pipeline.mcp.api_client import RemoteApiClient
    from livedex.pipeline.mcp.server import create_mcp_server

    # stdout belongs to the protocol
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, force=True)
    key = os.environ.get(KEY_VARIABLE, "").strip()
    api = RemoteApiClient(url, key)
    try:
        await create_mcp_server(api, version("livedex"), writes=bool(key)).run_stdio_async()
    finally:
        await api.close()
