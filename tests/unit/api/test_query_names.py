"""A query that an operation does not take is refused with what was meant, wherever a caller is
known: nothing is widened unseen.
"""

from __future__ import annotations

import pytest

NAMED = {
    "document_id": "a",
    "name": "default",
    "token": "t",
    "source": "s",
    "letter_id": "l",
    "key_id": "k",
}


async def test_every_operation_with_a_caller_refuses_a_parameter_that_it_does_not_have(app, http):
    calls = [
        (method, path.format(**NAMED))
        for path, calls in app.openapi()["paths"].items()
        if path.startswith("/v1/")
        for method in calls
    ]
    assert len(calls) > 8
    for method, path in [*calls, ("head", "/v1/documents")]:
        answer = await http.request(
            method.upper(), f"{path}?xyzzy=1", json={} if method == "post" else None
        )
        assert answer.status_code == 422, (method, path, answer.text)
        assert method == "head" or answer.json()["detail"].startswith(
            "xyzzy: unknown parameter: it takes "
        ), answer.text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("colection=x", "colection: unknown parameter: did you mean collection?"),
        ("page_size=5", "page_size: unknown parameter: did you mean limit?"),
        ("Limit=5", "Limit: unknown parameter: did you mean limit?"),
        ("offset=5", "offset: unknown parameter: did you mean cursor?"),
        ("status=dead", "status: unknown parameter: did you mean state?"),
        ("principal=ann", "principal: unknown parameter: did you mean principals?"),
        (
            "_=1",
            "_: unknown parameter: it takes collection, cursor, limit, prefix, principals, source, "
            "state",
        ),
        ("=1", "unknown parameter"),
        ("limit=1&limit=2", "limit: it must be given only once"),
        ("collection=a&collection=b", "collection: it must be given only once"),
        ("limit=5&limit=5", "limit: it must be given only once"),
        ("collection=a&colection=b", "colection: unknown parameter"),
        ("%00=1", "unknown parameter"),
        ("collection%20=a", "did you mean collection?"),
    ],
)
async def test_what_is_misspelt_or_repeated_is_named_with_what_was_meant(
    http, problem_of, query, said
):
    assert said in problem_of(await http.get(f"/v1/documents?{query}"), 422)["detail"]


async def test_a_list_may_be_given_several_times(http, documents):
    documents.known = {"a"}
    assert (await http.get("/v1/documents/a?principals=ann&principals=group:hr")).status_code == 200


async def test_of_many_unknown_names_the_first_few_are_told(http):
    answer = await http.get("/v1/documents?" + "&".join(f"x{n}=1" for n in range(2_000)))
    assert (
        answer.status_code == 422
        and len(answer.json()["errors"]) == 5
        and len(answer.content) < 2_000
    )


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/"])
async def test_what_nobody_is_asked_for_takes_what_monitors_and_browsers_add(http, path):
    assert (await http.get(f"{path}?_=1796031805508&_=2")).status_code in (200, 307)
