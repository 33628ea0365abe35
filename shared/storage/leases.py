"""Running leases: heartbeats, cancels on their way, and the services' own pulse."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

import sqlalchemy as sa

from shared.domain.identity import IncarnationId, JobId, JobType, SessionId
from shared.domain.leases import Heartbeat, HeartbeatOutcome, LeaseRef
from shared.storage.database import Connection
from shared.storage.rows import LEASE_COLUMNS, columns, lease_columns, unnested

_HEARTBEAT_COLUMNS = {
    "job_id": "uuid",
    "token": "text",
    "progress": "smallint",
    "progress_message": "text",
}

# Locked by id first, so that two batches never wait for each other in a circle.
_EXTEND = sa.text(f"""
with beat as (
    select * from {unnested(_HEARTBEAT_COLUMNS, "b")}
),
held as (
    select l.job_id from leases l join beat b using (job_id) where l.token = b.token
    order by l.job_id for update of l
),
extended as (
    update leases l set
        heartbeat_time = engine_time(), accepted = true, progress = coalesce(b.progress, l.progress),
        progress_message = coalesce(b.progress_message, l.progress_message)
    from held join beat b using (job_id) where l.job_id = held.job_id
    returning l.job_id, l.token
)
select e.job_id, e.token, j.cancel_request_time is not null and j.cancel_seen_time is null as cancel
from extended e join jobs j using (job_id)
""")

_ATTACH = sa.text(f"""
update leases l set session_id = cast(:session_id as uuid), heartbeat_time = engine_time(), accepted = true
from (
    select l.job_id from leases l
    join {unnested(LEASE_COLUMNS, "h")} using (job_id)
    where l.token = h.token and l.incarnation_id = cast(:incarnation_id as uuid)
    order by l.job_id for update of l
) held
where l.job_id = held.job_id
returning l.job_id, l.token
""")

_CANCELS_UNSEEN = sa.text("""
select l.job_id, l.token, l.session_id from leases l join jobs j using (job_id)
where l.session_id = any(cast(:session_ids as uuid[]))
    and j.cancel_request_time is not null and j.cancel_seen_time is null
""")

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

_CANCELS_SEEN = sa.text(f"""
with held as (
    select j.job_id from jobs j join leases l using (job_id)
    join {unnested(LEASE_COLUMNS, "s")} using (job_id)
    where l.token = s.token and j.cancel_request_time is not null and j.cancel_seen_time is null
    order by j.job_id for update of j, l
),
seen as (
    update jobs j set cancel_seen_time = engine_time(), event_count = j.event_count + 1
    from held where j.job_id = held.job_id
    returning j.job_id, j.event_count, j.state, j.attempt, j.cancel_seen_time
),
event as (
    insert into job_events (job_id, number, kind, state, attempt, event_time)
    select job_id, event_count, 'cancel_seen', state, attempt, cancel_seen_time from seen
)
select job_id from seen
""")

# Time in which no worker wrote a pulse is nobody's silence: it is added to every lease before any can end,
# as far as the lease stood through it unheard. All heartbeats come back at the same moment, so leases are
# locked in their order here too.
_PULSE = sa.text("""
with before as (
    select pulse_time, engine_time() as now from pulse for update
),
beat as (
    update pulse set pulse_time = engine_time()
),
held as (
    select l.job_id, before.* from leases l cross join before
    where before.now - before.pulse_time > cast(:tolerance as interval) order by l.job_id for update of l
),
reprieved as (
    update leases l set
        heartbeat_time = greatest(
            l.heartbeat_time, l.heartbeat_time + (held.now - greatest(held.pulse_time, l.heartbeat_time))),
        deadline_time = l.deadline_time + (held.now - greatest(held.pulse_time, l.grant_time)),
        reprieve_time = held.now
    from held where l.job_id = held.job_id
    returning 1
)
select now - pulse_time as gap from before
""")


class Leases:
    """The narrow table of running leases."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def extend(self, heartbeats: Sequence[Heartbeat]) -> HeartbeatOutcome:
        """Extend the leases that still stand, each from the database's present time on; idempotent.

        Args:
            heartbeats: May be empty; a job at most once. The first one of a lease accepts it.

        A lease past its time that the reaper has not ended yet stands, and is extended.
        """
        if not heartbeats:
            return HeartbeatOutcome((), ())
        rows = [
            {
                "job_id": each.ref.job_id,
                "token": each.ref.token,
                "progress": each.progress,
                "progress_message": each.progress_message,
            }
            for each in heartbeats
        ]
        extended = {
            LeaseRef(row.job_id, row.token): row.cancel
            for row in await self._connection.execute(_EXTEND, columns(rows, _HEARTBEAT_COLUMNS))
        }
        return HeartbeatOutcome(
            lost=[each.ref for each in heartbeats if each.ref not in extended],
            cancels=[ref for ref, cancel in extended.items() if cancel],
        )

    async def attach(
        self, incarnation_id: IncarnationId, session_id: SessionId, leases: Sequence[LeaseRef]
    ) -> set[LeaseRef]:
        """Move those of the leases that the incarnation still holds to its new session, and return them."""
        parameters = {
            "incarnation_id": incarnation_id,
            "session_id": session_id,
            **lease_columns(leases),
        }
        rows = await self._connection.execute(_ATTACH, parameters)
        return {LeaseRef(row.job_id, row.token) for row in rows}

    async def unseen_cancels(self, session_ids: Sequence[SessionId]) -> list[tuple[SessionId, LeaseRef]]:
        """Return the leases of these sessions whose cancel is not acknowledged, in no order."""
        rows = await self._connection.execute(_CANCELS_UNSEEN, {"session_ids": list(session_ids)})
        return [(row.session_id, LeaseRef(row.job_id, row.token)) for row in rows]

    async def request_cancels(
        self, job_ids: Sequence[JobId], *, protected: Collection[JobType] = ()
    ) -> set[JobId]:
        """Record that those of the jobs that are leased are to stop, and return them; idempotent.

        One for which that was recorded before is not among them.

        Args:
            job_ids: May be empty; locked in this transaction.
            protected: Job types whose leased jobs are left alone.
        """
        if not job_ids:
            return set()
        parameters = {"job_ids": list(job_ids), "protected": sorted(protected)}
        return {row.job_id for row in await self._connection.execute(_REQUEST_CANCELS, parameters)}

    async def record_cancels_seen(self, leases: Sequence[LeaseRef]) -> set[JobId]:
        """Record that executors know of cancels; idempotent. Returns the jobs for which that was new."""
        if not leases:
            return set()
        rows = await self._connection.execute(_CANCELS_SEEN, lease_columns(leases))
        return {row.job_id for row in rows}

    async def beat(self, *, tolerance: timedelta) -> timedelta:
        """Write the services' pulse and return how long there was none.

        If that was longer than `tolerance`, all leases get the time back, in the same statement.
        """
        gap: timedelta = (await self._connection.execute(_PULSE, {"tolerance": tolerance})).one().gap
        return gap
