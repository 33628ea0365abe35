"""Runs ended jobs again: new jobs with the old ones' inputs, which never leave the database for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shared.domain.audit import AuditAction
from shared.domain.identity import BatchId, JobId, QueueName, StreamName
from shared.storage import guards
from shared.storage.creation import creation
from shared.storage.database import Connection
from shared.storage.rows import columns, unnested


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """A job that is to run again; what is not here the new job has from the old one.

    Attributes:
        job_id: Of the new job.
        created_by: The subject that called.
        input_schema_version: What the job type takes now; an input of another version does not run again.
        start_by: Cancelled if it has not started so long after its creation.
        batch_item: The number in the batch under which it is run again; None where it is in no batch,
            whatever the old one was.
    """

    origin_job_id: JobId
    job_id: JobId
    created_by: str
    queue: QueueName
    stream: StreamName
    input_schema_version: int
    output_schema_version: int
    start_by: timedelta | None
    traceparent: str
    batch_id: BatchId | None = None
    batch_item: int | None = None


_COLUMNS = {
    "origin_job_id": "uuid",
    "job_id": "uuid",
    "created_by": "text",
    "queue": "text",
    "stream": "text",
    "input_schema_version": "integer",
    "output_schema_version": "integer",
    "start_by_seconds": "double precision",
    "traceparent": "text",
    "batch_id": "uuid",
    "batch_item": "integer",
}


def kept(job: str) -> str:
    """Render the condition that the input of the job in a row is there, and its document if it has one."""
    return f"""exists (
        select from snapshots s left join uploads u using (upload_id)
        where s.job_id = {job}.job_id and (s.upload_id is null or u.complete))"""


def run_again(job: str) -> str:
    """Render the condition that another job names the one in a row as its origin."""
    return f"exists (select from jobs again where again.origin_job_id = {job}.job_id)"


# The old input is locked until the new one refers to its document, which goes when no input does.
_RUN_AGAIN = creation(f"""
    select
        r.job_id, j.owner, r.created_by, j.job_type, r.queue, r.stream, j.priority, old.input,
        j.input_schema_version, r.output_schema_version, j.credential_mode, old.upload_id, j.target_type,
        j.target_id, j.labels, cast(null as timestamptz) as run_time, j.credential_id, j.prompt_version,
        r.traceparent, j.job_id as origin_job_id, r.batch_id, r.batch_item, t.now,
        t.now + r.start_by_seconds * interval '1 second' as start_by
    from {unnested(_COLUMNS, "r")}
    join jobs j on j.job_id = r.origin_job_id
    join snapshots old on old.job_id = j.job_id
    cross join (select engine_time() as now) t
    where {guards.retryable()} and j.input_schema_version = r.input_schema_version and {kept("j")}
        and (cast(:also_again as boolean) or not {run_again("j")})
    for key share of old
""")


class Reruns:
    """Writes new jobs out of old ones."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(
        self, reruns: Sequence[Rerun], *, also_again: bool, action: AuditAction | None = AuditAction.JOB_RETRY
    ) -> set[JobId]:
        """Run jobs again that FAILED or were CANCELLED, and return the ids of the new jobs.

        A new job is made as any other: QUEUED, with its input, its first event and the dispatch row of
        attempt 1. Left out are jobs in other states, and those whose input has expired or is of another
        version.

        Args:
            reruns: May be empty; a job at most once. The old jobs were locked in this transaction, so of two
                callers the second sees what the first has done.
            also_again: Also those that were run again before.
            action: What a caller did, for a record about each new job; None where no caller asked for them
                one by one.
        """
        if not reruns:
            return set()
        parameters = columns([_row(each) for each in reruns], _COLUMNS)
        rows = await self._connection.execute(
            _RUN_AGAIN, {**parameters, "also_again": also_again, "action": action and str(action)}
        )
        return {row.job_id for row in rows}


def _row(rerun: Rerun) -> dict[str, Any]:
    fields = {name: getattr(rerun, name) for name in _COLUMNS if hasattr(rerun, name)}
    return fields | {"start_by_seconds": rerun.start_by and rerun.start_by.total_seconds()}
