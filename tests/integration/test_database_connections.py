"""Connections over the network, with passwords and certificates: the store and the queue connect
alike, and as libpq does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import text

from livedex.consumers.postgres.queue_engine import open_queue_engine
from livedex.pipeline.errors import ConfigError, OutageError
from livedex.pipeline.store.database import open_database
from livedex.pipeline.store.embedded import server as embedded
from livedex.pipeline.store.embedded.server import embedded_postgres
from livedex.pipeline.store.postgres.connection import connect
from livedex.pipeline.store.schema.migrator import migrate, open_connection
from tests.support.http.certificates import CertificateAuthority
from tests.support.http.free_port import free_port
from tests.support.postgres.programs import run_program
from tests.support.postgres.tls_proxy import TlsProxy

PASSWORD = "p@:/?#[]%&=+, '\\ü"
_NEVER = "never to be shown"


class Server:
    """A server that asks for a password over TCP, in the clear and with TLS.

    Attributes:
        authority: whose certificate it has.
    """

    def __init__(self, port: int, authority: CertificateAuthority, folder: Path) -> None:
        self.port, self.authority, self.folder = port, authority, folder

    def url(
        self, query: str = "", *, password: str = PASSWORD, host: str = "localhost", port: int = 0
    ) -> str:
        secret = f":{quote(password, safe='')}" if password else ""
        return (
            f"postgresql://login{secret}@{host}:{port or self.port}/livedex?connect_timeout=5&"
            f"{query}"
        ).rstrip("&")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with asyncio.Runner() as runner:
        context = _serving(tmp_path_factory.mktemp("tcp"))
        yield runner.run(context.__aenter__())
        runner.run(context.__aexit__(None, None, None))


@asynccontextmanager
async def _serving(folder: Path) -> AsyncIterator[Server]:
    port = free_port()
    async with embedded_postgres(folder / "data") as url:
        admin = await connect(url)
        await admin.execute(f"create role login superuser login password {_constant(PASSWORD)}")
        await migrate(admin)
        await admin.close()
    (folder / "data" / "postgres" / "pg_hba.conf").write_text(
        "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        for setting, value in {"listen_addresses": "127.0.0.1", "port": str(port)}.items():
            patch.setitem(embedded._SETTINGS, setting, value)
        patch.setattr(embedded, "_PORT", str(port))
        async with embedded_postgres(folder / "data"):
            yield Server(port, CertificateAuthority(folder), folder)


@pytest.fixture
async def front(server: Server) -> AsyncIterator[TlsProxy]:
    async with TlsProxy(server.authority.serving("localhost"), server.port).serving() as serving:
        yield serving


def _constant(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


async def both(url: str) -> list[object]:
    """What the store's and the queue's connections say of themselves."""
    asked = "select current_user, current_setting('search_path')"
    async with open_database(url, max_size=1) as database, database.system() as connection:
        of_store = await connection.fetchrow(asked)
    async with open_queue_engine(url, 1) as engine, engine.connect() as connection:
        of_queue = (await connection.execute(text(asked))).one()
    return [tuple(of_store), tuple(of_queue)]


CONNECTED = [("livedex_app", "public")] * 2


@pytest.mark.parametrize(
    "query",
    [
        "",
        "sslmode=disable&channel_binding=disable",
        "sslmode=allow",
        "channel_binding=prefer&gssencmode=prefer",
        "options=-c%20search_path%3Dpg_catalog&keepalives_idle=7",
        "target_session_attrs=read-write&load_balance_hosts=random",
    ],
)
async def test_the_store_and_the_queue_connect_by_what_libpq_connects_by(
    server: Server, query: str
) -> None:
    await run_program(
        "psql", "-X", "-d", server.url(query).replace("sslmode=allow", ""), "-c", "select 1"
    )
    assert await both(server.url(query)) == CONNECTED


@pytest.mark.parametrize(
    "query",
    [
        "",
        "sslmode=require",
        "sslmode=verify-ca&sslrootcert={root}",
        "sslmode=verify-full&sslrootcert={root}",
    ],
)
async def test_both_are_encrypted_where_the_server_can(
    server: Server, front: TlsProxy, query: str
) -> None:
    assert (
        await both(server.url(query.format(root=server.authority.file), port=front.port))
        == CONNECTED
    )
    assert front.encrypted_connections == 2


async def test_hosts_that_are_away_are_passed_over_and_passwords_come_from_files_and_the_shell(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = free_port()
    many = (
        f"postgres://login:{quote(PASSWORD, safe='')}@127.0.0.1:{closed},localhost:{server.port}/"
        "livedex"
    )
    assert await both(many) == CONNECTED
    file = server.folder / "pgpass"
    file.write_text(
        f"localhost:{server.port}:livedex:login:"
        f"{PASSWORD.replace(chr(92), chr(92) * 2).replace(':', chr(92) + ':')}\n"
    )
    file.chmod(0o600)
    assert await both(server.url(f"passfile={file}", password="")) == CONNECTED
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert await both(server.url(password="")) == CONNECTED
    services = server.folder / "services"
    services.write_text(
        f"[index]\nhost=localhost\nport={server.port}\nuser=login\ndbname=livedex\nsslmode=prefer\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    assert await both("postgresql:///?service=index") == CONNECTED
    assert await both(f"service=index password={_quoted(PASSWORD)}") == CONNECTED


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@pytest.mark.parametrize(
    "query",
    [
        "sslmode=disable",
        "sslmode=verify-full&sslrootcert={other}",
        "sslmode=verify-ca&sslrootcert={other}",
        "host=127.0.0.1&sslmode=verify-full&sslrootcert={root}",
    ],
)
async def test_what_the_server_or_the_certificate_does_not_allow_is_refused_by_both_and_says_where(
    server: Server, front: TlsProxy, query: str
) -> None:
    url = server.url(
        query.format(
            other=CertificateAuthority(server.folder, "other").file, root=server.authority.file
        ),
        password=_NEVER,
        port=front.port,
    )
    with pytest.raises(
        ConfigError,
        match=rf"(localhost|127.0.0.1):{front.port}, database livedex, user login: check "
        r"LIVEDEX_DATABASE_URL",
    ) as refused:
        async with open_connection(url, "LIVEDEX_DATABASE_URL"):
            pass
    assert _NEVER not in str(refused.value)
    with pytest.raises(OutageError) as away:
        async with open_queue_engine(url, 1):
            pass
    assert _NEVER not in str(away.value)


async def test_connection_errors_never_show_the_password(
    server: Server,
) -> None:
    for url, why in (
        (server.url(password=_NEVER), "password authentication failed"),
        (server.url().replace("/livedex", "/nosuch"), "nosuch"),
        (server.url(host="nosuch.invalid", password=_NEVER), "nosuch.invalid"),
    ):
        with pytest.raises(ConfigError, match=why) as refused:
            async with open_connection(url, "LIVEDEX_DATABASE_URL"):
                pass
        assert _NEVER not in str(refused.value)
