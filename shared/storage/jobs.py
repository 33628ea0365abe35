"""Jobs as they are read: one, many, or a page of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from shared.domain.identity import BatchId, JobId, JobType, Owner, QueueName
from shared.domain.jobs import TERMINAL_STATES, Cancellation, Job, JobState, Target
from shared.storage import tables
from shared.storage.database import Connection
from shared.storage.rows import error_of

_JOBS, _LEASES = tables.jobs, tables.leases
_READ = sa.select(
    _JOBS,
    _LEASES.c.progress.label("live_progress"),
    _LEASES.c.progress_message.label("live_message"),
).select_from(_JOBS.outerjoin(_LEASES, _JOBS.c.job_id == _LEASES.c.job_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs; what is None or empty does not restrict.

    Attributes:
        text: Held by the target's id, the error's code or its message, in whatever case.
    """

    owner: Owner | None = None
    states: frozenset[JobState] = frozenset()
    job_type: JobType | None = None
    queue: QueueName | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    target_type: str | None = None
    target_id: str | None = None
    labels: Mapping[str, str] | None = None
    text: str | None = None
    batch_id: BatchId | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the list, newest first; the next page begins behind it."""

    create_time: datetime
    job_id: JobId


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
        rows = await self._connection.execute(_READ.where(_JOBS.c.job_id.in_(job_ids)))
        return {row.job_id: _job(row) for row in rows}

    async def page(self, job_filter: JobFilter, *, after: Position | None, limit: int) -> list[Job]:
        """Return up to `limit` jobs, newest first, from behind `after` on."""
        statement = _READ.where(*conditions(job_filter))
        if after is not None:
            place = sa.tuple_(_JOBS.c.create_time, _JOBS.c.job_id)
            statement = statement.where(
                place < sa.tuple_(sa.literal(after.create_time), sa.literal(after.job_id))
            )
        statement = statement.order_by(_JOBS.c.create_time.desc(), _JOBS.c.job_id.desc()).limit(limit)
        return [_job(row) for row in await self._connection.execute(statement)]

    async def created_behind(self, place: Position, *, limit: int) -> list[Position]:
        """Return up to `limit` places of the list behind one, against its order: the oldest first."""
        columns = (_JOBS.c.create_time, _JOBS.c.job_id)
        behind = sa.tuple_(*columns) > sa.tuple_(sa.literal(place.create_time), sa.literal(place.job_id))
        statement = sa.select(*columns).where(behind).order_by(*columns).limit(limit)
        return [Position(row.create_time, row.job_id) for row in await self._connection.execute(statement)]

    async def lock(self, job_id: JobId) -> LockedJob | None:
        """Lock a job's row until the transaction ends; None if there is none."""
        statement = (
            sa.select(_JOBS.c.owner, _JOBS.c.job_type, _JOBS.c.state)
            .where(_JOBS.c.job_id == job_id)
            .with_for_update()
        )
        row = (await self._connection.execute(statement)).one_or_none()
        return row and LockedJob(row.owner, row.job_type, JobState(row.state))


def conditions(job_filter: JobFilter) -> list[sa.ColumnElement[bool]]:
    """Say in SQL which rows of jobs a filter lets through."""
    equal = {
        _JOBS.c.owner: job_filter.owner,
        _JOBS.c.job_type: job_filter.job_type,
        _JOBS.c.queue: job_filter.queue,
        _JOBS.c.target_type: job_filter.target_type,
        _JOBS.c.target_id: job_filter.target_id,
        _JOBS.c.batch_id: job_filter.batch_id,
    }
    found: list[sa.ColumnElement[bool]] = [
        column == value for column, value in equal.items() if value is not None
    ]
    if job_filter.states:
        found.append(_JOBS.c.state.in_(sorted(job_filter.states)))
    if job_filter.created_from is not None:
        found.append(_JOBS.c.create_time >= job_filter.created_from)
    if job_filter.created_to is not None:
        found.append(_JOBS.c.create_time < job_filter.created_to)
    if job_filter.labels:
        found.append(_JOBS.c.labels.contains(dict(job_filter.labels)))
    if job_filter.text:
        searched = (_JOBS.c.target_id, _JOBS.c.error_code, _JOBS.c.error_message)
        found.append(sa.or_(*(each.icontains(job_filter.text, autoescape=True) for each in searched)))
    return found


def _job(row: Any) -> Job:
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
