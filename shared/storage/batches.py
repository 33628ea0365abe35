"""Batches as they are read: one, many, or a page of them, with their items and events."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from shared.domain.batches import Batch, BatchCounters, BatchEvent, BatchItem, BatchState
from shared.domain.identity import BatchId
from shared.domain.jobs import JobState, Target
from shared.storage import tables
from shared.storage.batch_lists import BatchFilter, BatchPosition, items_statement, page_statement
from shared.storage.database import Connection
from shared.storage.jobs import job_of
from shared.storage.list_indexes import PLAN_FOR_VALUES
from shared.storage.rows import error_of

__all__ = ["BatchFilter", "BatchPosition", "Batches", "page_statement"]

_BATCHES, _ITEMS, _JOBS = tables.batches, tables.batch_items, tables.jobs

_EVENTS_AFTER = sa.text("""
select e.* from unnest(cast(:batch_ids as uuid[]), cast(:numbers as bigint[])) as w(batch_id, number)
cross join lateral (
    select * from batch_events e where e.batch_id = w.batch_id and e.number > w.number
    order by e.number limit :limit) e
order by e.batch_id, e.number
""")


class Batches:
    """Reads batches; they are written by `batch_changes`, and counted by the changes of their jobs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, batch_id: BatchId) -> Batch | None:
        """Return a batch; None if there is none."""
        return (await self.get_many([batch_id])).get(batch_id)

    async def get_many(self, batch_ids: Sequence[BatchId]) -> Mapping[BatchId, Batch]:
        """Return those of the batches that exist."""
        statement = sa.select(_BATCHES).where(_BATCHES.c.batch_id.in_(batch_ids))
        return {row.batch_id: _batch(row) for row in await self._connection.execute(statement)}

    async def page(
        self, batch_filter: BatchFilter, *, after: BatchPosition | None, limit: int
    ) -> list[Batch]:
        """Return up to `limit` batches, newest first, from behind `after` on."""
        await self._connection.execute(PLAN_FOR_VALUES)
        rows = await self._connection.execute(page_statement(batch_filter, after=after, limit=limit))
        return [_batch(row) for row in rows]

    async def items(
        self, batch_id: BatchId, *, states: frozenset[JobState], after: int, limit: int
    ) -> list[BatchItem]:
        """Return up to `limit` items with numbers above `after`, by number.

        Args:
            states: Only items whose newest job is in one of these; empty means all.
        """
        rows = await self._connection.execute(
            items_statement(batch_id, states=states, after=after, limit=limit)
        )
        return [_item(row) for row in rows]

    async def item_states(self, batch_id: BatchId, numbers: Collection[int]) -> Mapping[int, JobState]:
        """Return the states of the newest jobs of those of the items that exist."""
        statement = (
            sa.select(_ITEMS.c.number, _JOBS.c.state)
            .join(_JOBS, _JOBS.c.job_id == _ITEMS.c.job_id)
            .where(_ITEMS.c.batch_id == batch_id, _ITEMS.c.number.in_(sorted(numbers)))
        )
        return {row.number: JobState(row.state) for row in await self._connection.execute(statement)}

    async def selected(self, batch_id: BatchId) -> frozenset[int]:
        """Return the numbers of the items that a caller has picked."""
        statement = sa.select(_ITEMS.c.number).where(_ITEMS.c.batch_id == batch_id, _ITEMS.c.selected)
        return frozenset(row.number for row in await self._connection.execute(statement))

    async def events_after(self, seen: Mapping[BatchId, int], *, limit: int) -> list[BatchEvent]:
        """Return for each batch the events after the number that was seen, in order; at most `limit` each."""
        parameters = {"batch_ids": list(seen), "numbers": list(seen.values()), "limit": limit}
        return [_event(row) for row in await self._connection.execute(_EVENTS_AFTER, parameters)]


def _batch(row: Any) -> Batch:
    return Batch(
        batch_id=row.batch_id,
        owner=row.owner,
        job_type=row.job_type,
        title=row.title,
        target=None if row.target_type is None else Target(row.target_type, row.target_id),
        labels=row.labels,
        state=BatchState(row.state),
        size=row.size,
        counters=_counters(row),
        create_time=row.create_time,
        start_time=row.start_time,
        settle_time=row.settle_time,
        cancel_request_time=row.cancel_request_time,
        last_event_number=row.event_count,
    )


def _counters(row: Any) -> BatchCounters:
    return BatchCounters(row.waiting, row.running, row.succeeded, row.failed, row.skipped)


def _item(row: Any) -> BatchItem:
    job = job_of(row)
    return BatchItem(
        number=row.number,
        job=job,
        earlier_job_ids=tuple(each for each in row.job_ids if each != job.job_id),
        attempt_count=row.attempts,
        selected=row.selected,
    )


def _event(row: Any) -> BatchEvent:
    return BatchEvent(
        batch_id=row.batch_id,
        number=row.number,
        state=BatchState(row.state),
        counters=_counters(row),
        event_time=row.event_time,
        item=row.item,
        item_state=row.item_state and JobState(row.item_state),
        error=error_of(row),
    )
