"""Which queues and job types are paused, by whom and since when."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from shared.domain.errors import PlatformUnavailable
from shared.domain.identity import Owner
from shared.domain.pauses import Pausable, Pause, PauseKind
from shared.storage.control_tables import pauses
from shared.storage.database import Connection

# Claims hold the table until they have ended, so this waits for those that may not know of the pause. All
# others wait behind it meanwhile: so not for long, if one has been stopped in its tracks.
_WAIT_BRIEFLY = sa.text("select set_config('lock_timeout', '1000ms', true)")
_HOLD = sa.text("lock table pauses in exclusive mode")
_LOCK_NOT_AVAILABLE = "55P03"

_PAUSE = sa.text("""
insert into pauses (kind, name, subject, note, pause_time)
values (:kind, :name, :subject, :note, engine_time())
on conflict (kind, name) do nothing
""")

_RESUME = sa.text("""
delete from pauses where kind = :kind and name = :name returning engine_time() - pause_time as span
""")


class Pauses:
    """A row stands as long as the pause."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, pausable: Pausable, *, subject: Owner, note: str) -> bool:
        """Pause something, and return True, or False if it was paused before: that pause stands.

        Once this is committed nothing of it is claimed: claims that began before have ended, which takes
        milliseconds, and those that begin now wait for the commit and see it.

        Raises:
            PlatformUnavailable: A claim is under way that does not end; asking again waits again.
        """
        await self._hold()
        parameters = {**_named(pausable), "subject": subject, "note": note}
        return (await self._connection.execute(_PAUSE, parameters)).rowcount == 1

    async def _hold(self) -> None:
        await self._connection.execute(_WAIT_BRIEFLY)
        try:
            await self._connection.execute(_HOLD)
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
            raise PlatformUnavailable("database") from error

    async def remove(self, pausable: Pausable) -> timedelta | None:
        """Resume something, and return how long it was paused; None if it was not."""
        row = (await self._connection.execute(_RESUME, _named(pausable))).one_or_none()
        return row.span if row else None

    async def all(self) -> dict[Pausable, Pause]:
        """Return every pause; few ever stand at a time."""
        rows = await self._connection.execute(sa.select(pauses))
        return {
            Pausable(PauseKind(row.kind), row.name): Pause(row.subject, row.note, row.pause_time)
            for row in rows
        }


def _named(pausable: Pausable) -> dict[str, str]:
    return {"kind": pausable.kind, "name": pausable.name}
