"""What callers do to batches: they are made, cancelled, tried again, and taken on once they have settled.

Each change of a batch's row is one statement with the state table as its guard, and writes the event that
tells of it. What the ends of jobs do to a batch is in `batch_counting`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from shared.domain.batches import BatchChange, BatchState
from shared.domain.identity import BatchId, JobId, JobType, Owner
from shared.domain.jobs import JobChange, JobState, Target
from shared.storage import batch_guards, guards
from shared.storage.batch_tables import COUNTERS
from shared.storage.database import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """A batch that is to be made; its jobs are made in the same transaction.

    Attributes:
        created_by: The subject that called; differs from the owner where a backend acts for its users.
        job_ids: Of the items, by number from 1 on.
    """

    batch_id: BatchId
    owner: Owner
    created_by: str
    job_type: JobType
    title: str
    target: Target | None
    labels: Mapping[str, str]
    job_ids: Sequence[JobId]


@dataclass(frozen=True, slots=True)
class EndedItem:
    """An item with its newest job, whose row this transaction has locked."""

    number: int
    job_id: JobId
    state: JobState
    priority: int
    input_schema_version: int


_COUNTED = ", ".join(COUNTERS)
_EVENT = f"""
    insert into batch_events (batch_id, number, state, {_COUNTED}, event_time)
    select batch_id, event_count, state, {_COUNTED}, engine_time() from changed
"""

_CREATE = sa.text(f"""
with changed as (
    insert into batches (
        batch_id, owner, created_by, job_type, title, target_type, target_id, labels, state, size,
        {_COUNTED}, create_time, event_count)
    values (
        :batch_id, :owner, :created_by, :job_type, :title, :target_type, :target_id, cast(:labels as jsonb),
        '{BatchState.QUEUED}', :size, :size, 0, 0, 0, 0, engine_time(), 1)
    returning *
),
item as (
    insert into batch_items (batch_id, number, job_id)
    select :batch_id, number, job_id from unnest(cast(:job_ids as uuid[])) with ordinality i(job_id, number)
)
{_EVENT}
""")

_ALONE = sa.text("select pg_advisory_xact_lock(hashtextextended('batch:' || cast(:batch_id as text), 0))")

_LOCK_OPEN = sa.text(f"""
select j.job_id from jobs j where j.batch_id = :batch_id and {guards.allowed(JobChange.CANCELLED)}
order by j.job_id for update of j
""")

# An item that runs keeps the batch open, and nothing but a lease that this transaction's locks hold still
# can change how many do: so it is known here whether the batch settles at once.
_REQUEST_CANCEL = sa.text(f"""
with held as (
    select b.batch_id, b.cancel_request_time is null as first, b.cancel_request_time is null and b.running > 0
        as tells
    from batches b where b.batch_id = :batch_id and {batch_guards.still_open()} for update of b
),
requested as (
    update batches b set
        cancel_request_time = coalesce(b.cancel_request_time, engine_time()),
        event_count = b.event_count + held.tells::integer
    from held where b.batch_id = held.batch_id
    returning b.*, held.first, held.tells
),
changed as (
    select * from requested where tells
),
event as ({_EVENT})
select first from requested
""")

_SKIP_LEASED = sa.text("""
update jobs j set skipping = true from leases l
where j.job_id = any(cast(:job_ids as uuid[])) and l.job_id = j.job_id and not j.skipping
""")

_ITEM = """
select i.number, j.job_id, j.state, j.priority, j.input_schema_version
from batch_items i join jobs j using (job_id)
where i.batch_id = :batch_id and (
    i.number = any(cast(:numbers as integer[]))
    or cardinality(cast(:numbers as integer[])) = 0 and j.state = 'FAILED')
"""
_LOCK_ITEMS = sa.text(f"{_ITEM} order by j.job_id for update of j")
_READ_ITEMS = sa.text(f"{_ITEM} order by i.number")

_RETRY = sa.text(f"""
with item as (
    update batch_items i set job_id = r.job_id
    from unnest(cast(:numbers as integer[]), cast(:job_ids as uuid[])) as r(number, job_id)
    where i.batch_id = :batch_id and i.number = r.number
    returning i.number
),
changed as (
    update batches b set
        failed = b.failed - r.items, waiting = b.waiting + r.items,
        state = case when {batch_guards.allowed(BatchChange.RETRIED)}
            then {batch_guards.target(BatchChange.RETRIED)} else b.state end,
        event_count = b.event_count + 1
    from (select count(*) as items from item) r
    where b.batch_id = :batch_id and (
        {batch_guards.allowed(BatchChange.RETRIED)}
        or {batch_guards.still_open()} and b.cancel_request_time is null)
    returning b.*
),
event as ({_EVENT})
select batch_id from changed
""")


def _step(change: BatchChange, more: str = "") -> sa.TextClause:
    return sa.text(f"""
with changed as (
    update batches b set state = {batch_guards.target(change)}, event_count = b.event_count + 1
    where b.batch_id = :batch_id and {batch_guards.allowed(change)}
    returning b.*
),{more}
event as ({_EVENT})
select batch_id from changed
""")


_SELECT = _step(
    BatchChange.SELECTED,
    """
picked as (
    update batch_items i set selected = true from changed
    where i.batch_id = changed.batch_id and i.number = any(cast(:numbers as integer[]))
),""",
)
_ADVANCE = {change: _step(change) for change in (BatchChange.EXPORTED, BatchChange.STORED)}


class BatchChanges:
    """Writes batches."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(self, batch: NewBatch) -> None:
        """Make a batch QUEUED, with its items and its first event."""
        parameters = {
            "batch_id": batch.batch_id,
            "owner": batch.owner,
            "created_by": batch.created_by,
            "job_type": batch.job_type,
            "title": batch.title,
            "target_type": batch.target and batch.target.type,
            "target_id": batch.target and batch.target.id,
            "labels": json.dumps(dict(batch.labels)),
            "size": len(batch.job_ids),
            "job_ids": list(batch.job_ids),
        }
        await self._connection.execute(_CREATE, parameters)

    async def be_alone(self, batch_id: BatchId) -> None:
        """Wait until no other transaction that called this for the batch goes on.

        Who makes jobs of a batch and who skips all of them are never under way at the same time, so that no
        new one is passed over.
        """
        await self._connection.execute(_ALONE, {"batch_id": str(batch_id)})

    async def lock_open_jobs(self, batch_id: BatchId) -> list[JobId]:
        """Lock the jobs of a batch that have not ended, and return them in the order of their ids."""
        rows = await self._connection.execute(_LOCK_OPEN, {"batch_id": batch_id})
        return [row.job_id for row in rows]

    async def request_cancel(self, batch_id: BatchId) -> bool | None:
        """Record that a batch is cancelled: it will settle as CANCELLED; idempotent.

        Its open jobs were locked in this transaction.

        Returns:
            True the first time; None if the batch has settled, and nothing was recorded.
        """
        rows = await self._connection.execute(_REQUEST_CANCEL, {"batch_id": batch_id})
        row = rows.one_or_none()
        return row and bool(row.first)

    async def skip_leased(self, job_ids: Sequence[JobId]) -> int:
        """Let the running attempts of these jobs be their last, and return how many that is new for.

        Args:
            job_ids: May be empty; locked in this transaction.
        """
        if not job_ids:
            return 0
        return (await self._connection.execute(_SKIP_LEASED, {"job_ids": list(job_ids)})).rowcount

    async def lock_items(self, batch_id: BatchId, numbers: Collection[int]) -> list[EndedItem]:
        """Lock the newest jobs of the items, all that FAILED if none is named, and return them by number."""
        parameters = {"batch_id": batch_id, "numbers": sorted(numbers)}
        await self._connection.execute(_LOCK_ITEMS, parameters)
        # Once more, now that they stand still: what was waited for may have changed them.
        rows = await self._connection.execute(_READ_ITEMS, parameters)
        return [_ended_item(row) for row in rows]

    async def retry(self, batch_id: BatchId, job_ids: Mapping[int, JobId]) -> bool:
        """Put new jobs under the numbers of failed items; False if the batch's state does not allow it.

        Args:
            job_ids: By number; the items were locked in this transaction.
        """
        parameters = {"batch_id": batch_id, "numbers": list(job_ids), "job_ids": list(job_ids.values())}
        return await self._has_changed(_RETRY, parameters)

    async def select(self, batch_id: BatchId, numbers: Collection[int]) -> bool:
        """Pick items, which succeeded; False if the batch's state does not allow it."""
        return await self._has_changed(_SELECT, {"batch_id": batch_id, "numbers": sorted(numbers)})

    async def advance(self, batch_id: BatchId, change: BatchChange) -> bool:
        """Make a batch EXPORTED or STORED; False if its state does not allow it."""
        return await self._has_changed(_ADVANCE[change], {"batch_id": batch_id})

    async def _has_changed(self, statement: sa.TextClause, parameters: Mapping[str, Any]) -> bool:
        return (await self._connection.execute(statement, parameters)).one_or_none() is not None


def _ended_item(row: Any) -> EndedItem:
    return EndedItem(
        number=row.number,
        job_id=row.job_id,
        state=JobState(row.state),
        priority=row.priority,
        input_schema_version=row.input_schema_version,
    )
