"""What an API process can be told."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from shared.catalog.catalog import JobTypeOverride
from shared.catalog.queues import QueueOverride
from shared.runtime.settings import ServiceSettings, SettingsGroup

MEBIBYTE = 1024 * 1024


class LimitSettings(SettingsGroup):
    """The most that one request may ask for; more is refused with a reason."""

    request_bytes_max: PositiveInt = 16 * MEBIBYTE
    """Of one message in either direction."""
    input_bytes_max: PositiveInt = MEBIBYTE
    """Of one input document; larger things are uploaded."""
    document_bytes_max: PositiveInt = 32 * MEBIBYTE
    """Of one uploaded document."""
    chunk_bytes_max: PositiveInt = MEBIBYTE
    """Of one message of an upload; each call of it holds about two of them in memory."""
    labels_max: PositiveInt = 32
    """Of one job."""
    jobs_per_call_max: PositiveInt = 1_000
    """Jobs that one call creates; they share a transaction."""
    batch_items_max: PositiveInt = 10_000
    """Items of one batch; they share a transaction too."""
    call_seconds: PositiveFloat = 30.0
    """The longest a call runs whose caller set no deadline."""

    @model_validator(mode="after")
    def _parts_fit_into_a_request(self) -> Self:
        if max(self.input_bytes_max, self.chunk_bytes_max) >= self.request_bytes_max:
            raise ValueError("input_bytes_max and chunk_bytes_max must be below request_bytes_max")
        return self


OwnerLimit = Annotated[int, Field(ge=1, le=1_000_000_000)]
"""More than the database counts would fail each call, and not the start."""


class OwnerLimitSettings(SettingsGroup):
    """The most that one owner may have; unset is no limit. Every replica is to be told the same."""

    active_jobs: OwnerLimit | None = None
    """Jobs that have not ended, at a time."""
    jobs_per_day: OwnerLimit | None = None
    """Jobs that are created in a day of UTC."""
    jobs_per_month: OwnerLimit | None = None
    """Jobs that are created in a month of UTC."""


class EstimateSettings(SettingsGroup):
    """What one item of a batch is likely to take."""

    cost: Annotated[Decimal, Field(ge=0, le=10**12, allow_inf_nan=False)]
    """In the unit that all estimates of the deployment have."""
    seconds: Annotated[float, Field(ge=0, le=366 * 86_400)]
    """Of work, a year at most: what all items of a batch take together is to be told as a span of time."""


class WatchSettings(SettingsGroup):
    """How jobs are watched."""

    keep_alive_seconds: PositiveFloat = 15.0
    """A quiet watch says this often that it lives."""
    poll_seconds: PositiveFloat = 1.0
    """Catches what a lost hint missed, and progress, for which there may be no hint."""
    slow_seconds: PositiveFloat = 10.0
    """A watcher that has not made room for so long is told to resume later."""


class LoopSettings(SettingsGroup):
    """The longest idle waits of what runs by itself."""

    dispatch_seconds: PositiveFloat = 0.1
    """The outbox dispatcher; a creation wakes it at once, room in a stream and what becomes due do not."""
    events_seconds: PositiveFloat = 1.0
    """The copy of events for other services; a number in the feed wakes it at once."""
    numbering_seconds: PositiveFloat = 0.25
    """The numbering of events for other services, before which nobody sees them."""
    sweep_seconds: PositiveFloat = 5.0
    """The dispatch sweep."""
    unclaimed_seconds: PositiveFloat = 30.0
    """A delivered dispatch that nobody claimed for so long, though somebody could, is sent again."""
    reaper_seconds: Annotated[float, Field(gt=0, le=30)] = 3.0
    """The lease reaper; what waits for it is the end of a lost executor's attempt."""
    start_by_seconds: PositiveFloat = 5.0
    """The start-by sweep."""
    retention_seconds: PositiveFloat = 300.0
    """The removal of what is kept no longer."""
    probe_seconds: PositiveFloat = 0.5
    """The question whether the database answers, which opens and closes the service for load balancers."""


class ApiSettings(ServiceSettings):
    """The whole of it; read once."""

    control_address: str = "127.0.0.1:7410"
    """Where JobControl listens, host:port."""
    database_pool_size: PositiveInt = 10
    """Connections to Postgres for calls and loops together."""
    queues: Mapping[str, QueueOverride] = Field(default_factory=dict)
    """What the deployment changes about queues, by name."""
    job_types: Mapping[str, JobTypeOverride] = Field(default_factory=dict)
    """What the deployment changes about job types, by name."""
    idempotency_hours: Annotated[float, Field(ge=1)] = 24.0
    """How long a key is kept; it never goes before its job's end."""
    event_days: Annotated[float, Field(ge=1)] = 30.0
    """How long events for other services stay in their feed once they were copied to Redis."""
    grace_seconds: NonNegativeFloat = 10.0
    """How long calls may go on once the process was told to stop; watches are told at once."""
    estimates: Mapping[str, EstimateSettings] = Field(default_factory=dict)
    """What the deployment knows of the items of batches, by job type."""
    limits: LimitSettings = LimitSettings()
    owner_limits: OwnerLimitSettings = OwnerLimitSettings()
    watch: WatchSettings = WatchSettings()
    loops: LoopSettings = LoopSettings()
