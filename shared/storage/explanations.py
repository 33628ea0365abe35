"""Where one job stands, for whoever asks why it is not running."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from shared.domain.events import OutboxState
from shared.domain.identity import JobId, JobType, Owner, QueueName, StreamName
from shared.domain.jobs import JobState
from shared.storage.database import Connection
from shared.storage.queue_figures import SEEN_WITHIN

_STANDING = sa.text("""
select j.*, l.executor_name, l.grant_time, o.outbox_id, o.state as dispatch_state, o.available_time,
    o.delivered_time, o.last_error_code, o.last_error_message, engine_time() as now
from jobs j left join leases l using (job_id)
left join outbox o on o.dedupe_key = format('job.dispatch:%s:%s', j.job_id, j.attempt + 1)
where j.job_id = :job_id
""")

_EXECUTORS = sa.text("""
with able as (
    select s.incarnation_id = any (j.refused_by) as refuses,
        not jsonb_exists(s.schema_versions, j.job_type) or jsonb_exists(
            s.schema_versions -> j.job_type, format('%s.%s', j.input_schema_version, j.output_schema_version)
        ) as fits
    from jobs j join executor_sessions s on j.job_type = any (s.job_types)
    where j.job_id = :job_id and (
        s.hello_time > engine_time() - cast(:seen_within as interval) or exists (
            select from leases l where l.incarnation_id = s.incarnation_id
                and l.heartbeat_time > engine_time() - cast(:seen_within as interval)))
)
select count(*) filter (where fits and not refuses) as willing, count(*) filter (where fits and refuses)
    as refusing, count(*) filter (where not fits) as of_other_versions
from able
""")


@dataclass(frozen=True, slots=True)
class Running:
    """The lease of a job that runs."""

    executor_name: str
    grant_time: datetime


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """The dispatch row of a job that waits.

    Attributes:
        available_time: When it may be delivered, which is later than it was due if it was refused meanwhile.
        error_code: Of its last failed delivery; empty if none.
    """

    outbox_id: int
    state: OutboxState
    available_time: datetime
    delivered_time: datetime | None
    error_code: str
    error_message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a job stands, read at one moment; all times are the database's.

    Attributes:
        error_code: Of the last attempt that ended without success, or of the job's end; empty if none.
        running: Its lease; None if it has none.
        dispatch: What waits for an executor; None while it runs and after its end.
        now: When this was read.
    """

    owner: Owner
    job_type: JobType
    queue: QueueName
    stream: StreamName
    priority: int
    input_schema_version: int
    output_schema_version: int
    state: JobState
    attempt: int
    error_code: str
    next_attempt_time: datetime | None
    finish_time: datetime | None
    running: Running | None
    dispatch: WaitingRow | None
    now: datetime

    @property
    def due(self) -> bool:
        """Whether it waits for nothing but an executor."""
        return self.next_attempt_time is not None and self.next_attempt_time <= self.now


@dataclass(frozen=True, slots=True)
class AbleExecutors:
    """How many executors that were heard of lately announce a job's type.

    Attributes:
        willing: In its schema versions too, and they have not refused this job.
        refusing: In its schema versions too.
        of_other_versions: In others alone.
    """

    willing: int
    refusing: int
    of_other_versions: int


class Explanations:
    """Reads what keeps a job from running; each method sees a moment of its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def standing(self, job_id: JobId) -> Standing:
        """Return where a job stands that exists."""
        row = (await self._connection.execute(_STANDING, {"job_id": job_id})).one()
        return Standing(
            owner=row.owner,
            job_type=row.job_type,
            queue=row.queue,
            stream=row.stream,
            priority=row.priority,
            input_schema_version=row.input_schema_version,
            output_schema_version=row.output_schema_version,
            state=JobState(row.state),
            attempt=row.attempt,
            error_code=row.error_code or "",
            next_attempt_time=row.next_attempt_time,
            finish_time=row.finish_time,
            running=None if row.grant_time is None else Running(row.executor_name, row.grant_time),
            dispatch=_dispatch(row),
            now=row.now,
        )

    async def executors(self, job_id: JobId) -> AbleExecutors:
        """Count the executors that could do a job."""
        parameters = {"job_id": job_id, "seen_within": SEEN_WITHIN}
        row = (await self._connection.execute(_EXECUTORS, parameters)).one()
        return AbleExecutors(row.willing, row.refusing, row.of_other_versions)


def _dispatch(row: Any) -> WaitingRow | None:
    if row.outbox_id is None:
        return None
    return WaitingRow(
        row.outbox_id,
        OutboxState(row.dispatch_state),
        row.available_time,
        row.delivered_time,
        row.last_error_code,
        row.last_error_message,
    )
