"""The settings of a process: read once from the environment, complete, frozen, or refused in plain words."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RedisDsn,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from shared.runtime.faults import StartupFault
from shared.runtime.logs import LogFormat, LogLevel

PREFIX = "BATON_"
DELIMITER = "__"

_NEAR_MISS_CUTOFF = 0.85
"""How alike two names must be to be taken for each other; 1 is equal."""


def _parted(value: Any) -> Any:
    """Read `a, b` as two names; what is a sequence already stays."""
    return [part for each in value.split(",") if (part := each.strip())] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parted)]
"""Names with commas between them; may be empty."""


def _set(value: Any) -> Any:
    """Take an empty variable for one that is not set, as compose files write it."""
    return None if value == "" else value


OptionalPath = Annotated[Path | None, BeforeValidator(_set)]
OptionalText = Annotated[str | None, BeforeValidator(_set)]


class SettingsGroup(BaseModel):
    """A named group of settings inside a process's settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ProcessSettings(BaseSettings):
    """What every process can be told.

    A field `lease` of a group type with a field `duration_seconds` is `BATON_LEASE__DURATION_SECONDS`.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=DELIMITER, frozen=True, extra="forbid", validate_default=True
    )

    log_level: LogLevel = "info"
    """The lowest level that is logged."""
    log_format: LogFormat = "auto"
    """JSON or text; by default text in a terminal and JSON elsewhere."""


class TlsSettings(SettingsGroup):
    """Files in PEM: what a process proves itself with, and whom it believes.

    Services, executors and commands read what concerns them, so that one environment may serve all.
    """

    certificate_file: OptionalPath = None
    """The process's own certificate, with those between it and the root: a service shows it to its callers,
    and an executor or a command to a service that asks for one."""
    key_file: OptionalPath = None
    """Its private key."""
    ca_file: OptionalPath = None
    """Who signs services' certificates; with it, executors and commands dial by TLS."""
    client_ca_file: OptionalPath = None
    """Who signs callers' certificates; with it, a service takes no connection without one."""
    client_scopes: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """What callers without a token may do, by the subjects of their certificates."""

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificate_file and key_file go together")
        if self.client_ca_file is not None and self.certificate_file is None:
            raise ValueError("client_ca_file needs certificate_file and key_file")
        if self.client_scopes and self.client_ca_file is None:
            raise ValueError("client_scopes needs client_ca_file")
        return self


class CallerSettings(ProcessSettings):
    """What every process can be told that calls a service."""

    tls: TlsSettings = TlsSettings()


class ServiceSettings(ProcessSettings):
    """What both services can be told: they stand on the same servers, and know the same job types."""

    database_url: str
    """Postgres, as `postgresql://user:password@host/database`."""
    redis_url: RedisDsn
    """Redis or Valkey, as `redis://host:port/0`."""
    redis_prefix: Annotated[str, Field(min_length=1)] = "baton:"
    """Before every key in Redis, so that deployments can share one."""
    token_secret: SecretStr | None = None
    """Signs callers' tokens (HS256); with no identity at all everyone may call, on loopback only."""
    token_keys_file: OptionalPath = None
    """The public keys that verify callers' tokens instead: a JWKS document, read again when it changes."""
    token_keys_url: OptionalText = None
    """Where the issuer of callers' tokens publishes that document."""
    token_issuer: OptionalText = None
    """The `iss` of every token; unset takes any."""
    token_audience: OptionalText = None
    """What every token's `aud` names; unset takes tokens that name none."""
    tls: TlsSettings = TlsSettings()
    job_modules: Names = ()
    """Packages with job types of the deployment's own, with commas between."""

    @model_validator(mode="after")
    def _tokens_are_verified_in_one_way(self) -> Self:
        ways = {
            "BATON_TOKEN_SECRET": self.token_secret is not None and self.token_secret.get_secret_value(),
            "BATON_TOKEN_KEYS_FILE": self.token_keys_file,
            "BATON_TOKEN_KEYS_URL": self.token_keys_url,
        }
        named = [name for name, value in ways.items() if value]
        if len(named) > 1:
            raise ValueError(f"{' and '.join(named)} are set: tokens are verified in one way only")
        if not named and (self.token_issuer or self.token_audience):
            raise ValueError(
                f"an issuer or audience of tokens is expected, but none of {', '.join(ways)} is set"
            )
        return self


class SettingsFault(StartupFault):
    """The environment does not give a process its settings; nothing was started."""


S = TypeVar("S", bound=ProcessSettings)


def load(settings_class: type[S]) -> S:
    """Read a process's settings from the environment.

    Raises:
        SettingsFault: A variable is missing, misspelt inside a group, or has no valid value; one line for
            each. No line holds a variable's value, which may be a secret.
    """
    try:
        return settings_class()
    except ValidationError as error:
        faults = [
            _sentence(detail, settings_class)
            for detail in error.errors(include_url=False, include_input=False)
        ]
    except SettingsError as error:
        faults = [_broken_json(error)]
    raise SettingsFault(faults)


def near_misses(settings_class: type[ProcessSettings]) -> Mapping[str, str]:
    """Find variables that this process does not know and that look like one that it knows.

    Processes share one environment, so an unknown name is no fault; one that is nearly a known name is
    worth a warning.

    Returns:
        The unknown name to the known one that it resembles; empty if there is none.
    """
    known = list(variables(settings_class))
    return {
        name: close[0]
        for name in sorted(map(str.upper, os.environ))
        if name.startswith(PREFIX) and not _is_known(name, known)
        if (close := difflib.get_close_matches(name, known, n=1, cutoff=_NEAR_MISS_CUTOFF))
    }


def variables(model: type[BaseModel], prefix: str = PREFIX, *, key: str = "") -> Iterator[str]:
    """Yield the name of every variable that the model reads, groups and their members included.

    Args:
        key: Stands in the names of members of groups that are kept by key, as the DRILL in
            `BATON_QUEUES__DRILL__AT_ONCE`; left out if it is empty.
    """
    for field_name, field in model.model_fields.items():
        name = prefix + field_name.upper()
        yield name
        by_key = key + DELIMITER if key and _is_mapping(field.annotation) else ""
        for group in _groups(field.annotation):
            yield from variables(group, name + DELIMITER + by_key)


def _is_mapping(annotation: Any) -> bool:
    kind = get_origin(annotation)
    return isinstance(kind, type) and issubclass(kind, Mapping)


def _groups(annotation: Any) -> list[type[BaseModel]]:
    candidates = (annotation, *get_args(annotation))
    return [each for each in candidates if isinstance(each, type) and issubclass(each, BaseModel)]


def _is_known(name: str, known: Sequence[str]) -> bool:
    """Whether the process reads this name, or judges it when it reads the group that it is in."""
    return name in known or any(name.startswith(each + DELIMITER) for each in known)


def _sentence(detail: Any, settings_class: type[ProcessSettings]) -> str:
    name, inside = _located(detail["loc"])
    if detail["type"] == "missing":
        return f"{name} is required and not set" if not inside else f"{name}: {inside} is required"
    if detail["type"] == "extra_forbidden":
        _, *key, _ = name.split(DELIMITER) if name.count(DELIMITER) > 1 else ("", "")
        known = variables(settings_class, key=DELIMITER.join(key))
        close = difflib.get_close_matches(name, list(known), n=1)
        hint = f"; did you mean {close[0]}?" if close and not inside else ""
        return f"{name}{f': {inside}' if inside else ''} is no setting of this process{hint}"
    message = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if not name:
        return message
    return ": ".join(part for part in (name, inside, message[:1].lower() + message[1:]) if part)


def _broken_json(error: SettingsError) -> str:
    """The library names the field in quotes, first in its text, and keeps it nowhere else."""
    _, _, rest = str(error).partition('"')
    field_name, quote, _ = rest.partition('"')
    return f"{PREFIX}{field_name.upper()} is no valid JSON" if quote else str(error)


def _located(location: Sequence[int | str]) -> tuple[str, str]:
    """Split an error's location into the variable that holds it and the path inside its JSON value.

    The longest name that the environment has is the variable; if it has none, all of it is the name.
    """
    present = {name.upper() for name in os.environ}
    parts = [str(part) for part in location]
    for length in range(len(parts), 0, -1):
        name = PREFIX + DELIMITER.join(parts[:length]).upper()
        if name in present:
            return name, ".".join(parts[length:])
    return (PREFIX + DELIMITER.join(parts).upper(), "") if parts else ("", "")
