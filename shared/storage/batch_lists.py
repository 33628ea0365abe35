"""Which batches a page shows, and which items of a batch: the statements that read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import aggregate_order_by

from shared.domain.batches import BatchState
from shared.domain.identity import BatchId, JobType, Owner
from shared.domain.jobs import JobState
from shared.storage import tables
from shared.storage.job_lists import READ
from shared.storage.list_conditions import Condition, behind, between, holds

_BATCHES, _ITEMS, _JOBS = tables.batches, tables.batch_items, tables.jobs
_NEWEST_FIRST = (_BATCHES.c.create_time.desc(), _BATCHES.c.batch_id.desc())


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFilter:
    """Which batches; what is None or empty does not restrict.

    Attributes:
        text: Held by the title, in whatever case.
    """

    owner: Owner | None = None
    states: frozenset[BatchState] = frozenset()
    job_type: JobType | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    target_type: str | None = None
    target_id: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class BatchPosition:
    """A place in the list, newest first; the next page begins behind it."""

    create_time: datetime
    batch_id: BatchId


def page_statement(batch_filter: BatchFilter, *, after: BatchPosition | None, limit: int) -> sa.Select[Any]:
    """Make the statement that reads up to `limit` batches, newest first, from behind `after` on.

    Of each state that is wanted a page is found by itself, for the index that begins with the state.
    """
    conditions = list(_conditions(batch_filter, after))
    of_states: list[list[Condition]] = [
        [_BATCHES.c.state == state] for state in sorted(batch_filter.states)
    ] or [[]]
    parts = [
        sa.select(_BATCHES.c.create_time, _BATCHES.c.batch_id)
        .where(*conditions, *of_state)
        .order_by(*_NEWEST_FIRST)
        .limit(limit)
        .subquery()
        for of_state in of_states
    ]
    found = sa.union_all(*(sa.select(each) for each in parts)).subquery()
    first = sa.select(found.c.batch_id).order_by(found.c.create_time.desc(), found.c.batch_id.desc())
    picked = first.limit(limit).subquery()
    return sa.select(_BATCHES).where(_BATCHES.c.batch_id == picked.c.batch_id).order_by(*_NEWEST_FIRST)


def items_statement(
    batch_id: BatchId, *, states: frozenset[JobState], after: int, limit: int
) -> sa.Select[Any]:
    """Make the statement that reads a page of items, each with all jobs under its number."""
    page = (
        sa.select(_ITEMS.c.number, _ITEMS.c.job_id, _ITEMS.c.selected)
        .where(_ITEMS.c.batch_id == batch_id, _ITEMS.c.number > after)
        .order_by(_ITEMS.c.number)
        .limit(limit)
    )
    if states:
        newest = _JOBS.alias("newest")
        page = page.join(newest, newest.c.job_id == _ITEMS.c.job_id).where(newest.c.state.in_(sorted(states)))
    item = page.subquery("item")
    under = _JOBS.alias("under")
    all_jobs = (
        sa.select(
            sa.func.array_agg(aggregate_order_by(under.c.job_id, under.c.create_time, under.c.job_id)).label(
                "job_ids"
            ),
            sa.func.sum(under.c.attempt).label("attempts"),
        )
        .where(under.c.batch_id == batch_id, under.c.batch_item == item.c.number)
        .lateral("all_jobs")
    )
    return (
        READ.add_columns(item.c.number, item.c.selected, all_jobs.c.job_ids, all_jobs.c.attempts)
        .join(item, item.c.job_id == _JOBS.c.job_id)
        .join(all_jobs, sa.true())
        .order_by(item.c.number)
    )


def _conditions(batch_filter: BatchFilter, after: BatchPosition | None) -> Iterator[Condition]:
    equal = {
        _BATCHES.c.owner: batch_filter.owner,
        _BATCHES.c.job_type: batch_filter.job_type,
        _BATCHES.c.target_type: batch_filter.target_type,
        _BATCHES.c.target_id: batch_filter.target_id,
    }
    yield from (column == value for column, value in equal.items() if value is not None)
    yield from between(_BATCHES.c.create_time, batch_filter.created_from, batch_filter.created_to)
    if batch_filter.text:
        yield holds(_BATCHES.c.title, batch_filter.text)
    if after is not None:
        yield behind(_BATCHES.c.create_time, _BATCHES.c.batch_id, (after.create_time, after.batch_id))
