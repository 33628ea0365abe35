"""Executors as operators see them: by name, with their leases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from shared.domain.identity import IncarnationId, JobType
from shared.storage.database import Connection

# A lease's heartbeat time begins as that of its grant, of which its executor knows nothing yet.
_PAGE = sa.text("""
select s.executor_name, s.incarnation_id, s.runtime, s.job_types, l.leases,
    greatest(s.hello_time, l.heartbeat_time) as last_seen_time
from (
    select * from executor_sessions
    where (executor_name, incarnation_id) > (:executor_name, cast(:incarnation_id as uuid))
    order by executor_name, incarnation_id limit :limit
) s cross join lateral (
    select count(*) as leases,
        max(heartbeat_time) filter (where heartbeat_time > grant_time) as heartbeat_time
    from leases where leases.incarnation_id = s.incarnation_id
) l
order by s.executor_name, s.incarnation_id
""")


@dataclass(frozen=True, slots=True)
class ExecutorPlace:
    """A place in the list of executors, by name and start; the next page begins behind it."""

    executor_name: str
    incarnation_id: IncarnationId


FIRST_PLACE = ExecutorPlace("", IncarnationId(UUID(int=0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """An executor that is or was connected.

    Attributes:
        leases: How many it holds.
        last_seen_time: Of its last hello, or of the last heartbeat for a lease that it holds.
    """

    executor_name: str
    incarnation_id: IncarnationId
    runtime: str
    job_types: Sequence[JobType]
    leases: int
    last_seen_time: datetime


class Executors:
    """Reads sessions; those whose executors said goodbye are gone."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def page(self, *, after: ExecutorPlace, limit: int) -> list[Executor]:
        """Return up to `limit` executors by name, from behind `after` on."""
        parameters = {
            "executor_name": after.executor_name,
            "incarnation_id": after.incarnation_id,
            "limit": limit,
        }
        return [
            Executor(
                executor_name=row.executor_name,
                incarnation_id=row.incarnation_id,
                runtime=row.runtime,
                job_types=row.job_types,
                leases=row.leases,
                last_seen_time=row.last_seen_time,
            )
            for row in await self._connection.execute(_PAGE, parameters)
        ]
