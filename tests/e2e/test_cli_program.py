"""The program's frame as a user meets it: help, refusals in one line, statuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from livedex.cli.main import COMMANDS, FAILED, USAGE_ERROR
from tests.support.programs.command import livedex, only_line, run_from_start


def test_help_names_every_command(tmp_path: Path) -> None:
    done = run_from_start(tmp_path, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == livedex(tmp_path, "--help").stdout
    assert [name for name in COMMANDS if f"\n  {name} " not in done.stdout] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(tmp_path: Path, command: str) -> None:
    done = livedex(tmp_path, command, "--help")
    assert done.returncode == 0
    assert f"livedex {command}" in done.stdout.split("Example:")[1]


@pytest.mark.parametrize("command", ["list", "show", "replay", "drop"])
def test_every_command_on_dead_letters_has_help_with_an_example(
    tmp_path: Path, command: str
) -> None:
    done = livedex(tmp_path, "dead", command, "--help")
    assert done.returncode == 0
    assert f"livedex dead {command}" in done.stdout.split("Example:")[1]


@pytest.mark.parametrize(
    "arguments", [(), ("dead",), ("keys",), ("tenants",), ("subscribers",), ("hooks",)]
)
def test_a_group_without_a_command_shows_its_help(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = livedex(tmp_path, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: livedex") and len(done.stdout.splitlines()) > 8


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("serach", "x"), "search"),
        (("stauts",), "status"),
        (("serve",), "up"),
        (("dead", "lst"), "list"),
        (("run", "wach"), "watch"),
    ],
)
def test_the_nearest_name_is_suggested(
    tmp_path: Path, arguments: tuple[str, ...], meant: str
) -> None:
    assert re.search(rf"[Dd]id you mean '?{meant}'?\?", only_line(livedex(tmp_path, *arguments)))


def test_an_unknown_command_is_named_in_one_line(tmp_path: Path) -> None:
    done = livedex(tmp_path, "serach", "espresso")
    assert "serach" in only_line(done)
    assert done.returncode == USAGE_ERROR


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("search", "espresso"),
        ("verify",),
        ("dead", "list"),
        ("dead", "replay", "--all"),
    ],
)
def test_where_nothing_was_ever_started_a_command_says_so_and_starts_nothing(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = livedex(tmp_path, *arguments)
    assert "livedex up" in only_line(done)
    assert done.returncode == FAILED
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("plan", "no\nwhere"), "no where"),
        (("status", "--wait", "soon"), "soon"),
        (("search",), "QUERY"),
        (("search", "x", "--where", "[1]"), "object"),
        (("search", "x", "--where", "{"), "JSON"),
        (("search", "x", "--mode", "guess"), "guess"),
        (("dead", "replay"), "--all"),
        (("dead", "drop", "some", "--all"), "--all"),
    ],
)
def test_a_wrong_call_is_named_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], named: str
) -> None:
    assert named in only_line(livedex(tmp_path, *arguments))


def test_a_misspelt_setting_is_named_by_a_command_too(tmp_path: Path) -> None:
    done = run_from_start(tmp_path, "status", LIVEDEX_CHUNK_SIEZ="900")
    assert "LIVEDEX_CHUNK_SIEZ" in only_line(done)


def test_a_database_that_does_not_answer_is_one_line_without_its_password(tmp_path: Path) -> None:
    line = only_line(
        livedex(tmp_path, "status", LIVEDEX_DATABASE_URL="postgresql://me:secret@127.0.0.1:9/none")
    )
    assert "LIVEDEX_DATABASE_URL" in line
    assert "secret" not in line


def test_migrate_prints_every_statement_without_a_database(tmp_path: Path) -> None:
    done = livedex(tmp_path, "migrate", "--sql")
    assert done.returncode == 0
    assert "create extension if not exists vector" in done.stdout
    assert "create table documents" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_migrating_a_database_that_does_not_answer_names_the_setting(tmp_path: Path) -> None:
    line = only_line(
        livedex(tmp_path, "migrate", LIVEDEX_DATABASE_URL="postgresql://me:secret@127.0.0.1:9/none")
    )
    assert "LIVEDEX_DATABASE_URL" in line
    assert "secret" not in line


def test_a_bad_url_is_one_line_too(tmp_path: Path) -> None:
    assert "LIVEDEX_DATABASE_URL" in only_line(
        livedex(tmp_path, "status", LIVEDEX_DATABASE_URL="nonsense")
    )
