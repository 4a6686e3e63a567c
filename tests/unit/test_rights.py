"""What can be a principal, what events say of rights, and for whom a caller reads."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from livedex.pipeline.acl import MAX_PRINCIPAL_LENGTH, MAX_PRINCIPALS, Acl, Principals
from livedex.pipeline.errors import ForbiddenError
from livedex.pipeline.events.decoder import decode_event
from livedex.pipeline.events.event import Changed, change_event
from livedex.pipeline.http.authentication import SCOPES, Caller
from livedex.pipeline.model import Reader, TenantId

ACME = TenantId("acme")
BAD: list[Any] = [
    "",
    " ",
    " a",
    "a ",
    "a\x00b",
    "a\nb",
    "\ud800",
    "\u200b",
    "x" * (MAX_PRINCIPAL_LENGTH + 1),
    7,
    None,
    ["a"],
]


def event_with(acl: Any) -> Changed:
    return Changed(tenant_id="acme", document_id="a", version=1, content="", acl=acl)


@pytest.mark.parametrize("name", BAD, ids=lambda name: repr(name)[:20])
@pytest.mark.parametrize("kind", [Acl, Principals])
def test_what_cannot_be_a_principal_is_refused(name: object, kind: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python([name])


@pytest.mark.parametrize("kind", [Acl, Principals])
def test_principals_are_each_once_and_in_order_and_not_too_many(kind: Any) -> None:
    check = TypeAdapter(kind).validate_python
    assert check(["b", "a b", "b", "\u00e9", "A"]) == ("A", "a b", "b", "\u00e9")
    assert len(check([f"user:{n}" for n in range(MAX_PRINCIPALS)])) == MAX_PRINCIPALS
    assert check(["\u4e2d" * MAX_PRINCIPAL_LENGTH])
    for wrong in ([f"user:{n}" for n in range(MAX_PRINCIPALS + 1)], "user:ann", {"user:ann": 1}, 7):
        with pytest.raises(ValidationError):
            check(wrong)


def test_a_star_stands_for_everybody_on_a_document_and_for_nobody_who_reads() -> None:
    assert event_with(["*", "user:ann"]).acl is None
    assert event_with([]).acl == ()
    with pytest.raises(ValidationError):
        TypeAdapter(Principals).validate_python(["*"])


def test_an_event_carries_rights_there_and_back() -> None:
    for acl in (None, (), ("group:hr", "user:ann")):
        event = decode_event(change_event(event_with(acl)).encode(), Changed)
        assert event.data.acl == acl
        assert event.data.attributes.acl == acl


def test_other_rights_are_another_event_and_none_the_same_as_before_there_were_any() -> None:
    digests = [event_with(acl).fence.digest for acl in (None, [], ["a"], ["b"], ["a", "b"])]
    assert len(set(digests)) == 5
    assert event_with(["b", "a", "b"]).fence == event_with(["a", "b"]).fence
    assert event_with(["*"]).fence.digest == digests[0]
    assert digests[0].hex() == "002b7347f3db362c272e242afe6a5c8ce8803a2361549097b3700960b677faf831"


@pytest.mark.parametrize(
    ("scopes", "own", "said", "reads"),
    [
        ({"search"}, None, None, frozenset()),
        ({"search", "act_as"}, None, None, frozenset()),
        ({"search", "act_as"}, None, ("a",), frozenset("a")),
        ({"search", "act_as"}, None, (), frozenset()),
        ({"search", "documents:all"}, None, None, None),
        ({"search", "documents:all", "act_as"}, None, ("a",), frozenset("a")),
        ({"admin"}, None, None, None),
        ({"admin"}, None, ("a",), frozenset("a")),
        ({"search", "documents:write", "events:write"}, None, None, frozenset()),
        ({"search"}, {"a", "b"}, None, frozenset("ab")),
        ({"search", "act_as"}, {"a"}, None, frozenset("a")),
        ({"search", "documents:all"}, {"a"}, None, None),
        (SCOPES, None, None, None),
    ],
)
def test_for_whom_a_caller_reads(
    scopes: set[Any],
    own: set[str] | None,
    said: tuple[str, ...] | None,
    reads: frozenset[str] | None,
) -> None:
    caller = Caller(ACME, frozenset(scopes), principals=None if own is None else frozenset(own))
    assert caller.reader(said) == Reader(ACME, reads)


@pytest.mark.parametrize(
    ("scopes", "own"),
    [
        ({"search"}, None),
        ({"search", "documents:all"}, None),
        ({"search", "act_as"}, set()),
        ({"admin"}, {"a"}),
        ({"search"}, {"a"}),
    ],
)
@pytest.mark.parametrize("said", [("a",), ()])
def test_who_may_not_say_on_whose_behalf_is_refused(
    scopes: set[Any], own: set[str] | None, said: tuple[str, ...]
) -> None:
    with pytest.raises(ForbiddenError):
        Caller(ACME, frozenset(scopes), principals=None if own is None else frozenset(own)).reader(
            said
        )


def test_what_became_of_a_change_is_told_to_who_may_write_or_read_it() -> None:
    reader = Reader(ACME, frozenset("a"))
    assert Caller(ACME, frozenset({"search"})).status_reader(reader) == reader
    assert (
        Caller(ACME, frozenset({"search", "act_as", "documents:all"})).status_reader(reader)
        == reader
    )
    for scope in ("documents:write", "events:write", "admin"):
        assert Caller(ACME, frozenset({scope})).status_reader(reader) == Reader(ACME)
