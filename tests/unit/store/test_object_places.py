"""LIVEDEX_BLOB_URL: what names a place, and what is refused without repeating a secret."""

from __future__ import annotations

import pytest

from livedex.pipeline.settings.blob_location import BlobLocation, parse_blob_url


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("s3://bucket", BlobLocation("s3", "bucket", "")),
        ("s3://bucket/", BlobLocation("s3", "bucket", "")),
        ("s3://My.bucket-1_x/a/b c/ü/", BlobLocation("s3", "My.bucket-1_x", "a/b c/ü")),
        ("gs://bucket/prefix", BlobLocation("gs", "bucket", "prefix")),
        ("az://container/prefix", BlobLocation("az", "container", "prefix")),
        ("file:///var/lib/livedex", BlobLocation("file", "", "/var/lib/livedex")),
        ("file://localhost/var/lib/", BlobLocation("file", "", "/var/lib")),
        ("file:///a%20b/%3Fc%23", BlobLocation("file", "", "/a b/?c#")),
    ],
)
def test_a_place_is_read(url: str, place: BlobLocation) -> None:
    assert parse_blob_url(url) == place


@pytest.mark.parametrize(
    "url",
    [
        "",
        "bucket",
        "/var/lib",
        "ftp://bucket/x",
        "http://host/bucket",
        "S4://bucket",
        "memory:///",
        "s3:bucket",
        "s3://",
        "s3:///prefix",
        "s3://b",
        "s3://bu cket/x",
        "s3://bucket:9000/x",
        "s3://bucket/a/../b",
        "s3://bucket/a//b",
        "s3://bucket/./a",
        "s3://bucket/a\x07b",
        "s3://[::1/x",
        "s3://bucket/" + "x" * 501,
        "file://",
        "file:///",
        "file://host/x",
        "file://relative/x",
        "file:relative",
        "file:///a/../b",
        "file:///a%00b",
    ],
)
def test_what_names_no_place_is_told_what_is_allowed(url: str) -> None:
    with pytest.raises(ValueError, match=r"s3://bucket/prefix|file:///|single slashes"):
        parse_blob_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:hidden@bucket/x",
        "az://container/x?sig=hidden",
        "s3://bucket/x#hidden",
        "file://me:hidden@localhost/x",
        "gs://hidden@",
    ],
)
def test_a_secret_in_the_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match=r"credentials|must end with the path") as refused:
        parse_blob_url(url)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["s3://bucket", "s3://bucket/a/b", "az://container/a", "file:///var/lib/livedex"]
)
def test_a_place_is_shown_as_it_was_written(url: str) -> None:
    assert str(parse_blob_url(url)) == url
