"""Where one job stands, for whoever asks why it is not running."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from shared.domain.events import OutboxState
from shared.domain.identity import JobId, JobType, Owner, QueueName, StreamName
from shared.domain.jobs import JobState
from shared.domain.leases import TypeLimits
from shared.storage.database import Connection
from shared.storage.lease_limits import rate_spent
from shared.storage.queue_figures import SEEN_WITHIN

HOLDERS_MAX = 100

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

# A rate that is used up lets the next lease through once less than a second's worth, or one lease, is spent.
_LIMITS = sa.text(f"""
with held as materialized (
    select job_id, owner from leases where limited and job_type = :job_type
),
rate as (
    select {rate_spent("r.per_second", "rate_spent_time")}
        - (greatest(1, r.per_second) - 1) / r.per_second * interval '1 second' as until_time
    from lease_limits l cross join (select cast(:per_second as double precision) as per_second) r
    where l.job_type = :job_type
)
select count(*) as in_all, count(*) filter (where owner = :owner) as of_owner,
    (select array_agg(job_id) from (
        select job_id from held order by job_id limit {HOLDERS_MAX}) h) as holders,
    (select array_agg(job_id) from (
        select job_id from held where owner = :owner order by job_id limit {HOLDERS_MAX}) h) as own_holders,
    (select until_time from rate where until_time > engine_time()) as rate_until_time
from held
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
        """Whether the time of its next attempt has come."""
        return self.next_attempt_time is not None and self.next_attempt_time <= self.now

    @property
    def in_line(self) -> bool:
        """Whether it is handed out as soon as its turn comes."""
        return self.due and self.dispatch is not None and self.dispatch.state is not OutboxState.DEAD


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


@dataclass(frozen=True, slots=True)
class UsedLimits:
    """What is used up of a job type's limits.

    Attributes:
        in_all: Leases of the type.
        of_owner: Of these, the leases of one owner.
        holders: Jobs that hold leases of the type; at most `HOLDERS_MAX`.
        own_holders: The same of the owner.
        rate_until_time: Until when its rate lets nothing through; None if it does.
    """

    limits: TypeLimits
    in_all: int
    of_owner: int
    holders: Sequence[JobId]
    own_holders: Sequence[JobId]
    rate_until_time: datetime | None


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

    async def used(self, limits: TypeLimits, owner: Owner) -> UsedLimits:
        """Return what is used up of a job type's limits, as far as an owner's jobs are concerned."""
        parameters = {"job_type": limits.job_type, "owner": owner, "per_second": limits.per_second}
        row = (await self._connection.execute(_LIMITS, parameters)).one()
        return UsedLimits(
            limits, row.in_all, row.of_owner, row.holders or (), row.own_holders or (), row.rate_until_time
        )


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
