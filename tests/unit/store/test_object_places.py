"""LIVEDEX_BLOB_URL: what names a place, and what is refused without repeating a secret."""

from __future__ import annotations

import pytest

from livedex.pipeline.settings.blob_location import ObjectPlace, object_place


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("s3://bucket", ObjectPlace("s3", "bucket", "")),
        ("s3://bucket/", ObjectPlace("s3", "bucket", "")),
        ("s3://My.bucket-1_x/a/b c/ü/", ObjectPlace("s3", "My.bucket-1_x", "a/b c/ü")),
        ("gs://bucket/prefix", ObjectPlace("gs", "bucket", "prefix")),
        ("az://container/prefix", ObjectPlace("az", "container", "prefix")),
        ("file:///var/lib/livedex", ObjectPlace("file", "", "/var/lib/livedex")),
        ("file://localhost/var/lib/", ObjectPlace("file", "", "/var/lib")),
        ("file:///a%20b/%3Fc%23", ObjectPlace("file", "", "/a b/?c#")),
    ],
)
def test_a_place_is_read(url: str, place: ObjectPlace) -> None:
    assert object_place(url) == place


@pytest.mark.parametrize(
    "url",
    [
        "", "bucket", "/var/lib", "ftp://bucket/x", "http://host/bucket", "S4://bucket", "memory:///", "s3:bucket", "s3://", "s3:///prefix", "s3://b",
        "s3://bu cket/x", "s3://bucket:9000/x", "s3://bucket/a/../b", "s3://bucket/a//b", "s3://bucket/./a", "s3://bucket/a\x07b", "s3://[::1/x",
        "s3://bucket/" + "x" * 501, "file://", "file:///", "file://host/x", "file://relative/x", "file:relative", "file:///a/../b", "file:///a%00b",
    ],
)  # fmt: skip
def test_what_names_no_place_is_told_what_is_allowed(url: str) -> None:
    with pytest.raises(ValueError, match=r"s3://bucket/prefix|file:///|single slashes"):
        object_place(url)


@pytest.mark.parametrize(
    "url",
    ["s3://key:hidden@bucket/x", "az://container/x?sig=hidden", "s3://bucket/x#hidden", "file://me:hidden@localhost/x", "gs://hidden@"],
)
def test_a_secret_in_the_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match=r"credentials|nothing may follow") as refused:
        object_place(url)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("url", ["s3://bucket", "s3://bucket/a/b", "az://container/a", "file:///var/lib/livedex"])
def test_a_place_is_shown_as_it_was_written(url: str) -> None:
    assert str(object_place(url)) == url
