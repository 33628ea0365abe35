"""What the database has of the batches of one run: at one moment, and after everything has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from verification.evidence.tables import LABEL, Row

COUNTERS = ("waiting", "running", "succeeded", "failed", "skipped")

_OF_RUN = f"b.labels @> jsonb_build_object('{LABEL}', $1::text)"


def _counted(table: str) -> str:
    members = (f"'{each}', {table}.{each}" for each in COUNTERS)
    return f"jsonb_build_object({', '.join(members)})"


# One statement has one snapshot: the counters, and the rows that they count, of the same moment.
_MOMENT = f"""
select b.batch_id::text, b.state, b.size, b.settlings, {_counted("b")} as counters, i.items, (
        select count(*) from outbox o where o.aggregate_id = b.batch_id and o.event_type = 'batch.finished'
    ) as finished
from batches b cross join lateral (
    select {_counted("c")} as items from (
        select
            count(*) filter (where j.state in ('QUEUED', 'RUNNING') and l.job_id is null) as waiting,
            count(l.job_id) as running,
            count(*) filter (where j.state = 'SUCCEEDED') as succeeded,
            count(*) filter (where j.state = 'FAILED') as failed,
            count(*) filter (where j.state = 'CANCELLED') as skipped
        from batch_items n join jobs j using (job_id) left join leases l using (job_id)
        where n.batch_id = b.batch_id) c
) i
where {_OF_RUN}
"""

_ROWS = f"""
select b.batch_id::text, to_jsonb(b) as row,
    (select jsonb_agg(to_jsonb(e) order by e.number) from batch_events e where e.batch_id = b.batch_id)
    as events,
    (select jsonb_agg(to_jsonb(o) order by o.outbox_id) from outbox o where o.aggregate_id = b.batch_id)
    as outgoing,
    (select jsonb_agg(job_id order by number) from batch_items n where n.batch_id = b.batch_id) as items
from batches b where {_OF_RUN}
"""


@dataclass(frozen=True, slots=True)
class BatchMoment:
    """A batch's counters, and what they count, read in one snapshot.

    Attributes:
        time: As in the history.
        counters: As the batch has them, by name.
        items: The same, counted from its newest jobs and their leases.
        settlings: How often it has settled.
        finished: How often other services were told so.
    """

    batch_id: str
    time: float
    state: str
    size: int
    counters: Mapping[str, int]
    items: Mapping[str, int]
    settlings: int
    finished: int


@dataclass(slots=True)
class BatchRows:
    """The rows about one batch.

    Attributes:
        outgoing: What other services were told of it, first to last.
        items: The newest job under each number, in their order.
    """

    row: Row
    events: Sequence[Row] = field(default_factory=list)
    outgoing: Sequence[Row] = field(default_factory=list)
    items: Sequence[str] = field(default_factory=list)


BatchTables = Mapping[str, BatchRows]
"""By batch id."""


async def moments(connection: asyncpg.Connection[Any], run: str, time: float) -> list[BatchMoment]:
    """Look at all batches that carry a run's label, at one moment."""
    return [
        BatchMoment(
            batch_id=row["batch_id"],
            time=time,
            state=row["state"],
            size=row["size"],
            counters=json.loads(row["counters"]),
            items=json.loads(row["items"]),
            settlings=row["settlings"],
            finished=row["finished"],
        )
        for row in await connection.fetch(_MOMENT, run)
    ]


async def read(connection: asyncpg.Connection[Any], run: str) -> BatchTables:
    """Read all rows about the batches that carry a run's label."""
    return {
        row["batch_id"]: BatchRows(
            *(json.loads(row[name] or "[]") for name in ("row", "events", "outgoing", "items"))
        )
        for row in await connection.fetch(_ROWS, run)
    }
