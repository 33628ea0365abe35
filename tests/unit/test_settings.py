"""Settings: what the environment says, and what is said when it is wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest
from pydantic import PositiveFloat, PositiveInt, SecretStr, ValidationError, model_validator

from shared.runtime.settings import (
    ProcessSettings,
    SettingsFault,
    SettingsGroup,
    load,
    near_misses,
    variables,
)


class LeaseSettings(SettingsGroup):
    duration_seconds: PositiveFloat = 60.0
    max_per_session: PositiveInt = 64


class ExampleSettings(ProcessSettings):
    database_url: str
    secret: SecretStr | None = None
    lease: LeaseSettings = LeaseSettings()
    leases: Mapping[str, LeaseSettings] = {}

    @model_validator(mode="after")
    def _leases_are_shorter_than_an_hour(self) -> ExampleSettings:
        if self.lease.duration_seconds > 3600:
            raise ValueError("A lease of more than an hour is a mistake.")
        return self


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.upper().startswith("BATON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BATON_DATABASE_URL", "postgresql://there")
    return monkeypatch


def faults() -> tuple[str, ...]:
    with pytest.raises(SettingsFault) as raised:
        load(ExampleSettings)
    return raised.value.faults


def test_groups_are_read_by_nested_names(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("BATON_LEASE__DURATION_SECONDS", "30")

    settings = load(ExampleSettings)

    assert settings.database_url == "postgresql://there"
    assert settings.lease == LeaseSettings(duration_seconds=30.0, max_per_session=64)


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load(ExampleSettings).database_url = "elsewhere"  # type: ignore[misc]


def test_all_faults_are_named_at_once_by_their_variables(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("BATON_DATABASE_URL")
    environment.setenv("BATON_LEASE__DURATION_SECONDS", "-1")
    environment.setenv("BATON_LEASE__MAX_PER_SESSION", "many")

    assert faults() == (
        "BATON_DATABASE_URL is required and not set",
        "BATON_LEASE__DURATION_SECONDS: input should be greater than 0",
        "BATON_LEASE__MAX_PER_SESSION: input should be a valid integer, unable to parse string as an integer",
    )


def test_a_misspelt_nested_name_is_refused_with_the_name_that_was_meant(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("BATON_LEASE__DURATON_SECONDS", "30")

    assert faults() == (
        "BATON_LEASE__DURATON_SECONDS is no setting of this process; "
        "did you mean BATON_LEASE__DURATION_SECONDS?",
    )


def test_the_name_that_was_meant_keeps_the_key_of_a_group(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("BATON_LEASES__DRILL__DURATION_SECOND", "30")

    assert faults() == (
        "BATON_LEASES__DRILL__DURATION_SECOND is no setting of this process; "
        "did you mean BATON_LEASES__DRILL__DURATION_SECONDS?",
    )


def test_a_fault_inside_a_group_given_as_json_names_the_variable_and_the_path(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("BATON_LEASE", '{"duration_seconds": 0}')

    assert faults() == ("BATON_LEASE: duration_seconds: input should be greater than 0",)


def test_broken_json_names_the_variable(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("BATON_LEASE", "{")

    assert faults() == ("BATON_LEASE is no valid JSON",)


def test_a_relation_between_values_is_said_in_its_own_words(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("BATON_LEASE__DURATION_SECONDS", "4000")

    assert faults() == ("A lease of more than an hour is a mistake.",)


def test_no_fault_shows_a_value(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("BATON_LEASE__DURATION_SECONDS", "hunter2")

    assert "hunter2" not in "".join(faults())


def test_another_processs_variable_is_no_fault_and_a_near_miss_is_told(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("BATON_SOMETHING_ELSE", "1")
    environment.setenv("BATON_DATABASE_URI", "postgresql://there")

    load(ExampleSettings)

    assert near_misses(ExampleSettings) == {"BATON_DATABASE_URI": "BATON_DATABASE_URL"}


def test_the_known_variables_include_those_of_groups() -> None:
    assert list(variables(ExampleSettings)) == [
        "BATON_LOG_LEVEL",
        "BATON_LOG_FORMAT",
        "BATON_DATABASE_URL",
        "BATON_SECRET",
        "BATON_LEASE",
        "BATON_LEASE__DURATION_SECONDS",
        "BATON_LEASE__MAX_PER_SESSION",
        "BATON_LEASES",
        "BATON_LEASES__DURATION_SECONDS",
        "BATON_LEASES__MAX_PER_SESSION",
    ]
