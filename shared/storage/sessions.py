"""Which session is the current one of each executor incarnation."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

import sqlalchemy as sa

from shared.domain.identity import IncarnationId, JobType, SessionId
from shared.storage import tables
from shared.storage.database import Connection

VersionPair = tuple[int, int]
"""Of an input's schema and an output's."""

_REPLACE = sa.text("""
insert into executor_sessions (
    incarnation_id, session_id, executor_name, runtime, job_types, schema_versions, hello_time)
values (
    cast(:incarnation_id as uuid), cast(:session_id as uuid), :executor_name, :runtime,
    cast(:job_types as text[]), cast(:schema_versions as jsonb), engine_time())
on conflict (incarnation_id) do update set
    session_id = excluded.session_id, executor_name = excluded.executor_name, runtime = excluded.runtime,
    job_types = excluded.job_types, schema_versions = excluded.schema_versions,
    hello_time = excluded.hello_time
""")

_FORGET = sa.text("""
delete from executor_sessions s where s.incarnation_id in (
    select incarnation_id from executor_sessions
    where hello_time < engine_time() - cast(:age as interval)
        and not exists (select from leases l where l.incarnation_id = executor_sessions.incarnation_id)
    order by incarnation_id limit :limit for update skip locked)
""")


class ExecutorSessions:
    """One row an incarnation."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def replace(
        self,
        incarnation_id: IncarnationId,
        session_id: SessionId,
        *,
        executor_name: str,
        runtime: str,
        job_types: Sequence[JobType],
        versions: Mapping[JobType, Collection[VersionPair]] = MappingProxyType({}),
    ) -> None:
        """Make the session the only one of its incarnation; waits for claims of an older one to end.

        Args:
            versions: What it can do of each type; one that is not named here counts as done in all of them.
        """
        told = {
            job_type: [f"{given}.{made}" for given, made in sorted(pairs)]
            for job_type, pairs in versions.items()
        }
        await self._connection.execute(
            _REPLACE,
            {
                "incarnation_id": incarnation_id,
                "session_id": session_id,
                "executor_name": executor_name,
                "runtime": runtime,
                "job_types": list(job_types),
                "schema_versions": json.dumps(told),
            },
        )

    async def current(self, session_ids: Sequence[SessionId]) -> set[SessionId]:
        """Return those of the sessions that are the current ones of their incarnations."""
        table = tables.executor_sessions
        statement = sa.select(table.c.session_id).where(table.c.session_id.in_(session_ids))
        return {row.session_id for row in await self._connection.execute(statement)}

    async def end(self, incarnation_id: IncarnationId, session_id: SessionId) -> bool:
        """Forget the session if it is the incarnation's current one, and return whether it was."""
        table = tables.executor_sessions
        statement = (
            sa.delete(table)
            .where(table.c.incarnation_id == incarnation_id, table.c.session_id == session_id)
            .returning(table.c.session_id)
        )
        return (await self._connection.execute(statement)).first() is not None

    async def forget_old(self, *, age: timedelta, limit: int) -> int:
        """Forget incarnations that said hello longer than `age` ago and hold no lease; at most `limit`."""
        return (await self._connection.execute(_FORGET, {"age": age, "limit": limit})).rowcount
