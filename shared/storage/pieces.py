"""Streamed output in pieces, numbered within each attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from shared.domain.identity import JobId
from shared.domain.leases import LeaseRef
from shared.storage.database import Connection
from shared.storage.rows import LEASE_COLUMNS, columns, lease_columns, unnested


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """A piece as its executor sent it; numbers are 1, 2, 3 and so on."""

    lease: LeaseRef
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class StoredPiece:
    """A piece as watchers read it."""

    job_id: JobId
    attempt: int
    number: int
    text: str


_COLUMNS = {"job_id": "uuid", "token": "text", "number": "integer", "content": "text"}

# The lock keeps a lease from ending before its pieces are committed: watchers are told that an attempt has
# ended, and look no more for its pieces. Heartbeats pass it.
_ADD = sa.text(f"""
with piece as materialized (select * from {unnested(_COLUMNS, "p")}),
standing as materialized (
    select l.job_id, l.token, l.attempt from leases l
    where exists (select from piece p where p.job_id = l.job_id and p.token = l.token)
    order by l.job_id for key share
),
known as materialized (
    select s.*, (
        select coalesce(max(o.number), 0) from output_pieces o
        where o.job_id = s.job_id and o.attempt = s.attempt) as last
    from standing s
),
fresh as (
    select k.job_id, k.attempt, p.number, p.content,
        k.last + dense_rank() over (partition by k.job_id order by p.number) as next
    from piece p join known k using (job_id, token) where p.number > k.last
),
following as (select * from fresh where number = next),
stored as (
    insert into output_pieces (job_id, attempt, number, content)
    select job_id, attempt, number, content from following order by job_id, attempt, number
    on conflict do nothing
)
select k.job_id, k.token, greatest(k.last, max(f.number)) as number
from known k left join following f using (job_id) group by k.job_id, k.token, k.last
""")

# A new attempt's first piece makes those of earlier attempts void; a numbered event tells watchers. Locked by
# a statement before it: two sessions may bring the same first piece, and the second must see the event of the
# first. First attempts, which are nearly all, have nothing to make void.
_LOCK_LATER = sa.text(f"""
select j.job_id from jobs j join leases l using (job_id)
join {unnested(LEASE_COLUMNS, "f")} using (job_id)
where l.token = f.token and l.attempt > 1
order by j.job_id for update of j, l
""")

_RESET = sa.text(f"""
with fresh as (
    select j.job_id from jobs j join leases l using (job_id)
    join {unnested(LEASE_COLUMNS, "f")} using (job_id)
    where l.token = f.token and exists (
            select from output_pieces p where p.job_id = j.job_id and p.attempt < l.attempt)
        and not exists (
            select from job_events e
            where e.job_id = j.job_id and e.kind = 'output_reset' and e.attempt = l.attempt)
),
moved as (
    update jobs j set event_count = j.event_count + 1 from fresh where j.job_id = fresh.job_id
    returning j.job_id, j.event_count, j.state, j.attempt
)
insert into job_events (job_id, number, kind, state, attempt, event_time)
select job_id, event_count, 'output_reset', state, attempt, engine_time() from moved
""")

_AFTER = sa.text("""
select p.* from unnest(cast(:job_ids as uuid[]), cast(:attempts as integer[]), cast(:numbers as integer[]))
    as w(job_id, attempt, number)
cross join lateral (
    select * from output_pieces p where p.job_id = w.job_id and p.attempt = w.attempt and p.number > w.number
    order by p.number limit :limit) p
order by p.job_id, p.attempt, p.number
""")


class OutputPieces:
    """Stored under the current lease only."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, pieces: Sequence[OutputPiece]) -> Mapping[LeaseRef, int]:
        """Store pieces of leases that still stand, and return the last number stored for each; idempotent.

        Args:
            pieces: May be empty. Pieces of other leases are left out, and pieces behind a gap.

        Returns:
            All pieces of the lease up to the number are there; 0 for none.
        """
        if not pieces:
            return {}
        await self._reset([each.lease for each in pieces if each.number == 1])
        rows = [
            {
                "job_id": each.lease.job_id,
                "token": each.lease.token,
                "number": each.number,
                "content": each.text,
            }
            for each in pieces
        ]
        stored = await self._connection.execute(_ADD, columns(rows, _COLUMNS))
        return {LeaseRef(row.job_id, row.token): row.number for row in stored}

    async def _reset(self, beginning: Sequence[LeaseRef]) -> None:
        """Tell watchers of those of the attempts that begin anew what an earlier one began; once for each."""
        if not beginning:
            return
        leases = lease_columns(beginning)
        if (await self._connection.execute(_LOCK_LATER, leases)).first() is not None:
            await self._connection.execute(_RESET, leases)

    async def after(self, seen: Mapping[JobId, tuple[int, int]], *, limit: int) -> list[StoredPiece]:
        """Return for each job the pieces of an attempt after a number, in order; at most `limit` a job.

        Args:
            seen: The attempt and the number of the last piece that was seen, 0 before the first.
        """
        parameters = {
            "job_ids": list(seen),
            "attempts": [attempt for attempt, _ in seen.values()],
            "numbers": [number for _, number in seen.values()],
            "limit": limit,
        }
        rows = await self._connection.execute(_AFTER, parameters)
        return [StoredPiece(row.job_id, row.attempt, row.number, row.content) for row in rows]

    async def texts(
        self, leases: Sequence[LeaseRef], attempts: Sequence[int]
    ) -> Mapping[LeaseRef, Sequence[str]]:
        """Return the texts of each lease's attempt in order, to check a result's count and hash."""
        keys = dict(zip([each.job_id for each in leases], leases, strict=True))
        parameters = {
            "job_ids": list(keys),
            "attempts": list(attempts),
            "numbers": [0] * len(keys),
            "limit": None,
        }
        texts: dict[LeaseRef, list[str]] = {each: [] for each in leases}
        for row in await self._connection.execute(_AFTER, parameters):
            texts[keys[row.job_id]].append(row.content)
        return texts
