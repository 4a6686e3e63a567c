"""`livedex up` that dies in the middle of telling a subscriber: nothing is lost, and what comes
twice has the same id.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.http.scripted_subscriber import SECRET, SubscriberServer
from tests.support.pipelines.indexed_folder import paragraph
from tests.support.programs.command import livedex

LONGEST_S = 90
DOCUMENTS = 5
DYING = """
import os, sys
from livedex.consumers.notify.webhook_sender import WebhookSender
from livedex.pipeline.store.notification_outbox import NotificationOutbox
deadly, documents, die = sys.argv[1], int(sys.argv[2]), lambda: os._exit(9)
take, send = NotificationOutbox.take, WebhookSender.send
async def late_take(self, tenant_id, subscriber, **named):
    if len(await self.read(tenant_id, subscriber, documents)) < documents:
        return None  # so that no text is under way when this dies
    look = await take(self, tenant_id, subscriber, **named)
    if deadly == "taken" and look.notices:
        die()
    return look
async def dying_send(*args):
    answer = await send(*args)
    die()
    return answer
async def dying_told(*args):
    die()
NotificationOutbox.take = late_take
if deadly == "sent":
    WebhookSender.send = dying_send
elif deadly == "told":
    NotificationOutbox.told = dying_told
sys.argv = ["livedex", *sys.argv[3:]]
from livedex.cli.main import main
main()
"""


@pytest.fixture
def receiver() -> Iterator[SubscriberServer]:
    with SubscriberServer() as server:
        yield server


@pytest.fixture
def embedder() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, receiver: SubscriberServer) -> Path:
    """A working folder with documents and a subscriber."""
    (tmp_path / "docs").mkdir()
    for n in range(DOCUMENTS):
        (tmp_path / "docs" / f"{n}.md").write_text(paragraph(n), "utf-8")
    (tmp_path / "livedex.toml").write_text(
        f'[[subscriber]]\nname = "shop"\nurl = "{receiver.address}/hook"\nsecret_env = '
        f'"SHOP_SECRET"\nallow_hosts = ["{receiver.host}"]\n',
        "utf-8",
    )
    return tmp_path


class Program:
    """`livedex up docs` in a process of its own."""

    def __init__(self, home: Path, embedder: EmbeddingServer) -> None:
        self.home = home
        self.environment = {
            "SHOP_SECRET": SECRET,
            "LIVEDEX_EMBEDDER": "openai:counting",
            "LIVEDEX_EMBEDDER_URL": embedder.url,
            "LIVEDEX_EMBEDDER_API_KEY": "none",
            "LIVEDEX_DIMENSIONS": "32",
        }

    @contextmanager
    def running(self, *python: str) -> Iterator[subprocess.Popen[bytes]]:
        """The program; killed at the end at the latest.

        Args:
            python: what to run instead of the program itself.
        """
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith("LIVEDEX_")
        }
        command = [
            sys.executable,
            *(python or ("-m", "livedex.cli.main")),
            "up",
            "docs",
            "--port",
            str(port),
        ]
        with (self.home / "up.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self.home, env=clean | self.environment, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so."""
        end = time.monotonic() + LONGEST_S
        while not condition():
            assert time.monotonic() < end, (self.home / "up.log").read_text("utf-8")
            time.sleep(0.02)

    def tell_the_rest(self, receiver: SubscriberServer) -> None:
        """Run until everything was told and nothing is left, and end as one should."""
        with self.running() as process:
            self.until(lambda: len({said[1] for said in receiver.said}) == DOCUMENTS)
            self.until(
                lambda: (
                    '"waiting": 0'
                    in livedex(
                        self.home, "subscribers", "list", "--json", **self.environment
                    ).stdout
                )
            )
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


@pytest.fixture
def program(home: Path, embedder: EmbeddingServer) -> Program:
    return Program(home, embedder)


def check_what_was_told(receiver: SubscriberServer, embedder: EmbeddingServer) -> None:
    """Every document once, whatever came how often; and each text paid for once."""
    assert {said[:2] for said in receiver.said} == {
        ("livedex.synced", f"docs/{n}.md") for n in range(DOCUMENTS)
    }
    by_id = {delivery.id: delivery.body for delivery in receiver.deliveries}
    assert len(by_id) == DOCUMENTS, "one id for each version"
    assert all(by_id[delivery.id] == delivery.body for delivery in receiver.deliveries)
    assert receiver.unsigned == []
    assert sorted(embedder.embedded_documents) == sorted(paragraph(n) for n in range(DOCUMENTS))


@pytest.mark.parametrize(("deadly", "repeated"), [("taken", 0), ("sent", 1), ("told", 1)])
def test_a_process_that_dies_between_two_steps_loses_nothing(
    program: Program,
    receiver: SubscriberServer,
    embedder: EmbeddingServer,
    deadly: str,
    repeated: int,
) -> None:
    with program.running("-c", DYING, deadly, str(DOCUMENTS)) as dying:
        assert dying.wait(LONGEST_S) == 9, (program.home / "up.log").read_text("utf-8")
    before = set(receiver.ids)
    assert bool(before) == bool(repeated)
    program.tell_the_rest(receiver)
    check_what_was_told(receiver, embedder)
    assert bool([each for each in before if receiver.ids.count(each) > 1]) == bool(repeated)


def test_a_notification_is_sent_again_with_the_same_id_after_a_kill(
    program: Program, receiver: SubscriberServer, embedder: EmbeddingServer
) -> None:
    released = threading.Event()
    receiver.answer = lambda _: 204 if released.wait(LONGEST_S) else 500
    with program.running() as process:
        program.until(
            lambda: len(embedder.embedded_documents) == DOCUMENTS and len(receiver.ids) == DOCUMENTS
        )
        process.kill()
        process.wait()
    released.set()
    held = set(receiver.ids)
    program.tell_the_rest(receiver)
    check_what_was_told(receiver, embedder)
    assert {each for each in held if receiver.ids.count(each) == 2} == held
