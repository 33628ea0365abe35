"""The README's tables and lists say what the code does."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from job_api.command.options import EXIT_CODES
from job_api.settings import ApiSettings
from job_worker.executor import registry as handlers
from job_worker.executor.settings import ExecutorSettings
from job_worker.projectors import registry as projectors
from job_worker.settings import WorkerSettings
from shared.catalog import catalog as catalogs
from shared.catalog.definition import Domain, JobDefinition
from shared.catalog.queues import SHIPPED_QUEUES
from shared.command.commands import MigrateSettings, build
from shared.domain.scopes import ALL_SCOPES
from shared.runtime.settings import PREFIX, ProcessSettings, variables

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
PROCESSES: dict[str, type[ProcessSettings]] = {
    "migrate": MigrateSettings,
    "api": ApiSettings,
    "worker": WorkerSettings,
    "executor": ExecutorSettings,
}


def table(head: str) -> list[list[str]]:
    """Return the rows of the table whose head begins so, without code marks around a whole cell."""
    _, _, rest = README.partition(f"\n| {head} |")
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]


def test_it_lists_every_command_that_is_there() -> None:
    told = {command.removeprefix("baton ") for command, _ in table("command")}

    app = build()
    commands = {command.name for command in app.registered_commands}
    for group in app.registered_groups:
        assert group.typer_instance
        if group.typer_instance.info.invoke_without_command is True:
            commands.add(group.name)
        commands |= {f"{group.name} {each.name}" for each in group.typer_instance.registered_commands}
    assert told == commands


def test_it_lists_the_exit_codes_as_the_command_tells_them() -> None:
    told = [f"{code:<4} {meaning}" for code, meaning in table("exit code")]

    assert told == [line.strip() for line in EXIT_CODES.splitlines()[2:]]


@pytest.mark.parametrize(("variable", "processes", "default"), [row[:3] for row in table("variable")])
def test_its_settings_are_there_with_these_defaults(variable: str, processes: str, default: str) -> None:
    read_by = {
        name: settings
        for name, settings in PROCESSES.items()
        if name in processes.split(", ") or processes == "all"
    }

    for settings in read_by.values():
        known = set(variables(settings))
        assert re.sub(r"__NAME__", "__", variable) in known or variable in known
        if variable in known and re.fullmatch(r"[a-z]+|[\d.]+:\d+|\d+", default) and default != "required":
            field = settings.model_fields[variable.removeprefix(PREFIX).lower()]
            assert str(field.default) == default or not field.default


def test_its_limits_are_those_that_the_settings_have() -> None:
    units = {"MiB": 1024 * 1024, "KiB": 1024, "h": 1}
    rows = [(default, variable) for _, default, variable in table("limit") if variable]

    assert rows
    for default, variable in rows:
        number, _, unit = default.replace(",", "").partition(" ")
        assert int(number) * units.get(unit, 1) == _default(variable)


def _default(variable: str) -> object:
    model: type[BaseModel] = ApiSettings if variable in set(variables(ApiSettings)) else WorkerSettings
    *groups, name = variable.removeprefix(PREFIX).lower().split("__")
    for group in groups:
        annotation = model.model_fields[group].annotation
        assert isinstance(annotation, type)
        assert issubclass(annotation, BaseModel)
        model = annotation
    return model.model_fields[name].default


def test_it_lists_the_queues_that_ship() -> None:
    assert table("queue") == [
        [
            queue.name,
            queue.group,
            f"{queue.lease_duration.total_seconds():g}",
            str(queue.at_once),
            str(queue.max_retries + 1),
        ]
        for queue in SHIPPED_QUEUES
    ]


def test_it_lists_the_job_types_that_ship() -> None:
    shipped = catalogs.load().definitions.values()

    assert table("job type") == [[each.job_type, each.queue, each.description] for each in shipped]


def test_it_lists_every_scope() -> None:
    assert {scope for scope, _ in table("scope")} == ALL_SCOPES


def test_the_fields_of_a_definition_that_it_explains_are_there_and_may_be_left_out() -> None:
    required = {
        each.name
        for each in dataclasses.fields(JobDefinition)
        if each.default is each.default_factory is dataclasses.MISSING
    }
    optional = {each.name for each in dataclasses.fields(JobDefinition)} - required
    _, _, domains = README.partition("`domain` is one of ")

    assert {field for field, *_ in table("field")} <= optional
    assert set(re.findall(r"`(\w+)`", domains.partition(";")[0])) == set(Domain.__members__)


def test_the_job_type_that_it_shows_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = re.findall(r"<!-- module: (\w+) -->\n```python\n(.*?)```\n", README, re.DOTALL)
    package = tmp_path / "tally"
    package.mkdir()
    for name, text in [("__init__", ""), *modules]:
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    catalog = catalogs.load(["tally"])

    assert list(handlers.load(catalog, ["tally"], ["tally"])) == ["tally"]
    assert "tally" in projectors.load(catalog, ["tally"])


def test_every_file_that_it_points_at_is_there() -> None:
    root = Path(__file__).resolve().parents[2]
    targets = re.findall(r"\]\(([^):#]+)", README)

    assert targets
    assert [each for each in targets if not (root / each).exists()] == []
