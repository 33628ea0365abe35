"""What the worker service can be told."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, PositiveFloat, PositiveInt

from shared.catalog.catalog import JobTypeOverride
from shared.catalog.queues import QueueOverride
from shared.runtime.settings import ServiceSettings, SettingsGroup


class SessionSettings(SettingsGroup):
    """Sessions of executors, and the rhythms of what is done for all of them together."""

    output_bytes_max: PositiveInt = 1024 * 1024
    """Largest output."""
    piece_bytes_max: PositiveInt = 64 * 1024
    """Largest output piece."""
    progress_message_characters_max: PositiveInt = 200
    """Longest progress message."""
    frame_bytes_max: int = Field(default=4 * 1024 * 1024, ge=256 * 1024)
    """Largest frame in either direction."""
    heartbeat_flush_seconds: PositiveFloat = 1.0
    """Heartbeats of all sessions are gathered so long, then written by one statement."""
    projection_seconds_max: PositiveFloat = 5.0
    """The longest statement of a projector."""
    age_seconds: PositiveFloat = 1800.0
    """A session is handed over at this age, give or take a fifth, so that new replicas get work."""
    drain_seconds: PositiveFloat = 10.0
    """How long a session that was told to go elsewhere still answers."""


class WorkerSettings(ServiceSettings):
    """One replica of the worker service."""

    execution_address: str = "127.0.0.1:7420"
    """Where ExecutionService listens."""
    database_pool_size: int = Field(default=10, ge=4)
    """Connections to Postgres: two batches of results, heartbeats, claims, and some for calls."""
    queues: Mapping[str, QueueOverride] = Field(default_factory=dict)
    """What is changed about queues, by name."""
    job_types: Mapping[str, JobTypeOverride] = Field(default_factory=dict)
    """What is changed about job types, by name."""
    sessions: SessionSettings = SessionSettings()
