"""What a job type is: everything that the engine must know about it, in one value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel

from shared.domain.identity import JobType, QueueName
from shared.domain.leases import TypeLimits
from shared.domain.queues import PRIORITY_MAX, StreamKey, band
from shared.domain.retries import Backoff

JOB_TYPE_PATTERN = re.compile(r"[a-z][a-z0-9_]{1,63}")
TIMEOUT_MIN = timedelta(seconds=1)
TIMEOUT_MAX = timedelta(seconds=600)
"""A job that needs longer is cut into several: a lost attempt then costs ten minutes at most."""
LIMIT_MAX = 1_000_000
"""The highest limit; more leases at once are counted in no reasonable time, and none is as good."""
PER_SECOND_MIN = 0.0001
"""The lowest rate: about nine leases a day."""


class Domain(StrEnum):
    """What a job type is for."""

    ANALYSIS = "analysis"
    GENERATION = "generation"
    IMPORT = "import"
    MEDIA = "media"
    MAINTENANCE = "maintenance"
    DRILL = "drill"


class CredentialMode(StrEnum):
    """Whose key a job uses with its provider."""

    PLATFORM_KEY = "platform_key"
    USER_KEY = "user_key"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a job type may use up at most; None means no limit.

    Attributes:
        at_once: Leases in all.
        at_once_per_owner: Leases of one owner.
        per_second: Leases granted in a second; after a quiet time one second's worth, at least one, at once.
        losses: So many lost executors fail a job.
        life: A job older than this is not tried again.
    """

    at_once: int | None = None
    at_once_per_owner: int | None = None
    per_second: float | None = None
    losses: int = 3
    life: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefinition:
    """A job type. Where a value is None, its queue's counts.

    Attributes:
        job_type: `^[a-z][a-z0-9_]{1,63}$`.
        label: A name for people.
        description: A sentence on what it does.
        default_priority: 0 first to 100 last.
        timeout: Longest run of one attempt, 1 s to 600 s.
        max_retries: Tries after the first.
        cancellable: Whether it can be cancelled while an attempt runs.
        retry_timeouts: Whether a time-out is followed by another attempt.
        start_by: Cancelled if it has not started so long after its creation.
        upload_field: The input's field that may hold the id of an uploaded document.
        projector: Key of the function that commits its result.
        keep_output: Whether the output is stored for reading it back; its artifacts are in any case.
        redacted_output_fields: Top-level fields of the output that are not stored.
        content_safety_check: Whether input and output are checked.
        piece_filter: Key of the filter that streamed pieces pass; needed to stream with a check or redaction.
        grace: How long a handler may ignore a cancel or the end of its time.
        provider_timeout: The longest wait for one call of a provider.
    """

    job_type: JobType
    label: str
    description: str
    domain: Domain
    version: int = 1
    queue: QueueName
    default_priority: int = 50
    timeout: timedelta = timedelta(seconds=120)
    max_retries: int | None = None
    backoff: Backoff | None = None
    cancellable: bool = True
    retry_timeouts: bool = True
    start_by: timedelta | None = None
    input_schema_version: int = 1
    input_model: type[BaseModel]
    output_schema_version: int = 1
    output_model: type[BaseModel]
    upload_field: str | None = None
    projector: str
    keep_output: bool = True
    redacted_output_fields: frozenset[str] = frozenset()
    content_safety_check: bool = False
    piece_filter: str | None = None
    credential_modes: frozenset[CredentialMode] = frozenset({CredentialMode.PLATFORM_KEY})
    default_credential_mode: CredentialMode = CredentialMode.PLATFORM_KEY
    limits: Limits = field(default_factory=Limits)
    grace: timedelta = timedelta(seconds=30)
    provider_timeout: timedelta = timedelta(seconds=30)

    def stream_key(self, priority: int) -> StreamKey:
        """Name the stream that carries this type's jobs of a priority."""
        return StreamKey(
            self.queue, self.job_type, self.input_schema_version, self.output_schema_version, band(priority)
        )

    def lease_limits(self) -> TypeLimits | None:
        """Return how many leases the type may have; None if it has no limit on them."""
        limits = self.limits
        if (limits.at_once, limits.at_once_per_owner, limits.per_second) == (None, None, None):
            return None
        return TypeLimits(self.job_type, limits.at_once, limits.at_once_per_owner, limits.per_second)


def faults_of(definition: JobDefinition) -> Iterator[str]:
    """Yield a sentence for each thing that is wrong with a definition by itself."""
    checks = {
        "job_type must match ^[a-z][a-z0-9_]{1,63}$": JOB_TYPE_PATTERN.fullmatch(definition.job_type),
        "label must not be empty": definition.label,
        "description must not be empty": definition.description,
        "projector must not be empty": definition.projector,
        f"timeout must be {TIMEOUT_MIN.seconds} s to {TIMEOUT_MAX.seconds} s": (
            TIMEOUT_MIN <= definition.timeout <= TIMEOUT_MAX
        ),
        f"default_priority must be 0 to {PRIORITY_MAX}": 0 <= definition.default_priority <= PRIORITY_MAX,
        "max_retries must be at least 0": (definition.max_retries or 0) >= 0,
        "versions must be at least 1": _versions_min(definition) >= 1,
        "grace and provider_timeout must be positive": _shortest_wait(definition) > timedelta(0),
        "start_by must be positive": definition.start_by is None or definition.start_by > timedelta(0),
        "default_credential_mode must be one of credential_modes": (
            definition.default_credential_mode in definition.credential_modes
        ),
        "input_model must refuse unknown fields (extra='forbid')": _refuses_extra(definition.input_model),
        "output_model must refuse unknown fields (extra='forbid')": _refuses_extra(definition.output_model),
        "upload_field must be a field of input_model": (
            definition.upload_field is None or definition.upload_field in definition.input_model.model_fields
        ),
        "redacted_output_fields must be fields of output_model": (
            definition.redacted_output_fields <= definition.output_model.model_fields.keys()
        ),
        f"limits must be 1 to {LIMIT_MAX:,}, per_second at least {PER_SECOND_MIN}": _limits_hold(
            definition.limits
        ),
        "content_safety_check and piece_filter are not done yet": not (
            definition.content_safety_check or definition.piece_filter
        ),
    }
    return (
        f"job type {definition.job_type!r}: {sentence}" for sentence, holds in checks.items() if not holds
    )


def _versions_min(definition: JobDefinition) -> int:
    return min(definition.version, definition.input_schema_version, definition.output_schema_version)


def _shortest_wait(definition: JobDefinition) -> timedelta:
    return min(definition.grace, definition.provider_timeout)


def _refuses_extra(model: type[BaseModel]) -> bool:
    return model.model_config.get("extra") == "forbid"


def _limits_hold(limits: Limits) -> bool:
    counts = (limits.at_once, limits.at_once_per_owner, limits.losses)
    rate = limits.per_second
    return all(each is None or 1 <= each <= LIMIT_MAX for each in counts) and (
        rate is None or PER_SECOND_MIN <= rate <= LIMIT_MAX
    )
