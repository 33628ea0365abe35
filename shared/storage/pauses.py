"""Which queues and job types are paused, by whom and since when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

import sqlalchemy as sa

from shared.domain.identity import JobType, Owner, QueueName
from shared.storage.control_tables import pauses
from shared.storage.database import Connection

# Claims hold the table until they have ended, so this waits for those that may not know of the pause.
_HOLD = sa.text("lock table pauses in exclusive mode")

# A conflict leaves the row as it was, and returns it all the same.
_PAUSE = sa.text("""
insert into pauses (kind, name, subject, note, pause_time)
values (:kind, :name, :subject, :note, engine_time())
on conflict (kind, name) do update set name = excluded.name
returning subject, note, pause_time
""")

_RESUME = sa.text("""
delete from pauses where kind = :kind and name = :name returning engine_time() - pause_time as span
""")


class PauseKind(StrEnum):
    """What can be paused."""

    QUEUE = "queue"
    JOB_TYPE = "job_type"


@dataclass(frozen=True, slots=True)
class Pausable:
    """A queue or a job type."""

    kind: PauseKind
    name: QueueName | JobType


@dataclass(frozen=True, slots=True)
class Pause:
    """Who paused something, with what note, and when, by the database's clock."""

    subject: Owner
    note: str
    pause_time: datetime


class Pauses:
    """A row stands as long as the pause."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, pausable: Pausable, *, subject: Owner, note: str) -> Pause:
        """Pause something, unless it is paused; return the pause that stands then.

        Once this is committed nothing of it is claimed: claims that began before have ended, which takes
        milliseconds, and those that begin now wait for the commit and see it.
        """
        await self._connection.execute(_HOLD)
        parameters = {**_named(pausable), "subject": subject, "note": note}
        row = (await self._connection.execute(_PAUSE, parameters)).one()
        return Pause(row.subject, row.note, row.pause_time)

    async def remove(self, pausable: Pausable) -> timedelta:
        """Resume something, and return how long it was paused; zero if it was not."""
        row = (await self._connection.execute(_RESUME, _named(pausable))).one_or_none()
        return row.span if row else timedelta(0)

    async def all(self) -> dict[Pausable, Pause]:
        """Return every pause; few ever stand at a time."""
        rows = await self._connection.execute(sa.select(pauses))
        return {
            Pausable(PauseKind(row.kind), row.name): Pause(row.subject, row.note, row.pause_time)
            for row in rows
        }


def _named(pausable: Pausable) -> dict[str, str]:
    return {"kind": pausable.kind, "name": pausable.name}
