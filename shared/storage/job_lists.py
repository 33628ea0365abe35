"""Lists of jobs: what a filter says, and the statement that reads a page of it by indexes alone.

No index of `jobs` knows which ones are open (see `list_indexes`). So a page by state is put together: QUEUED
jobs are those of their first dispatch rows, which have the order of the list; RUNNING ones are those with a
lease or a later dispatch row, which are few; for the others there is an index. Where something narrower is
asked for, or SUCCEEDED jobs, which most are, the state is looked at in each job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from shared.domain.identity import BatchId, JobId, JobType, Owner, QueueName
from shared.domain.jobs import RETRYABLE_STATES, JobState
from shared.storage import tables
from shared.storage.list_conditions import Condition, behind, between, holds

_JOBS, _LEASES, _OUTBOX = tables.jobs, tables.leases, tables.outbox
_NEWEST_FIRST = (_JOBS.c.create_time.desc(), _JOBS.c.job_id.desc())

# What the conditions of the indexes say, in the same words.
_LABELLED = _JOBS.c.labels != sa.text("'{}'")
_UNSUCCESSFUL = sa.or_(
    _JOBS.c.error_code.is_not(None), _JOBS.c.cancel_request_time.is_not(None), _JOBS.c.skipping
)
_DISPATCH = _OUTBOX.c.event_type == sa.text("'job.dispatch'")


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
class Part:
    """Some of the jobs that fit, with the columns that order them.

    Attributes:
        is_small: Whether it is better sorted than looked for in all jobs. They lie side by side in a batch,
            while the planner believes that they are scattered, and that it would meet some soon.
    """

    create_time: sa.ColumnElement[datetime]
    job_id: sa.ColumnElement[Any]
    conditions: Sequence[Condition]
    is_small: bool = False


READ = sa.select(
    _JOBS,
    _LEASES.c.progress.label("live_progress"),
    _LEASES.c.progress_message.label("live_message"),
).select_from(_JOBS.outerjoin(_LEASES, _JOBS.c.job_id == _LEASES.c.job_id))
"""Jobs with what their executors last told of them."""


def page_statement(
    job_filter: JobFilter, *, after: Position | None, limit: int
) -> sa.Select[tuple[Any, ...]]:
    """Make the statement that reads up to `limit` jobs, newest first, from behind `after` on."""
    parts = [newest(each, after=after, limit=limit).subquery() for each in _parts(job_filter)]
    found = sa.union_all(*(sa.select(each) for each in parts)).subquery()
    first = sa.select(found.c.job_id).order_by(found.c.create_time.desc(), found.c.job_id.desc()).limit(limit)
    picked = first.subquery()
    return READ.where(_JOBS.c.job_id == picked.c.job_id).order_by(*_NEWEST_FIRST)


def conditions(job_filter: JobFilter) -> list[Condition]:
    """Say in SQL which rows of jobs a filter lets through."""
    equal = {
        _JOBS.c.owner: job_filter.owner,
        _JOBS.c.job_type: job_filter.job_type,
        _JOBS.c.queue: job_filter.queue,
        _JOBS.c.target_type: job_filter.target_type,
        _JOBS.c.target_id: job_filter.target_id,
        _JOBS.c.batch_id: job_filter.batch_id,
    }
    found: list[Condition] = [column == value for column, value in equal.items() if value is not None]
    found += _of_states(job_filter.states)
    found += between(_JOBS.c.create_time, job_filter.created_from, job_filter.created_to)
    if job_filter.labels:
        found += [_JOBS.c.labels.contains(dict(job_filter.labels)), _LABELLED]
    if job_filter.text:
        searched = (_JOBS.c.target_id, _JOBS.c.error_code, _JOBS.c.error_message)
        found.append(sa.or_(*(holds(each, job_filter.text) for each in searched)))
    return found


def _of_states(states: frozenset[JobState]) -> Iterator[Condition]:
    if states:
        yield _JOBS.c.state.in_(sorted(states))
    if states and states <= RETRYABLE_STATES:
        yield _UNSUCCESSFUL  # which follows, but lets the planner see an index


def _parts(job_filter: JobFilter) -> Iterator[Part]:
    """Take a page apart by states: a job is in at most one part, for each looks at its present state."""
    states = job_filter.states
    narrow = job_filter.target_id or job_filter.labels or job_filter.text or job_filter.batch_id
    if not states or JobState.SUCCEEDED in states or narrow:
        yield every(job_filter)
        return
    if JobState.QUEUED in states:
        yield _queued(job_filter)
    if JobState.RUNNING in states:
        yield _running(replace(job_filter, states=frozenset({JobState.RUNNING})))
    if ended := states & RETRYABLE_STATES:
        yield every(replace(job_filter, states=ended))


def every(job_filter: JobFilter) -> Part:
    """All jobs that fit, as one part."""
    is_small = job_filter.batch_id is not None
    return Part(_JOBS.c.create_time, _JOBS.c.job_id, conditions(job_filter), is_small=is_small)


def _running(job_filter: JobFilter) -> Part:
    """Jobs with a lease, or a dispatch row of a later attempt."""
    later = sa.select(_OUTBOX.c.aggregate_id).where(_DISPATCH, _OUTBOX.c.attempt > sa.text("1"))
    if job_filter.owner is not None:
        later = later.where(_OUTBOX.c.owner == job_filter.owner)
    either = sa.union_all(sa.select(_LEASES.c.job_id), later)
    return Part(_JOBS.c.create_time, _JOBS.c.job_id, [*conditions(job_filter), _JOBS.c.job_id.in_(either)])


def _queued(job_filter: JobFilter) -> Part:
    """Jobs with a dispatch row of the first attempt; it has their owner and time, and so the list's order."""
    rest = replace(job_filter, owner=None, created_from=None, created_to=None, states=frozenset())
    # So nearly all of these jobs are QUEUED. The planner, who knows how few of all jobs are, would sort them.
    is_queued = sa.case((_JOBS.c.state == JobState.QUEUED, sa.true()), else_=sa.false())
    first = _OUTBOX.c.attempt == sa.text("1")
    found = [_DISPATCH, first, _OUTBOX.c.aggregate_id == _JOBS.c.job_id, is_queued]
    if job_filter.owner is not None:
        found.append(_OUTBOX.c.owner == job_filter.owner)
    found += between(_OUTBOX.c.create_time, job_filter.created_from, job_filter.created_to)
    return Part(_OUTBOX.c.create_time, _OUTBOX.c.aggregate_id, [*found, *conditions(rest)])


def newest(part: Part, *, after: Position | None, limit: int) -> sa.Select[Any]:
    """Select `create_time` and `job_id` of the next jobs of a part from behind `after` on, newest first."""
    statement = sa.select(part.create_time, part.job_id.label("job_id")).where(*part.conditions)
    if after is not None:
        place = (after.create_time, after.job_id)
        statement = statement.where(behind(part.create_time, part.job_id, place))
    if part.is_small:
        fenced = statement.offset(0).subquery()
        statement, part = sa.select(fenced), Part(fenced.c.create_time, fenced.c.job_id, ())
    # Written out, so that a plan for whichever values come knows how few rows are wanted.
    few = sa.literal_column(str(limit), sa.Integer())
    return statement.order_by(part.create_time.desc(), part.job_id.desc()).limit(few)
