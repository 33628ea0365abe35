"""Attempts: those that run, locked before their end is decided, and those that have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from shared.domain.attempts import AttemptOutcome, Standing
from shared.domain.identity import IncarnationId, JobId, JobType, LeaseToken, Owner
from shared.domain.jobs import JobError
from shared.domain.leases import SILENCE_FACTOR, LeaseRef
from shared.domain.timings import JobTimings, timings
from shared.storage import tables
from shared.storage.database import Connection
from shared.storage.rows import LEASE_COLUMNS, error_of, lease_columns, unnested


@dataclass(frozen=True, slots=True)
class HeldAttempt:
    """An attempt whose job and lease this transaction has locked.

    Attributes:
        accepted: Whether its executor has ever said anything about it.
        output_schema_version: The version that was asked for.
    """

    lease: LeaseRef
    attempt: int
    job_type: JobType
    owner: Owner
    output_schema_version: int
    accepted: bool
    standing: Standing


@dataclass(frozen=True, slots=True)
class OverdueAttempt:
    """A held attempt that the reaper must end.

    Attributes:
        silent: Its executor was not heard for too long.
        cancel_ignored: A cancel was not answered within the grace period.
    """

    held: HeldAttempt
    silent: bool
    cancel_ignored: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """One lease of a job in its history; the end is None while it runs."""

    number: int
    executor_name: str
    incarnation_id: IncarnationId
    start_time: datetime
    end_time: datetime | None
    outcome: AttemptOutcome | None
    error: JobError | None
    suspect: bool


@dataclass(frozen=True, slots=True)
class History:
    """What was tried for a job, first to last, and where its time has gone."""

    attempts: Sequence[Attempt]
    timings: JobTimings


@dataclass(frozen=True, slots=True)
class EarlierReport:
    """The report that ended an attempt; hash and answer are empty if something else ended it."""

    report_hash: str
    answer: str


_HELD = """
    l.job_id, l.token, l.attempt, l.accepted, j.job_type, j.owner, j.output_schema_version,
    j.failures, j.internal_failures, j.losses, j.give_backs,
    extract(epoch from engine_time() - j.create_time)::double precision as age_seconds,
    j.cancel_request_time is not null as cancel_requested, j.skipping
"""

_LOCK = sa.text(f"""
select {_HELD}
from jobs j join leases l using (job_id)
where (l.job_id, l.token) in (select * from {unnested(LEASE_COLUMNS, "n")})
order by j.job_id for update of j, l
""")

# The named ones are locked with the others, in one order: their session is changed in the same transaction.
_LOCK_UNNAMED = sa.text(f"""
select {_HELD}, l.token = any (cast(:tokens as text[])) as named
from jobs j join leases l using (job_id)
where l.incarnation_id = cast(:incarnation_id as uuid)
order by j.job_id for update of j, l
""")

# Services that were silent themselves can't judge: without a fresh pulse nothing is overdue. The pulse's age
# and the silence are told at one instant: if the database stands still in the midst of this statement, both
# are of before or both of after.
_SILENT = f"l.heartbeat_time + {SILENCE_FACTOR} * l.lease_seconds * interval '1 second' < p.now"
_CANCEL_IGNORED = """coalesce(
    greatest(j.cancel_request_time, l.reprieve_time) + l.grace_seconds * interval '1 second' < p.now
    and j.cancel_request_time is not null, false)"""
_LOCK_OVERDUE = sa.text(f"""
with present as materialized (select pulse_time, engine_time() as now from pulse)
select {_HELD}, {_SILENT} as silent, {_CANCEL_IGNORED} as cancel_ignored
from present p cross join jobs j join leases l using (job_id)
where p.pulse_time > p.now - cast(:pulse_age as interval)
    and ({_SILENT} or {_CANCEL_IGNORED} or l.deadline_time < p.now)
order by j.job_id limit :limit for update of j, l skip locked
""")


# Attempts, the running one too, and what they took together, all at one moment of the database's clock. There
# is a row also where there are none.
_HISTORY = sa.text("""
with present as materialized (select engine_time() as now),
every as (
    select attempt, executor_name, incarnation_id, start_time, end_time, outcome, error_code, error_message,
        error_internal, suspect
    from attempts where job_id = :job_id
    union all
    select attempt, executor_name, incarnation_id, grant_time, null, null, null, null, null, false
    from leases where job_id = :job_id
)
select newest.*, j.create_time, j.start_time as first_start_time, j.finish_time, p.now,
    (select sum(greatest(coalesce(end_time, p.now) - start_time, interval '0')) from every) as running
from present p cross join jobs j
left join (select * from every order by attempt desc limit :limit) newest on true
where j.job_id = :job_id order by newest.attempt
""")


class Attempts:
    """Reads and locks attempts; their ends are written by `state_changes`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def lock(self, leases: Sequence[LeaseRef]) -> Mapping[LeaseRef, HeldAttempt]:
        """Lock those of the leases that still stand, with their jobs, until the transaction ends."""
        if not leases:
            return {}
        rows = await self._connection.execute(_LOCK, lease_columns(leases))
        return {each.lease: each for each in map(_held, rows)}

    async def lock_unnamed(
        self, incarnation_id: IncarnationId, *, named: Sequence[LeaseToken]
    ) -> list[HeldAttempt]:
        """Lock all leases of an incarnation, with their jobs, and return those that it did not name."""
        parameters = {"incarnation_id": incarnation_id, "tokens": list(named)}
        rows = await self._connection.execute(_LOCK_UNNAMED, parameters)
        return [_held(row) for row in rows if not row.named]

    async def lock_overdue(self, *, pulse_age: timedelta, limit: int) -> list[OverdueAttempt]:
        """Lock attempts that have run out of silence, time or grace by the database's clock.

        Those that another transaction holds are skipped. None is overdue while no worker's pulse is younger
        than `pulse_age`: the services' own silence is not the executors'.
        """
        rows = await self._connection.execute(_LOCK_OVERDUE, {"pulse_age": pulse_age, "limit": limit})
        return [OverdueAttempt(_held(row), row.silent, row.cancel_ignored) for row in rows]

    async def earlier_reports(self, leases: Sequence[LeaseRef]) -> Mapping[LeaseRef, EarlierReport]:
        """Return what ended those of the attempts that have ended under exactly these tokens."""
        if not leases:
            return {}
        table = tables.attempts
        keys = [(each.job_id, each.token) for each in leases]
        statement = sa.select(table.c.job_id, table.c.token, table.c.report_hash, table.c.answer).where(
            table.c.job_id.in_([job_id for job_id, _ in keys]),
            sa.tuple_(table.c.job_id, table.c.token).in_(keys),
        )
        rows = await self._connection.execute(statement)
        return {LeaseRef(row.job_id, row.token): EarlierReport(row.report_hash, row.answer) for row in rows}

    async def list_of(self, job_id: JobId, *, after: int, limit: int) -> list[Attempt]:
        """Return a job's attempts with numbers above `after`, first to last, the running one included."""
        ended, running = tables.attempts, tables.leases
        columns = ("executor_name", "incarnation_id")
        statement = (
            sa.union_all(
                sa.select(
                    ended.c.attempt,
                    *(ended.c[name] for name in columns),
                    ended.c.start_time,
                    ended.c.end_time,
                    ended.c.outcome,
                    ended.c.error_code,
                    ended.c.error_message,
                    ended.c.error_internal,
                    ended.c.suspect,
                ).where(ended.c.job_id == job_id, ended.c.attempt > after),
                sa.select(
                    running.c.attempt,
                    *(running.c[name] for name in columns),
                    running.c.grant_time,
                    sa.null(),
                    sa.null(),
                    sa.null(),
                    sa.null(),
                    sa.null(),
                    sa.false(),
                ).where(running.c.job_id == job_id, running.c.attempt > after),
            )
            .order_by("attempt")
            .limit(limit)
        )
        return [_attempt(row) for row in await self._connection.execute(statement)]

    async def history(self, job_id: JobId, *, limit: int) -> History:
        """Return the newest attempts of a job that exists, and where its time has gone."""
        parameters = {"job_id": job_id, "limit": limit}
        rows = (await self._connection.execute(_HISTORY, parameters)).all()
        first = rows[0]
        return History(
            attempts=[_attempt(row) for row in rows if row.attempt is not None],
            timings=timings(
                create_time=first.create_time,
                start_time=first.first_start_time,
                finish_time=first.finish_time,
                running=first.running or timedelta(0),
                now=first.now,
            ),
        )

    async def output(self, job_id: JobId) -> bytes:
        """Return the stored output of a job; empty if it has none."""
        table = tables.attempts
        statement = sa.select(table.c.output).where(
            table.c.job_id == job_id, table.c.outcome == AttemptOutcome.SUCCEEDED
        )
        return (await self._connection.execute(statement)).scalar() or b""


def _held(row: Any) -> HeldAttempt:
    return HeldAttempt(
        lease=LeaseRef(row.job_id, row.token),
        attempt=row.attempt,
        job_type=row.job_type,
        owner=row.owner,
        output_schema_version=row.output_schema_version,
        accepted=row.accepted,
        standing=Standing(
            failures=row.failures,
            internal_failures=row.internal_failures,
            losses=row.losses,
            give_backs=row.give_backs,
            age=timedelta(seconds=row.age_seconds),
            cancel_requested=row.cancel_requested,
            skipping=row.skipping,
        ),
    )


def _attempt(row: Any) -> Attempt:
    return Attempt(
        number=row.attempt,
        executor_name=row.executor_name,
        incarnation_id=row.incarnation_id,
        start_time=row.start_time,
        end_time=row.end_time,
        outcome=row.outcome and AttemptOutcome(row.outcome),
        error=error_of(row),
        suspect=row.suspect,
    )
