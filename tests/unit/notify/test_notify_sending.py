"""One attempt: what is sent, what each answer means, and where nothing is sent to."""

from __future__ import annotations

import gzip
import socket
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from livedex.consumers.notify import webhook_sender as sending
from livedex.consumers.notify.webhook_sender import Delivered, DeliveryFailed, Unsubscribed
from tests.support.http.scripted_server import HttpResponse
from tests.support.http.scripted_subscriber import SubscriberServer
from tests.unit.notify.conftest import NOTICE, Send


async def test_what_is_sent_is_the_event_signed_over_its_exact_bytes(
    send: Send, receiver: SubscriberServer
) -> None:
    assert await send() == Delivered()
    [delivery] = receiver.deliveries
    assert (delivery.id, delivery.path, delivery.body) == (
        NOTICE.webhook_id,
        "/hook?token=hidden",
        NOTICE.encode(),
    )
    assert delivery.headers["content-type"] == "application/cloudevents+json"
    assert "." not in delivery.id
    assert receiver.unsigned == []


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_every_2xx_means_told(send: Send, receiver: SubscriberServer, status: int) -> None:
    receiver.answer = lambda _: status
    assert await send() == Delivered()


async def test_410_means_that_nothing_more_is_wanted(
    send: Send, receiver: SubscriberServer
) -> None:
    receiver.answer = lambda _: 410
    assert isinstance(await send(), Unsubscribed)


@pytest.mark.parametrize("status", [300, 400, 401, 403, 404, 409, 422, 500, 501, 599])
async def test_a_refusal_is_of_this_notice(
    send: Send, receiver: SubscriberServer, status: int
) -> None:
    receiver.answer = lambda _: status
    answer = await send()
    assert isinstance(answer, DeliveryFailed)
    assert (answer.reason, answer.counts_as_attempt, answer.is_subscriber_failure) == (
        "refused",
        True,
        False,
    )
    assert str(status) in answer.detail


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_gateway_s_failure_means_that_the_subscriber_is_away(
    send: Send, receiver: SubscriberServer, status: int
) -> None:
    receiver.answer = lambda _: status
    answer = await send()
    assert isinstance(answer, DeliveryFailed)
    assert (answer.reason, answer.counts_as_attempt, answer.is_subscriber_failure) == (
        "unreachable",
        True,
        True,
    )


@pytest.mark.parametrize(
    ("status", "value", "least", "most"),
    [
        (429, "2", 2, 2),
        (503, "3600", 3600, 3600),
        (429, "in five minutes", 280, 301),
        (429, "-1", None, None),
        (429, "soon", None, None),
        (429, None, None, None),
        (429, "9" * 40, 86_400, 86_400),
    ],
)
async def test_who_asks_for_patience_gets_it_and_no_attempt_is_used_up(
    send: Send,
    receiver: SubscriberServer,
    status: int,
    value: str | None,
    least: float | None,
    most: float | None,
) -> None:
    if value == "in five minutes":
        value = format_datetime(datetime.now(UTC) + timedelta(seconds=300), usegmt=True)
    receiver.answer = lambda _: HttpResponse(
        status, b"", {} if value is None else {"retry-after": value}
    )
    answer = await send()
    assert isinstance(answer, DeliveryFailed)
    assert (answer.reason, answer.counts_as_attempt) == ("throttled", False)
    assert (
        answer.retry_after_s is None
        if least is None
        else answer.retry_after_s is not None
        and most is not None
        and least <= answer.retry_after_s <= most
    )


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(
    send: Send, receiver: SubscriberServer, status: int
) -> None:
    receiver.answer = lambda _: HttpResponse(status, b"", {"location": f"{receiver.address}/inner"})
    answer = await send()
    assert isinstance(answer, DeliveryFailed)
    assert answer.reason == "refused"
    assert [delivery.path for delivery in receiver.deliveries] == ["/hook?token=hidden"]


async def test_an_answer_is_read_within_bounds_and_its_status_counts(
    send: Send, receiver: SubscriberServer
) -> None:
    packed = gzip.compress(bytes(50_000_000))
    receiver.answer = lambda _: HttpResponse(200, packed, {"content-encoding": "gzip"})
    assert await send() == Delivered()
    receiver.answer = lambda _: HttpResponse(200, b"cut off", {}, missing_bytes=3)
    assert await send() == Delivered()


async def test_an_answer_that_never_ends_has_said_all_with_its_status(send: Send) -> None:
    with _Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nx") as port:
        assert await send(f"http://127.0.0.1:{port}/", allowed=["127.0.0.1"]) == Delivered()


async def test_a_subscriber_that_says_nothing_is_away(
    send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "TOTAL_TIMEOUT_S", 0.3)
    with _Raw(b"") as port:
        answer = await send(f"http://127.0.0.1:{port}/", allowed=["127.0.0.1"])
    assert isinstance(answer, DeliveryFailed)
    assert (answer.reason, answer.detail) == ("unreachable", "127.0.0.1: no answer in time")


async def test_what_is_no_http_is_no_answer(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it known to be none before its time is over, for its server leaves the connection
    open.
    """
    monkeypatch.setattr(sending, "TOTAL_TIMEOUT_S", 0.3)
    with _Raw(b"SSH-2.0-OpenSSH_9.6\r\n") as port:
        answer = await send(f"http://127.0.0.1:{port}/", allowed=["127.0.0.1"])
    assert isinstance(answer, DeliveryFailed)
    assert answer.reason == "unreachable"


async def test_a_connection_that_is_refused_says_nothing_of_the_url_but_its_host(
    send: Send,
) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    answer = await send(f"http://127.0.0.1:{port}/hook?token=hidden", allowed=["127.0.0.1"])
    assert isinstance(answer, DeliveryFailed)
    assert answer.reason == "unreachable"
    assert "hidden" not in answer.detail and "/hook" not in answer.detail


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["::ffff:127.0.0.1"],
        ["fd00::1"],
        ["100.64.0.1"],
        ["0.0.0.0"],
        ["1.1.1.1", "127.0.0.1"],
    ],
)
async def test_a_name_that_leads_inside_is_not_told(
    send: Send, receiver: SubscriberServer, addresses: list[str]
) -> None:
    port = receiver.host.rpartition(":")[2]
    answer = await send(f"https://hooks.example:{port}/", addresses=addresses, allowed=[])
    assert isinstance(answer, DeliveryFailed)
    assert answer.reason == "address_refused"
    assert "allow_hosts" in answer.detail and not any(
        address in answer.detail for address in addresses
    )
    assert receiver.deliveries == [] and receiver.unsigned == []


async def test_a_private_host_that_the_operator_names_is_told_and_no_other_port_of_it(
    send: Send, receiver: SubscriberServer
) -> None:
    port = receiver.host.rpartition(":")[2]
    assert (
        await send(
            f"http://shop.internal:{port}/",
            addresses=["127.0.0.1"],
            allowed=[f"shop.internal:{port}"],
        )
        == Delivered()
    )
    assert receiver.deliveries[0].headers["host"] == f"shop.internal:{port}"
    answer = await send(
        f"http://shop.internal:{port}/", addresses=["127.0.0.1"], allowed=["shop.internal:1"]
    )
    assert isinstance(answer, DeliveryFailed) and answer.reason == "address_refused"


async def test_a_proxy_of_the_environment_is_not_used(
    send: Send, receiver: SubscriberServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert await send() == Delivered()


class _Raw:
    """A server that sends these bytes to whoever asks, and then nothing."""

    def __init__(self, answer: bytes) -> None:
        self._answer, self._socket = answer, socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> int:
        self._thread.start()
        return int(self._socket.getsockname()[1])

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for each in self._open:
            each.close()

    def _serve(self) -> None:
        while True:
            try:
                each = self._socket.accept()[0]
            except OSError:
                return
            self._open.append(each)
            each.recv(65_536)
            each.sendall(self._answer)


def test_the_longest_attempt_is_shorter_than_its_lease() -> None:
    from livedex.consumers.notify.delivery_worker import LEASE_S

    assert sending.TOTAL_TIMEOUT_S + 10 < LEASE_S
