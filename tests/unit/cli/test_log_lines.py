"""What a log line never holds."""

from __future__ import annotations

import io
import json
import logging
from datetime import datetime

import pytest

from livedex.app.logging_setup import JsonFormatter, SingleLineFormatter
from livedex.pipeline.access.key_format import generate_key
from livedex.pipeline.runtime.credential_masking import mask_credentials

KEY = generate_key()
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJlLXRoYXQtaXMtbG9uZw"


@pytest.mark.parametrize(
    "message",
    [
        f"asked with {KEY.key}",
        f"{{'authorization': 'Bearer {KEY.key}'}}",
        f"Authorization: bearer {KEY.key.split('_')[2]}",
        f"X-API-Key: {KEY.key.split('_')[2]}",
        f"GET /?api_key={KEY.key.split('_')[2]}&a=b",
        f"postgresql://user:{KEY.key.split('_')[2]}@host/db",
        f'{{"password": "{KEY.key.split("_")[2]}"}}',
    ],
    # the key is another one in each process
    ids=["key", "mapping", "header", "other header", "query", "url", "json"],
)
def test_no_line_holds_a_secret(message: str) -> None:
    assert KEY.key.split("_")[2] not in mask_credentials(message)
    assert "***" in mask_credentials(message)


def test_the_id_of_a_key_is_told_and_a_token_is_not() -> None:
    assert KEY.key_id in mask_credentials(KEY.key)
    assert TOKEN.split(".")[2] not in mask_credentials(f"refused {TOKEN}")


@pytest.mark.parametrize(
    "message",
    [
        "request 4f1c: GET failed",
        "documents docs/token.md v17 synced",
        "livedex_app on host:5432",
        "key 4f1c0a9be2d7 is revoked",
        "http://a:80/b@c",
    ],
)
def test_what_is_no_secret_stays(message: str) -> None:
    assert mask_credentials(message) == message


def test_an_error_s_trace_is_cleaned_line_by_line() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(SingleLineFormatter("%(levelname)s %(message)s"))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    try:
        raise ValueError(f"bad\x1b[31m \x00 {KEY.key}\r\nforged line")
    except ValueError:
        logger.exception("said %s", "a\nb\x07")
    lines = out.getvalue().splitlines()
    assert lines[0] == "ERROR said a\\x0ab\\x07"
    assert all(line.isprintable() for line in lines)
    assert KEY.key not in out.getvalue()
    assert any("Traceback" in line for line in lines)


def test_json_lines_are_one_object_each_without_secrets() -> None:
    logger = logging.getLogger("livedex.test.json")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    logger.propagate = False  # half a character would not pass to the report of the test
    try:
        logger.warning("line\none %s \ud800 \x07", "https://user:secret@host/")
        try:
            raise ValueError("password=hunter2")
        except ValueError:
            logger.exception("failed")
    finally:
        logger.removeHandler(handler)
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first.keys() == {"time", "level", "logger", "message"}
    assert (first["level"], first["logger"]) == ("warning", "livedex.test.json")
    assert first["message"] == "line\none https://***@host/ ? \x07"
    assert datetime.fromisoformat(first["time"]).tzinfo is not None
    assert "ValueError" in second["error"] and "hunter2" not in second["error"]
