"""Object storage that fails: what is a mistake of the configuration is said at the start, what may
pass is waited for, and nothing is lost or told.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from livedex.pipeline.errors import ConfigError, LivedexError, OutageError
from livedex.pipeline.settings.blob_location import parse_blob_url
from livedex.pipeline.store.blobs.object_storage import ObjectStorage, StorageTimeouts
from tests.support.http.scripted_s3 import (
    BUCKET,
    HANG_UP,
    KEY,
    SECRET,
    Answer,
    Request,
    S3Server,
    error_response,
)

PATIENCE = StorageTimeouts(connect_s=2, request_s=0.5, retry_s=2, retries=2, start_s=10)
CONTENT = b"large content " * 30_000


def in_s3(bucket: str = BUCKET) -> ObjectStorage:
    return ObjectStorage(parse_blob_url(f"s3://{bucket}/prefix"), PATIENCE)


def in_folder(folder: Path) -> ObjectStorage:
    return ObjectStorage(parse_blob_url(f"file://{folder}"), PATIENCE)


def only(what: str, answer: Answer) -> Callable[[Request], Answer | None]:
    return lambda request: answer if request.what == what else None


async def every_operation(storage: ObjectStorage) -> list[LivedexError | None]:
    """How each operation ends."""
    ends: list[LivedexError | None] = []
    for operation in (
        storage.write("k", CONTENT, "w"),
        storage.read("k", "r"),
        storage.stored("", "s"),
        storage.remove(["k"], "d"),
    ):
        try:
            await operation
            ends.append(None)
        except LivedexError as exc:
            ends.append(exc)
    return ends


async def test_a_check_leaves_nothing_behind(s3: S3Server, tmp_path: Path) -> None:
    await in_s3().check()
    await in_folder(tmp_path / "deep" / "er").check()
    assert s3.objects == {}
    assert list((tmp_path / "deep" / "er").iterdir()) == []


@pytest.mark.parametrize("what", ["put", "get", "list", "delete"])
@pytest.mark.parametrize(
    "answer",
    [
        error_response(403, "AccessDenied"),
        error_response(401, "Unauthorized"),
        error_response(403, "InvalidAccessKeyId"),
    ],
)
async def test_a_right_that_is_missing_is_said_at_the_start(
    s3: S3Server, what: str, answer: Answer
) -> None:
    s3.answer = only(what, answer)
    with pytest.raises(
        ConfigError,
        match=f"LIVEDEX_BLOB_URL: s3://{BUCKET}/prefix: access is denied.*read, write, list "
        "and delete",
    ) as refused:
        await in_s3().check()
    assert "\n" not in str(refused.value)


async def test_a_bucket_that_is_missing_is_said_at_the_start(s3: S3Server) -> None:
    with pytest.raises(
        ConfigError,
        match=r"LIVEDEX_BLOB_URL: s3://another/prefix: bucket or container not found "
        r".404 NoSuchBucket.: create it",
    ):
        await in_s3("another").check()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (error_response(400, "AuthorizationHeaderMalformed"), "400 AuthorizationHeaderMalformed"),
        (error_response(301, "PermanentRedirect"), "another region: set AWS_REGION"),
        (error_response(405, "MethodNotAllowed"), "405 MethodNotAllowed"),
        (Answer(400, b"<html>" + b"x" * 100_000), "400"),
    ],
)
async def test_another_mistake_is_said_at_the_start_in_one_short_line(
    s3: S3Server, answer: Answer, told: str
) -> None:
    s3.answer = lambda request: answer
    with pytest.raises(ConfigError, match=told) as refused:
        await in_s3().check()
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
@pytest.mark.parametrize("value", ["nonsense", "http://", "http://a b", "ftp://host"])
async def test_an_endpoint_without_sense_is_named(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=name):
        await in_s3().check()


async def test_credentials_that_are_incomplete_are_said_at_the_start(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ConfigError, match="credentials are incomplete"):
        await in_s3().check()
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    with pytest.raises(ConfigError, match="credentials are incomplete"):
        await ObjectStorage(parse_blob_url("az://container"), PATIENCE).check()


@pytest.mark.parametrize("place", ["file", "file/below"])
async def test_a_folder_that_cannot_be_is_said_at_the_start(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=rf"LIVEDEX_BLOB_URL: file://{tmp_path}/{place}: "):
        await in_folder(tmp_path / place).check()


FAULTS = {
    "busy": error_response(503, "SlowDown"),
    "broken": error_response(500, "InternalError"),
    "throttled": error_response(429, "TooManyRequests"),
    "silent": None,
    "hangs up": HANG_UP,
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_storage_that_is_away_is_an_outage_and_no_mistake(s3: S3Server, fault: str) -> None:
    answer = FAULTS[fault]
    s3.delay_s = 0 if answer else 2
    s3.answer = lambda request: answer
    async with asyncio.timeout(60):
        with pytest.raises(OutageError) as away:
            await in_s3().check()
        ends = await every_operation(in_s3())
    assert away.value.component == "blobs"
    assert [type(end) for end in ends] == [OutageError] * 4
    assert len(s3.requests) <= 5 * (PATIENCE.retries + 1)


async def test_storage_that_nobody_listens_for_is_an_outage(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(OutageError):
        await in_s3().check()
    assert [type(end) for end in await every_operation(in_s3())] == [OutageError] * 4


@pytest.mark.parametrize(
    "answer",
    [
        error_response(403, "AccessDenied"),
        error_response(404, "NoSuchBucket"),
        error_response(400, "ExpiredToken"),
    ],
)
async def test_a_refusal_after_the_start_is_an_outage_and_blames_no_document(
    s3: S3Server, answer: Answer
) -> None:
    storage = in_s3()
    await storage.check()
    await storage.write("k", CONTENT, "w")
    s3.answer = lambda request: answer
    write, read, stored, _ = await every_operation(storage)
    assert [type(end) for end in (write, read, stored)] == [OutageError] * 3


async def test_what_passes_is_tried_again(s3: S3Server) -> None:
    storage = in_s3()

    def every_second_time(request: Request) -> Answer | None:
        return error_response(503, "SlowDown") if len(s3.requests) % 2 else None

    s3.answer = every_second_time
    await storage.write("k", CONTENT, "w")
    assert await storage.read("k", "r") == CONTENT
    assert [entry.key for entry in await storage.stored("", "s")] == ["k"]
    await storage.remove(["k"], "d")
    assert s3.objects == {}


async def test_an_answer_that_breaks_off_is_never_taken_for_the_content(s3: S3Server) -> None:
    storage = in_s3()
    await storage.write("k", CONTENT, "w")
    s3.answer = only(
        "get",
        Answer(
            200,
            CONTENT,
            {"ETag": '"1"', "Last-Modified": "Wed, 21 Oct 2026 07:28:00 GMT"},
            missing_bytes=1000,
        ),
    )
    with pytest.raises(OutageError):
        await storage.read("k", "r")


async def test_every_page_of_a_listing_is_read(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "page", 3)
    storage = in_s3()
    keys = [f"a/{n}" for n in range(10)]
    for key in keys:
        await storage.write(key, b"", "w")
    await storage.write("ab/0", b"", "w")
    assert sorted(entry.key for entry in await storage.stored("a", "s")) == keys
    assert len(await storage.stored("", "s")) == 11


async def test_no_secret_is_told(
    s3: S3Server, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    told = []
    for answer in (
        error_response(403, "SignatureDoesNotMatch"),
        error_response(500, "InternalError"),
        error_response(404, "NoSuchBucket"),
    ):
        s3.answer = lambda request, answer=answer: answer
        ends: list[BaseException | None] = [*await every_operation(in_s3())]
        try:
            await in_s3().check()
        except LivedexError as exc:
            ends.append(exc)
        told += ["".join(traceback.format_exception(end)) for end in ends if end is not None]
    out, err = capfd.readouterr()
    shown = "".join([*told, caplog.text, out, err, repr(in_s3())])
    assert told
    assert SECRET not in shown
    assert KEY not in shown


async def test_probes_of_processes_that_died_are_taken_away(s3: S3Server) -> None:
    hour = timedelta(hours=1)
    now = datetime.now(UTC)
    s3.objects = {
        "prefix/probe/old": (b"", now - 2 * hour),
        "prefix/probe/new": (b"", now),
        "prefix/other": (b"", now - 9 * hour),
    }
    await in_s3().check()
    assert set(s3.objects) == {"prefix/probe/new", "prefix/other"}


@pytest.mark.parametrize("instead", ["nothing", "an empty folder", "a file"])
async def test_a_folder_that_was_taken_away_is_an_outage_and_not_a_folder_without_content(
    tmp_path: Path, instead: str
) -> None:
    folder = tmp_path / "contents"
    storage = in_folder(folder)
    await storage.write("a/b/k", CONTENT, "w")
    folder.rename(tmp_path / "away")
    if instead == "an empty folder":
        folder.mkdir()
    elif instead == "a file":
        folder.write_text("")
    assert [type(end) for end in await every_operation(storage)] == [OutageError] * 4
    assert not folder.is_dir() or list(folder.iterdir()) == []
    shutil.rmtree(folder, ignore_errors=True)
    folder.unlink(missing_ok=True)
    (tmp_path / "away").rename(folder)
    assert await storage.read("a/b/k", "r") == CONTENT


async def test_what_cannot_be_brought_to_the_disk_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = in_folder(tmp_path)

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutageError, match="No space left"):
        await storage.write("a/b/k", CONTENT, "w")


async def test_what_is_kept_is_on_the_disk_with_every_folder_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "contents"
    brought: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda number: brought.append(os.fstat(number).st_ino))
    await in_folder(folder).write("a/b/k", CONTENT, "w")
    assert brought == [
        path.stat().st_ino for path in (folder / "a/b/k", folder / "a/b", folder / "a", folder)
    ]


async def test_what_a_killed_process_left_half_written_is_taken_away(tmp_path: Path) -> None:
    storage = in_folder(tmp_path)
    await storage.write("a/b/k", CONTENT, "w")
    old, new = tmp_path / "a/b/x#1", tmp_path / "a/b/y#1"
    old.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    await storage.remove_partial_writes("t")
    assert sorted(path.name for path in (tmp_path / "a/b").iterdir()) == ["k", "y#1"]


async def test_a_folder_of_ours_is_closed_to_others(tmp_path: Path) -> None:
    await in_folder(tmp_path / "contents").check()
    assert (tmp_path / "contents").stat().st_mode & 0o777 == 0o700
