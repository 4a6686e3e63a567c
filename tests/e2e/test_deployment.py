"""What docker-compose.yml says, done without containers: its Kafka, its database and its commands
index a folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from livedex.pipeline.store.embedded.server import embedded_postgres
from livedex.pipeline.store.postgres.conninfo import parse_conninfo
from tests.support.kafka.java_node import JavaNode, java_command
from tests.support.kafka.nodes import ReservedPort
from tests.support.kafka.server import KafkaServer
from tests.support.repository.compose import PROJECT, runs_livedex, services

SERVICES = services(
    {"POSTGRES_PASSWORD": "administrator", "OWNER_PASSWORD": "owner", "APP_PASSWORD": "application"}
)
STAYING = [
    name
    for name, service in SERVICES.items()
    if runs_livedex(service) and name != "migrate" and "profiles" not in service
]
OWN_LOGGING = "Configuration: {Loggers: {Root: {level: INFO}, Logger: []}}\n"
TEXT = "# Bees\n\nA hive is opened on a warm day without wind, with smoke at its entrance first.\n"


def kafka_of_the_services(folder: Path) -> JavaNode:
    """The service `kafka` on ports of this machine, configured by the program that its image runs
    first.
    """
    node = JavaNode(1, folder, java_command())
    addresses = re.findall(r"://([\d.:]+)", node.listeners["listeners"])
    there = dict(zip(("9092", "19092", "9093"), addresses, strict=True))
    environment = {
        name: re.sub(r"(?<=[@/])[a-z]*:(9092|19092|9093)\b", lambda match: there[match[1]], value)
        for name, value in SERVICES["kafka"]["environment"].items()
    } | {"KAFKA_LOG_DIRS": node.listeners["log.dirs"]}
    places = {name: folder / name for name in ("default", "mounted", "final")}
    for place in places.values():
        place.mkdir()
    for name in ("log4j2.yaml", "tools-log4j2.yaml"):
        (places["default"] / name).write_text(OWN_LOGGING, "utf-8")
    (places["default"] / "server.properties").write_text("", "utf-8")
    options = [
        part for name, place in places.items() for part in (f"--{name}-configs-dir", str(place))
    ]
    command = [*java_command(), "kafka.docker.KafkaDockerWrapper", "setup", *options]
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    written = (places["final"] / "server.properties").read_text("utf-8")
    node.listeners = {}
    node.configure(
        dict(line.split("=", 1) for line in written.split("\n") if line), environment["CLUSTER_ID"]
    )
    return node


class Deployment:
    """The services as processes.

    Attributes:
        ports: of the API of each.
        documents: the folder that is watched.
    """

    def __init__(self, folder: Path, sockets: str, kafka: str, ports: Mapping[str, int]) -> None:
        self._folder, self._sockets, self._kafka, self.ports = folder, sockets, kafka, ports
        self.documents = folder / "documents"
        self.documents.mkdir()

    def environment(self, service: str) -> dict[str, str]:
        """Of a service, with the places of this machine."""
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith("LIVEDEX_")
        }
        places = {
            "@postgres:5432/livedex": f"@/livedex?host={self._sockets}",
            "kafka:19092": self._kafka,
        }
        given = dict(SERVICES[service]["environment"])
        for there, here in places.items():
            given = {name: value.replace(there, here) for name, value in given.items()}
        # other tests use this Kafka too
        return clean | given | {"LIVEDEX_KAFKA_PREFIX": f"deployment-{os.getpid()}."}

    def command(self, service: str) -> list[str]:
        """Of a service; in its container each has its port to itself."""
        given = list(SERVICES[service]["command"])
        if service in self.ports:
            option = "--health-port" if "--health-port=8700" in given else "--port"
            given = [each for each in given if not each.startswith(option)] + [
                f"{option}={self.ports[service]}"
            ]
        return [sys.executable, "-m", "livedex.cli.main", *given]

    def working_folder(self, service: str) -> Path:
        """Of a service, with the settings that are mounted there."""
        folder = self._folder / service
        folder.mkdir()
        if any(
            "livedex.toml" in volume
            for volume in SERVICES[service].get("volumes", [])
            if isinstance(volume, str)
        ):
            text = (PROJECT / "deploy" / "livedex.toml").read_text("utf-8")
            (folder / "livedex.toml").write_text(
                text.replace("/srv/documents", str(self.documents)), "utf-8"
            )
        return folder

    def ask(self, service: str, path: str, body: Any = None) -> Any:
        """What the API of a service answers."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports[service]}{path}",
            data,
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


async def make_database(url: str, sockets: str) -> None:
    """What the image of PostgreSQL does when it makes the database."""
    admin = await asyncpg.connect(url)
    try:
        await admin.execute("create role livedex superuser login")
    finally:
        await admin.close()
    programs = next(Path(sys.prefix).rglob("pginstall18/bin/psql")).parent
    environment = {
        **SERVICES["postgres"]["environment"],
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PGHOST": sockets,
    }
    for _ in range(2):  # the second time as on a database that is there already
        await asyncio.to_thread(
            subprocess.run,
            [PROJECT / "deploy" / "postgres" / "application-role.sh"],
            env=environment,
            check=True,
        )


@pytest.fixture(scope="module")
def deployment(kafka: str) -> Iterator[Deployment]:
    """The services of docker-compose.yml, in the order of what they wait for, without those that
    are not offered yet.
    """
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="livedex-tests-", ignore_cleanup_errors=True)
            )
        )
        runner = stack.enter_context(asyncio.Runner())
        context = embedded_postgres(folder / "postgres")
        url = runner.run(context.__aenter__())
        stack.callback(lambda: runner.run(context.__aexit__(None, None, None)))
        sockets = parse_conninfo(url)["host"]
        runner.run(make_database(url, sockets))
        ports = {name: ReservedPort() for name in STAYING}
        for port in ports.values():
            stack.callback(port.close)
        made = Deployment(
            folder, sockets, kafka, {name: port.number for name, port in ports.items()}
        )
        for name in ["migrate", *STAYING]:
            log = stack.enter_context((folder / f"{name}.log").open("w+"))
            process = subprocess.Popen(
                made.command(name),
                cwd=made.working_folder(name),
                env=made.environment(name),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            stack.callback(end, process)
            if name == "migrate":
                assert process.wait(120) == 0, (folder / f"{name}.log").read_text()
                continue
            ports[name].release_to_process()
            assert process.stdout is not None
            assert any(line.startswith("running ") for line in process.stdout), (
                folder / f"{name}.log"
            ).read_text()
        yield made


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    status = process.wait(60)
    if process.stdout is not None:
        process.stdout.close()
    assert status == 0


def test_kafka_starts_with_what_its_service_says(kafka_server: KafkaServer, tmp_path: Path) -> None:
    if not isinstance(kafka_server.nodes[0], JavaNode):
        pytest.skip("needs Java on this machine")
    node = kafka_of_the_services(tmp_path)
    try:
        node.start()
        node.restart()
    finally:
        node.close()


def test_no_role_of_the_services_is_a_superuser_and_only_that_of_the_owner_owns_anything(
    deployment: Deployment,
) -> None:
    async def look() -> dict[str, tuple[bool, bool, bool, bool]]:
        admin = await asyncpg.connect(
            deployment.environment("migrate")["LIVEDEX_OWNER_DATABASE_URL"].replace(
                "livedex_owner:owner", "livedex"
            )
        )
        try:
            rows = await admin.fetch(
                "select rolname, rolsuper, rolbypassrls or rolcreaterole, rolpassword is not null,"
                " exists (select from pg_class where relowner = a.oid and relkind = 'r')"
                " from pg_authid a where rolname like 'livedex\\_%'"
            )
            return {row[0]: tuple(row)[1:] for row in rows}
        finally:
            await admin.close()

    assert asyncio.run(look()) == {
        "livedex_app": (False, False, True, False),
        "livedex_owner": (False, False, True, True),
        "livedex_definer": (False, False, False, False),
    }


def test_a_document_in_the_mounted_folder_is_found_by_the_api(deployment: Deployment) -> None:
    (deployment.documents / "bees.md").write_text(TEXT, "utf-8")
    status = [*deployment.command("watch")[:3], "status", "--wait", "90"]
    folder = deployment.documents.parent / "watch"
    done = subprocess.run(
        status,
        cwd=folder,
        env=deployment.environment("watch"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [hit] = deployment.ask("api", "/v1/search", {"query": "how is a hive opened"})["hits"]
    assert hit["document_id"] == "documents/bees.md" and hit["vector_rank"] == 1


@pytest.mark.parametrize("name", STAYING)
def test_every_service_answers_the_health_check_of_its_container(
    deployment: Deployment, name: str
) -> None:
    check = SERVICES[name]["healthcheck"]["test"]
    code = check[-1].replace(":8700/", f":{deployment.ports[name]}/")
    assert check[:3] == ["CMD", "python", "-c"] and code != check[-1]
    subprocess.run([sys.executable, "-c", code], timeout=30, check=True)
