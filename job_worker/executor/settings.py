"""What an executor can be told."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, PositiveFloat, SecretStr

from shared.catalog.catalog import JobTypeOverride
from shared.catalog.queues import QueueOverride
from shared.runtime.settings import CallerSettings, Names


class ExecutorSettings(CallerSettings):
    """One executor process."""

    execution_address: str = "127.0.0.1:7420"
    """Where ExecutionService listens."""
    token: SecretStr | None = None
    """Bearer token with the scope `jobs.execute`; unset where the service asks for none."""
    executor_name: str = Field(default_factory=socket.gethostname, min_length=1, max_length=100)
    """A name for people; the machine's by default."""
    job_modules: Names = ()
    """Packages with job types of one's own: their submodules `definitions` and `handlers` are loaded."""
    queues: Mapping[str, QueueOverride] = Field(default_factory=dict)
    """What is changed about queues, by name; of it, an executor heeds how many leases it may take at once."""
    job_types: Mapping[str, JobTypeOverride] = Field(default_factory=dict)
    """What is changed about job types, by name; an executor goes by what its leases say."""
    serve_queues: Names = ()
    """Only these queues; all if this, the groups and the job types are empty."""
    serve_groups: Names = ()
    """Only the queues of these groups."""
    serve_job_types: Names = ()
    """Only these job types."""
    ready_file: Path | None = None
    """Made once the executor has its first session, and removed at its end; for supervisors and probes."""
    handler_processes: int = Field(default=1, ge=1, le=64)
    """Processes that share the work; a handler that holds one up leaves the others alone."""
    grace_seconds: PositiveFloat = 25.0
    """When told to stop, how long running handlers may go on; then their leases are given back."""
    progress_seconds: PositiveFloat = 1.0
    """Progress is gathered so long before it is sent."""
    reconnect_seconds_max: PositiveFloat = 5.0
    """The longest wait before connecting again."""
