"""Jobs as they are read: one, many, or a page of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from shared.domain.identity import JobId, JobType, Owner
from shared.domain.jobs import TERMINAL_STATES, Cancellation, Job, JobState, Target
from shared.storage import tables
from shared.storage.database import Connection
from shared.storage.job_lists import READ, JobFilter, Position, page_statement
from shared.storage.list_indexes import PLAN_FOR_VALUES
from shared.storage.rows import error_of

__all__ = ["JobFilter", "Jobs", "LockedJob", "Position"]

_JOBS = tables.jobs


@dataclass(frozen=True, slots=True)
class LockedJob:
    """A job whose row this transaction has locked."""

    owner: Owner
    job_type: JobType
    state: JobState


class Jobs:
    """Reads jobs; their states are written by `state_changes`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, job_id: JobId) -> Job | None:
        """Return a job; None if there is none."""
        return (await self.get_many([job_id])).get(job_id)

    async def get_many(self, job_ids: Sequence[JobId]) -> Mapping[JobId, Job]:
        """Return those of the jobs that exist."""
        rows = await self._connection.execute(READ.where(_JOBS.c.job_id.in_(job_ids)))
        return {row.job_id: job_of(row) for row in rows}

    async def page(self, job_filter: JobFilter, *, after: Position | None, limit: int) -> list[Job]:
        """Return up to `limit` jobs, newest first, from behind `after` on."""
        await self._connection.execute(PLAN_FOR_VALUES)
        statement = page_statement(job_filter, after=after, limit=limit)
        return [job_of(row) for row in await self._connection.execute(statement)]

    async def created_behind(self, place: Position, *, limit: int) -> list[Position]:
        """Return up to `limit` places of the list behind one, against its order: the oldest first."""
        rows = await self._connection.execute(created_behind(place, limit=limit))
        return [Position(row.create_time, row.job_id) for row in rows]

    async def lock(self, job_id: JobId) -> LockedJob | None:
        """Lock a job's row until the transaction ends; None if there is none."""
        statement = (
            sa.select(_JOBS.c.owner, _JOBS.c.job_type, _JOBS.c.state)
            .where(_JOBS.c.job_id == job_id)
            .with_for_update()
        )
        row = (await self._connection.execute(statement)).one_or_none()
        return row and LockedJob(row.owner, row.job_type, JobState(row.state))


def created_behind(place: Position, *, limit: int) -> sa.Select[Any]:
    columns = (_JOBS.c.create_time, _JOBS.c.job_id)
    behind = sa.tuple_(*columns) > sa.tuple_(sa.literal(place.create_time), sa.literal(place.job_id))
    return sa.select(*columns).where(behind).order_by(*columns).limit(limit)


def job_of(row: Any) -> Job:
    """Build a job from a row of `READ`."""
    state = JobState(row.state)
    leased = row.live_progress is not None
    return Job(
        job_id=row.job_id,
        owner=row.owner,
        job_type=row.job_type,
        queue=row.queue,
        state=state,
        priority=row.priority,
        progress=row.live_progress if leased else row.progress,
        progress_message=row.live_message if leased else row.progress_message,
        create_time=row.create_time,
        start_time=row.start_time,
        finish_time=row.finish_time,
        start_by_time=row.start_by_time,
        next_attempt_time=row.next_attempt_time,
        attempt=row.attempt,
        failures=row.failures,
        losses=row.losses,
        error=error_of(row),
        cancellation=_cancellation(row, state),
        artifact_count=row.artifact_count,
        output_hash=row.output_hash,
        origin_job_id=row.origin_job_id,
        target=None if row.target_type is None else Target(row.target_type, row.target_id),
        labels=row.labels,
        input_schema_version=row.input_schema_version,
        output_schema_version=row.output_schema_version,
        last_event_number=row.event_count,
        batch_id=row.batch_id,
        batch_item=row.batch_item,
    )


def _cancellation(row: Any, state: JobState) -> Cancellation | None:
    if row.cancel_request_time is None:
        return None
    stopped = row.finish_time if state in TERMINAL_STATES else None
    return Cancellation(row.cancel_request_time, row.cancel_seen_time, stopped, row.cancel_forced)
