"""The program `livedex`: its commands, and the one place where an error becomes one line on stderr
and an exit status.

Exit statuses: 0 done; 1 and 2 are answers of a command (see its help); 3 it failed; 64 it was
called wrongly; 130 or 143 it was told to end. Commands are imported when they are called, so that
help and small commands start at once.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import TypeAlias

import click

from livedex.cli.options import example
from livedex.cli.output import error_line
from livedex.pipeline.errors import LivedexError
from livedex.pipeline.runtime.name_suggestions import nearest_name

FAILED = 3
USAGE_ERROR = 64
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM

CommandEntry: TypeAlias = tuple[str, str]

COMMANDS: dict[str, CommandEntry] = {
    "up": ("livedex.cli.up", "Watch folders, index them and serve the API, all from one command."),
    "run": ("livedex.cli.run", "Run one or more roles of a deployment in this process."),
    "migrate": ("livedex.cli.migrate", "Update the database schema."),
    "search": ("livedex.cli.search", "Search the index."),
    "ask": ("livedex.cli.ask", "Answer a question from the documents, with citations."),
    "mcp": ("livedex.cli.mcp", "Tools for agents, over the Model Context Protocol."),
    "eval": ("livedex.cli.eval", "Measure search quality on judged questions: run, make, watch."),
    "status": (
        "livedex.cli.status",
        "Show documents by state, pending work and health; --wait for it to finish.",
    ),
    "plan": ("livedex.cli.plan", "Show what syncing a folder would change and cost."),
    "cost": ("livedex.cli.cost", "Show what embedding cost, by day, tenant, source and model."),
    "verify": (
        "livedex.cli.verify",
        "Compare the index with its sources; --repair fixes differences.",
    ),
    "sources": (
        "livedex.cli.sources",
        "Manage document sources: list, remove, rename, confirm withheld deletes.",
    ),
    "hooks": ("livedex.cli.hooks", "Dry-run a webhook payload."),
    "dead": ("livedex.cli.dead_letters", "Manage dead letters: list, show, replay, drop."),
    "subscribers": (
        "livedex.cli.subscribers",
        "Manage webhook subscribers: list, resume, read.",
    ),
    "tenants": ("livedex.cli.tenants", "Manage tenants: list, create, delete."),
    "keys": ("livedex.cli.keys", "Manage API keys: create, list, revoke."),
}
"""The module of each command, which names it as the command is called, and its line in the help."""


_SYNONYMS = {
    "start": "up",
    "serve": "up",
    "server": "up",
    "watch": "up",
    "query": "search",
    "find": "search",
    "check": "verify",
    "repair": "verify",
    "ps": "status",
    "health": "status",
    "info": "status",
    "worker": "run",
    "db": "migrate",
    "upgrade": "migrate",
    "init": "migrate",
    "dry-run": "plan",
    "diff": "plan",
    "costs": "cost",
    "bill": "cost",
    "spend": "cost",
    "letters": "dead",
    "dlq": "dead",
    "apikeys": "keys",
    "tokens": "keys",
    "evaluate": "eval",
    "benchmark": "eval",
    "webhooks": "hooks",
}
"""What else the commands are called."""


class Commands(click.Group):
    """The group of all commands; a command's module is imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, or None when there is none."""
        if cmd_name not in COMMANDS:
            return None
        found = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As of click, with the nearest name for a command that there is none of."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            meant = nearest_name(args[0], COMMANDS, _SYNONYMS)
            raise click.UsageError(
                f"No such command {args[0]!r}.{f' Did you mean {meant!r}?' if meant else ''}", ctx
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=Commands,
    epilog=example(
        "livedex up docs", 'livedex search "how long is the warranty"', "livedex search --help"
    ),
)
@click.version_option(package_name="livedex")
def livedex() -> None:
    """Keep a search index true to documents that keep changing."""


def main() -> None:
    """The entry point: ends the process with the command's status."""
    for stream in (sys.stdout, sys.stderr):
        # a terminal's encoding may lack a character
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    status = run_program(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # so that the interpreter's own flush at the end is quiet
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = FAILED
    sys.exit(status)


def run_program(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: without the program's name.

    Returns:
        The exit status; whatever failed was said in one line on stderr.
    """
    try:
        status = livedex.main(list(arguments), prog_name="livedex", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as exc:
        click.echo(exc.format_message())
        return 0
    except click.UsageError as exc:
        return _fail(_usage_error_text(exc), USAGE_ERROR)
    except click.ClickException as exc:
        return _fail(exc.format_message(), FAILED)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else FAILED
    except BrokenPipeError:
        return FAILED  # nobody reads any more
    except Exception as exc:  # noqa: BLE001  # reported; the exit status says so
        return _fail(_error_text(exc), FAILED)
    except BaseExceptionGroup as exc:
        return _fail(_error_text(_first(exc)), FAILED)
    return status if isinstance(status, int) else 0


def _usage_error_text(exc: click.UsageError) -> str:
    """What is wrong with a command line, and where to look."""
    said = exc.format_message().rstrip(".")
    place = f"`{exc.ctx.command_path if exc.ctx else 'livedex'} --help`"
    return f"{said} See {place}" if said.endswith("?") else f"{said}: see {place}"


def _error_text(exc: BaseException) -> str:
    """What to say about an error: what is expected says itself what to do, anything else names its
    kind.
    """
    if isinstance(exc, ExceptionGroup):
        return _error_text(_first(exc))
    if os.environ.get("LIVEDEX_LOG_LEVEL") == "debug":
        traceback.print_exception(exc)
    if isinstance(exc, LivedexError):
        return str(exc)
    if isinstance(exc, OSError):
        place = f"{exc.filename}: " if exc.filename else ""
        return f"{place}{exc.strerror or exc}"
    if type(exc).__module__.startswith("asyncpg"):
        return f"the database refused: {exc}"
    return f"unexpected {type(exc).__name__}: {exc} (LIVEDEX_LOG_LEVEL=debug shows where)"


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def _fail(message: str, status: int) -> int:
    print(error_line(message), file=sys.stderr)
    return status


if __name__ == "__main__":
    main()
