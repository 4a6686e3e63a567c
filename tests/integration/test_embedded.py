"""PostgreSQL out of the wheel, wherever its data lies and whatever the shell says; nothing that is
not its own changes.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from pathlib import Path

import asyncpg
import pytest

from bench.processes import kill_trees, tree
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.store.embedded import binaries as server_programs
from livedex.pipeline.store.embedded.server import embedded_postgres
from livedex.pipeline.store.embedded.socket_directory import (
    create_socket_directory,
    remove_socket_directory,
)
from livedex.pipeline.store.postgres.connection import connect
from tests.support.postgres.libpq import libpq_environment_variables

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has a system user run PostgreSQL")


@pytest.mark.parametrize("name", [b"caf\xe9", b"a%41&b=c?d#e, f", b"line\nbreak"], ids=repr)
async def test_it_starts_in_a_folder_of_any_name_and_is_found_again(
    tmp_path: Path, name: bytes
) -> None:
    data = tmp_path / os.fsdecode(name)
    for found in (0, 1):
        async with embedded_postgres(data), embedded_postgres(data) as url:
            connection = await asyncpg.connect(url)
            assert (
                await connection.fetchval("select count(*) from pg_tables where tablename = 'kept'")
                == found
            )
            await connection.execute("create table if not exists kept ()")
            await connection.close()


async def test_it_is_reached_whatever_the_shell_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = [
        *libpq_environment_variables(),
        "PGDATA",
        "PGTZ",
        "PGDATESTYLE",
        "PGGEQO",
        "PGSYSCONFDIR",
        "PGLOCALEDIR",
    ]
    (tmp_path / "with a blank").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "with a blank"))
    for variable in variables:
        monkeypatch.setenv(variable, "6543" if variable == "PGPORT" else "/nowhere")
    monkeypatch.setattr("tempfile.tempdir", None)
    async with embedded_postgres(tmp_path / ("long" * 25)) as url:
        await (await connect(url)).close()
        for variable in variables:
            monkeypatch.delenv(variable)
        (tmp_path / "another").mkdir()
        monkeypatch.setenv("TMPDIR", str(tmp_path / "another"))
        monkeypatch.setattr("tempfile.tempdir", None)
        async with embedded_postgres(tmp_path / ("long" * 25)) as again:
            assert again == url, "another shell finds the server that runs"
            for variable in variables:
                monkeypatch.setenv(variable, "/nowhere/else,1")
                await (await connect(again)).close()
                monkeypatch.delenv(variable)
        sockets = Path(url.partition("host=")[2].partition("&")[0])
        assert sockets.is_dir() and stat.S_IMODE(sockets.stat().st_mode) == 0o700
    assert not sockets.exists()


async def test_a_server_that_was_killed_comes_back_at_the_same_address(tmp_path: Path) -> None:
    data = tmp_path / ("long" * 25)
    async with embedded_postgres(data) as url:
        kill_trees(
            lambda: tree(int((data / "postgres" / "postmaster.pid").read_text().split("\n")[0]))
        )
        async with embedded_postgres(data) as again:
            assert again == url
            await (await connect(url)).close()


@as_root
async def test_root_changes_no_folder_above_and_says_what_it_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    package = server_programs.binary_path("postgres").parents[2]
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, private / part.name, symlinks=True)
    monkeypatch.setattr(
        server_programs,
        "binary_path",
        lambda name: private / package.name / "pginstall18" / "bin" / name,
    )
    copies = Path("/var/lib").resolve() / f"livedex-test-{os.getpid()}"
    monkeypatch.setattr(server_programs, "_COPY_ROOT", copies)
    before = {
        folder: (folder.stat().st_mode, folder.stat().st_uid)
        for folder in (private, *private.parents, package)
    }
    try:
        for said in (1, 0):
            async with embedded_postgres(private / "data") as url:
                connection = await connect(url)
                await connection.execute(
                    "create extension if not exists vector; create table if not exists t (a "
                    "int); insert into t values (1)"
                )
                assert await connection.fetchval("select count(*) from t") == 2 - said
                await connection.close()
            assert (
                capfd.readouterr().err.count(f"copying PostgreSQL's programs to {copies}") == said
            )
    finally:
        shutil.rmtree(copies, ignore_errors=True)
    assert {folder: (folder.stat().st_mode, folder.stat().st_uid) for folder in before} == before
    assert (private / "data").stat().st_uid == 0


@as_root
async def test_links_that_somebody_laid_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o755)
    (foreign / "kept").touch()
    data = tmp_path / "data"
    data.mkdir()
    (data / "postgres.new").symlink_to(foreign)
    async with embedded_postgres(data) as url:
        await (await connect(url)).close()
    (data / "postgres" / "server.log").unlink()
    (data / "postgres" / "server.log").symlink_to(foreign / "kept")
    with pytest.raises(ConfigError, match=r"server\.log cannot be written"):
        async with embedded_postgres(data):
            pass
    assert (foreign / "kept").read_bytes() == b""
    assert (foreign.stat().st_uid, stat.S_IMODE(foreign.stat().st_mode), os.listdir(foreign)) == (
        0,
        0o755,
        ["kept"],
    )
    monkeypatch.setattr(server_programs, "_COPY_ROOT", tmp_path / "link")
    (tmp_path / "link").symlink_to(foreign)
    with pytest.raises(ConfigError, match="not a folder owned by root"):
        server_programs._copy_package(server_programs.binary_path("postgres").parents[2])
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setattr(server_programs, "_COPY_ROOT", tmp_path / "open")
    with pytest.raises(ConfigError, match="other users can write to it"):
        server_programs._copy_package(server_programs.binary_path("postgres").parents[2])


def test_the_folder_of_a_socket_cannot_be_foretold_and_only_ours_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 30)
    account = pwd.getpwuid(os.geteuid())
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("TMPDIR", str(shared))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", None)
    made = [create_socket_directory(long, account, reachable=True) for _ in range(2)]
    assert len(set(made)) == 2 and not any(folder.is_relative_to(shared) for folder in made), (
        "others could take away what is in a shared folder"
    )
    assert create_socket_directory(Path("/short"), account, reachable=True) == Path("/short")
    elsewhere = create_socket_directory(Path("/short"), account, reachable=False)
    assert elsewhere != Path("/short")
    elsewhere.rmdir()
    assert create_socket_directory(long, account, reachable=True, left=made[1]) == made[1], (
        "who outlived a killed server finds the next one"
    )
    made[1].chmod(0o755)
    another = create_socket_directory(long, account, reachable=True, left=made[1])
    assert another != made[1], "others could have been there"
    another.rmdir()
    made[1].chmod(0o700)
    (made[0] / ".s.PGSQL.5432").touch()
    (made[1] / "other").touch()
    for folder in made:
        remove_socket_directory(folder, long, account)
    assert not made[0].exists() and (made[1] / "other").exists()
    (tmp_path / "livedex-link").symlink_to(made[1])
    remove_socket_directory(tmp_path / "livedex-link", long, account)
    (made[1] / "other").unlink()
    remove_socket_directory(made[1].with_name("other-name"), long, account)
    assert made[1].exists()
    made[1].rmdir()


def test_a_system_user_that_has_to_be_made_is_told_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(server_programs, "_SYSTEM_USER", "livedex-no-such-user")
    monkeypatch.setattr(
        server_programs, "run_binary", lambda *command, account: made.append(command[-1])
    )
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/sbin/{name}")
    with pytest.raises(KeyError):
        server_programs.system_user()
    assert made == ["livedex-no-such-user"]
    assert (
        capsys.readouterr().err
        == "created the system user livedex-no-such-user: PostgreSQL does not run as root\n"
    )
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(ConfigError, match="there is no useradd"):
        server_programs.system_user()
