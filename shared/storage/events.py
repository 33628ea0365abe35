"""The numbered events of jobs, as watchers read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from shared.domain.attempts import AttemptOutcome
from shared.domain.events import JobEvent, JobEventKind
from shared.domain.identity import JobId
from shared.domain.jobs import JobState
from shared.storage.database import Connection
from shared.storage.rows import error_of

_AFTER = sa.text("""
select e.* from unnest(cast(:job_ids as uuid[]), cast(:numbers as bigint[])) as w(job_id, number)
cross join lateral (
    select * from job_events e where e.job_id = w.job_id and e.number > w.number
    order by e.number limit :limit) e
order by e.job_id, e.number
""")


class Events:
    """Written with the changes that they tell of; read here."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def after(self, seen: Mapping[JobId, int], *, limit: int) -> list[JobEvent]:
        """Return for each job the events after the number that was seen, in order; at most `limit` a job."""
        parameters = {"job_ids": list(seen), "numbers": list(seen.values()), "limit": limit}
        return [_event(row) for row in await self._connection.execute(_AFTER, parameters)]


def _event(row: Any) -> JobEvent:
    return JobEvent(
        job_id=row.job_id,
        number=row.number,
        kind=JobEventKind(row.kind),
        state=JobState(row.state),
        attempt=row.attempt,
        event_time=row.event_time,
        outcome=row.outcome and AttemptOutcome(row.outcome),
        error=error_of(row),
        next_attempt_time=row.next_attempt_time,
        forced=row.forced,
    )
