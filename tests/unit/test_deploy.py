"""docker-compose.yml and the Dockerfile, as far as they can be checked without an engine."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from livedex.app.roles import HTTP_ROLES, ROLES, check_roles
from livedex.cli.main import livedex
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.catalog import Setting
from livedex.pipeline.settings.settings import PREFIX, catalog, load_settings
from tests.support.repository.compose import (
    FILE,
    PROJECT,
    MissingVariableError,
    runs_livedex,
    services,
    variables,
)

PASSWORDS = {
    "POSTGRES_PASSWORD": "administrator",
    "OWNER_PASSWORD": "owner",
    "APP_PASSWORD": "application",
}
SERVICES = services(PASSWORDS)
OURS = {name: service for name, service in SERVICES.items() if runs_livedex(service)}
STAYING = {name: service for name, service in SERVICES.items() if name != "migrate"}
DOCKERFILE = (PROJECT / "deploy" / "Dockerfile").read_text("utf-8")
INSTRUCTIONS = [
    tuple(line.split(maxsplit=1))
    for line in DOCKERFILE.replace("\\\n", " ").splitlines()
    if line and line[0] not in "# "
]


def parsed(arguments: list[str]) -> click.Context:
    """A command line as the program reads it, without running it."""
    program = livedex.make_context("livedex", list(arguments))
    name, command, rest = livedex.resolve_command(
        program, [*program._protected_args, *program.args]
    )
    assert command is not None
    return command.make_context(name, rest, parent=program)


def roles(service: Mapping[str, Any]) -> list[str]:
    return list(parsed(service["command"]).params.get("roles", []))


def test_every_stage_and_every_role_that_is_offered_has_a_service() -> None:
    assert {
        "kafka",
        "postgres",
        "migrate",
        "watch",
        "webhook",
        "chunk",
        "embed",
        "sync",
        "api",
    } <= set(SERVICES)
    assert {role for service in OURS.values() for role in roles(service)} == set(ROLES)
    for name in ("watch", "chunk", "embed", "sync", "maintain", "api"):
        assert name in check_roles(roles(SERVICES[name]))


def test_what_is_not_offered_yet_is_started_only_by_its_profile() -> None:
    for service in OURS.values():
        try:
            check_roles(roles(service))
        except ConfigError:
            assert service["profiles"]
        else:
            assert "profiles" not in service


@pytest.mark.parametrize("name", OURS)
def test_every_command_is_one_of_the_program(name: str) -> None:
    assert parsed(SERVICES[name]["command"]).command.name in ("run", "migrate")


def test_the_command_of_the_image_is_one_of_the_program() -> None:
    assert ("ENTRYPOINT", '["livedex"]') in INSTRUCTIONS
    command = dict(INSTRUCTIONS)["CMD"]
    assert parsed(re.findall(r'"([^"]+)"', command)).params["roles"] == ("all",)


@pytest.mark.parametrize("name", OURS)
def test_every_setting_of_a_service_is_known_and_has_sense(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = SERVICES[name]["environment"]
    assert environment and all(variable.startswith(PREFIX) for variable in environment)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    settings = load_settings(tmp_path, environment)
    assert settings.kafka_servers == ("kafka:19092",)
    assert (
        settings.database_url is not None
        and "livedex_app:application@postgres:5432" in settings.database_url.get_secret_value()
    )
    assert (settings.owner_database_url is not None) == (name in ("migrate", "maintain"))


@pytest.mark.parametrize("each", catalog(), ids=lambda each: each.variable)
def test_every_setting_can_be_set_in_the_file_that_compose_reads(each: Setting) -> None:
    given = services({**PASSWORDS, each.variable: "given"})
    handed = {name for name in OURS if given[name]["environment"].get(each.variable) == "given"}
    assert handed == (
        {"migrate", "maintain"} if each.variable == "LIVEDEX_OWNER_DATABASE_URL" else set(OURS)
    )


@pytest.mark.parametrize("name", OURS)
def test_every_service_has_the_settings_file_and_the_secrets(name: str) -> None:
    assert "./deploy/livedex.toml:/srv/livedex/livedex.toml:ro" in OURS[name]["volumes"]
    assert OURS[name]["env_file"] == [{"path": "secrets.env", "required": False}]
    assert {".env", "secrets.env"} <= set((PROJECT / ".gitignore").read_text("utf-8").split())


def test_kafka_is_reached_where_it_says_it_is() -> None:
    environment = SERVICES["kafka"]["environment"]
    advertised = dict(
        place.split("://") for place in environment["KAFKA_ADVERTISED_LISTENERS"].split(",")
    )
    assert advertised["INSIDE"] == "kafka:19092"
    assert (
        f"127.0.0.1:{advertised['OUTSIDE'].rpartition(':')[2]}:9092" in SERVICES["kafka"]["ports"]
    )
    assert environment["KAFKA_LOG_DIRS"] in [
        volume.split(":")[1] for volume in SERVICES["kafka"]["volumes"]
    ]


def test_the_database_keeps_its_data_in_the_volume() -> None:
    image, volumes = SERVICES["postgres"]["image"], SERVICES["postgres"]["volumes"]
    assert image.endswith("-pg18")
    assert "postgres:/var/lib/postgresql" in volumes, (
        "from 18 on the data is not in /var/lib/postgresql/data"
    )


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_bound_in_what_it_may_and_what_it_uses(name: str) -> None:
    service = SERVICES[name]
    assert service["user"] in ("10001:10001", "postgres", "appuser")
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service and "network_mode" not in service
    assert service.get("read_only", False) == (name != "kafka")
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}
    assert service["logging"]["options"]["max-size"]


def test_a_machine_with_one_processor_can_run_them() -> None:
    limits = [
        service["deploy"]["resources"]["limits"]["cpus"]
        for service in services({**PASSWORDS, "CPUS": "1"}).values()
    ]
    assert set(limits) == {"1"}, "Docker refuses a limit above what the machine has"


@pytest.mark.parametrize("name", STAYING)
def test_a_service_that_stays_is_looked_after_and_comes_back(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] == "unless-stopped"
    assert (
        service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
        and service["healthcheck"]["interval"]
    )
    if runs_livedex(service):
        options = parsed(service["command"]).params
        served = options["port"] if HTTP_ROLES & set(roles(service)) else options["health_port"]
        assert f"127.0.0.1:{served}/healthz" in service["healthcheck"]["test"][-1], (
            "the health check asks what answers"
        )


@pytest.mark.parametrize("name", [name for name in OURS if name != "migrate"])
def test_nothing_starts_before_the_schema_is_there(name: str) -> None:
    assert {needed: how["condition"] for needed, how in SERVICES[name]["depends_on"].items()} == {
        "migrate": "service_completed_successfully",
        "postgres": "service_healthy",
        "kafka": "service_healthy",
    }


def test_ports_are_opened_on_the_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports and all(port.startswith("127.0.0.1:") for port in ports)


def test_no_secret_stands_in_the_files_and_what_must_be_set_is_asked_for() -> None:
    for missing in PASSWORDS:
        with pytest.raises(MissingVariableError, match=missing):
            services({name: value for name, value in PASSWORDS.items() if name != missing})
    example = (PROJECT / ".env.example").read_text("utf-8")
    assert re.findall(r"^(\w+)=(.*)$", example, re.MULTILINE) == [(name, "") for name in PASSWORDS]
    assert set(re.findall(r"^#?(\w+)=", example, re.MULTILINE)) <= variables()
    assert ".env" in (PROJECT / ".gitignore").read_text("utf-8").split()
    assert all(
        value.startswith("${")
        for value in re.findall(
            r"^ +\w*(?:PASSWORD|KEY|SECRET)\w*: *(.*)", FILE.read_text("utf-8"), re.MULTILINE
        )
    )


def test_images_are_pinned_and_what_is_mounted_is_there() -> None:
    for service in SERVICES.values():
        image = service["image"]
        assert ":" in image and "latest" not in image
        for volume in service.get("volumes", []):
            source = volume["source"] if isinstance(volume, dict) else volume.split(":")[0]
            assert not source.startswith(".") or (PROJECT / source).exists()
    assert (PROJECT / "deploy" / "postgres" / "application-role.sh").stat().st_mode & 0o111


def test_every_image_can_be_named_by_its_digest() -> None:
    text = FILE.read_text("utf-8")
    images = re.findall(r"\$\{(\w+_IMAGE):-([^}]+)\}", text)
    assert {name for name, _ in images} == {"KAFKA_IMAGE", "POSTGRES_IMAGE", "PYTHON_IMAGE"}
    assert all(re.search(r":\d+\.\d+\.\d+", image) for _, image in images), (
        "exact versions, where no digest is given"
    )
    given = services(
        {
            **PASSWORDS,
            "KAFKA_IMAGE": "kafka@sha256:1",
            "POSTGRES_IMAGE": "postgres@sha256:2",
            "PYTHON_IMAGE": "python@sha256:3",
        }
    )
    assert (given["kafka"]["image"], given["postgres"]["image"]) == (
        "kafka@sha256:1",
        "postgres@sha256:2",
    )
    assert given["api"]["build"]["args"]["PYTHON_IMAGE"] == "python@sha256:3"
    script = (PROJECT / "deploy" / "pin-images.sh").read_text("utf-8")
    pattern = re.search(r"sed -n 's/(.*)/\\1 \\2/p'", script)
    assert pattern is not None
    found = subprocess.run(
        ["sed", "-n", f"s/{pattern[1]}/\\1 \\2/p", FILE], capture_output=True, text=True, check=True
    ).stdout
    assert sorted(line.split() for line in found.splitlines()) == sorted(
        [list(image) for image in images]
    )


def test_no_service_has_the_password_of_a_superuser() -> None:
    for name, service in OURS.items():
        assert PASSWORDS["POSTGRES_PASSWORD"] not in str(service), name
    for name in ("migrate", "maintain"):
        assert OURS[name]["environment"]["LIVEDEX_OWNER_DATABASE_URL"].startswith(
            "postgresql://livedex_owner:owner@"
        )


def test_the_folder_to_index_is_mounted_where_the_settings_look_for_it() -> None:
    settings = tomllib.loads((PROJECT / "deploy" / "livedex.toml").read_text("utf-8"))
    targets = [
        volume["target"] for volume in SERVICES["watch"]["volumes"] if isinstance(volume, dict)
    ]
    assert [source["path"] for source in settings["source"]] == targets
    assert "./deploy/livedex.toml:/srv/livedex/livedex.toml:ro" in SERVICES["watch"]["volumes"]
    assert ("WORKDIR", "/srv/livedex") in INSTRUCTIONS


def test_the_image_is_built_in_stages_on_a_pinned_base_and_runs_as_nobody_in_particular() -> None:
    bases = [rest.split()[0] for name, rest in INSTRUCTIONS if name == "FROM"]
    assert bases == ["${PYTHON_IMAGE}"] * 2
    [base] = [rest.partition("=")[2] for name, rest in INSTRUCTIONS if name == "ARG"]
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base)
    assert OURS["api"]["build"]["args"] == {"PYTHON_IMAGE": base}
    last = INSTRUCTIONS[[name for name, _ in INSTRUCTIONS].index("FROM", 1) :]
    names = [name for name, _ in last]
    assert ("USER", SERVICES["api"]["user"]) in last and names.index("USER") < names.index(
        "ENTRYPOINT"
    )
    assert "HEALTHCHECK" in names and "ADD" not in names
    assert dict(last)["COPY"].startswith("--from=build ")


def test_the_image_gets_every_package_and_only_what_is_pinned() -> None:
    packages = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"][
        "packages"
    ]["find"]["include"]
    copied = {
        source
        for name, rest in INSTRUCTIONS
        if name == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    }
    assert {package.rstrip("*") for package in packages} <= copied
    sent = {
        line.removeprefix("!")
        for line in (PROJECT / ".dockerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    }
    assert copied == sent, "what is copied must be sent to Docker, and nothing else"
    assert all((PROJECT / source).exists() for source in copied)
    installs = re.findall(r"pip (?:--python \S+ )?install (.*)", DOCKERFILE)
    assert installs and all(
        "--require-hashes" in options or "--no-index" in options for options in installs
    )


def test_what_builds_the_wheel_is_pinned_with_hashes() -> None:
    pattern = re.search(r"sed -n '/(.*)/,/", DOCKERFILE)
    assert pattern is not None
    lines = (PROJECT / "requirements-dev.txt").read_text("utf-8").splitlines()
    first = next(n for n, line in enumerate(lines) if re.search(pattern[1], line))
    assert lines[first].endswith("\\") and "--hash=sha256:" in lines[first + 1]
