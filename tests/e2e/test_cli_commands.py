"""The commands beside a running `livedex up` and after it has ended, with the embedder that needs
no network.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs.command import livedex, only_line

TEXTS = {
    "refunds.md": "# Refunds\n\nGoods may be sent back within thirty days after delivery; "
    "the money is paid to the card used for the purchase.\n",
    "espresso.md": "# Espresso machine\n\nDescale the boiler with citric acid whenever the "
    "orange lamp blinks, and never pour vinegar in.\n",
    "sub/printer.txt": "The printer of the office answers at 192.168.0.10; its toner lies in "
    "the cupboard beside the stairs.\n",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with a folder of documents."""
    home = tmp_path_factory.mktemp("home")
    for name, text in TEXTS.items():
        path = home / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return home


@pytest.fixture(scope="module")
def up(home: Path) -> Iterator[subprocess.Popen[str]]:
    """`livedex up docs`, ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LIVEDEX_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "livedex.cli.main", "up", "docs", "--port", str(port)],
        cwd=home,
        env=clean,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert any(line.startswith("ready http") for line in process.stdout)
    yield process
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    process.stdout.close()


def answer(home: Path, *arguments: str, status: int = 0) -> dict[str, Any]:
    """What a command prints as JSON."""
    done = livedex(home, *arguments, "--json")
    assert done.returncode == status, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


def found_by_both(home: Path, *arguments: str) -> list[dict[str, Any]]:
    """The hits of a search for which the model answered in time, as on a busy machine it may not:
    the search says so then, and is made again.
    """
    found = answer(home, "search", *arguments)
    end = time.monotonic() + 60
    while found["degraded"]:
        assert time.monotonic() < end, found["degraded"]
        found = answer(home, "search", *arguments)
    return list(found["hits"])


def check_the_commands(home: Path) -> None:
    """What holds whether `up` runs or not."""
    assert livedex(home, "status", "--wait", "60").returncode == 0
    status = answer(home, "status")
    assert {state: n for state, n in status["documents"].items() if n} == {"synced": len(TEXTS)}
    assert status["stages"] == {
        name: {"waiting": 0, "oldest_s": 0.0} for name in ("chunk", "embed", "sync")
    }
    assert status["health"] == {"database": "ok", "broker": "ok", "embedder": "ok"}
    hits = found_by_both(home, "how do I descale the espresso machine", "--limit", "2")
    assert hits[0]["document_id"] == "docs/espresso.md"
    assert len(hits) == 2
    assert (
        "docs/espresso.md"
        in livedex(home, "search", "descale espresso machine", "--mode", "keyword").stdout
    )
    assert answer(home, "search", "espresso", "--collection", "nothing-in-it")["hits"] == []
    assert answer(home, "search", "espresso", "--where", '{"kind": "policy"}')["hits"] == []
    plan = answer(home, "plan", "docs")
    assert (plan["unchanged"], plan["added"], plan["chunks_to_embed"], plan["price"]) == (
        len(TEXTS),
        0,
        0,
        {"amount": "0", "currency": "USD"},
    )
    proof = answer(home, "verify")
    assert (proof["documents"], proof["differences"], proof["repaired"]) == (len(TEXTS), [], 0)
    assert proof["passages"] == proof["vectors"] == len(TEXTS)
    assert answer(home, "dead", "list") == {"dead": []}
    assert livedex(home, "migrate").stdout == "the schema is up to date\n"


@pytest.mark.usefixtures("up")
def test_beside_a_running_up_the_commands_share_its_database(home: Path) -> None:
    check_the_commands(home)


@pytest.mark.usefixtures("up")
def test_a_wait_covers_what_was_saved_just_before_it(home: Path) -> None:
    new = home / "docs" / "new.md"
    for n in range(5):
        new.write_text(f"Marker{n} holds for a moment.\n", "utf-8")
        assert livedex(home, "status", "--wait").returncode == 0
        assert f"Marker{n}" in livedex(home, "search", f"Marker{n}", "--mode", "keyword").stdout
    new.unlink()
    assert livedex(home, "status", "--wait", "60").returncode == 0
    assert "Marker4" not in livedex(home, "search", "Marker4", "--mode", "keyword").stdout


def test_after_up_has_ended_the_commands_start_the_database_and_stop_it(
    home: Path, up: subprocess.Popen[str]
) -> None:
    up.send_signal(signal.SIGTERM)
    assert up.wait(60) == 0
    check_the_commands(home)
    end = time.monotonic() + 30
    while list(home.rglob("postmaster.pid")):
        assert time.monotonic() < end, "a command has left its database running"
        time.sleep(0.1)


def test_after_up_has_ended_a_changed_folder_is_told_at_once_planned_and_repaired(
    home: Path, up: subprocess.Popen[str]
) -> None:
    up.send_signal(signal.SIGTERM)
    assert up.wait(60) == 0
    (home / "docs/refunds.md").unlink()
    (home / "docs/added.md").write_text(
        "# Added\n\nSomething that nobody has said before.\n", "utf-8"
    )
    waited = livedex(home, "status", "--wait", "600")
    assert waited.returncode == 1
    [line] = waited.stderr.splitlines()
    assert "livedex up" in line
    plan = answer(home, "plan", "docs")
    assert (plan["added"], plan["deleted"], plan["unchanged"], plan["chunks_to_embed"]) == (
        1,
        1,
        2,
        1,
    )
    shown = livedex(home, "verify")
    assert shown.returncode == 1
    assert "docs/refunds.md" in shown.stdout
    assert "docs/added.md" in shown.stdout
    assert answer(home, "verify", "--repair")["repaired"] == 2
    assert answer(home, "verify")["differences"] == []
    assert livedex(home, "status", "--wait", "5").returncode == 0


def test_a_plan_needs_no_index_and_makes_none(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(TEXTS["refunds.md"], "utf-8")
    plan = answer(tmp_path, "plan", "docs")
    assert (plan["added"], plan["chunks_to_embed"]) == (1, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["docs"]
    assert "elsewhere" in only_line(livedex(tmp_path, "plan", "elsewhere"))
