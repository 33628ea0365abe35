"""Many jobs at once, by a filter: which ones, how many, and the asking of leased ones to stop.

Selections go from the newest job to the oldest, a bounded number at a time. So what begins meanwhile, and a
job that was run again and fails again, is never met by a walk that is under way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from shared.domain.identity import JobId, JobType
from shared.domain.jobs import RETRYABLE_STATES, TRANSITIONS, JobChange
from shared.storage import reruns, tables
from shared.storage.database import Connection
from shared.storage.jobs import JobFilter, Position, conditions

_JOBS, _LEASES = tables.jobs, tables.leases
_NEWEST_FIRST = (_JOBS.c.create_time.desc(), _JOBS.c.job_id.desc())

# The jobs are locked: none can get or lose a lease meanwhile.
_REQUEST_CANCELS = sa.text("""
with asked as (
    update jobs j set cancel_request_time = engine_time(), event_count = j.event_count + 1
    from leases l
    where j.job_id = any(cast(:job_ids as uuid[])) and l.job_id = j.job_id
        and j.job_type <> all (cast(:protected as text[])) and j.cancel_request_time is null
    returning j.job_id, j.event_count, j.state, j.attempt, j.cancel_request_time
),
event as (
    insert into job_events (job_id, number, kind, state, attempt, event_time)
    select job_id, event_count, 'cancel_requested', state, attempt, cancel_request_time from asked
)
select job_id from asked
""")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs, as the database understands it."""

    conditions: Sequence[sa.ColumnElement[bool]]


@dataclass(frozen=True, slots=True)
class Selected:
    """A job of a selection, as it was when it was read."""

    position: Position
    job_type: JobType
    priority: int

    @property
    def job_id(self) -> JobId:
        return self.position.job_id


@dataclass(frozen=True, slots=True)
class Count:
    """How many were counted, and the last of them; None if they were all that there are."""

    jobs: int
    last: Position | None


def cancellable(job_filter: JobFilter, *, protected: Collection[JobType]) -> Selection:
    """Select the jobs that a cancel would change: open ones that were not asked to stop yet.

    Args:
        protected: Job types whose definitions forbid it while an attempt runs.
    """
    leased = sa.exists().where(_LEASES.c.job_id == _JOBS.c.job_id)
    return Selection(
        [
            *conditions(job_filter),
            _JOBS.c.state.in_(sorted(TRANSITIONS[JobChange.CANCELLED].sources)),
            _JOBS.c.cancel_request_time.is_(None),
            sa.or_(_JOBS.c.job_type.not_in(sorted(protected)), ~leased),
        ]
    )


def retryable(job_filter: JobFilter, *, takes: Collection[tuple[JobType, int]]) -> Selection:
    """Select the jobs that can run again and have not yet.

    Args:
        takes: The job types that there are, with the input schema version that each takes.
    """
    is_kept = sa.literal_column(reruns.kept("jobs"), sa.Boolean())
    is_run_again = sa.literal_column(reruns.run_again("jobs"), sa.Boolean())
    known = sa.tuple_(_JOBS.c.job_type, _JOBS.c.input_schema_version).in_(sorted(takes))
    return Selection(
        [*conditions(job_filter), _JOBS.c.state.in_(sorted(RETRYABLE_STATES)), known, is_kept, ~is_run_again]
    )


class Selections:
    """Walks through selections."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def count(self, selection: Selection, *, after: Position | None, limit: int) -> Count:
        """Count up to `limit` jobs from behind `after` on."""
        page = _page(selection, after, limit).subquery()
        statement = (
            sa.select(sa.func.count().over().label("jobs"), page.c.create_time, page.c.job_id)
            .order_by(page.c.create_time, page.c.job_id)
            .limit(1)
        )
        row = (await self._connection.execute(statement)).one_or_none()
        if row is None:
            return Count(0, None)
        return Count(row.jobs, Position(row.create_time, row.job_id) if row.jobs == limit else None)

    async def lock(self, selection: Selection, *, after: Position | None, limit: int) -> list[Selected]:
        """Return up to `limit` jobs from behind `after` on, newest first, with their rows locked.

        One that has changed since it was selected is among them: what is done next has guards of its own.
        """
        rows = list(await self._connection.execute(_page(selection, after, limit)))
        job_ids = [row.job_id for row in rows]
        await self._connection.execute(
            sa.select(_JOBS.c.job_id)
            .where(_JOBS.c.job_id.in_(job_ids))
            .order_by(_JOBS.c.job_id)
            .with_for_update()
        )
        return [Selected(Position(row.create_time, row.job_id), row.job_type, row.priority) for row in rows]

    async def request_cancels(
        self, job_ids: Sequence[JobId], *, protected: Collection[JobType]
    ) -> set[JobId]:
        """Record that those of the jobs that are leased are to stop, and return them; idempotent.

        Args:
            job_ids: May be empty; locked in this transaction.
            protected: Job types whose leased jobs are left alone.
        """
        if not job_ids:
            return set()
        parameters = {"job_ids": list(job_ids), "protected": sorted(protected)}
        return {row.job_id for row in await self._connection.execute(_REQUEST_CANCELS, parameters)}


def _page(selection: Selection, after: Position | None, limit: int) -> sa.Select[*tuple[object, ...]]:
    statement = sa.select(_JOBS.c.create_time, _JOBS.c.job_id, _JOBS.c.job_type, _JOBS.c.priority).where(
        *selection.conditions
    )
    if after is not None:
        place = sa.tuple_(_JOBS.c.create_time, _JOBS.c.job_id)
        statement = statement.where(
            place < sa.tuple_(sa.literal(after.create_time), sa.literal(after.job_id))
        )
    return statement.order_by(*_NEWEST_FIRST).limit(limit)
