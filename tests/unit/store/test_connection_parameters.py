"""A database URL means what it means to libpq, which is asked beside us; what the driver cannot
keep is refused by name.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.store.postgres.asyncpg_arguments import asyncpg_arguments, server_location
from livedex.pipeline.store.postgres.connection import check_database_url
from livedex.pipeline.store.postgres.conninfo import KEYWORDS, parse_conninfo
from tests.support.postgres.libpq import libpq_environment_variables, parse_with_libpq

SECRET = "s3cr3t"

TAKEN = [
    "postgresql://",
    "postgres://",
    "postgresql:///",
    "postgresql:///db",
    "postgresql://h",
    "postgresql://h:5433",
    "postgresql://h:",
    "postgresql://u@h/db",
    "postgresql://u:p@h:1/db",
    "postgresql://u:@h",
    "postgresql://:p@h",
    "postgresql://u:a:b@h/db",
    "postgresql://u:a?b#c&d=e@h/db",
    "postgresql://u:p%40%2F%3A%25@h",
    "postgresql://%C3%BC:%E2%82%AC@h/d%20b",
    "postgresql://h1,h2/db",
    "postgresql://h1:1,h2:2/db",
    "postgresql://h1:1,h2/db",
    "postgresql://[::1]/db",
    "postgresql://[::1]:5433,[fe80::1]:1/db",
    "postgresql://%2Fvar%2Frun/db",
    "postgresql:///db?host=/tmp&port=5433",
    "postgresql://h/db?sslmode=disable",
    "postgresql://h/db?channel_binding=prefer",
    "postgresql://h/db?connect_timeout=5&application_name=a+b",
    "postgresql://h/db?application_name=a%20b",
    "postgresql://h/db?options=-c%20statement_timeout%3D5s",
    "postgresql://h/db?options=-csearch_path%3Dx%20--jit=off".replace("jit=", "jit%3D"),
    "postgresql://h?target_session_attrs=read-write",
    "postgresql://h/?user=u&password=p%25",
    "postgresql://h/db?",
    "postgresql://h/a/b",
    "postgresql://h?sslmode=require&sslmode=disable",
    "postgresql://h/db?ssl=true",
    "host=h dbname=db",
    "host = h  port= 1 ",
    r"password='a b\'c\\d' user=u",
    r"password=a\ b",
    "host='' dbname=db",
    "dbname=a=b",
    "hostaddr=127.0.0.1 host=h",
    "postgresql://h/db?keepalives_idle=30&tcp_user_timeout=1000",
    "postgresql://u:p@/db",
]
REFUSED = [
    f"postgresql://u:{SECRET}%@h/db",
    f"postgresql://u:{SECRET}%zz@h",
    "postgresql://h%00/db",
    "postgresql://[::1/db",
    "postgresql://h/db?nosuch=1",
    "postgresql://h/db?sslmode",
    f"host=h password='{SECRET}",
    "host",
    "hosts=h",
    "db",
]
OURS = [
    (
        "postgresql+asyncpg://u@h/db?ssl=disable",
        {"user": "u", "host": "h", "dbname": "db", "sslmode": "disable"},
    ),
    ("postgresql+psycopg://h/db?database=x", {"host": "h", "dbname": "x"}),
    ("postgresql+asyncpg:///db?host=a:1&host=b:2", {"host": "a,b", "port": "1,2", "dbname": "db"}),
]


@pytest.mark.parametrize("text", TAKEN)
def test_what_libpq_takes_is_read_as_libpq_reads_it(text: str) -> None:
    assert parse_conninfo(text, {}) == parse_with_libpq(text)


@pytest.mark.parametrize("text", REFUSED)
def test_what_libpq_refuses_is_refused_without_showing_it(text: str) -> None:
    assert parse_with_libpq(text) is None
    with pytest.raises(ConfigError, match="database") as refused:
        parse_conninfo(text, {})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://u:{SECRET}/x@h/db",
        f"postgresql://u:p@{SECRET}@h/db",
        f"postgresql://u:{SECRET}:1/db",
        f"mysql://u:{SECRET}@h/db",
        "",
        " ",
    ],
)
def test_what_can_only_be_a_mistake_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError, match="database") as refused:
        check_database_url(text, "LIVEDEX_DATABASE_URL")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(("text", "found"), OURS)
def test_urls_of_other_drivers_are_read_as_well(text: str, found: dict[str, str]) -> None:
    assert parse_conninfo(text, {}) == found


@given(
    st.text(st.sampled_from("ab:@/?#[]%&=+, '\\ü"), max_size=12),
    st.text(st.sampled_from("ab:@/?#[]%&=+, '\\ü"), max_size=12),
)
def test_any_password_and_name_come_through_when_they_are_encoded(user: str, password: str) -> None:
    from urllib.parse import quote

    text = f"postgresql://{quote(user, safe='')}:{quote(password, safe='')}@h/db"
    assert parse_conninfo(text, {}) == parse_with_libpq(text)
    words = f"host=h user='{_escaped(user)}' password='{_escaped(password)}'"
    assert parse_conninfo(words, {}) == parse_with_libpq(words)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("'", r"\'")


@given(st.text(st.sampled_from("postgresql:/u@h.,[]%41?&=a 5"), max_size=30))
def test_any_text_is_read_as_libpq_does_or_refused(tail: str) -> None:
    text = "postgresql://" + tail
    try:
        found = parse_conninfo(text, {})
    except ConfigError:
        return
    expected = parse_with_libpq(text)
    assert expected is None or found == expected


def test_every_parameter_and_variable_of_libpq_is_known() -> None:
    hidden = {"authtype", "sslcompression", "replication", "tty", "oauth_ca_file"}
    assert {name for name in _keywords() if name not in hidden} <= KEYWORDS
    for variable, name in libpq_environment_variables().items():
        if name in KEYWORDS and variable not in ("PGSERVICE", "PGSERVICEFILE", "PGREQUIRESSL"):
            assert parse_conninfo("host=h", {variable: "v"}).get(name) == (
                "h" if name == "host" else "v"
            ), variable


def _keywords() -> set[str]:
    return set(libpq_environment_variables().values())


def test_the_url_wins_over_the_service_file_and_that_over_the_shell(tmp_path: Path) -> None:
    file = tmp_path / "services"
    file.write_text(
        "# mine\n[other]\nhost=o\n\n[mine]\nhost=s\nport=7\ndbname=from service\n"
        "password=a%b\n[last]\nhost=l\n"
    )
    shell = {"PGSERVICEFILE": str(file), "PGHOST": "e", "PGPORT": "8", "PGUSER": "eu"}
    found = parse_conninfo("postgresql:///?service=mine&port=9", shell)
    assert found == {
        "host": "s",
        "port": "9",
        "dbname": "from service",
        "password": "a%b",
        "user": "eu",
    }
    assert parse_conninfo("dbname=d", {**shell, "PGSERVICE": "other"})["host"] == "o"
    with pytest.raises(ConfigError, match="service=none: no such service"):
        parse_conninfo("postgresql:///?service=none", shell)


@pytest.mark.parametrize(
    "parameter",
    [
        "channel_binding=require",
        "gssencmode=require",
        "require_auth=scram-sha-256",
        "requirepeer=postgres",
        "sslsni=0",
        "sslcertmode=require",
        "sslcrldir=/tmp",
        "replication=database",
        "target_session_attrs=standby",
        "target_session_attrs=read-only",
        "client_encoding=latin1",
        "sslmode=yes",
        "connect_timeout=soon",
        "sslnegotiation=direct",
        "sslrootcert=/nowhere/root.crt&sslmode=require",
        "sslrootcert=system&sslmode=require",
        "sslcert=/nowhere",
        "port=0",
        "port=70000",
        "port=1,2",
        "hostaddr=1.2.3.4,1.2.3.5",
        "load_balance_hosts=yes",
        "min_protocol_version=3.2",
        "oauth_issuer=x",
        "sslkeylogfile=keys.log",
        "keepalives=2",
        "passfile=/nowhere/pass",
        "ssl_min_protocol_version=SSLv3",
        "host=@abstract",
    ],
)
def test_what_cannot_be_kept_is_refused_by_the_name_of_its_parameter(parameter: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^LIVEDEX_DATABASE_URL: .*{parameter.partition('=')[0]}"
    ) as refused:
        check_database_url(
            f"postgresql://u:{SECRET if 'pass' not in parameter else ''}@h/db?{parameter}",
            "LIVEDEX_DATABASE_URL",
        )
    assert SECRET not in str(refused.value)


def arguments(text: str, **settings: str) -> dict[str, Any]:
    return asyncpg_arguments(parse_conninfo(text, {}), settings)


def test_the_driver_is_told_everything_that_it_would_look_for_in_the_shell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from asyncpg.connect_utils import _parse_connect_arguments

    told = arguments("postgresql://u@/db?host=/sockets&port=5432&sslmode=disable")
    told.pop("timeout")
    more = dict.fromkeys(("dsn", "service", "servicefile", "command_timeout"))
    sizes = dict.fromkeys(
        ("statement_cache_size", "max_cached_statement_lifetime", "max_cacheable_statement_size"), 1
    )
    quiet = _parse_connect_arguments(**{**more, **sizes, **told})
    for variable in [
        *libpq_environment_variables(),
        "PGTARGETSESSIONATTRS",
        "PGGSSLIB",
        "PGSSLNEGOTIATION",
    ]:
        monkeypatch.setenv(variable, "/nowhere/else,1")
        assert _parse_connect_arguments(**{**more, **sizes, **told}) == quiet, variable


def test_hosts_timeouts_and_names_are_the_drivers() -> None:
    told = arguments(
        "postgresql://u:p@a:1,b/db?connect_timeout=3&options=-c%20x%3D1",
        application_name="livedex",
        role="r",
    )
    assert (told["host"], told["port"], told["timeout"]) == (["a", "b"], [1, 5432], 6)
    assert told["server_settings"] == {
        "options": "-c x=1",
        "application_name": "livedex",
        "role": "r",
    }
    assert told["dsn"] == "postgresql://?sslmode=prefer"
    assert (
        arguments("postgresql://h?application_name=mine", application_name="livedex")[
            "server_settings"
        ]["application_name"]
        == "mine"
    )
    assert arguments("postgresql://h?connect_timeout=0")["timeout"] is None
    assert arguments("postgresql://h?hostaddr=127.0.0.1&sslmode=require")["host"] == ["127.0.0.1"]
    assert arguments("postgresql://h?sslmode=disable")["ssl"] == "disable"
    assert sorted(arguments("postgresql://a,b?load_balance_hosts=random")["host"]) == ["a", "b"]
    assert SECRET not in server_location(parse_conninfo(f"postgresql://u:{SECRET}@a:1/db", {}))


def test_a_password_file_gives_the_password_as_libpq_finds_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "pass"
    file.write_text(
        "# a comment\nother:*:*:*:no\nh:5432:db:u:a\\:b\\\\c:d\n*:1:*:*:second\n"
        "localhost:*:*:*:socket\n"
    )
    file.chmod(0o600)
    of = f"&passfile={file}"
    assert arguments(f"postgresql://u@h/db?x=1{of}".replace("x=1&", ""))["password"] == "a:b\\c:d"
    assert arguments(f"postgresql://u@x:1/db?{of[1:]}")["password"] == "second"
    assert arguments(f"postgresql://u@/db?host=/tmp{of}")["password"] == "socket"
    assert arguments(f"postgresql://u:mine@h/db?{of[1:]}")["password"] == "mine"
    with pytest.raises(ConfigError, match="passfile"):
        arguments(f"postgresql://u@h,other/db?{of[1:]}")
    file.chmod(0o644)
    assert arguments(f"postgresql://u@h/db?{of[1:]}")["password"] == ""
    assert "chmod 600" in caplog.text
    assert os.stat(file).st_mode & 0o077
