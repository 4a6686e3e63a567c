"""Which credential a request carries."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from pipeline.access.tenancy import KeyTenancy, credential_in
from pipeline.errors import ForbiddenError
from pipeline.model import DEFAULT_TENANT


def headers(*pairs: tuple[str, str]) -> Headers:
    return Headers(raw=[(name.encode(), value.encode("latin-1")) for name, value in pairs])


@pytest.mark.parametrize(
    "given",
    [
        [("authorization", "Bearer k")],
        [("authorization", "bearer   k ")],
        [("x-api-key", " k ")],
        [("authorization", "Bearer k"), ("x-api-key", "k")],
        [("x-api-key", "k"), ("x-api-key", "k"), ("authorization", "")],
    ],
)
def test_a_credential_is_found_in_either_header(given: list[tuple[str, str]]) -> None:
    assert credential_in(headers(*given)) == "k"


@pytest.mark.parametrize("given", [[], [("authorization", "  ")], [("x-api-key", "")]])
def test_nothing_is_no_credential(given: list[tuple[str, str]]) -> None:
    assert credential_in(headers(*given)) is None


@pytest.mark.parametrize(
    "given",
    [
        [("authorization", "Bearer k"), ("x-api-key", "other")],
        [("x-api-key", "k"), ("x-api-key", "other")],
        [("authorization", "Bearer k"), ("authorization", "Bearer other")],
        [("authorization", "Basic azpr")],
        [("authorization", "Bearer")],
        [("authorization", "k")],
        [("authorization", "Basic azpr"), ("x-api-key", "k")],
    ],
)
def test_several_credentials_or_one_of_another_kind_are_refused(given: list[tuple[str, str]]) -> None:
    with pytest.raises(HTTPException) as refused:
        credential_in(headers(*given))
    assert refused.value.status_code == 401
    assert refused.value.headers is not None and refused.value.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8700", "127.0.0.1:8700", "127.1.2.3", "[::1]:8700", "a.localhost:80", "localhost."]
)
async def test_without_a_key_a_name_of_this_machine_is_answered(host: str) -> None:
    tenancy = KeyTenancy(None, DEFAULT_TENANT, here_only=True)  # type: ignore[arg-type]  # no key is shown
    assert (await tenancy.caller_of(headers(("host", host)))).tenant_id == DEFAULT_TENANT


@pytest.mark.parametrize(
    "host", ["attacker.example", "127.0.0.1.attacker.example:8700", "localhost.attacker.example", "10.0.0.1", "[::2]", "", "[", ":"]
)
async def test_without_a_key_a_name_that_somebody_may_have_pointed_here_is_not_answered(host: str) -> None:
    tenancy = KeyTenancy(None, DEFAULT_TENANT, here_only=True)  # type: ignore[arg-type]  # as above
    with pytest.raises(ForbiddenError):
        await tenancy.caller_of(headers(("host", host)))
