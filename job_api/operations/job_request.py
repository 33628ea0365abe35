"""A wish for one job, and the check of it against the catalog: all that needs no database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ValidationError

from shared.catalog import json_text
from shared.catalog.catalog import Catalog
from shared.catalog.definition import CredentialMode, JobDefinition
from shared.catalog.misfits import misfits
from shared.domain.errors import FieldViolation, InvalidInput, PayloadTooLarge
from shared.domain.identity import Owner, UploadId
from shared.domain.jobs import Target

VIOLATIONS_MAX = 50
"""More than a person mends at a time; what is behind them is not told."""
BYTES_ON_THE_LOOP_MAX = 64 * 1024
"""More input than this is checked in a thread, so that other calls go on meanwhile."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What differs from the definition; None, empty or 0 where nothing was sent."""

    priority: int | None = None
    credential_mode: CredentialMode | None = None
    credential_id: str = ""
    prompt_version: str = ""
    output_schema_version: int = 0

    def sent(self) -> dict[str, Any]:
        """Return what was sent as a JSON value."""
        return {
            "priority": self.priority,
            "credential_mode": self.credential_mode and str(self.credential_mode),
            "credential_id": self.credential_id,
            "prompt_version": self.prompt_version,
            "output_schema_version": self.output_schema_version,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateJobCommand:
    """One job as it was asked for; single fields are in their ranges.

    Attributes:
        input: JSON text as it was sent.
        owner: None where it is the caller.
        traceparent: The call's trace context; empty if it came without one.
    """

    job_type: str
    input: bytes
    key: str | None = None
    target: Target | None = None
    run_time: datetime | None = None
    start_by_time: datetime | None = None
    overrides: Overrides = Overrides()
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class CheckedJob:
    """A wish that fits the catalog.

    Attributes:
        fingerprint: SHA-256 over owner and content as sent; empty where there is no key.
        upload_id: The document that the input refers to.
    """

    command: CreateJobCommand
    definition: JobDefinition
    owner: Owner
    fingerprint: bytes
    upload_id: UploadId | None


class JobRequests:
    """Checks wishes against the catalog."""

    def __init__(self, catalog: Catalog, *, input_bytes_max: int) -> None:
        self._catalog = catalog
        self._input_bytes_max = input_bytes_max

    def check(self, command: CreateJobCommand, owner: Owner) -> CheckedJob:
        """Check everything that the catalog knows about.

        Raises:
            UnknownJobType: No definition has that name.
            PayloadTooLarge: The input is over its limit.
            InvalidInput: The input is no JSON, does not fit, or an override is not allowed.
        """
        definition = self._catalog.definition(command.job_type)
        if len(command.input) > self._input_bytes_max:
            raise PayloadTooLarge("input", self._input_bytes_max, len(command.input))
        try:
            value = json_text.parse(command.input)
            fingerprint = b"" if command.key is None else _fingerprint(command, value, owner)
        except json_text.MalformedDocument as error:
            raise InvalidInput([FieldViolation("input", str(error))]) from None
        violations = list(_override_violations(command.overrides, definition))
        if violations:
            raise InvalidInput(violations)
        fitting = _fitting(command.input, definition.input_model)
        return CheckedJob(command, definition, owner, fingerprint, _upload_id(fitting, definition))


def _fingerprint(command: CreateJobCommand, value: Any, owner: Owner) -> bytes:
    """Hash what was sent, before any default: key order and white space don't count, all else does."""
    body = {
        "owner": owner,
        "job_type": command.job_type,
        "input": value,
        "target": command.target and [command.target.type, command.target.id],
        "run_time": command.run_time and command.run_time.isoformat(),
        "start_by_time": command.start_by_time and command.start_by_time.isoformat(),
        "overrides": command.overrides.sent(),
        "labels": dict(command.labels),
    }
    return json_text.digest(body)


def _override_violations(overrides: Overrides, definition: JobDefinition) -> Iterator[FieldViolation]:
    mode = overrides.credential_mode
    if mode is not None and mode not in definition.credential_modes:
        allowed = ", ".join(sorted(definition.credential_modes))
        yield FieldViolation("overrides.credential_mode", f"this job type allows {allowed}")
    if overrides.output_schema_version not in (0, definition.output_schema_version):
        version = definition.output_schema_version
        yield FieldViolation("overrides.output_schema_version", f"this job type gives version {version}")


def _fitting(text: bytes, model: type[BaseModel]) -> BaseModel:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        found = misfits(error)[:VIOLATIONS_MAX]
        raise InvalidInput([FieldViolation(each.within("input"), each.what) for each in found]) from None


def _upload_id(fitting: BaseModel, definition: JobDefinition) -> UploadId | None:
    if definition.upload_field is None:
        return None
    value = getattr(fitting, definition.upload_field)
    if value is None:
        return None
    try:
        return UploadId(value if isinstance(value, UUID) else UUID(str(value)))
    except ValueError:
        raise InvalidInput([FieldViolation(f"input.{definition.upload_field}", "is not a UUID")]) from None
