"""`livedex up` over Kafka, as a user meets it: waiting for Kafka, documents searchable, and an end
whatever Kafka does.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.kafka.server import KafkaServer
from tests.support.programs.command import livedex

LONGEST_S = 90


@contextmanager
def up(home: Path, settings: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """`livedex up docs`, not yet ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LIVEDEX_")}
    command = [sys.executable, "-m", "livedex.cli.main", "up", "docs", "--port", str(port)]
    with (home / "up.out").open("wb") as out, (home / "up.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=home, env=clean | settings, text=True, stdout=out, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(condition: Callable[[], bool], home: Path) -> None:
    """Wait until something is so."""
    end = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < end, (home / "up.log").read_text("utf-8")
        time.sleep(0.05)


def test_up_waits_for_kafka_syncs_and_ends_with_and_without_it(
    kafka_server: KafkaServer, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(
        "# Espresso\n\nDescale the boiler with citric acid whenever the orange lamp blinks.\n",
        "utf-8",
    )
    settings = {
        "LIVEDEX_BROKER_URL": f"kafka://{kafka_server.bootstrap}",
        "LIVEDEX_KAFKA_PARTITIONS": "2",
    }
    out, log = tmp_path / "up.out", tmp_path / "up.log"

    def waits() -> bool:
        return "is unavailable, waiting" in log.read_text("utf-8")

    def ready() -> bool:
        return "ready http" in out.read_text("utf-8")

    kafka_server.kill()
    with up(tmp_path, settings) as program:
        until(waits, tmp_path)
        assert not ready()
        program.send_signal(signal.SIGTERM)
        assert program.wait(LONGEST_S) == 0, "told to end before it had begun"
    with up(tmp_path, settings) as program:
        until(waits, tmp_path)
        kafka_server.restart()
        until(ready, tmp_path)
        assert livedex(tmp_path, "status", "--wait", str(LONGEST_S), **settings).returncode == 0
        status = json.loads(livedex(tmp_path, "status", "--json", **settings).stdout)
        assert status["documents"]["synced"] == 1 and status["health"]["broker"] == "ok"
        assert {name: stage["waiting"] for name, stage in status["stages"].items()} == {
            "chunk": 0,
            "embed": 0,
            "sync": 0,
        }
        assert "docs/a.md" in livedex(tmp_path, "search", "descale the boiler", **settings).stdout
        program.send_signal(signal.SIGTERM)
        assert program.wait(LONGEST_S) == 0
    with up(tmp_path, settings) as program:
        until(ready, tmp_path)
        kafka_server.kill()
        program.send_signal(signal.SIGTERM)
        assert program.wait(LONGEST_S) == 0, "Kafka does not hold up an end"
    assert "Traceback" not in log.read_text("utf-8")
