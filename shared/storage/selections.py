"""Many jobs at once, by a filter: which ones, and how many.

Selections go from the newest job to the oldest. So what begins meanwhile, and a job that was run again and
fails again, is never met by a walk that is under way. Each statement looks at a bounded number of jobs, also
where few of them fit: a walk may find nothing for some steps, and goes on all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from shared.domain.identity import JobId, JobType, Owner
from shared.domain.jobs import RETRYABLE_STATES, TRANSITIONS, JobChange
from shared.storage import reruns, tables
from shared.storage.database import Connection
from shared.storage.job_lists import JobFilter, Part, Position, conditions, every, newest

_JOBS, _LEASES = tables.jobs, tables.leases
_NEWEST_FIRST = (_JOBS.c.create_time.desc(), _JOBS.c.job_id.desc())


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs, as the database understands it.

    Attributes:
        range: What the filter says about owner, time and batch, by which the jobs are looked through.
        conditions: All that a job must fit.
    """

    range: Part
    conditions: Sequence[sa.ColumnElement[bool]]


@dataclass(frozen=True, slots=True)
class Selected:
    """A job of a selection, as it was when it was read."""

    position: Position
    owner: Owner
    job_type: JobType
    priority: int

    @property
    def job_id(self) -> JobId:
        return self.position.job_id


@dataclass(frozen=True, slots=True)
class Counted:
    """How many jobs of a part fit; behind `end` there are more to look at, None if not."""

    jobs: int
    end: Position | None


@dataclass(frozen=True, slots=True)
class Locked:
    """Jobs of a part that fit, newest first; behind `end` there are more to look at, None if not."""

    jobs: Sequence[Selected]
    end: Position | None


def cancellable(job_filter: JobFilter, *, protected: Collection[JobType]) -> Selection:
    """Select the jobs that a cancel would change: open ones that were not asked to stop yet.

    Args:
        protected: Job types whose definitions forbid it while an attempt runs.
    """
    leased = sa.exists().where(_LEASES.c.job_id == _JOBS.c.job_id)
    return _selection(
        job_filter,
        [
            _JOBS.c.state.in_(sorted(TRANSITIONS[JobChange.CANCELLED].sources)),
            _JOBS.c.cancel_request_time.is_(None),
            sa.or_(_JOBS.c.job_type.not_in(sorted(protected)), ~leased),
        ],
    )


def retryable(job_filter: JobFilter, *, takes: Collection[tuple[JobType, int]]) -> Selection:
    """Select the jobs that can run again and have not yet.

    Args:
        takes: The job types that there are, with the input schema version that each takes.
    """
    is_kept = sa.literal_column(reruns.kept("jobs"), sa.Boolean())
    is_run_again = sa.literal_column(reruns.run_again("jobs"), sa.Boolean())
    known = sa.tuple_(_JOBS.c.job_type, _JOBS.c.input_schema_version).in_(sorted(takes))
    in_state = _JOBS.c.state.in_(sorted(RETRYABLE_STATES))
    return _selection(job_filter, [in_state, known, is_kept, ~is_run_again])


def _selection(job_filter: JobFilter, more: Sequence[sa.ColumnElement[bool]]) -> Selection:
    by_index = JobFilter(
        owner=job_filter.owner,
        created_from=job_filter.created_from,
        created_to=job_filter.created_to,
        batch_id=job_filter.batch_id,
    )
    return Selection(every(by_index), [*conditions(job_filter), *more])


class Selections:
    """Walks through selections."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def count(self, selection: Selection, *, after: Position | None, rows: int) -> Counted:
        """Count the jobs that fit among the next `rows` behind `after`."""
        part = _part(selection, after, rows)
        fitting = sa.select(sa.func.count()).where(*_fits(selection, part)).scalar_subquery()
        row = (await self._connection.execute(_with_end(part, rows, fitting.label("jobs")))).one()
        return Counted(row.jobs, _end(row))

    async def lock(self, selection: Selection, *, after: Position | None, rows: int, limit: int) -> Locked:
        """Return up to `limit` jobs that fit among the next `rows` behind `after`, with their rows locked.

        One that has changed since it was selected is among them: what is done next has guards of its own.
        """
        part = _part(selection, after, rows)
        fitting = (
            sa.select(_JOBS.c.create_time, _JOBS.c.job_id, _JOBS.c.owner, _JOBS.c.job_type, _JOBS.c.priority)
            .where(*_fits(selection, part))
            .order_by(*_NEWEST_FIRST)
            .limit(limit)
            .subquery("fitting")
        )
        found = (await self._connection.execute(_with_end(part, rows, *fitting.c, beside=fitting))).all()
        jobs = [
            Selected(Position(row.create_time, row.job_id), row.owner, row.job_type, row.priority)
            for row in found
            if row.job_id is not None
        ]
        await self._connection.execute(
            sa.select(_JOBS.c.job_id)
            .where(_JOBS.c.job_id.in_([each.job_id for each in jobs]))
            .order_by(_JOBS.c.job_id)
            .with_for_update()
        )
        return Locked(jobs, jobs[-1].position if len(jobs) == limit else _end(found[0]))


def _part(selection: Selection, after: Position | None, rows: int) -> sa.CTE:
    """The next `rows` jobs behind `after`, whether they fit or not: no others are looked at."""
    return newest(selection.range, after=after, limit=rows).cte("part")


def _fits(selection: Selection, part: sa.CTE) -> Iterator[sa.ColumnElement[bool]]:
    yield _JOBS.c.job_id.in_(sa.select(part.c.job_id))
    yield from selection.conditions


def _with_end(
    part: sa.CTE, rows: int, *columns: sa.ColumnElement[Any], beside: sa.Subquery | None = None
) -> sa.Select[Any]:
    """Select columns together with where the part ends; null if no more jobs can be behind it."""
    order = (part.c.create_time.desc(), part.c.job_id.desc())
    end = sa.select(part).order_by(*order).offset(rows - 1).limit(1).subquery("part_end")
    source = sa.select(sa.literal(1)).subquery("one").outerjoin(end, sa.true())
    if beside is not None:
        source = source.outerjoin(beside, sa.true())
    ends = (end.c.create_time.label("end_time"), end.c.job_id.label("end_job_id"))
    statement = sa.select(*columns, *ends).select_from(source)
    return (
        statement
        if beside is None
        else statement.order_by(beside.c.create_time.desc(), beside.c.job_id.desc())
    )


def _end(row: Any) -> Position | None:
    return None if row.end_time is None else Position(row.end_time, row.end_job_id)
